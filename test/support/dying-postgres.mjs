import { once } from 'node:events';
import net from 'node:net';

/**
 * A message of PostgreSQL's protocol.
 *
 * @param {string} type
 * @param {string | Buffer} content
 */
function message(type, content) {
  const length = Buffer.alloc(4);
  length.writeUInt32BE(4 + content.length);
  return Buffer.concat([Buffer.from(type), length, Buffer.from(content)]);
}

const ACCEPTED = message('R', Buffer.alloc(4));
const READY = message('Z', 'I');
const TERMINATED = message('E', 'SFATAL\0VFATAL\0C57P01\0Mterminating connection\0\0');

const STARTING = message('E', 'SFATAL\0VFATAL\0C57P03\0Mthe database system is starting up\0\0');

/** Accepts each session, and terminates it at once: a client that reads slowly finds both in one packet. */
export const TERMINATES = Buffer.concat([ACCEPTED, READY, TERMINATED]);
/** Refuses each session, as a server does that is starting. */
export const REFUSES = Buffer.concat([ACCEPTED, STARTING]);

/**
 * A server that no session stays with.
 *
 * @param {Buffer} answer What it says to each.
 */
export async function startDyingPostgres(answer) {
  let sessions = 0;
  const server = net.createServer((socket) => {
    socket.on('error', () => undefined);
    socket.once('data', () => {
      sessions++;
      socket.end(answer);
    });
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = /** @type {net.AddressInfo} */ (server.address());
  return {
    port,
    get sessions() {
      return sessions;
    },
    close: () => server.close(),
  };
}
