import { once } from 'node:events';
import net from 'node:net';

/** A TCP proxy whose replies can be delayed, and whose connections can be cut. Requests pass at once. */
export class Proxy {
  delay = 0;
  /** The port that new connections go to. */
  target = 0;
  /** @type {Set<net.Socket>} */
  #connections = new Set();
  #server = net.createServer((client) => this.#connect(client));

  /** @param {number} port */
  static async to(port) {
    const proxy = new Proxy();
    proxy.target = port;
    proxy.#server.listen(0, '127.0.0.1');
    await once(proxy.#server, 'listening');
    return proxy;
  }

  get port() {
    return /** @type {net.AddressInfo} */ (this.#server.address()).port;
  }

  cut() {
    for (const socket of this.#connections) socket.destroy();
  }

  async close() {
    this.cut();
    this.#server.close();
    await once(this.#server, 'close');
  }

  /** @param {net.Socket} client */
  #connect(client) {
    const server = net.connect(this.target, '127.0.0.1');
    for (const [socket, other] of [
      [client, server],
      [server, client],
    ]) {
      this.#connections.add(socket);
      socket.on('error', () => undefined);
      socket.on('close', () => {
        this.#connections.delete(socket);
        other.destroy();
      });
    }
    client.on('data', (data) => void server.write(data));
    // Timers of equal length fire in the order in which they were set. A shorter one waits for those before it.
    /** @type {Promise<unknown>} */
    let last = Promise.resolve();
    server.on('data', (data) => {
      const due = new Promise((resolve) => setTimeout(resolve, this.delay).unref());
      last = Promise.all([last, due]).then(() => !client.destroyed && client.write(data));
    });
  }
}
