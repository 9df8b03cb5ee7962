import { checkFunction } from '../common/checks.js';
import { collect, type Metrics } from './collect.js';
import { attributesOf, cumulative } from './exports.js';
import { instrumentsOf, WAIT_HISTOGRAM, type LockInstrument } from './instruments.js';

/** The part of an OpenTelemetry meter that {@link observe} uses. */
export interface OpenTelemetryMeter {
  /** Creates an asynchronous counter. */
  createObservableCounter(name: string, options?: { unit?: string; description?: string }): object;
  /** Creates an asynchronous gauge. */
  createObservableGauge(name: string, options?: { unit?: string; description?: string }): object;
  /** Calls the function at each collection. */
  addBatchObservableCallback(callback: (result: OpenTelemetryResult) => void, instruments: object[]): void;
  /** Stops calling the function. */
  removeBatchObservableCallback(callback: (result: OpenTelemetryResult) => void, instruments: object[]): void;
}

/** The part of an OpenTelemetry result that {@link observe} uses. */
export interface OpenTelemetryResult {
  /** Reports the value of an instrument. */
  observe(instrument: object, value: number, attributes?: Record<string, string>): void;
}

/**
 * Exports the counts of all locks and leases in all threads of the process through a meter of OpenTelemetry's
 * API, such as `metrics.getMeter(name)` returns. The meter calls `collect()` once for each collection. Call
 * `observe` in one thread; the other threads need no code. Returns a function that ends the export.
 *
 * OpenTelemetry has no observable histogram, so waits are exported as two counters.
 * `stripelock.lock.wait.duration.bucket` counts the waits of at most `le` seconds (an attribute).
 * `stripelock.lock.wait.duration.sum` is their total duration in seconds.
 *
 * Throws a TypeError (ERR_INVALID_ARG_TYPE) for an object that is not a meter, and a LockError (ERR_LOCK_ENGINE) without the
 * addon.
 */
export function observe(meter: OpenTelemetryMeter): () => void {
  const { addBatchObservableCallback } = meter as Partial<OpenTelemetryMeter>;
  checkFunction(addBatchObservableCallback, 'meter.addBatchObservableCallback');
  // Starts the measurement of waits.
  collect();
  const instruments = new Map(
    instrumentsOf('lease').map(({ name, kind, unit, description }) => {
      const options = { unit, description };
      const instrument =
        kind === 'counter'
          ? meter.createObservableCounter(name, options)
          : meter.createObservableGauge(name, options);
      return [name, instrument];
    }),
  );
  const { name, unit, description } = WAIT_HISTOGRAM;
  const buckets = meter.createObservableCounter(`${name}.bucket`, { unit: '{acquisition}', description });
  const sum = meter.createObservableCounter(`${name}.sum`, { unit, description });

  const report = (result: OpenTelemetryResult, metrics: Metrics): void => {
    const attributes = attributesOf(metrics);
    for (const { name, field } of instrumentsOf(metrics.kind))
      result.observe(instruments.get(name)!, metrics[field as LockInstrument['field']], attributes);
    for (const { le, count } of cumulative(metrics.waits))
      result.observe(buckets, count, { ...attributes, le: String(le) });
    result.observe(sum, metrics.waits.sum, attributes);
  };
  const callback = (result: OpenTelemetryResult): void => {
    for (const metrics of collect()) report(result, metrics);
  };
  const observed = [...instruments.values(), buckets, sum];
  meter.addBatchObservableCallback(callback, observed);
  return () => meter.removeBatchObservableCallback(callback, observed);
}
