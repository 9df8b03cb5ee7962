/** Turns the statistics of locks into Prometheus metrics. */
import diagnostics_channel from 'node:diagnostics_channel';
import { Counter, Gauge, Histogram } from 'prom-client';

const CHANNELS = ['wait', 'timeout', 'deadlock', 'abandoned', 'lease:failed'].map(
  (name) => `stripelock:${name}`,
);

/** `lock.stats()` covers all threads, so one thread exports it, at the time of a scrape. */
export function exportStats(register, locks) {
  const collector = (field) =>
    function collect() {
      this.reset();
      for (const lock of locks) this.inc({ lock: lock.name }, lock.stats()[field]);
    };
  const common = { registers: [register], labelNames: ['lock'] };
  for (const [field, help] of [
    ['held', 'Stripes held now.'],
    ['waiting', 'Acquisitions waiting now.'],
  ]) {
    new Gauge({ ...common, name: `stripelock_${field}`, help, collect: collector(field) });
  }
  for (const [field, help] of [
    ['contended', 'Acquisitions that had to wait.'],
    ['timeouts', 'Acquisitions that ran out of time.'],
    ['aborts', 'Acquisitions that were aborted.'],
    ['deadlocks', 'Acquisitions that were refused, as waiting could never have ended.'],
    ['abandoned', 'Stripes freed for threads that ended while they held them.'],
  ]) {
    new Counter({ ...common, name: `stripelock_${field}_total`, help, collect: collector(field) });
  }
}

/**
 * Channels publish on the thread that acquires. In a worker: passes all messages on to the thread that has the
 * register.
 */
export function forwardEvents(port) {
  // Not the error of a lease store, which may not be cloneable.
  listen((channel, message) => port.postMessage({ channel, message: { ...message, error: undefined } }));
}

/**
 * Counts and measures messages published in this thread. The returned function does the same for messages from other
 * threads.
 */
export function exportEvents(register) {
  const registers = [register];
  const waits = new Histogram({
    name: 'stripelock_wait_seconds',
    help: 'How long acquisitions waited that could not be had at once.',
    labelNames: ['lock', 'kind', 'mode', 'outcome'],
    buckets: [0.0001, 0.001, 0.01, 0.1, 1, 10],
    registers,
  });
  const held = new Counter({
    name: 'stripelock_timeouts_by_holder_total',
    help: 'Acquisitions that ran out of time, by a thread that held what they waited for.',
    labelNames: ['lock', 'holder'],
    registers,
  });
  const refused = new Histogram({
    name: 'stripelock_deadlock_threads',
    help: 'How many threads would have waited for each other.',
    labelNames: ['lock'],
    buckets: [1, 2, 4, 8],
    registers,
  });
  const told = new Counter({
    name: 'stripelock_abandoned_grants_total',
    help: 'Grants of stripes whose earlier holder died: what they protect may be half-written.',
    labelNames: ['lock', 'mode'],
    registers,
  });
  const failures = new Counter({
    name: 'stripelock_lease_failures_total',
    help: 'Operations of a lease store that failed: leases are lost, or not had, if this goes on.',
    labelNames: ['operation'],
    registers,
  });
  const observers = {
    'stripelock:wait': ({ lock, kind, mode, outcome, waited }) =>
      waits.observe({ lock, kind, mode, outcome }, waited / 1000),
    'stripelock:timeout': ({ lock, holders }) => {
      for (const holder of holders) held.inc({ lock, holder: String(holder) });
    },
    'stripelock:deadlock': ({ lock, threads }) => refused.observe({ lock }, threads.length),
    'stripelock:abandoned': ({ lock, mode }) => told.inc({ lock, mode }),
    'stripelock:lease:failed': ({ operation }) => failures.inc({ operation }),
  };
  const observe = (channel, message) => observers[channel](message);
  listen(observe);
  return observe;
}

function listen(hear) {
  for (const channel of CHANNELS) diagnostics_channel.subscribe(channel, (message) => hear(channel, message));
}
