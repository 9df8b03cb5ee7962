/** The metrics of all locks of the process for OpenTelemetry, by its API: copy this file. */
import { collect, LOCK_ATTRIBUTE, LOCK_INSTRUMENTS, WAIT_HISTOGRAM } from 'stripelock/metrics';

/**
 * Observes everything at each collection of the meter, which the API gives by `metrics.getMeter(name)`.
 *
 * The API has no histogram of what is counted already, so the waits are counters: how many took at most `le` seconds, as
 * Prometheus has them, and their sum.
 */
export function observeLocks(meter) {
  // From here on waits are measured.
  collect();
  const instruments = LOCK_INSTRUMENTS.map(({ name, kind, unit, description, field }) => {
    const options = { unit, description };
    const instrument =
      kind === 'counter'
        ? meter.createObservableCounter(name, options)
        : meter.createObservableGauge(name, options);
    return { instrument, field };
  });
  const { name, unit, description } = WAIT_HISTOGRAM;
  const buckets = meter.createObservableCounter(`${name}.bucket`, { unit: '{acquisition}', description });
  const sum = meter.createObservableCounter(`${name}.sum`, { unit, description });

  meter.addBatchObservableCallback(
    (result) => {
      for (const metrics of collect()) {
        const attributes = { [LOCK_ATTRIBUTE]: metrics.name };
        for (const { instrument, field } of instruments)
          result.observe(instrument, metrics[field], attributes);
        const { bounds, counts } = metrics.waits;
        let total = 0;
        counts.forEach((count, range) => {
          total += count;
          result.observe(buckets, total, { ...attributes, le: String(bounds[range] ?? '+Inf') });
        });
        result.observe(sum, metrics.waits.sum, attributes);
      }
    },
    [...instruments.map(({ instrument }) => instrument), buckets, sum],
  );
}
