/** The metrics example, scraped as Prometheus does. */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';
import { setTimeout as delay } from 'node:timers/promises';
import { expect, it, onTestFinished } from 'vitest';
import { codeIn } from '../../scripts/docs/markdown.mjs';
import { root, textOf } from '../docs/pages.js';
import { freePort } from '../support/free-port.mjs';
import { runNode } from '../support/programs.js';
import { until } from '../support/waiting.js';

type Samples = Map<string, number>;

async function scrape(url: string): Promise<Samples> {
  const response = await fetch(url);
  expect(response.status).toBe(200);
  expect(response.headers.get('content-type')).toMatch(/^text\/plain; version=0\.0\.4/);
  const samples: Samples = new Map();
  for (const line of (await response.text()).split('\n')) {
    if (line === '' || line.startsWith('#')) continue;
    const [, sample, value] = /^(\S+(?:\{[^}]*\})?) (\S+)$/.exec(line) ?? [];
    if (sample === undefined) throw new Error(`not in the text format: ${line}`);
    samples.set(sample, Number(value));
  }
  return samples;
}

const LABEL = 'stripelock_lock_kind="lock",stripelock_lock_name="accounts"';

/** Samples that must come to be above zero as the example continues. */
const RISING = [
  `stripelock_lock_contentions_total{${LABEL}}`,
  `stripelock_lock_timeouts_total{${LABEL}}`,
  `stripelock_lock_deadlocks_total{${LABEL}}`,
  `stripelock_lock_abandoned_total{${LABEL}}`,
  `stripelock_lock_wait_duration_seconds_sum{${LABEL}}`,
  `stripelock_lock_wait_duration_seconds_count{${LABEL}}`,
  `stripelock_lock_wait_duration_seconds_bucket{le="0.1",${LABEL}}`,
];

function totals(samples: Samples): { contended: number; waited: number } {
  return {
    contended: samples.get(RISING[0]!)!,
    waited: samples.get(`stripelock_lock_wait_duration_seconds_count{${LABEL}}`)!,
  };
}

it('the metrics example serves what all threads have counted to Prometheus', async () => {
  const path = fileURLToPath(new URL('../../examples/metrics/metrics.mjs', import.meta.url));
  const child = spawn(process.execPath, [path], { stdio: ['ignore', 'pipe', 'pipe'] });
  const closed = once(child, 'close');
  onTestFinished(async () => {
    child.kill();
    await closed;
  });
  let errors = '';
  child.stderr.setEncoding('utf8').on('data', (text: string) => void (errors += text));
  const [line] = (await Promise.race([
    once(child.stdout.setEncoding('utf8'), 'data'),
    closed.then(() => [errors]),
  ])) as [string];
  expect(line).toMatch(/^http:\/\/127\.0\.0\.1:\d+\/metrics\n$/);
  const url = line.trim();

  let before: Samples = new Map();
  for (const end = performance.now() + 40_000; performance.now() < end;) {
    await delay(100);
    const samples = await scrape(url);
    // Counters only rise.
    for (const [name, value] of before) {
      if (/_(total|count|bucket)/.test(name)) expect(samples.get(name), name).toBeGreaterThanOrEqual(value);
    }
    before = samples;
    const missing = RISING.filter((name) => !(samples.get(name)! > 0));
    if (missing.length === 0) break;
  }
  for (const name of RISING) expect(before.get(name) ?? 0, name).toBeGreaterThan(0);
  for (const gauge of ['held', 'waiting']) {
    const value = before.get(`stripelock_lock_${gauge}{${LABEL}}`)!;
    expect(value).toBeGreaterThanOrEqual(0);
    expect(value).toBeLessThan(1000);
  }
  // Scraping adds nothing: each counted wait has been measured, except for a few that are still running.
  for (let i = 0; i < 30; i++) before = await scrape(url);
  const { contended, waited } = totals(before);
  expect(waited).toBeLessThanOrEqual(contended);
  expect(contended - waited).toBeLessThan(20);
  expect(errors).toBe('');
  expect((await fetch(new URL('/', url))).status).toBe(404);
});

it('the metrics example prints the same by the SDK of OpenTelemetry', async () => {
  const path = fileURLToPath(new URL('../../examples/metrics/metrics.mjs', import.meta.url));
  const child = spawn(process.execPath, [path, '--otel'], { stdio: ['ignore', 'pipe', 'inherit'] });
  const closed = once(child, 'close');
  onTestFinished(async () => {
    child.kill();
    await closed;
  });
  let printed = '';
  const has = (name: string): boolean =>
    new RegExp(
      `name: '${name.replaceAll('.', '\\.')}'[^]*?'stripelock\\.lock\\.name': 'accounts'[^]*?value: (?!0\\b)\\d`,
    ).test(printed);
  child.stdout.setEncoding('utf8').on('data', (text: string) => void (printed += text));
  const names = ['count', 'contentions', 'timeouts', 'wait.duration.bucket', 'wait.duration.sum'];
  await until(() => names.every((name) => has(`stripelock.lock.${name}`)), 'all instruments are printed');
  expect(printed).toContain("le: '+Inf'");
});

it('the metrics example and the page of the recipes serve the same names and labels', async () => {
  const recipe = codeIn(textOf('docs/recipes.md'), 'js').find(({ code }) =>
    code.startsWith('// metrics.mjs'),
  )!;
  const example = `
    import { register } from 'prom-client';
    import { KeyedLock } from 'stripelock';
    import { register as exportTo } from 'stripelock/metrics/prom-client';
    exportTo(register);
    const lock = new KeyedLock({ name: 'accounts' });
    process.stdout.write(await register.metrics());
    lock.stats();
  `;
  const samplesOf = async (code: string): Promise<string[]> => {
    const env = { PORT: String(await freePort()) };
    const run = await runNode(['--input-type=module', '--eval', code], undefined, env, root);
    expect(run).toMatchObject({ code: 0, stderr: '' });
    return [...run.stdout.matchAll(/^(\S+\{.*\}) /gm)].map(([, sample]) => sample!).sort();
  };
  const page = await samplesOf(`${recipe.code}\nprocess.stdout.write(page);`);
  const samples = await samplesOf(example);
  expect(page.length).toBeGreaterThan(0);
  expect(samples.filter((sample) => !sample.startsWith('stripelock_lock_wait_duration'))).toEqual(page);
});
