import type { LeftOut, Site } from './collector.js';

/** The maximum number of sites in each part, and the length of a bar in characters. */
const LINES = 5;
const BAR = 20;
/** The maximum number of frames that are shown for each stack. */
const FRAMES = 2;

/** The input of a summary. */
export interface Summarized {
  readonly duration: number;
  readonly keys: Iterable<Site>;
  readonly waiting: Iterable<Site>;
  readonly releasing: Iterable<Site>;
  readonly leftOut: LeftOut;
}

/** A readable summary: the keys, the waiting calls and the releasing calls that cost the most time. */
export function summaryOf({ duration, keys, waiting, releasing, leftOut }: Summarized): string {
  const all = [...keys];
  const waits = all.reduce((sum, site) => sum + site.waits, 0);
  const waited = all.reduce((sum, site) => sum + site.waited, 0);
  const lines = [
    `Contention in ${time(duration)}: ${Math.round(waits)} waits took ${time(waited)}, all threads together.`,
  ];
  const part = (title: string, sites: Iterable<Site>, show: (site: Site) => string[]): void => {
    const sorted = [...sites].sort((a, b) => b.waited - a.waited);
    if (sorted.length === 0) return;
    lines.push('', title);
    for (const site of sorted.slice(0, LINES)) {
      const share = waited === 0 ? 0 : Math.min(1, site.waited / waited);
      const bar = '\u2588'.repeat(Math.round(share * BAR)).padEnd(BAR, '\u00b7');
      const percent = `${Math.round(100 * share)} %`.padStart(5);
      const [first = '(not captured)', ...rest] = show(site);
      const numbers = `${time(site.waited)} in ${Math.round(site.waits)} waits, longest ${time(site.longest)}`;
      lines.push(`  ${bar} ${percent}  ${first}`, ...rest.map((line) => `${' '.repeat(BAR + 10)}${line}`));
      lines.push(`${' '.repeat(BAR + 10)}${numbers}`);
    }
    if (sorted.length > LINES) lines.push(`  \u2026 and ${sorted.length - LINES} more`);
  };
  const named = ({ lock, key }: Site): string => `${lock} ${key}`.trimStart();
  const called = (site: Site): string[] =>
    site.frames.length === 0 ? [] : [...site.frames.slice(0, FRAMES), `(${named(site)})`];
  part('Keys that were waited for', all, (site) => [named(site)]);
  part('Calls that waited', waiting, called);
  part('Calls that released what was waited for', releasing, called);
  if (leftOut.records > 0) lines.push('', `Left out for lack of room: ${leftOut.records} records.`);
  return `${lines.join('\n')}\n`;
}

function time(milliseconds: number): string {
  if (milliseconds >= 1000) return `${(milliseconds / 1000).toFixed(2)} s`;
  return milliseconds >= 1 ? `${milliseconds.toFixed(1)} ms` : `${(milliseconds * 1000).toFixed(0)} \u00b5s`;
}
