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
 * Runs one statement in a session that keeps no state of earlier ones. A new session for each statement would take tens
 * of milliseconds on a busy machine.
 *
 * @param {import('pg').Pool} pool
 * @param {string} text
 * @param {unknown[]} values
 */
async function runAlone(pool, text, values) {
  const client = await pool.connect();
  try {
    return await client.query({ text, values, rowMode: 'array', types: AS_TEXT });
  } finally {
    client.query('DISCARD ALL').then(
      () => client.release(),
      (/** @type {Error} */ error) => client.release(error),
    );
  }
}

/** Runs the statement of each request, and answers as the driver expects: rows as lists of texts. */
export async function startHttp() {
  const { Pool } = require('pg');
  /** @type {Map<unknown, import('pg').Pool>} By connection string. */
  const pools = new Map();
  const poolOf = (/** @type {unknown} */ connectionString) => {
    let pool = pools.get(connectionString);
    if (pool === undefined) {
      pool = new Pool({ connectionString });
      pool.on('error', () => undefined);
      // The statement that runs reports the error.
      pool.on('connect', (/** @type {import('pg').Client} */ client) => client.on('error', () => undefined));
      pools.set(connectionString, pool);
    }
    return pool;
  };
  const server = http.createServer((request, response) => {
    const answer = (/** @type {number} */ status, /** @type {object} */ body) =>
      response.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(body));
    bodyOf(request)
      .then(({ query, params }) => runAlone(poolOf(request.headers['neon-connection-string']), query, params))
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
      for (const pool of pools.values()) void pool.end();
    },
  };
}
