import type { ContentionRecord, ReleaseRecord, WaitRecord } from '../engine/contract/contention.js';

/** A part of a wait: from the release before, or from its beginning, to the release by this call. */
export interface ContentionRelease {
  /** The id of the thread that released. */
  readonly threadId: number;
  /** When, in milliseconds since the profile began. */
  readonly at: number;
  /** How long the wait had lasted since the release before, in milliseconds: the holder's share of it. */
  readonly share: number;
  /** The stack of the release, the nearest frame first, without frames of this package. */
  readonly frames: readonly string[];
}

/** One wait that was recorded. */
export interface ContentionWait {
  /** The lock's name. */
  readonly lock: string;
  /** The key that was waited for, as errors show it: text in quotes, bytes as hexadecimal digits, and cut if it is long. */
  readonly key: string;
  /** The mode of the acquisition. */
  readonly mode: string;
  /** Whether it blocked its thread, or waited on the event loop. */
  readonly kind: 'sync' | 'async';
  /** How it ended. `aborted`: by its signal. `interrupted`: as its thread was being ended. */
  readonly outcome: 'granted' | 'timeout' | 'deadlock' | 'aborted' | 'interrupted' | 'failed';
  /** The id of the thread that waited. */
  readonly threadId: number;
  /** When it began, in milliseconds since the profile began; negative if that was earlier. */
  readonly from: number;
  /** Milliseconds. */
  readonly waited: number;
  /** How many waits it stands for, as only some of the short ones are recorded: at least 1. */
  readonly weight: number;
  /**
   * The stack of the acquisition, the nearest frame first, without frames of this package. Empty for some acquisitions if
   * thousands wait on event loops at once: a thread captures at most ten stacks in a millisecond.
   */
  readonly frames: readonly string[];
  /** The releases of its key during the wait, in order. The last one ended the wait. Holders that did not release are missing. */
  readonly releases: readonly ContentionRelease[];
  /** If it was not granted: the ids of the threads that held its stripe then, as far as known. */
  readonly holders: readonly number[];
}

/** Waits of one kind together: an estimate for all, recorded or not. */
export interface Site {
  readonly lock: string;
  /** A key, or what keys of one kind have in common. */
  readonly key: string;
  readonly frames: readonly string[];
  waits: number;
  /** Milliseconds. */
  waited: number;
  longest: number;
}

/** Numbers of records and waits that were dropped because a limit was reached. */
export interface LeftOut {
  /** Records that were not fetched in time, and records of further locks, keys and call sites beyond the limit. */
  records: number;
  /** Waits that count in all sums, and are not in the list of single waits. */
  waits: number;
}

/** Most single waits that are kept, and most sites of each kind. */
const MOST_WAITS = 10_000;
const MOST_SITES = 4096;
/** Milliseconds after the end of a wait until all its releases are recorded; and the maximum number of waits kept until then. */
const COMPLETE = 5000;
const MOST_PENDING = 10_000;
/** How many releases are remembered for them. */
const MOST_RELEASES = 20_000;
const UUID = /[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}/gi;
const DIGITS = /[0-9a-f]*[0-9][0-9a-f]{7,}|[0-9]+/gi;

/** Puts together what the threads have recorded. Its memory is bounded, however long a profile is taken. */
export class Collector {
  /** When it began, on the clock of the records. */
  readonly #began: number;
  readonly leftOut: LeftOut = { records: 0, waits: 0 };
  /** A random selection (Vitter's algorithm R, 1985). */
  readonly waits: ContentionWait[] = [];
  #seen = 0;
  /** By lock and key; by the call that waited; and by the call that released. */
  readonly keys = new Map<string, Site>();
  readonly waiting = new Map<string, Site>();
  readonly releasing = new Map<string, Site>();
  /** By lock and stripe, in order. */
  readonly #releases = new Map<string, ReleaseRecord[]>();
  /** The places of the last releases, in the order in which they were fetched, from `#oldest` on. */
  readonly #places: string[] = [];
  #oldest = 0;
  /** Equal stacks are one object. */
  readonly #frames = new Map<string, readonly string[]>();
  /** In the order in which they were fetched. The releases of the last ones may not have been. */
  #pending: WaitRecord[] = [];
  #newest = 0;

  constructor(began: number) {
    this.#began = began;
  }

