/** The workers of a cluster share a token that expires. Whoever finds it expired gets a new one, and the others wait for that. */
import cluster from 'node:cluster';
import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import http from 'node:http';
import os from 'node:os';
import path from 'node:path';
import { LockedFile } from 'stripelock/file';

const WORKERS = 4;
/** Milliseconds for which a token is good. */
const GOOD_FOR = 60_000;

if (cluster.isPrimary) await primary();
else await worker();

async function primary() {
  const folder = mkdtempSync(path.join(os.tmpdir(), 'stripelock-cluster-'));
  let given = 0;
  const authority = http.createServer((_request, response) => {
    given += 1;
    response.end(`token ${given}`);
  });
  await once(authority.listen(0, '127.0.0.1'), 'listening');
  const { port } = authority.address();
  const workers = Array.from({ length: WORKERS }, () =>
    cluster.fork({ TOKEN_FILE: path.join(folder, 'token'), AUTHORITY: `http://127.0.0.1:${port}` }),
  );
  cluster.on('exit', ({ id }, code) => {
    if (code !== 0) throw new Error(`worker ${id} has failed`);
  });
  const used = await Promise.all(workers.map(async (each) => (await once(each, 'message'))[0]));
  cluster.disconnect();
  await Promise.all(workers.map((each) => each.isDead() || once(each, 'exit')));
  authority.close();
  rmSync(folder, { recursive: true });
  console.log(`${used.length} workers use ${[...new Set(used)].join(' and ')}`); // 4 workers use token 1
}

async function worker() {
  const { TOKEN_FILE: file, AUTHORITY: authority } = process.env;
  const stored = new LockedFile(file, { initial: { token: '', until: 0 } });
  const isValid = ({ until }) => until > Date.now();

  async function token() {
    const known = await stored.read();
    if (isValid(known)) return known.token;
    const { token } = await stored.update(async (current) => {
      // Another worker may have renewed the token while this one waited for the lock.
      if (isValid(current)) return current;
      const response = await fetch(authority);
      return { token: await response.text(), until: Date.now() + GOOD_FOR };
    });
    return token;
  }

  process.send(await token());
}
