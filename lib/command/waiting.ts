import { clearTimeout, setTimeout } from '../common/host.js';
import { say } from './words.js';

/** Milliseconds until the first report. A shorter wait is not reported. */
const FIRST_REPORT = 300;

/**
 * Reports the holders for which the command waits, and reports them again if they change. `holders` returns
 * an empty text if no holder is known. The returned function stops the reports.
 */
export function reportHolders(
  name: string,
  interval: number,
  holders: () => string | Promise<string>,
): () => void {
  let reported = '';
  let isStopped = false;
  const report = async (): Promise<void> => {
    const text = await holders();
    if (isStopped) return;
    if (text !== '' && text !== reported) say(`waits for ${name}: ${text}`);
    if (text !== '') reported = text;
    timer = setTimeout(() => void report(), interval);
  };
  let timer = setTimeout(() => void report(), FIRST_REPORT);
  return () => {
    isStopped = true;
    clearTimeout(timer);
  };
}
