// Somebody waits in a store whose server accepts connections and does nothing, like one that is paused. Then the store is
// closed: the process must end.
import { once } from 'node:events';
import net from 'node:net';
import pg from 'pg';
import { postgresLeaseStore } from 'stripelock/postgres';

const server = net.createServer({ allowHalfOpen: true }, (socket) => socket.unref().resume());
server.listen(0, '127.0.0.1');
await once(server, 'listening');
const store = postgresLeaseStore({ pool: new pg.Pool({ host: '127.0.0.1', port: server.address().port }) });
store.onRelease('key', () => undefined);
await once(server, 'connection');
server.unref();
await store.close();
console.log('closed');
