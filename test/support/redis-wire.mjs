import { once } from 'node:events';
import net from 'node:net';

/**
 * One command on a separate connection; the reply as it is on the wire, without the final line break.
 *
 * @param {number} port
 * @param {...(string | number | bigint)} parts
 */
export async function command(port, ...parts) {
  const socket = net.connect(port, '127.0.0.1');
  try {
    socket.setTimeout(5000, () => socket.destroy(new Error('redis-server does not answer')));
    await once(socket, 'connect');
    const bulk = parts.map((part) => `$${Buffer.byteLength(String(part))}\r\n${part}\r\n`);
    socket.write(`*${parts.length}\r\n${bulk.join('')}`);
    const [reply] = await once(socket, 'data');
    return String(reply).trimEnd();
  } finally {
    socket.destroy();
  }
}
