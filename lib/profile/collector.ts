import type {
  ContentionRecord,
  HoldingProcess,
  ReleaseRecord,
  WaitRecord,
} from '../engine/contract/contention.js';

export type { HoldingProcess };

/**
 * A release of the key during a wait. The release ends a part of the wait. That part began at the previous
 * release, or at the start of the wait.
 */
export interface ContentionRelease {
  /** The id of the thread that released the key. */
  readonly threadId: number;
  /** The time of the release, in milliseconds since the profile began. */
  readonly at: number;
  /** The length of this part of the wait, in milliseconds. It is the holder's share of the wait. */
  readonly share: number;
  /** The stack of the release, innermost frame first, without frames of this package. */
  readonly frames: readonly string[];
}

/** A wait that was recorded. */
export interface ContentionWait {
  /** The lock's name. */
  readonly lock: string;
  /**
   * The key that was waited for, in the form that errors show: text in quotes, bytes as
   * hexadecimal digits. A long key is cut.
   */
  readonly key: string;
  /** The mode of the acquisition. */
  readonly mode: string;
  /** Whether the acquisition blocked its thread, or waited on the event loop. */
  readonly kind: 'sync' | 'async';
  /**
   * How the wait ended. `aborted`: by its signal, or because its `ProcessLock` or `LeaseManager` was closed.
   * `failed`: the file of its `ProcessLock` can no longer be used, or its store failed with an error that a
   * retry cannot correct.
   */
  readonly outcome: 'granted' | 'timeout' | 'deadlock' | 'aborted' | 'failed';
  /** The id of the thread that waited. */
  readonly threadId: number;
  /**
   * The start of the wait, in milliseconds since the profile began. Negative if the wait
   * began earlier than the profile.
   */
  readonly from: number;
  /** The duration of the wait, in milliseconds. */
  readonly waited: number;
  /**
   * The number of waits that this wait represents, at least 1. Only some of the short waits are recorded, so
   * each recorded short wait represents several waits.
   */
  readonly weight: number;
  /**
   * The stack of the acquisition, innermost frame first, without frames of this package. If thousands of
   * acquisitions wait on event loops at once, the stack is empty for some of them: for each lock, and for all
   * leases together, a thread captures at most ten stacks per millisecond.
   */
  readonly frames: readonly string[];
  /**
   * The releases of the key during the wait, in order. If the acquisition was granted, the last release ended
   * the wait. Holders that did not release the key are missing.
   */
  readonly releases: readonly ContentionRelease[];
  /**
   * If the acquisition was not granted: the ids of the threads that held its stripe at the
   * end of the wait, as far as known. For a lease: the waiting thread, if its `LeaseManager` held the key.
   */
  readonly holders: readonly number[];
  /**
   * If a lease was not granted: the names of the owners that held its key at the end of the wait, as far as
   * they are known without a request to a server. These are owners of the same `LeaseManager`, and for a store
   * in memory all owners. Empty for locks.
   */
  readonly owners: readonly string[];
  /**
   * For a `ProcessLock`: the other processes that held the key when the wait began. Empty for other locks, for
   * leases, and if the stack was not captured.
   */
  readonly processes: readonly HoldingProcess[];
}

/** The sums over all similar waits. They are estimates that include waits that were not recorded. */
export interface Site {
  readonly lock: string;
  /** A key, or the common part of similar keys: see {@link classOf}. */
  readonly key: string;
  readonly frames: readonly string[];
  waits: number;
  /** The total duration of the waits, in milliseconds. */
  waited: number;
  longest: number;
}

/** Numbers of records and waits that were dropped because a limit was reached. */
export interface LeftOut {
  /**
   * Records that were not fetched in time, and records of locks, keys and call sites
   * beyond the maximum number of these.
   */
  records: number;
  /** Waits that are included in all sums, but not in the list of single waits. */
  waits: number;
}

/** The maximum number of single waits that are kept, and of sites of each kind. */
const MOST_WAITS = 10_000;
const MOST_SITES = 4096;
/**
 * A wait stays pending for this many milliseconds after its end. In this time, all of its releases should be
 * recorded. `MOST_PENDING` is the maximum number of pending waits.
 */
