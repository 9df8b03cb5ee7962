import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { StripedLock } from 'stripelock';
import { ADDON, entryOf, installIn } from '../support/installation.js';
import { runThread } from '../support/threads.js';

type Opened =
  { readonly engine: string; readonly taken: boolean } | { readonly code: string; readonly message: string };

// Two more installations of the package: one without the addon, and one with an addon of its own.
describe('a lock that another installation of the package opens in another thread', () => {
  let folder: string;

  beforeAll(async () => {
    folder = await mkdtemp(path.join(tmpdir(), 'stripelock-'));
    await installIn(path.join(folder, 'without-addon'));
    await installIn(path.join(folder, 'with-addon'), { copied: [ADDON] });
  });

  // Windows cannot delete an addon that is loaded. There it stays with the temporary files.
  afterAll(() => rm(folder, { recursive: true, force: true }).catch(() => undefined));

  const openIn = (copy: string, lock: StripedLock): Promise<Opened> => {
    const entry = entryOf(path.join(folder, copy));
    return runThread<Opened>('open-by-copy.mjs', { entry, handle: lock.handle });
  };

  it('is refused with an error that says so where the addon is missing', async () => {
    const lock = new StripedLock({ engine: 'native' });
    const refusal = await openIn('without-addon', lock);
    expect(refusal).toMatchObject({ code: 'ERR_LOCK_ENGINE' });
    expect(refusal).toMatchObject({ message: expect.stringMatching(/native engine.*same engine/) as string });
  });

  it('is refused where the addon is another copy, as that has queues of its own', async () => {
    const lock = new StripedLock({ engine: 'native' });
    const refusal = await openIn('with-addon', lock);
    expect(refusal).toMatchObject({ code: 'ERR_LOCK_ENGINE' });
    expect(refusal).toMatchObject({
      message: expect.stringMatching(/another copy.*same installation/) as string,
    });
    // The refusal changed nothing.
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
