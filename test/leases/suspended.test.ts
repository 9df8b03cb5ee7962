import { execFileSync } from 'node:child_process';
import { writeFileSync } from 'node:fs';
import path from 'node:path';
import { describe, expect, it, onTestFinished } from 'vitest';
import { EtcdCluster, hasEtcd } from '../support/etcd-server.mjs';
import { makeFolder, PACKAGE_ROOT, removeFolder } from '../support/package-copy.js';
import { runProgram } from '../support/programs.js';

/** A shared library that shifts the clock, or undefined if this machine cannot make one. */
async function shifter(folder: string): Promise<string> {
  const library = path.join(folder, 'shifted-clock.so');
  const source = path.join(PACKAGE_ROOT, 'test/support/shifted-clock.c');
  execFileSync(process.env['CC'] ?? 'cc', ['-shared', '-fPIC', '-O1', '-o', library, source, '-ldl']);
  return Promise.resolve(library);
}

// Clocks are shifted by a preloaded library, which needs Linux. The addon needs a compiler there, so there is one.
describe.skipIf(process.platform !== 'linux')('while the machine is suspended', () => {
  /** A program under a clock that it shifts itself, by a file whose name is its first argument. */
  async function runShifted(program: string, argumentsIn: (folder: string) => string[]): Promise<unknown> {
    const folder = await makeFolder();
    onTestFinished(() => removeFolder(folder));
    const shift = path.join(folder, 'shift');
    writeFileSync(shift, Buffer.alloc(8));
    const { code, stdout, stderr } = await runProgram(
      program,
      [shift, ...argumentsIn(folder)],
      ['--no-warnings'],
      30_000,
      { LD_PRELOAD: await shifter(folder), SHIFTED_CLOCK: shift },
    );
    expect({ code, stderr }).toEqual({ code: 0, stderr: '' });
    return JSON.parse(stdout);
  }

  it('the time of a lease keeps counting, in every store', async () => {
    const printed = await runShifted('suspended.mjs', (folder) => [path.join(folder, 'leases.db')]);
    const all = { polled: true, background: true, memory: true, sqlite: true };
    expect(printed).toEqual({
      before: all,
      half: all,
      after: { polled: false, background: false, memory: false, sqlite: false },
      aborted: true,
      ahead: true,
      background: false,
      taken: true,
    });
  });

  it.skipIf(!hasEtcd)('the time of an etcd lease that is kept for the next key keeps counting', async () => {
    const cluster = await EtcdCluster.start(1);
    onTestFinished(() => cluster.stop());
    const printed = await runShifted('suspended-etcd.mjs', () => [...cluster.endpoints]);
    expect(printed).toEqual({ usedAgain: false });
  });
});