const COMPLETE = 5000;
const MOST_PENDING = 10_000;
/** The maximum number of releases that are remembered for pending waits. */
const MOST_RELEASES = 20_000;
const UUID = /[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}/gi;
const DIGITS = /[0-9a-f]*[0-9][0-9a-f]{7,}|[0-9]+/gi;

/** Combines the records of all threads. Its memory is bounded, however long a profile is taken. */
export class Collector {
  /** The start of the profile, on the clock of the records. */
  readonly #began: number;
  readonly leftOut: LeftOut = { records: 0, waits: 0 };
  /** The recorded waits, or a random sample of them (Vitter's algorithm R, 1985). */
  readonly waits: ContentionWait[] = [];
  #seen = 0;
  /** Three sums over all waits: by lock and key, by the call that waited, and by the call that released. */
  readonly keys = new Map<string, Site>();
  readonly waiting = new Map<string, Site>();
  readonly releasing = new Map<string, Site>();
  /** The remembered releases, by lock and stripe, ordered by time. */
  readonly #releases = new Map<string, ReleaseRecord[]>();
  /**
   * A ring buffer of the remembered releases, in the order in which they were fetched, beginning at
   * `#oldest`. Each element is the key under which the release is in `#releases`.
   */
  readonly #places: string[] = [];
  #oldest = 0;
  /** The stacks by their text. Equal stacks share one array. */
  readonly #frames = new Map<string, readonly string[]>();
  /**
   * The waits that are not counted yet, in the order in which they were fetched. Some of their releases
   * may not have been fetched yet.
   */
  #pending: WaitRecord[] = [];
  #newest = 0;

  constructor(began: number) {
    this.#began = began;
  }

  /**
   * Adds fetched records. A wait is counted some seconds later, because a busy thread may
   * record the wait's release that late.
   */
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

  /**
   * A copy in which all waits that were added are counted. In this collector, the pending waits stay pending,
   * because some of their releases may be added later.
   */
  finished(): Collector {
    const copy = new Collector(this.#began);
    Object.assign(copy.leftOut, this.leftOut);
    copy.#seen = this.#seen;
    for (const wait of this.waits) copy.waits.push(wait);
    copySites(this.keys, copy.keys);
    copySites(this.waiting, copy.waiting);
    copySites(this.releasing, copy.releasing);
    for (const [place, releases] of this.#releases) copy.#releases.set(place, releases);
    for (const wait of this.#pending) copy.#addWait(wait);
    return copy;
  }

  #count(waits: number): void {
    for (const wait of this.#pending.splice(0, waits)) this.#addWait(wait);
  }

  #remember(release: ReleaseRecord): void {
    const place = `${release.id} ${release.stripe}`;
    const known = this.#releases.get(place) ?? [];
    this.#releases.set(place, known);
    known.push({ ...release, frames: this.#oneOf(release.frames) });
    // Moves the release to its place by time. It is usually near the end, because each thread
    // records its releases in order.
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
    // The last release decided at random whether the wait is recorded. The probability depended on the
    // duration of the wait at that time. For a lease, it depended on the duration of the whole wait.
    const isLease = record.owners !== undefined;
    const lasted = since > from && !isLease ? since - from : to - from;
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
      owners: record.owners ?? [],
      processes: record.processes ?? [],
    });
  }

  /**
   * Adds waits to a site. `times`: the factor by which `waited` is multiplied. Returns false if the
   * maximum number of sites is reached.
   */
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

function copySites(from: ReadonlyMap<string, Site>, to: Map<string, Site>): void {
  for (const [name, site] of from) to.set(name, { ...site });
}

/** The common part of similar keys. In a text, numbers and long words of hexadecimal digits are replaced. */
export function classOf(key: string): string {
  if (key.startsWith('"')) return key.replaceAll(UUID, '*').replaceAll(DIGITS, '*');
  return key.startsWith('<') ? '<bytes>' : '<integer>';
}
