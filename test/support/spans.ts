import { tracingChannel, type TracingChannelSubscribers } from 'node:diagnostics_channel';
import { onTestFinished } from 'vitest';
import type { AcquireMessage } from 'stripelock';

type Event = keyof TracingChannelSubscribers<AcquireMessage>;

/** The events of a traced call, and of a traced promise. */
export const CALL: readonly Event[] = ['start', 'end'];
export const FAILED_CALL: readonly Event[] = ['start', 'error', 'end'];
export const PROMISE: readonly Event[] = ['start', 'end', 'asyncStart', 'asyncEnd'];
export const FAILED_PROMISE: readonly Event[] = ['start', 'end', 'error', 'asyncStart', 'asyncEnd'];

/**
 * A subscriber as Node's documentation of tracing channels describes it: the events of each acquisition, from now to the
 * end of the test.
 */
export function listenToSpans(): Map<AcquireMessage, Event[]> {
  const spans = new Map<AcquireMessage, Event[]>();
  const add = (event: Event) => (message: AcquireMessage) => {
    const events = spans.get(message);
    if (events === undefined) spans.set(message, [event]);
    else events.push(event);
  };
  const channel = tracingChannel<string, AcquireMessage>('stripelock:acquire');
  const subscribers = {
    start: add('start'),
    end: add('end'),
    asyncStart: add('asyncStart'),
    asyncEnd: add('asyncEnd'),
    error: add('error'),
  };
  channel.subscribe(subscribers);
  onTestFinished(() => {
    channel.unsubscribe(subscribers);
  });
  return spans;
}
