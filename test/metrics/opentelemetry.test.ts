import { MetricReader, MeterProvider, type DataPoint } from '@opentelemetry/sdk-metrics';
import { expect, it, onTestFinished } from 'vitest';
import { KeyedLock, LeaseManager } from 'stripelock';
import { collect, LEASE_INSTRUMENTS, LOCK_INSTRUMENTS } from 'stripelock/metrics';
import { observe } from 'stripelock/metrics/opentelemetry';
import { thrownBy } from '../support/waiting.js';

/** Reads on request. */
class Reader extends MetricReader {
  protected onShutdown(): Promise<void> {
    return Promise.resolve();
  }
  protected onForceFlush(): Promise<void> {
    return Promise.resolve();
  }
  /** By the name of the instrument, the points of one lock, or of one lease manager. */
  async pointsOf(name: string): Promise<Map<string, DataPoint<number>[]>> {
    const { resourceMetrics, errors } = await this.collect();
    expect(errors).toEqual([]);
    return new Map(
      resourceMetrics.scopeMetrics.flatMap(({ metrics }) =>
        metrics.map(({ descriptor, dataPoints }): [string, DataPoint<number>[]] => {
          const points = dataPoints as DataPoint<number>[];
          return [
            descriptor.name,
            points.filter(({ attributes }) => attributes['stripelock.lock.name'] === name),
          ];
        }),
      ),
    );
  }
}

function startMeter(): { reader: Reader; end: () => void } {
  const reader = new Reader();
  const provider = new MeterProvider({ readers: [reader] });
  onTestFinished(() => provider.shutdown());
  return { reader, end: observe(provider.getMeter('stripelock')) };
}

it("the SDK of OpenTelemetry reads each number of a lock from collect(), with its kind, until the export's end", async () => {
  const { reader, end } = startMeter();
  const lock = new KeyedLock({ name: 'metered' });
  const guard = lock.acquireSync('key');
  const next = lock.acquire('key');
  await expect(lock.acquire('key', { timeout: 5 })).rejects.toMatchObject({ code: 'ERR_LOCK_TIMEOUT' });
  guard.release();
  const held = await next;
  const points = await reader.pointsOf('metered');
  const counted = collect().find(({ name }) => name === 'metered')!;
  const attributes = { 'stripelock.lock.kind': 'lock', 'stripelock.lock.name': 'metered' };
  for (const { name, field } of LOCK_INSTRUMENTS)
    expect({ name, points: points.get(name) }).toMatchObject({
      name,
      points: [{ attributes, value: counted[field] }],
    });
  expect(counted).toMatchObject({ held: 1, contended: 2, timeouts: 1 });
  for (const { name } of LEASE_INSTRUMENTS) expect(points.get(name) ?? []).toEqual([]);
  const buckets = points.get('stripelock.lock.wait.duration.bucket')!;
  expect(buckets.map(({ attributes }) => attributes['le'])).toEqual([
    ...counted.waits.bounds.map(String),
    '+Inf',
  ]);
  const values = buckets.map(({ value }) => value);
  expect(values).toEqual([...values].sort((one, other) => one - other));
  expect(values.at(-1)).toBe(2);
  expect(points.get('stripelock.lock.wait.duration.sum')).toMatchObject([{ value: counted.waits.sum }]);
  end();
  held.release();
  // The SDK keeps the last number that it got.
  const ended = await reader.pointsOf('metered');
  expect(ended.get('stripelock.lock.held')).toMatchObject([{ value: 1 }]);
  expect(collect().find(({ name }) => name === 'metered')).toMatchObject({ held: 0 });
});

it('the SDK of OpenTelemetry reads the further numbers of leases', async () => {
  const { reader } = startMeter();
  const leases = new LeaseManager({ name: 'metered leases' });
  const lease = await leases.acquire('key');
  await leases.tryAcquire('key');
  await lease.renew();
  const points = await reader.pointsOf('metered leases');
  const values = LEASE_INSTRUMENTS.map(({ name, field }) => [field, points.get(name)![0]!.value]);
  expect(Object.fromEntries(values)).toEqual({
    ...{ acquired: 1, refused: 1, renewals: 1, failures: 0, losses: 0 },
  });
  expect(points.get('stripelock.lock.held')).toMatchObject([
    { attributes: { 'stripelock.lock.kind': 'lease' }, value: 1 },
  ]);
  await leases.close();
});

it('what is no meter is refused', () => {
  expect(thrownBy(() => observe({} as never))).toMatchObject({
    code: 'ERR_INVALID_ARG_TYPE',
    message: expect.stringContaining('meter.addBatchObservableCallback') as string,
  });
});
