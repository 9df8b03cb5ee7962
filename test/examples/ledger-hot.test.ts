/** The demo with a planted hot account and a planted slow holder of it: every view of a profile names both first. */
import { spawnSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { gunzipSync } from 'node:zlib';
import { Profile } from 'pprof-format';
import { afterAll, expect, it } from 'vitest';
import type { TraceFile } from 'stripelock/profile';
import { runNode } from '../support/programs.js';

const LEDGER = fileURLToPath(new URL('../../examples/ledger/ledger.mjs', import.meta.url));
const HOT = 'ledger 19999';

const folder = mkdtempSync(path.join(os.tmpdir(), 'stripelock-hot-'));
afterAll(() => {
  rmSync(folder, { recursive: true, force: true });
});

async function profiled(name: string): Promise<string> {
  const file = path.join(folder, name);
  const args = [LEDGER, '--hot', '--transfers', '160000'];
  const { code, stdout } = await runNode(args, 120_000, { STRIPELOCK_PROFILE: file });
  expect(code).toBe(0);
  expect(stdout).toContain('OK: not one cent was lost.');
  return file;
}

it('the summary', async () => {
  const [, keys, , released] = readFileSync(await profiled('hot.txt'), 'utf8').split(/\n\n/);
  expect(keys!.split('\n')[1]).toMatch(new RegExp(` % {2}${HOT}$`));
  expect(released!.split('\n')[1]).toContain(' printStatement (');
});

it('the profile for pprof', async () => {
  const file = await profiled('hot.pb.gz');
  const {
    sample,
    location,
    function: functions,
    stringTable,
  } = Profile.decode(gunzipSync(readFileSync(file)));
  const names = new Map(functions.map(({ id, name }) => [id, stringTable.strings[Number(name)]]));
  const [most] = [...sample].sort((a, b) => Number(b.value[3]) - Number(a.value[3]));
  const place = location.find(({ id }) => id === most!.locationId[0]);
  expect(names.get(place!.line[0]!.functionId)).toBe('printStatement');
  const { error, stdout } = spawnSync(
    'go',
    ['tool', 'pprof', '-top', '-nodecount=1', '-sample_index=caused_delay', file],
    { encoding: 'utf8' },
  );
  if (error === undefined) expect(stdout).toMatch(/ printStatement\n/);
  else if (process.env['CI'] === undefined) console.warn('not tried: `go tool pprof`. Install golang-go');
  else expect.fail('go is missing');
});

it('the trace', async () => {
  const { traceEvents } = JSON.parse(readFileSync(await profiled('hot.json'), 'utf8')) as TraceFile;
  const sums = (kind: string): [string, number][] => {
    const byName = new Map<string, number>();
    for (const { name, dur = 0, args } of traceEvents) {
      if (!name.startsWith(kind)) continue;
      const [frame = ''] = args!['stack'] as string[];
      const shown = kind === 'hold' ? frame.split(' ')[0]! : name;
      byName.set(shown, (byName.get(shown) ?? 0) + dur);
    }
    return [...byName].sort(([, a], [, b]) => b - a);
  };
  expect(sums('wait')[0]![0]).toBe(`wait ${HOT}`);
  expect(sums('hold')[0]![0]).toBe('printStatement');
});
