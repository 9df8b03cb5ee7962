import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { gunzipSync } from 'node:zlib';
import { Profile } from 'pprof-format';
import { describe, expect, it, onTestFinished } from 'vitest';
import { runProgram } from '../support/programs.js';
import { until } from '../support/waiting.js';

const PROGRAM = fileURLToPath(new URL('../programs/contended.mjs', import.meta.url));

function folder(): string {
  const made = mkdtempSync(path.join(os.tmpdir(), 'stripelock-whole-'));
  onTestFinished(() => rmSync(made, { recursive: true, force: true }));
  return made;
}

function run(file: string, args: string[] = [], environment: NodeJS.ProcessEnv = {}) {
  return runProgram('contended.mjs', args, [], undefined, { STRIPELOCK_PROFILE: file, ...environment });
}

describe('STRIPELOCK_PROFILE', () => {
  it('writes a profile of the whole program when it ends, in the format of the name', async () => {
    const place = folder();
    const names = ['a.txt', 'a.json', 'a.pb.gz'];
    for (const name of names) {
      const { code, stdout, stderr } = await run(path.join(place, name));
      expect({ code, stdout, stderr }).toEqual({ code: 0, stdout: 'done\n', stderr: '' });
    }
    const [text, trace, pprof] = names.map((name) => readFileSync(path.join(place, name)));
    expect(text!.toString()).toMatch(/100 % {2}whole "key"\n/);
    expect(text!.toString()).toContain('hold (');
    const { traceEvents } = JSON.parse(trace!.toString()) as { traceEvents: { name: string }[] };
    expect(traceEvents.map(({ name }) => name)).toContain('wait whole "key"');
    expect(Profile.decode(gunzipSync(pprof!)).stringTable.strings).toContain('hold');
  });

  it('covers a program that has only leases', async () => {
    const file = path.join(folder(), 'a.txt');
    const { code, stdout, stderr } = await runProgram('contended-leases.mjs', [], [], undefined, {
      STRIPELOCK_PROFILE: file,
    });
    expect({ code, stdout, stderr }).toEqual({ code: 0, stdout: 'done\n', stderr: '' });
    const text = readFileSync(file, 'utf8');
    expect(text).toMatch(/100 % {2}whole "key"\n/);
    expect(text).toContain('hold (');
  });

  it('writes what there is so far on SIGUSR2', async () => {
    const file = path.join(folder(), 'now.txt');
    const env = { ...process.env, STRIPELOCK_PROFILE: file };
    const child = spawn(process.execPath, [PROGRAM, '100000'], { env, stdio: 'ignore' });
    const ended = once(child, 'exit');
    onTestFinished(async () => {
      child.kill('SIGKILL');
      await ended;
    });
    // Once it listens to the signal, which ends it before.
    await until(() => listensTo(child.pid!), 'a listener to SIGUSR2');
    await until(() => {
      child.kill('SIGUSR2');
      return existsSync(file) && readFileSync(file, 'utf8').includes('whole "key"');
    }, 'a profile with waits');
    expect(child.exitCode).toBe(null);
  });

  it('adds the id of a thread that is not the main one to the name', async () => {
    const place = folder();
    const { code, stderr } = await run(path.join(place, 'a.txt'), ['5', 'worker']);
    expect({ code, stderr }).toEqual({ code: 0, stderr: '' });
    expect(readdirSync(place)).toEqual(['a.thread-1.txt']);
    expect(readFileSync(path.join(place, 'a.thread-1.txt'), 'utf8')).toContain('whole "key"');
  });

  it('warns if it cannot write, or has no addon, and lets the program run', async () => {
    const nowhere = await run(path.join(folder(), 'missing', 'a.txt'));
    expect(nowhere).toMatchObject({ code: 0, stdout: 'done\n' });
    expect(nowhere.stderr).toContain('STRIPELOCK_PROFILE');
    expect(nowhere.stderr).toContain('ENOENT');
  });
});

/** Whether the process handles SIGUSR2, as Linux tells: the bit of the signal in the mask of those that it catches. */
function listensTo(pid: number): boolean {
  const mask = /^SigCgt:\s+([0-9a-f]+)$/m.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1] ?? '0';
  return (BigInt(`0x${mask}`) >> 11n) % 2n === 1n;
}
