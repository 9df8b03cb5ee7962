import { checkFunction } from '../common/checks.js';
import { queueMicrotask } from '../common/host.js';
import { collect, type Metrics } from './collect.js';
import { attributesOf, cumulative } from './exports.js';
import { instrumentsOf, WAIT_HISTOGRAM, type LockInstrument } from './instruments.js';

/** The part of a `Registry` of `prom-client` that {@link register} uses. */
export interface PromClientRegistry {
  /** Adds a metric. */
  registerMetric(metric: never): void;
  /** Removes a metric. */
  removeSingleMetric(name: string): void;
}

interface Value {
  /** The name of this value, if it differs from the metric's name. */
  readonly metricName?: string;
  readonly labels: Record<string, string | number>;
  readonly value: number;
}

/** A metric as a registry uses it. */
interface RegisteredMetric {
  /** A registry may change this name, depending on the registry's format. */
  name: string;
  readonly help: string;
  readonly type: 'counter' | 'gauge' | 'histogram';
  readonly aggregator: 'sum';
  get(): object;
  reset(): void;
}

/**
 * Exports the counts of all locks and leases in all threads of the process through a `Registry` of
 * `prom-client`. Each scrape calls `collect()` once. Call `register` in one thread; the other threads need no
 * code. Returns a function that removes the metrics.
 *
 * Throws a TypeError (ERR_INVALID_ARG_TYPE) for an object that is not a registry, a LockError
 * (ERR_LOCK_ENGINE) without the addon, and the registry's error if the registry already has these metrics.
 */
export function register(registry: PromClientRegistry): () => void {
  checkFunction((registry as Partial<PromClientRegistry>).registerMetric, 'registry.registerMetric');
  const all = metricsOf(latest());
  const registered: string[] = [];
  const remove = (): void => {
    for (const name of registered.splice(0)) registry.removeSingleMetric(name);
  };
  try {
    for (const metric of all) {
      registry.registerMetric(metric as never);
      registered.push(metric.name);
    }
  } catch (error) {
    remove();
    throw error;
  }
  return remove;
}

/**
 * Returns a function that calls `collect()` once for all metrics of a scrape. A registry reads all of its
 * metrics before the next microtask.
 */
function latest(): () => Metrics[] {
  // Starts the measurement of waits.
  collect();
  let collected: Metrics[] | undefined;
  return () => {
    if (collected === undefined) queueMicrotask(() => (collected = undefined));
    return (collected ??= collect());
  };
}

function metricsOf(current: () => Metrics[]): RegisteredMetric[] {
  const single = instrumentsOf('lease').map((instrument) => {
    const { name, kind, description } = instrument;
    const field = instrument.field as LockInstrument['field'];
    const valuesOf = (metrics: Metrics): Value[] =>
      instrumentsOf(metrics.kind).includes(instrument)
        ? [{ labels: labelsOf(metrics), value: metrics[field] }]
        : [];
    const suffix = kind === 'counter' ? '_total' : '';
    return metric(underscored(name) + suffix, description, kind, () => current().flatMap(valuesOf));
  });
  return [...single, histogram(current)];
}

/** Not a histogram of `prom-client`, which counts single values: the waits are already counted. */
function histogram(current: () => Metrics[]): RegisteredMetric {
  const name = `${underscored(WAIT_HISTOGRAM.name)}_seconds`;
  const valuesOf = (metrics: Metrics): Value[] => {
    const { waits } = metrics;
    const labels = labelsOf(metrics);
    return [
      ...cumulative(waits).map(({ le, count }) => ({
        metricName: `${name}_bucket`,
        labels: { le, ...labels },
        value: count,
      })),
      { metricName: `${name}_sum`, labels, value: waits.sum },
      { metricName: `${name}_count`, labels, value: waits.count },
    ];
  };
  return metric(name, WAIT_HISTOGRAM.description, 'histogram', () => current().flatMap(valuesOf));
}

function metric(
  name: string,
  help: string,
  type: RegisteredMetric['type'],
  values: () => Value[],
): RegisteredMetric {
  const shown = { help, type, aggregator: 'sum' } as const;
  return {
    name,
    ...shown,
    get() {
      return { name: this.name, ...shown, values: values() };
    },
    // Counts since the start of the process cannot be reset.
    reset: () => undefined,
  };
}

function labelsOf(metrics: Metrics): Record<string, string> {
  return Object.fromEntries(
    Object.entries(attributesOf(metrics)).map(([key, value]) => [underscored(key), value]),
  );
}

const underscored = (name: string): string => name.replaceAll('.', '_');
