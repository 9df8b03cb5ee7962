import { subscribe, unsubscribe } from 'node:diagnostics_channel';
import { onTestFinished } from 'vitest';

export const CHANNELS = ['wait', 'timeout', 'deadlock', 'abandoned'] as const;
type Channel = (typeof CHANNELS)[number];
type Message = Record<string, unknown>;

/** The messages of some channels from now to the end of the test, of all locks of this thread. */
export function listen(...names: Channel[]): [Channel, Message][] {
  const heard: [Channel, Message][] = [];
  for (const name of names) {
    const hear = (message: unknown): void => void heard.push([name, message as Message]);
    subscribe(`stripelock:${name}`, hear);
    onTestFinished(() => void unsubscribe(`stripelock:${name}`, hear));
  }
  return heard;
}

/** The messages of one channel from now to the end of the test, of this thread. */
export function messagesOf<T>(name: string): T[] {
  const heard: T[] = [];
  const hear = (message: unknown): void => void heard.push(message as T);
  subscribe(name, hear);
  onTestFinished(() => void unsubscribe(name, hear));
  return heard;
}
