/** The metrics example, scraped as Prometheus does. */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';
import { setTimeout as delay } from 'node:timers/promises';
import { expect, it, onTestFinished } from 'vitest';

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

/** Samples that must come to be above zero as the example goes on. */
const RISING = [
  'stripelock_contended_total{lock="accounts"}',
  'stripelock_timeouts_total{lock="accounts"}',
  'stripelock_deadlocks_total{lock="accounts"}',
  'stripelock_abandoned_total{lock="accounts"}',
  'stripelock_wait_seconds_count{lock="accounts",kind="async",mode="exclusive",outcome="granted"}',
  'stripelock_wait_seconds_count{lock="accounts",kind="async",mode="exclusive",outcome="timeout"}',
  'stripelock_timeouts_by_holder_total{lock="accounts",holder="0"}',
  'stripelock_deadlock_threads_count{lock="accounts"}',
  'stripelock_lease_failures_total{operation="renew"}',
];

function totals(samples: Samples): { contended: number; waited: number } {
  const waits = [...samples].filter(([name]) => name.startsWith('stripelock_wait_seconds_count{'));
  return {
    contended: samples.get('stripelock_contended_total{lock="accounts"}')!,
    waited: waits.reduce((sum, [, count]) => sum + count, 0),
  };
}

it('the metrics example serves stats() and the channels to Prometheus', async () => {
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
  const abandoned = /^stripelock_abandoned_grants_total\{lock="accounts",mode="(exclusive|shared)"\}$/;
  for (const end = performance.now() + 40_000; performance.now() < end;) {
    await delay(100);
    const samples = await scrape(url);
    // What is counted only rises.
    for (const [name, value] of before) {
      if (/_(total|count|bucket)/.test(name)) expect(samples.get(name), name).toBeGreaterThanOrEqual(value);
    }
    before = samples;
    const missing = RISING.filter((name) => !(samples.get(name)! > 0));
    if (missing.length === 0 && [...samples.keys()].some((name) => abandoned.test(name))) break;
  }
  for (const name of RISING) expect(before.get(name) ?? 0, name).toBeGreaterThan(0);
  expect([...before.keys()].filter((name) => abandoned.test(name))).not.toEqual([]);
  for (const gauge of ['held', 'waiting']) {
    const value = before.get(`stripelock_${gauge}{lock="accounts"}`)!;
    expect(value).toBeGreaterThanOrEqual(0);
    expect(value).toBeLessThan(1000);
  }
  // Scraping adds nothing: the waits that stats() counted are those that the channels told of, but for some under way.
  for (let i = 0; i < 30; i++) before = await scrape(url);
  const { contended, waited } = totals(before);
  expect(contended).toBeLessThan(2 * waited + 100);
  expect(errors).toBe('');
  expect((await fetch(new URL('/', url))).status).toBe(404);
});
