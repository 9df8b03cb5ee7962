/** The metrics of all locks of the process for Prometheus, by prom-client: copy this file. */
import { Counter, Gauge } from 'prom-client';
import { collect, LOCK_ATTRIBUTE, LOCK_INSTRUMENTS, WAIT_HISTOGRAM } from 'stripelock/metrics';

const underscored = (name) => name.replaceAll('.', '_');
const LABEL = underscored(LOCK_ATTRIBUTE);

/** Registers everything. A scrape of the register gets the counts of all threads so far. */
export function exportLocks(register) {
  // From here on waits are measured.
  collect();
  const registers = [register];
  for (const { name, kind, description, field } of LOCK_INSTRUMENTS) {
    const Metric = kind === 'counter' ? Counter : Gauge;
    new Metric({
      registers,
      name: underscored(name) + (kind === 'counter' ? '_total' : ''),
      help: description,
      labelNames: [LABEL],
      // The counts are those since the start of the process, not since the last scrape.
      collect() {
        this.reset();
        for (const metrics of collect()) this.inc({ [LABEL]: metrics.name }, metrics[field]);
      },
    });
  }
  register.registerMetric(waitHistogram());
}

/** As prom-client's registers want metrics; its own histogram counts single values, and these are counted already. */
function waitHistogram() {
  const { name: dotted, description: help } = WAIT_HISTOGRAM;
  const name = `${underscored(dotted)}_seconds`;
  const values = () =>
    collect().flatMap(({ name: lock, waits }) => {
      const valueOf = (suffix, value, labels) => ({
        metricName: name + suffix,
        labels: { ...labels, [LABEL]: lock },
        value,
      });
      let total = 0;
      const buckets = waits.counts.map((count, range) => {
        total += count;
        return valueOf('_bucket', total, { le: waits.bounds[range] ?? '+Inf' });
      });
      return [...buckets, valueOf('_sum', waits.sum), valueOf('_count', waits.count)];
    });
  const metric = { name, help, type: 'histogram', aggregator: 'sum' };
  return { ...metric, get: () => ({ ...metric, values: values() }), reset: () => undefined };
}