  /** A wait counts some seconds later, because a busy thread may record its release that late. */
  add(records: readonly ContentionRecord[], leftOut: number): void {
    this.leftOut.records += leftOut;
    for (const record of records) {
      this.#newest = Math.max(this.#newest, record.event === 'wait' ? record.to : record.at);
      if (record.event === 'wait') this.#pending.push(record);
      else this.#remember(record);
    }
    const complete = this.#pending.findIndex(({ to }) => to > this.#newest - COMPLETE);
    const tooMany = this.#pending.length - MOST_PENDING;
    this.#count(Math.max(complete < 0 ? this.#pending.length : complete, tooMany));
  }

  /** All that was added counts now. */
  finish(): void {
    this.#count(this.#pending.length);
  }

  #count(waits: number): void {
    for (const wait of this.#pending.splice(0, waits)) this.#addWait(wait);
  }

  #remember(release: ReleaseRecord): void {
    const place = `${release.id} ${release.stripe}`;
    const known = this.#releases.get(place) ?? [];
    this.#releases.set(place, known);
    known.push({ ...release, frames: this.#oneOf(release.frames) });
    // Almost in order: each thread records its releases in order.
    for (let i = known.length - 1; i > 0 && known[i]!.at < known[i - 1]!.at; i--)
      [known[i - 1], known[i]] = [known[i]!, known[i - 1]!];
    const last = this.#places[this.#oldest];
    this.#places[this.#oldest] = place;
    this.#oldest = (this.#oldest + 1) % MOST_RELEASES;
    if (last === undefined) return;
    const shortened = this.#releases.get(last)!;
    shortened.shift();
    if (shortened.length === 0) this.#releases.delete(last);
  }

  #oneOf(frames: readonly string[]): readonly string[] {
    const text = frames.join('\n');
    const known = this.#frames.get(text);
    if (known !== undefined) return known;
    if (this.#frames.size < MOST_SITES) this.#frames.set(text, frames);
    return frames;
  }

  #addWait(record: WaitRecord): void {
    const { id, stripe, from, to, lock, key } = record;
    const frames = this.#oneOf(record.frames);
    const releases: ContentionRelease[] = [];
    let since = from;
    for (const { at, thread, frames: of } of this.#releases.get(`${id} ${stripe}`) ?? []) {
      if (at <= since || at > to) continue;
      releases.push({ threadId: thread, at: at - this.#began, share: at - since, frames: of });
      since = at;
    }
    // The release drew by the duration of the wait at that time.
    const lasted = since > from ? since - from : to - from;
    const weight = Math.max(1, record.every / lasted);
    const waited = to - from;
    const kind = classOf(key);
    const added =
      this.#addTo(this.keys, lock, key, [], weight, waited) &&
      this.#addTo(this.waiting, lock, kind, frames, weight, waited);
    if (!added) this.leftOut.records++;
    for (const { share, frames: of } of releases)
      this.#addTo(this.releasing, lock, kind, of, weight / releases.length, share, weight);
    this.#keep({
      lock,
      key,
      mode: record.mode,
      kind: record.kind,
      outcome: record.outcome,
      threadId: record.thread,
      from: from - this.#began,
      waited,
      weight,
      frames,
      releases,
      holders: record.holders,
    });
  }

  /** `times`: how often `waited` counts. */
  #addTo(
    sites: Map<string, Site>,
    lock: string,
    key: string,
    frames: readonly string[],
    waits: number,
    waited: number,
    times = waits,
  ): boolean {
    const name = [lock, key, ...frames].join('\n');
    let site = sites.get(name);
    if (site === undefined) {
      if (sites.size === MOST_SITES) return false;
      site = { lock, key, frames, waits: 0, waited: 0, longest: 0 };
      sites.set(name, site);
    }
    site.waits += waits;
    site.waited += waited * times;
    site.longest = Math.max(site.longest, waited);
    return true;
  }

  #keep(wait: ContentionWait): void {
    this.#seen++;
    if (this.waits.length < MOST_WAITS) {
      this.waits.push(wait);
      return;
    }
    this.leftOut.waits++;
    const at = Math.floor(Math.random() * this.#seen);
    if (at < MOST_WAITS) this.waits[at] = wait;
  }
}

/** The common part of similar keys: a text without its numbers and its long words of hexadecimal digits. */
export function classOf(key: string): string {
  if (key.startsWith('"')) return key.replaceAll(UUID, '*').replaceAll(DIGITS, '*');
  return key.startsWith('<') ? '<bytes>' : '<integer>';
}
