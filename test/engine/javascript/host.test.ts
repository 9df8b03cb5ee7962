// The JavaScript engine and its host: memory, copies of the package, functions that are replaced.
import { cp, mkdtemp, rm, symlink } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { describe, expect, it, onTestFinished } from 'vitest';
import { StripedLock } from 'stripelock';
import { Agent } from '../../support/agent.js';
import { keysApart } from '../../support/keys.js';
import { runProgram } from '../../support/programs.js';
import { thrownBy, until, watch } from '../../support/waiting.js';

const root = fileURLToPath(new URL('../../..', import.meta.url));

/** Evaluates the built package once more, from separate files. */
async function anotherCopy(): Promise<typeof StripedLock> {
  const folder = await mkdtemp(join(tmpdir(), 'stripelock-copy-'));
  onTestFinished(() => rm(folder, { recursive: true }));
  for (const part of ['dist', 'build', 'addon.cjs', 'package.json'])
    await cp(join(root, part), join(folder, part), { recursive: true });
  await symlink(join(root, 'node_modules'), join(folder, 'node_modules'));
  const copy = (await import(pathToFileURL(join(folder, 'dist', 'index.mjs')).href)) as {
    StripedLock: typeof StripedLock;
  };
  return copy.StripedLock;
}

describe('the JavaScript engine', () => {
  it('lets locks be collected that were waited for asynchronously', async () => {
    const { stdout, stderr } = await runProgram('collected-locks.mjs', [], ['--expose-gc']);
    expect({ stdout: stdout.trim(), stderr }).toEqual({ stdout: '0 of 300', stderr: '' });
  });

  it('gives back what another copy of the package in its thread holds while it is blocked', async () => {
    const Copy = await anotherCopy();
    expect(Copy).not.toBe(StripedLock);
    const ours = new StripedLock({ engine: 'javascript', timeout: 60_000 });
    const copied = new Copy({ engine: 'javascript' });
    const [low, high] = keysApart(ours, 2).sort((a, b) => ours.stripeOf(a) - ours.stripeOf(b)) as [
      string,
      string,
    ];
    const [holder, other] = await Promise.all([Agent.start(ours), Agent.start(ours)]);
    const theirs = await holder.acquireSync(high);
    const both = watch(ours.acquire([low, high]));
    const wanted = watch(other.acquireSync(low));
    await until(() => ours.stats().waiting === 2, 'the other thread waits for what the pending one has');
    // This thread now blocks, for a while, for another lock, and through the other copy.
    const third = await Agent.start(copied);
    await third.acquireSync('key');
    const error = thrownBy(() => copied.acquireSync('key', { timeout: 300 }));
    expect(error).toMatchObject({ code: 'ERR_LOCK_TIMEOUT' });
    await (await wanted.promise).release();
    await theirs.release();
    (await both.promise).release();
    expect(ours.stats()).toMatchObject({ held: 0, waiting: 0 });
  });

  it('shares the table of a lock with other copies of the package in its thread', async () => {
    const Copy = await anotherCopy();
    const ours = new StripedLock({ engine: 'javascript' });
    const same = Copy.from(ours.handle);
    const guard = ours.acquireSync('key', { mode: 'shared' });
    expect(thrownBy(() => same.acquireSync('key', { timeout: 100 }))).toMatchObject({
      code: 'ERR_LOCK_DEADLOCK',
    });
    guard.release();
    same.acquireSync('key').release();
  });
});
