import path from 'node:path';
import { pathToFileURL } from 'node:url';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { StripedLock } from 'stripelock';
import { copyPackage, makeFolder, removeFolder } from '../support/package-copy.js';
import { runProgram } from '../support/programs.js';
import { runThread } from '../support/threads.js';

type Opened =
  { readonly engine: string; readonly taken: boolean } | { readonly code: string; readonly message: string };

// There are two more installations of the package: one without the addon, and one with a separate addon.
describe('a lock that another installation of the package opens in another thread', () => {
  let folder: string;

  beforeAll(async () => {
    folder = await makeFolder();
    await copyPackage(path.join(folder, 'without-addon'));
    await copyPackage(path.join(folder, 'with-addon'), { addon: 'copy' });
  });

  afterAll(() => removeFolder(folder));

  const openIn = (copy: string, lock: StripedLock): Promise<Opened> => {
    const entry = pathToFileURL(path.join(folder, copy, 'dist', 'index.mjs')).href;
    return runThread<Opened>('open-by-copy.mjs', { entry, handle: lock.handle });
  };

  it('is refused if it needs the addon and that is missing, with an error that says so', async () => {
    const lock = new StripedLock({ engine: 'native' });
    const refusal = await openIn('without-addon', lock);
    expect(refusal).toMatchObject({ code: 'ERR_LOCK_ENGINE' });
    expect(refusal).toMatchObject({ message: expect.stringMatching(/native engine.*same engine/) as string });
  });

  it('is refused if the addon is another copy, which would have other queues, with an error that says so', async () => {
    const lock = new StripedLock({ engine: 'native' });
    const refusal = await openIn('with-addon', lock);
    expect(refusal).toMatchObject({ code: 'ERR_LOCK_ENGINE' });
    expect(refusal).toMatchObject({
      message: expect.stringMatching(/another copy.*same installation/) as string,
    });
    // The refusal has changed nothing.
    lock.acquireSync('key').release();
    expect(lock.stats()).toMatchObject({ held: 0, waiting: 0 });
  });

  it('works on the JavaScript engine, which needs only the memory', async () => {
    const lock = new StripedLock({ engine: 'javascript' });
    for (const copy of ['without-addon', 'with-addon']) {
      expect(await openIn(copy, lock)).toEqual({ engine: 'javascript', taken: true });
      const guard = lock.acquireSync('key');
      expect(await openIn(copy, lock)).toEqual({ engine: 'javascript', taken: false });
      guard.release();
    }
  });
});

describe('a handle in a forked process', () => {
  const NAMES = ['StripedLock', 'KeyedLock', 'MemoryLeaseStore', 'FencingGate', 'LockManager'];

  it.each(['json', 'advanced'])(
    'is refused, with the alternative for processes, over %s',
    async (serialization) => {
      const { code, stdout, stderr } = await runProgram('handles-in-a-fork.mjs', [serialization]);
      expect({ code, stderr }).toEqual({ code: 0, stderr: '' });
      const lines = stdout.trim().split('\n').sort();
      expect(lines.map((line) => line.split(' ')[0])).toEqual([...NAMES].sort());
      for (const line of lines) {
        // V8 itself refuses to send shared memory to a process, so nothing of this package can say more.
        if (line.includes('SharedArrayBuffer> could not be cloned')) expect(serialization).toBe('advanced');
        else expect(line).toMatch(/ERR_[A-Z_]+ .*threads of its process.*processes share leases/);
      }
    },
  );
});
