import type { ProcessHolder } from '../process/process-lock.js';

/** Prints a message to stderr, which leaves the command's stdout unchanged. */
export function say(text: string): void {
  process.stderr.write(`stripelock: ${text}\n`);
}

/**
 * Sets the title of this process to the command, so that waiting processes can show it. The title replaces
 * the arguments in the process list.
 */
export function showCommand(command: readonly string[]): void {
  process.title = ['stripelock', 'run', '--', ...command].join(' ');
}

/**
 * Replaces control characters, which a terminal would interpret. Texts from other processes may contain them.
 */
export function printable(text: string): string {
  // eslint-disable-next-line no-control-regex
  return text.replace(/[\u0000-\u001f\u007f-\u009f]/g, '?');
}

/** The form of a key in messages. */
export const quoted = (key: string): string => printable(JSON.stringify(key));

/** The name in messages for a key of a lock file. It is the file's path if the key is empty. */
export const nameOf = (path: string, key: string): string => (key === '' ? printable(path) : quoted(key));

/** Describes a process, for example "pid 4711 (make build)". */
export function processText({ pid, title }: ProcessHolder): string {
  return title === '' ? `pid ${pid}` : `pid ${pid} (${printable(title)})`;
}

/** Formats a time, for example "12:00:03", in local time. Adds the date unless it is today. */
export function timeText(milliseconds: number, now = Date.now()): string {
  const pad = (number: number): string => String(number).padStart(2, '0');
  const at = new Date(milliseconds);
  const date = `${at.getFullYear()}-${pad(at.getMonth() + 1)}-${pad(at.getDate())}`;
  const time = [at.getHours(), at.getMinutes(), at.getSeconds()].map(pad).join(':');
  return at.toDateString() === new Date(now).toDateString() ? time : `${date} ${time}`;
}

/** Formats a duration, for example "2.1 s". */
export const secondsText = (milliseconds: number): string => `${(milliseconds / 1000).toFixed(1)} s`;
