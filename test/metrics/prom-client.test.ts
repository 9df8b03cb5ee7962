import { Counter, Registry } from 'prom-client';
import { expect, it } from 'vitest';
import { KeyedLock, LeaseManager } from 'stripelock';
import { collect, LEASE_INSTRUMENTS, LOCK_INSTRUMENTS } from 'stripelock/metrics';
import { register } from 'stripelock/metrics/prom-client';
import { rejectionOf, thrownBy } from '../support/waiting.js';

/** The samples of one name, without the labels that all have. */
async function samplesOf(registry: Registry, kind: string, name: string): Promise<Map<string, number>> {
  const labels = `stripelock_lock_kind="${kind}",stripelock_lock_name="${name}"`;
  const samples = new Map<string, number>();
  for (const line of (await registry.metrics()).split('\n')) {
    const [, metric, ofBucket = '', value] =
      /^(\w+)\{(le="[^"]+",)?stripelock_lock_kind.*\} (\S+)$/.exec(line) ?? [];
    if (line.includes(labels)) samples.set(`${metric!}${ofBucket}`, Number(value));
  }
  return samples;
}

const nameOf = ({ name, kind }: { name: string; kind: string }): string =>
  name.replaceAll('.', '_') + (kind === 'counter' ? '_total' : '');

it.each([Registry.PROMETHEUS_CONTENT_TYPE, Registry.OPENMETRICS_CONTENT_TYPE])(
  'a registry of prom-client shows each number of a lock, with its kind, as %s, until it is removed',
  async (contentType) => {
    const registry = new Registry();
    registry.setContentType(contentType as typeof registry.contentType);
    const remove = register(registry);
    const lock = new KeyedLock({ name: `scraped ${contentType}` });
    const guard = lock.acquireSync('key');
    await rejectionOf(lock.acquire('key', { timeout: 5 }));
    const samples = await samplesOf(registry, 'lock', lock.name);
    const counted = collect().find(({ name }) => name === lock.name)!;
    expect(counted).toMatchObject({ held: 1, contended: 1, timeouts: 1, waits: { count: 1 } });
    for (const instrument of LOCK_INSTRUMENTS)
      expect([instrument.name, samples.get(nameOf(instrument))]).toEqual([
        instrument.name,
        counted[instrument.field],
      ]);
    for (const instrument of LEASE_INSTRUMENTS) expect(samples.has(nameOf(instrument))).toBe(false);
    const histogram = 'stripelock_lock_wait_duration_seconds';
    expect(samples.get(`${histogram}_count`)).toBe(1);
    expect(samples.get(`${histogram}_sum`)).toBe(counted.waits.sum);
    expect(samples.get(`${histogram}_bucketle="+Inf",`)).toBe(1);
    // Scraping adds nothing, and a reset takes nothing away.
    registry.resetMetrics();
    expect(await samplesOf(registry, 'lock', lock.name)).toEqual(samples);
    remove();
    remove();
    expect(registry.getMetricsAsArray()).toEqual([]);
    guard.release();
  },
);

it('a registry of prom-client shows the further numbers of leases, and one scrape collects once', async () => {
  const registry = new Registry();
  register(registry);
  const leases = new LeaseManager({ name: 'scraped leases' });
  const lease = await leases.acquire('key');
  await leases.tryAcquire('key');
  await lease.renew();
  const samples = await samplesOf(registry, 'lease', 'scraped leases');
  const numbers = LEASE_INSTRUMENTS.map((instrument) => [instrument.field, samples.get(nameOf(instrument))]);
  expect(Object.fromEntries(numbers)).toEqual({
    ...{ acquired: 1, refused: 1, renewals: 1, failures: 0, losses: 0 },
  });
  expect(samples.get('stripelock_lock_held')).toBe(1);
  // All metrics are read before the code between two scrapes runs.
  const first = registry.getMetricsAsJSON();
  await leases.tryAcquire('key');
  const second = registry.getMetricsAsJSON();
  const refused = (all: Awaited<typeof first>): number | undefined =>
    all
      .find(({ name }) => name === 'stripelock_lease_refusals_total')
      ?.values.find(({ labels }) => labels['stripelock_lock_name'] === 'scraped leases')?.value;
  expect([refused(await first), refused(await second)]).toEqual([1, 2]);
  await leases.close();
});

it('a registry that has one of the names already is left as it was', () => {
  const registry = new Registry();
  const name = 'stripelock_lock_deadlocks_total';
  const own = new Counter({ name, help: 'of another library', registers: [registry] });
  expect(thrownBy(() => register(registry))).toMatchObject({
    message: expect.stringContaining('already') as string,
  });
  expect(registry.getMetricsAsArray()).toEqual([own]);
});

it('what is no registry is refused', () => {
  expect(thrownBy(() => register({} as never))).toMatchObject({
    code: 'ERR_INVALID_ARG_TYPE',
    message: expect.stringContaining('registry.registerMetric') as string,
  });
});
