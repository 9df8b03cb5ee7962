import { describe } from 'vitest';
import { describeBackground } from '../leases/background.js';
import { redisLibraries, RedisScene } from './redis-setup.js';

const TTL = 900;

describe.each(redisLibraries)(
  'renewal in the background, in Redis by a module that makes a client of %s',
  (library) => {
    const redis = new RedisScene(library);
    describeBackground(() => ({ port: redis.server.port, library }), TTL);
  },
);

describe.skipIf(redisLibraries.length === 0)('renewal in the background, in Redis by its URL', () => {
  const redis = new RedisScene('ioredis');
  describeBackground(() => ({ url: `redis://127.0.0.1:${redis.server.port}` }), TTL);
});
