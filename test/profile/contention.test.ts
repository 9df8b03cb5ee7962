import { spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { Worker } from 'node:worker_threads';
import { gunzipSync } from 'node:zlib';
import { Profile } from 'pprof-format';
import { beforeAll, describe, expect, it, onTestFinished } from 'vitest';
import { KeyedLock } from 'stripelock';
import { profileContention, type ContentionProfile, type TraceEvent } from 'stripelock/profile';
import { workerScript } from '../support/threads.js';

const HOT = '"account 17"';

function temporaryFolder(): string {
  const folder = mkdtempSync(path.join(os.tmpdir(), 'stripelock-profile-'));
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
  return folder;
}

/** Threads with one planted hot key and one planted slow holder. Those that wait for the key lose time as they start. */
async function contend(lock: KeyedLock): Promise<void> {
  const roles = ['slow', 'hot', 'hot', 'hot-async', 'quiet'];
  const gate = new SharedArrayBuffer(12);
  const data = { handle: lock.handle, gate, rounds: 5, askers: 3 };
  const threads = roles.map(
    (role) =>
      new Worker(workerScript('contended.mjs'), {
        workerData: { ...data, role, preempted: role.startsWith('hot') },
      }),
  );
  await Promise.all(threads.map((thread) => once(thread, 'exit')));
}

describe('a profile of contention', () => {
  let profile: ContentionProfile;

  beforeAll(async () => {
    const profiler = await profileContention();
    await contend(new KeyedLock({ name: 'ledger' }));
    profile = await profiler.stop();
  });

  it('names the hot key, and the slow holder, first in its summary', () => {
    const [, keys, , released] = profile.summary().split(/\n\n/);
    expect(keys).toMatch(/^Keys that were waited for\n *[█·]+ +\d+ % {2}ledger "account 17"\n/);
    expect(released).toMatch(
      /^Calls that released what was waited for\n *[█·]+ +\d+ % {2}plantedSlowHolder /,
    );
    expect(released).toContain('contended.mjs:');
  });

  it('names them in a file that pprof reads, with both call sites', () => {
    const read = Profile.decode(gunzipSync(profile.pprof()));
    const { strings } = read.stringTable;
    const textOf = (at: number | bigint): string => strings[Number(at)]!;
    expect(read.sampleType.map(({ type, unit }) => `${textOf(type)}/${textOf(unit)}`)).toEqual([
      'contentions/count',
      'delay/nanoseconds',
      'caused_contentions/count',
      'caused_delay/nanoseconds',
    ]);
    const functions = new Map(read.function.map(({ id, name }) => [Number(id), textOf(name)]));
    const places = new Map(
      read.location.map(({ id, line }) => [Number(id), functions.get(Number(line[0]!.functionId))]),
    );
    /** By value, the innermost functions and labels of samples, the highest first. */
    const highest = (value: number): (string | undefined)[] =>
      [...read.sample]
        .sort((a, b) => Number(b.value[value]) - Number(a.value[value]))
        .map(({ locationId }) => places.get(Number(locationId[0])));
    expect(highest(1).slice(0, 2)).toContain('hotTransfer');
    expect(highest(3)[0]).toBe('plantedSlowHolder');
    for (const { label } of read.sample) {
      expect(label.map(({ key, str }) => [textOf(key), textOf(str)])).toEqual([
        ['lock', 'ledger'],
        ['key', '"account *"'],
      ]);
    }
  });

  it('names them to go tool pprof', ({ skip }) => {
    const missing = spawnSync('go', ['version']).error !== undefined;
    if (missing) console.warn('skipped: `go tool pprof` is not there. Install golang-go');
    if (missing && process.env['CI'] !== undefined) expect.fail('go is missing');
    skip(missing);
    const file = path.join(temporaryFolder(), 'contention.pb.gz');
    profile.write(file);
    const top = (index: string): string => {
      const words = ['tool', 'pprof', '-top', `-sample_index=${index}`, file];
      const { stdout, stderr, status } = spawnSync('go', words, { encoding: 'utf8' });
      expect(status, stderr).toBe(0);
      return stdout.split('\n').find((line) => /^ *[\d.]+m?s +[\d.]+%/.test(line)) ?? '';
    };
    expect(top('delay')).toMatch(/ hot(?:Transfer|Request)$/);
    expect(top('caused_delay')).toMatch(/ plantedSlowHolder$/);
  });

  it('shows them in a trace whose slices nest and whose arrows lead from releases to waits', () => {
    const { traceEvents } = JSON.parse(JSON.stringify(profile.trace())) as { traceEvents: TraceEvent[] };
    const slices = traceEvents.filter(({ ph }) => ph === 'X');
    // Required fields of the format.
    for (const { pid, tid, ts, dur } of slices) {
      expect(pid).toBe(process.pid);
      expect(Number.isInteger(tid)).toBe(true);
      expect(ts).toBeGreaterThanOrEqual(0);
      expect(dur).toBeGreaterThanOrEqual(0);
    }
    const tracks = tracksOf(slices);
    for (const track of tracks.values()) {
      track.sort((a, b) => a.ts! - b.ts!);
      for (let i = 1; i < track.length; i++) {
        expect(track[i]!.ts).toBeGreaterThanOrEqual(track[i - 1]!.ts! + track[i - 1]!.dur! - 0.01);
      }
    }
    const named = new Set(traceEvents.filter(({ name }) => name === 'thread_name').map(({ tid }) => tid));
    for (const tid of tracks.keys()) expect(named.has(tid)).toBe(true);
    const starts = new Map(traceEvents.filter(({ ph }) => ph === 's').map((event) => [event.id, event]));
    const ends = traceEvents.filter(({ ph }) => ph === 'f');
    expect(ends.length).toBeGreaterThan(8);
    const within = ({ tid, ts }: TraceEvent, kind: string): boolean =>
      tracks
        .get(tid)!
        .some(
          (slice) =>
            slice.name.startsWith(kind) && slice.ts! <= ts! + 0.01 && ts! <= slice.ts! + slice.dur! + 0.01,
        );
    for (const end of ends) {
      const start = starts.get(end.id)!;
      expect(start.ts).toBeLessThanOrEqual(end.ts!);
      expect(within(start, 'hold')).toBe(true);
      expect(within(end, 'wait')).toBe(true);
    }
    const longest = slices.filter(({ name }) => name.startsWith('hold')).sort((a, b) => b.dur! - a.dur!)[0]!;
    expect(longest.name).toBe(`hold ledger ${HOT}`);
    expect(JSON.stringify(longest.args)).toContain('plantedSlowHolder');
  });

  it('reports single waits, with the calls that released the keys', () => {
    const { waits } = profile;
    expect(waits.length).toBeGreaterThan(10);
    const hot = waits.filter(({ key }) => key === HOT);
    expect(hot.length).toBeGreaterThan(0.9 * waits.length);
    expect(new Set(hot.map(({ kind }) => kind))).toEqual(new Set(['sync', 'async']));
    for (const { lock, mode, outcome, waited, weight, frames, releases, from } of hot) {
      expect({ lock, mode, outcome }).toEqual({ lock: 'ledger', mode: 'exclusive', outcome: 'granted' });
      expect(weight).toBeGreaterThanOrEqual(1);
      expect(frames[0]).toMatch(/(?:hotTransfer|hotRequest|plantedSlowHolder) \(.*contended\.mjs:\d+:\d+\)$/);
      for (const { at, share } of releases) {
        expect(at - share).toBeGreaterThanOrEqual(from - 0.01);
        expect(at).toBeLessThanOrEqual(from + waited + 0.01);
      }
    }
    // Nearly all of what was waited is some holder's share.
    const waited = hot.reduce((sum, wait) => sum + wait.waited, 0);
    const shared = hot.flatMap(({ releases }) => releases).reduce((sum, { share }) => sum + share, 0);
    expect(shared / waited).toBeGreaterThan(0.8);
    const frames = hot.flatMap(({ releases }) => releases.map((release) => release.frames[0]));
    expect(frames.some((frame) => frame?.includes('hotRequest'))).toBe(true);
  });

  it('writes what the name of the file says', () => {
    const folder = temporaryFolder();
    const fileOf = (name: string): string => path.join(folder, name);
    for (const name of ['a.json', 'a.txt', 'a.pb.gz']) profile.write(fileOf(name));
    expect(JSON.parse(readFileSync(fileOf('a.json'), 'utf8'))).toHaveProperty('traceEvents');
    expect(readFileSync(fileOf('a.txt'), 'utf8')).toBe(profile.summary());
    expect(Profile.decode(gunzipSync(readFileSync(fileOf('a.pb.gz')))).sample.length).toBeGreaterThan(1);
    expect(() => profile.write(path.join(fileOf('a.txt'), 'b.txt'))).toThrow(/ENOTDIR/);
  });
});

function tracksOf(events: TraceEvent[]): Map<number, TraceEvent[]> {
  const groups = new Map<number, TraceEvent[]>();
  for (const event of events) groups.set(event.tid, [...(groups.get(event.tid) ?? []), event]);
  return groups;
}
