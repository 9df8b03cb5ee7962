// What Neon's driver needs to reach a local server: a relay for its WebSockets, and a stand-in for Neon's HTTP service.

import http from 'node:http';
import { once } from 'node:events';
import { createRequire } from 'node:module';
import net from 'node:net';
import path from 'node:path';

const require = createRequire(path.join(import.meta.dirname, '../drivers/recipes/package.json'));

/**
 * Passes on the bytes of each WebSocket to the server.
 *
 * @param {number} port Of the server.
 */
export async function startRelay(port) {
  const { createWebSocketStream, WebSocketServer } = require('ws');
  const relay = new WebSocketServer({ port: 0, host: '127.0.0.1' });
  await once(relay, 'listening');
  relay.on('connection', (/** @type {unknown} */ socket) => {
    const client = createWebSocketStream(socket);
    const server = net.connect(port, '127.0.0.1');
    client.on('error', () => server.destroy());
    server.on('error', () => client.destroy());
    client.pipe(server).pipe(client);
  });
  return {
    port: relay.address().port,
    stop() {
      for (const socket of relay.clients) socket.terminate();
      relay.close();
    },
  };
}

/** @param {http.IncomingMessage} request */
async function bodyOf(request) {
  let text = '';
  for await (const part of request) text += part;
  return JSON.parse(text);
}

const AS_TEXT = { getTypeParser: () => (/** @type {unknown} */ text) => text };

/**
 * Runs one statement in a new session.
 *
 * @param {unknown} connectionString
 * @param {string} text
 * @param {unknown[]} values
 */
async function runAlone(connectionString, text, values) {
  const { Client } = require('pg');
  const client = new Client({ connectionString });
  client.on('error', () => undefined);
  await client.connect();
  try {
    return await client.query({ text, values, rowMode: 'array', types: AS_TEXT });
  } finally {
    client.end().catch(() => undefined);
  }
}

/** Runs the statement of each request, and answers as the driver expects: rows as lists of texts. */
export async function startHttp() {
  const server = http.createServer((request, response) => {
    const answer = (/** @type {number} */ status, /** @type {object} */ body) =>
      response.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(body));
    bodyOf(request)
      .then(({ query, params }) => runAlone(request.headers['neon-connection-string'], query, params))
      .then(
        ({ fields, rows, command, rowCount }) =>
          answer(200, { fields, rows, command, rowCount, rowAsArray: true }),
        ({ message, code, severity }) => answer(400, { message, code, severity }),
      );
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const address = /** @type {net.AddressInfo} */ (server.address());
  return {
    url: `http://127.0.0.1:${address.port}/sql`,
    stop() {
      server.closeAllConnections();
      server.close();
    },
  };
}
