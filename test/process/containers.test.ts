import { spawnSync } from 'node:child_process';
import { mkdirSync, readFileSync, renameSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { describe, expect, it, onTestFinished } from 'vitest';
import { ProcessLock } from 'stripelock/process';
import { Place } from '../command/started.js';
import { lockPath, Peer, type Got } from './peer.js';

// A lock file that containers share. Containers are processes in other namespaces of one kernel.

const CONTAINER = ['unshare', '--pid', '--mount', '--fork', '--mount-proc', '--kill-child'];
// Needs root, or a system that lets other users make namespaces.
const canMakeContainers = spawnSync(CONTAINER[0]!, [...CONTAINER.slice(1), 'true']).status === 0;

function makeLock(file: string): ProcessLock {
  const lock = new ProcessLock({ path: file, timeout: 20_000 });
  onTestFinished(() => lock.close());
  return lock;
}

describe.runIf(canMakeContainers)('a lock file that two containers share', () => {
  it('has one holder of a key, whose number is the one in its own container', async () => {
    const lock = makeLock(lockPath());
    const [one, two] = [
      await Peer.start(lock.path, undefined, undefined, CONTAINER),
      await Peer.start(lock.path, undefined, undefined, CONTAINER),
    ];
    await one.ask('acquire', 'key');
    expect(await two.ask<unknown>('tryAcquire', 'key')).toBeUndefined();
    expect(lock.tryAcquire('key')).toBeUndefined();
    for (const seen of [lock.inspect(), await two.ask<ReturnType<ProcessLock['inspect']>>('inspect')])
      expect(seen).toMatchObject([{ key: 'key', holders: [{ pid: 1 }] }]);
    expect(lock.inspect()[0]!.holders[0]!.title).toContain('process-lock-peer.mjs');
  });

  it('wakes a process of the other container, and reports a killed container', async () => {
    const lock = makeLock(lockPath());
    const one = await Peer.start(lock.path, undefined, undefined, CONTAINER);
    const two = await Peer.start(lock.path, undefined, undefined, CONTAINER);
    await one.ask('acquire', 'key');
    const waiting = two.ask<Got>('acquire', 'key');
    await expect.poll(() => lock.stateOf('key').waiters).toBe(1);
    await one.ask('releaseAll');
    expect((await waiting).abandoned).toBe(false);
    const own = lock.acquire('key');
    await two.kill();
    const guard = await own;
    expect(guard.abandoned).toBe(true);
    const { token } = guard;
    guard.release();
    expect(BigInt((await one.ask<Got>('acquire', 'key')).token)).toBeGreaterThan(token);
  });

  it('is another file after it was replaced on the host, if the file itself was mounted', async () => {
    const file = lockPath();
    const mounted = path.join(path.dirname(file), 'mounted');
    for (const each of [file, mounted]) writeFileSync(each, '', { mode: 0o600 });
    const mount = ['sh', '-c', `mount --bind '${file}' '${mounted}' && exec "$@"`, 'sh'];
    const inside = await Peer.start(mounted, undefined, undefined, [...CONTAINER, ...mount]);
    expect(await inside.ask<unknown>('acquire', 'key')).toBeDefined();
    const before = makeLock(file);
    expect(before.tryAcquire('key')).toBeUndefined();
    renameSync(file, `${file}.away`);
    expect(() => before.tryAcquire('other')).toThrow(
      expect.objectContaining({ code: 'ERR_LOCK_FILE_REPLACED' }),
    );
    expect(makeLock(file).tryAcquire('key')?.held).toBe(true);
    expect(await inside.ask<unknown>('tryAcquire', 'other')).toBeDefined();
  });

  it('is noticed to be replaced if its folder was mounted', async () => {
    const file = lockPath();
    const mounted = path.join(path.dirname(file), 'mounted');
    const folder = path.join(path.dirname(file), 'folder');
    for (const each of [folder, mounted]) mkdirSync(each);
    const mount = ['sh', '-c', `mount --bind '${folder}' '${mounted}' && exec "$@"`, 'sh'];
    const inside = await Peer.start(path.join(mounted, 'lock'), undefined, undefined, [
      ...CONTAINER,
      ...mount,
    ]);
    expect(makeLock(path.join(folder, 'lock')).tryAcquire('key')?.held).toBe(true);
    expect(await inside.ask<unknown>('tryAcquire', 'key')).toBeUndefined();
    renameSync(path.join(folder, 'lock'), path.join(folder, 'away'));
    await expect(inside.ask<unknown>('tryAcquire', 'other')).rejects.toMatchObject({
      code: 'ERR_LOCK_FILE_REPLACED',
    });
  });
});

it.runIf(canMakeContainers)('the command passes signals on as the first process of a container', async () => {
  const place = new Place();
  onTestFinished(() => place.remove());
  const started = place.shell(
    `exec ${CONTAINER.slice(0, -1).join(' ')} sh -c 'echo "$$ starts"; exec "$@"' sh ` +
      `stripelock run --path "$LOCK" -- sh -c 'trap "echo stops; exit 3" TERM; echo runs; while :; do sleep 0.05; done'`,
  );
  await started.says(/^1 starts\nruns\n/);
  const { pid } = started.child;
  process.kill(Number(readFileSync(`/proc/${pid}/task/${pid}/children`, 'utf8')), 'SIGTERM');
  expect(await started.ended).toMatchObject({ code: 3, stdout: '1 starts\nruns\nstops\n' });
});
