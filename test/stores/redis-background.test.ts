import { describe } from 'vitest';
import { describeBackground, itKeepsItsLease } from '../leases/background.js';
import { redisLibraries, RedisScene } from './redis-setup.js';

const TTL = 900;

describe.each(redisLibraries)(
  'renewal in the background, in Redis by a module that makes a client of %s',
  (library) => {
    const redis = new RedisScene(library);
    itKeepsItsLease(() => ({ port: redis.server.port, library }), TTL, 3);
  },
);

describe.skipIf(redisLibraries.length === 0)('renewal in the background, in Redis by its URL', () => {
  const redis = new RedisScene('ioredis');
  describeBackground(() => ({ url: `redis://127.0.0.1:${redis.server.port}` }), TTL);
});
