// The native lock while somebody looks at it, each in one way.

import { tracingChannel } from 'node:diagnostics_channel';
import { loadMetrics, loadProfile, StripedLock } from '../support/package.mjs';
import { openLock, stripelock, TIMEOUT } from './stripelock.mjs';

const native = stripelock('native');
const IGNORE = () => undefined;

/**
 * @param {string} how
 * @param {Partial<import('./index.mjs').Subject>} differences
 * @returns {import('./index.mjs').Subject}
 */
const observed = (how, differences) => ({ ...native, name: `${native.name}, ${how}`, ...differences });

export const withSpans = observed('spans', {
  open: (handle) => {
    // Subscribers are those of a thread.
    tracingChannel('stripelock:acquire').subscribe({
      start: IGNORE,
      end: IGNORE,
      asyncStart: IGNORE,
      asyncEnd: IGNORE,
      error: IGNORE,
    });
    return native.open(handle);
  },
});

/** @type {Promise<unknown> | undefined} */
let profiler;

export const withProfile = observed('profiled', {
  limit: () => (loadProfile === undefined ? 'has no profiles' : undefined),
  create: (settings) => {
    // It has begun when this returns, and ends with the process.
    profiler ??= loadProfile?.().profileContention();
    return native.create(settings);
  },
});

export const withMetrics = observed('measured', {
  limit: () => (loadMetrics === undefined ? 'has no metrics' : undefined),
  create: (settings) => {
    loadMetrics?.().collect();
    return native.create(settings);
  },
});

export const withTrace = observed('traced', {
  create: ({ stripes }) =>
    new StripedLock({ engine: 'native', stripes, timeout: TIMEOUT, trace: true }).handle,
});

/** What a program pays that asks for the state of a key instead of acquiring it. */
export const stateOf = observed('stateOf', {
  can: ['try'],
  open: (handle) => {
    const lock = StripedLock.from(handle);
    return { ...openLock(lock), tryAcquire: (key) => lock.stateOf(key), release: IGNORE };
  },
});

/** All of them, and the lock itself. */
export const observedSubjects = [native, withSpans, withMetrics, withProfile, withTrace];
