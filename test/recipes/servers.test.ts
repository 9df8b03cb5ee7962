import { once } from 'node:events';
import http from 'node:http';
import { existsSync, readFileSync } from 'node:fs';
import path from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { freePort } from '../support/free-port.mjs';
import { endAll, endedWell, missingPackage, Project, type Program } from './project.js';

// The servers of docs/frameworks.md, each with its pool of threads.

const USERS = 3;
const REQUESTS = 15;

let project: Project;

async function started(file: string): Promise<{ server: Program; url: string }> {
  const server = project.start(file, { PORT: String(await freePort()) });
  await expect.poll(() => server.lines[0]).toMatch(/^http:/);
  return { server, url: server.lines[0]! };
}

async function withdraw(url: string, user: number): Promise<{ status: number; balance: number }> {
  const response = await fetch(`${url}/users/${user}/withdrawals`, { method: 'POST' });
  const { balance } = (await response.json()) as { balance: number };
  return { status: response.status, balance };
}

/** Starts a request. Its handler has run when this resolves. */
async function begun(url: string, user: number): Promise<http.ClientRequest> {
  const headers = { expect: '100-continue', 'content-length': 0 };
  const request = http.request(`${url}/users/${user}/withdrawals`, { method: 'POST', agent: false, headers });
  request.on('error', () => undefined);
  request.flushHeaders();
  await once(request, 'continue');
  request.end();
  return request;
}

/** Starts a server that is busy with a request of user 1 until the file `open` exists. `log`: the users whose tasks began. */
async function startedBusy(file: string): Promise<{ url: string; log: string; answered: Promise<unknown> }> {
  project.write({
    'withdraw.mjs': `
      import { appendFileSync, existsSync } from 'node:fs';
      import { setTimeout as delay } from 'node:timers/promises';
      export default async function withdraw(user) {
        appendFileSync('begun', user + '\\n');
        while (user === 1 && !existsSync('open')) await delay(1);
        return { balance: user };
      }`,
  });
  const { url } = await started(file);
  const log = path.join(project.folder, 'begun');
  const answered = once(await begun(url, 1), 'response');
  await expect.poll(() => existsSync(log)).toBe(true);
  return { url, log, answered };
}

describe.runIf(missingPackage === undefined).each(['fastify.mjs', 'express.mjs'])(
  'the server of %s',
  (file) => {
    beforeEach(() => {
      project = new Project();
    });
    afterEach(() => project.remove());

    it('does the requests of each user one after the other', async () => {
      const { server, url } = await started(file);
      const users = Array.from({ length: USERS }, (_, user) => user);
      const answers = await Promise.all(
        users.map((user) => Promise.all(Array.from({ length: REQUESTS }, () => withdraw(url, user)))),
      );
      for (const own of answers) {
        const balances = own.map(({ balance }) => balance).sort((a, b) => b - a);
        expect(balances).toEqual(Array.from({ length: REQUESTS }, (_, i) => 999 - i));
      }
      expect(await endAll([server])).toEqual([endedWell]);
    });

    it('answers 503 to a request that waits for too long', async () => {
      project.change('users.mjs', { 'timeout: 10_000': 'timeout: 1' });
      const { url, answered } = await startedBusy(file);
      expect((await withdraw(url, 1)).status).toBe(503);
      project.write({ open: '' });
      await answered;
      expect((await withdraw(url, 1)).status).toBe(200);
    });

    it('forgets a waiting request whose client has disconnected', async () => {
      const { url, log, answered } = await startedBusy(file);
      const second = await begun(url, 1);
      await withdraw(url, 2);
      second.destroy();
      // The server has noticed that when it answers a later request.
      await withdraw(url, 2);
      project.write({ open: '' });
      await answered;
      await withdraw(url, 1);
      expect(readFileSync(log, 'utf8')).toBe('1\n2\n2\n1\n');
    });
  },
);
