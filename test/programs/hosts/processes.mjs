// Locks between processes.

import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { LockedFile } from 'stripelock/file';
import { ProcessLock } from 'stripelock/process';
import { check, patience } from './support.mjs';

const HOLDER = fileURLToPath(new URL('process-holder.mjs', import.meta.url));

export async function processLocks() {
  const folder = mkdtempSync(path.join(os.tmpdir(), 'stripelock-hosts-'));
  const file = path.join(folder, 'lock');
  const lock = new ProcessLock({ path: file, timeout: patience });
  const before = lock.acquireSync('key');
  before.release();
  const options = 'Deno' in globalThis ? ['run', '--allow-all', '--no-lock', '--quiet'] : [];
  const holder = spawn(process.execPath, [...options, HOLDER, file], {
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  try {
    const [said] = await once(holder.stdout, 'data');
    check(String(said).trim() === 'held', `the other process said ${said}`);
    check(lock.tryAcquire('key') === undefined, 'two processes hold one key');
    check(lock.tryAcquire('key', { mode: 'shared' }) === undefined, 'two processes hold one key');
    lock.acquireSync('another key').release();
    const [held] = lock.inspect();
    check(held?.holders[0]?.pid === holder.pid, `inspect() shows ${JSON.stringify(held)}`);
    const waiting = lock.acquire('key');
    holder.kill('SIGKILL');
    const guard = await waiting;
    check(guard.abandoned, 'the next holder is not told of the death');
    check(guard.token > before.token, 'the token does not rise');
    guard.release();
    await lock.close();
    const state = new LockedFile(path.join(folder, 'state.json'), { initial: { count: 0 } });
    await Promise.all([1, 2, 3].map(() => state.update(({ count }) => ({ count: count + 1 }))));
    state.updateSync(({ count }) => ({ count: count + 1 }));
    check((await state.read()).count === 4, 'an update of a file is lost');
  } finally {
    holder.kill('SIGKILL');
    rmSync(folder, { recursive: true, force: true });
  }
}
