// Argument: client. The server stops before the store's second connection is established. Then everything is closed,
// and nothing keeps the process alive.
import { LeaseManager } from 'stripelock';
import { redisLeaseStore } from 'stripelock/redis';
import { redisClients } from '../support/redis-clients.mjs';
import { RedisServer } from '../support/redis-server.mjs';

const server = await RedisServer.start();
const { client, close } = await redisClients[process.argv[2]](server.port);
const store = redisLeaseStore({ client, timeout: 100 });
const manager = new LeaseManager({ store });
await store.tryAcquire('key', 'a', 60_000);
await server.stop();
await manager.acquire('key', { timeout: 500 }).catch(({ code }) => console.log(code));
await manager.close();
await store.close();
close();
