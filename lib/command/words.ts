import type { ProcessHolder } from '../process/process-lock.js';

/** Says something to whoever runs the command. The output of the command itself is not touched. */
export function say(text: string): void {
  process.stderr.write(`stripelock: ${text}\n`);
}

/** Without what a terminal would obey: other processes wrote it. */
export function printable(text: string): string {
  // eslint-disable-next-line no-control-regex
  return text.replace(/[\u0000-\u001f\u007f-\u009f]/g, '?');
}

/** A key of a file, as messages name it. */
export const nameOf = (path: string, key: string): string =>
  printable(key === '' ? path : JSON.stringify(key));

/** "pid 4711 (make build)" */
export function processText({ pid, title }: ProcessHolder): string {
  return title === '' ? `pid ${pid}` : `pid ${pid} (${printable(title)})`;
}

/** "12:00:03", of the local day, with the date if that is another one. */
export function timeText(milliseconds: number, now = Date.now()): string {
  const pad = (number: number): string => String(number).padStart(2, '0');
  const at = new Date(milliseconds);
  const date = `${at.getFullYear()}-${pad(at.getMonth() + 1)}-${pad(at.getDate())}`;
  const time = [at.getHours(), at.getMinutes(), at.getSeconds()].map(pad).join(':');
  return at.toDateString() === new Date(now).toDateString() ? time : `${date} ${time}`;
}

/** "2.1 s" */
export const secondsText = (milliseconds: number): string => `${(milliseconds / 1000).toFixed(1)} s`;
