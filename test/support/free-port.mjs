import { createSocket } from 'node:dgram';
import { once } from 'node:events';
import net from 'node:net';

const HOST = '127.0.0.1';
/** Below the ports that any system gives to outgoing connections: one of those could take the port of a server that is down. */
const RANGE = { from: 10_000, to: 32_767 };

/**
 * A TCP port for a server of the tests. No other call returns it while this process runs, in whatever process of this
 * machine, so that a server can start late, or be killed and started again: otherwise clients would speak to one of
 * another test. Rejects if there is none.
 *
 * @param {{ readonly from: number, readonly to: number }} [range] The first and the last.
 */
export async function freePort({ from, to } = RANGE) {
  const count = to - from + 1;
  const first = Math.floor(Math.random() * count);
  for (let i = 0; i < count; i++) {
    const port = from + ((first + i) % count);
    if (await reserve(port)) return port;
  }
  throw new Error(`no port from ${from} to ${to} is free`);
}

/**
 * A UDP socket at the same number is the reservation: it does not get in the way of the server, and the system removes it
 * however this process ends.
 *
 * @param {number} port
 */
async function reserve(port) {
  const socket = createSocket('udp4').unref();
  socket.bind({ port, address: HOST, exclusive: true });
  if ((await succeeds(socket)) && (await isFree(port))) return true;
  socket.close();
  return false;
}

/** @param {number} port */
async function isFree(port) {
  const server = net.createServer().listen({ port, host: HOST, exclusive: true });
  if (!(await succeeds(server))) return false;
  server.close();
  await once(server, 'close');
  return true;
}

/**
 * Whether it listens. A port may also be one that the system keeps for itself.
 *
 * @param {import('node:events').EventEmitter} listener
 */
const succeeds = (listener) =>
  once(listener, 'listening').then(
    () => true,
    () => false,
  );
