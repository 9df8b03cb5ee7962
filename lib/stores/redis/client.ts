import { invalidArgType } from '../../common/errors.js';
import type { RedisConnection } from './connection.js';
import { GlideConnection, type Glide } from './glide.js';
import { IoRedisConnection, type IoRedis } from './ioredis.js';
import { NodeRedisConnection, type NodeRedis } from './node-redis.js';
import { UpstashConnection, type Upstash } from './upstash.js';

/**
 * The caller's client: a client from `ioredis`, `iovalkey`, `redis` (node-redis) or `@valkey/valkey-glide`,
 * for a single server or a cluster, or a client from `@upstash/redis`.
 */
export type RedisClient = object;

/**
 * Returns the connection for the caller's client. `another` creates a second client that subscribes to
 * releases. `another` is needed only if the caller's client cannot duplicate itself.
 */
export function connectionOf(client: unknown, another?: () => Promise<RedisClient>): RedisConnection {
  const candidate = (typeof client === 'object' ? client : null) as Partial<
    IoRedis & NodeRedis & Upstash & Glide
  > | null;
  const has = (name: 'customCommand' | 'eval' | 'evalSha' | 'evalsha' | 'on'): boolean =>
    typeof candidate?.[name] === 'function';
  if (has('customCommand')) {
    return new GlideConnection(candidate as Glide, another as (() => Promise<Glide>) | undefined);
  }
  if (has('eval') && has('evalSha')) return new NodeRedisConnection(candidate as NodeRedis);
  if (has('eval') && has('evalsha')) {
    // A client of Upstash has no connection, so it has no events.
    return has('on')
      ? new IoRedisConnection(candidate as IoRedis)
      : new UpstashConnection(candidate as Upstash);
  }
  throw invalidArgType(
    'options.client',
    'a client of ioredis, iovalkey, redis, @valkey/valkey-glide or @upstash/redis',
    client,
  );
}
