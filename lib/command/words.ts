import type { ProcessHolder } from '../process/process-lock.js';

/** Prints a message to stderr, which leaves the command's stdout unchanged. */
export function say(text: string): void {
  process.stderr.write(`stripelock: ${text}\n`);
}

/** Makes the command the title of this process, because other processes wait for it. The title replaces the arguments. */
export function showCommand(command: readonly string[]): void {
  process.title = ['stripelock', 'run', '--', ...command].join(' ');
}

/** Removes control characters that a terminal would interpret, because other processes wrote the text. */
export function printable(text: string): string {
  // eslint-disable-next-line no-control-regex
  return text.replace(/[\u0000-\u001f\u007f-\u009f]/g, '?');
}

/** A key in messages. */
export const quoted = (key: string): string => printable(JSON.stringify(key));

/** The name of a key of a file in messages. */
export const nameOf = (path: string, key: string): string => (key === '' ? printable(path) : quoted(key));

/** For example "pid 4711 (make build)". */
export function processText({ pid, title }: ProcessHolder): string {
  return title === '' ? `pid ${pid}` : `pid ${pid} (${printable(title)})`;
}

/** For example "12:00:03", in local time, with the date unless it is today. */
export function timeText(milliseconds: number, now = Date.now()): string {
  const pad = (number: number): string => String(number).padStart(2, '0');
  const at = new Date(milliseconds);
  const date = `${at.getFullYear()}-${pad(at.getMonth() + 1)}-${pad(at.getDate())}`;
  const time = [at.getHours(), at.getMinutes(), at.getSeconds()].map(pad).join(':');
  return at.toDateString() === new Date(now).toDateString() ? time : `${date} ${time}`;
}

/** For example "2.1 s". */
export const secondsText = (milliseconds: number): string => `${(milliseconds / 1000).toFixed(1)} s`;
