import type { ContentionRelease, ContentionWait } from './collector.js';

/** An event of the Trace Event Format, with the fields that are used here. Times are microseconds. */
export interface TraceEvent {
  /** The label. */
  readonly name: string;
  /** The kind: a slice, the start or the end of an arrow, or the name of a track. */
  readonly ph: 'X' | 's' | 'f' | 'M';
  /** The id of the process. */
  readonly pid: number;
  /** The track: the thread's id times 1000, plus the index of the track within the thread. */
  readonly tid: number;
  /** The start, relative to the start of the profile. */
  readonly ts?: number;
  /** The duration of a slice. */
  readonly dur?: number;
  /** Always `stripelock`. */
  readonly cat?: string;
  /** An id that both ends of an arrow share. */
  readonly id?: number;
  /** Attaches the arrow's end to the slice around it. */
  readonly bp?: 'e';
  /** Details, by name. */
  readonly args?: Readonly<Record<string, unknown>>;
}

/** The contents of a file in the Trace Event Format. */
export interface TraceFile {
  /** The events, in no particular order. */
  readonly traceEvents: readonly TraceEvent[];
  /** The unit in which viewers show times. */
  readonly displayTimeUnit: 'ms';
}

const CATEGORY = 'stripelock';
const MICROSECONDS = 1000;
/** The id of a thread's first track is the thread's id times this number. */
const TRACKS = 1000;

/** An activity of a thread. Times are milliseconds. */
interface Slice {
  readonly threadId: number;
  from: number;
  readonly to: number;
  readonly name: string;
  readonly args: Readonly<Record<string, unknown>>;
  tid: number;
}

interface Hold extends Slice {
  readonly release: ContentionRelease;
}

/**
 * Converts waits to slices for Perfetto and other viewers of the Trace Event Format
 * (https://docs.google.com/document/d/1CvAClvFfyA5R-PhYUmn5OOQtYMH4h6I0nSsKchNAySU). There is a slice for
 * each wait, and for each hold that caused a wait. An arrow leads from a release to the wait that it ended.
 *
 * Each thread has a track, and further tracks for simultaneous activities. The start of a hold is not
 * recorded, so the slice of a hold covers only the time during which other threads waited for it.
 */
export function traceOf(waits: readonly ContentionWait[], pid: number): TraceFile {
  const holds = new Map<string, Hold>();
  const slices: Slice[] = [];
  const ends: { wait: Slice; hold: Hold }[] = [];
  for (const wait of waits) {
    const name = `${wait.lock} ${wait.key}`.trimStart();
    const { from, waited, threadId, frames, mode, kind, outcome } = wait;
    const others = wait.processes.length === 0 ? {} : { processes: wait.processes };
    const args = { lock: wait.lock, key: wait.key, mode, kind, outcome, ...others, stack: frames };
    const slice = { threadId, from, to: from + waited, name: `wait ${name}`, args, tid: 0 };
    slices.push(slice);
    let hold: Hold | undefined;
    for (const release of wait.releases) hold = holdOf(holds, name, wait, release);
    if (hold !== undefined && outcome === 'granted') ends.push({ wait: slice, hold });
  }
  startAfterOwnWaits(holds.values(), slices);
  slices.push(...holds.values());
  const tracks = spread(slices);
  const begin = Math.min(0, ...[...tracks.values()].map(({ from }) => from));
  const time = (milliseconds: number): number => (milliseconds - begin) * MICROSECONDS;

  return {
    displayTimeUnit: 'ms',
    traceEvents: [
      { name: 'process_name', ph: 'M', pid, tid: 0, args: { name: 'stripelock' } },
      ...[...tracks].map(([tid, { name }]): TraceEvent => ({
        name: 'thread_name',
        ph: 'M',
        pid,
        tid,
        args: { name },
      })),
      ...slices.map(({ name, tid, from, to, args }): TraceEvent => ({
        name,
        ph: 'X',
        cat: CATEGORY,
        pid,
        tid,
        ts: time(from),
        dur: (to - from) * MICROSECONDS,
        args,
      })),
      ...ends.flatMap(({ wait, hold }, at): TraceEvent[] => {
        const arrow = { name: 'released', cat: CATEGORY, pid, id: at + 1 };
        return [
          { ...arrow, ph: 's', tid: hold.tid, ts: time(hold.to) },
          { ...arrow, ph: 'f', bp: 'e', tid: wait.tid, ts: time(wait.to) },
        ];
      }),
    ],
  };
}

/**
 * The hold that a release ended. Several waits may have been caused by the same hold. The slice of the hold
 * starts with the first of these waits.
 */
function holdOf(
  holds: Map<string, Hold>,
  name: string,
  wait: ContentionWait,
  release: ContentionRelease,
): Hold {
  const { threadId, at, share, frames } = release;
  const key = `${threadId} ${at} ${name}`;
  const known = holds.get(key);
  const from = Math.min(known?.from ?? Infinity, at - share);
  const args = { lock: wait.lock, key: wait.key, stack: frames };
  const hold = { threadId, from, to: at, name: `hold ${name}`, args, release, tid: 0 };
  holds.set(key, Object.assign(known ?? hold, { from }));
  return holds.get(key)!;
}

/** Makes each hold start after the wait in which its holder acquired the key. */
function startAfterOwnWaits(holds: Iterable<Hold>, waits: readonly Slice[]): void {
  const placeOf = ({ threadId, args }: Slice): string =>
    `${threadId} ${String(args['lock'])} ${String(args['key'])}`;
  const ends = new Map<string, number[]>();
  for (const wait of [...waits].sort((a, b) => a.to - b.to)) {
    const place = placeOf(wait);
    const known = ends.get(place);
    if (known === undefined) ends.set(place, [wait.to]);
    else known.push(wait.to);
  }
  for (const hold of holds) {
    const last = ends.get(placeOf(hold))?.findLast((end) => end <= hold.to);
    if (last !== undefined) hold.from = Math.max(hold.from, last);
  }
}

/**
 * Assigns slices to tracks so that no two slices on a track overlap. Returns each track's
 * name and time span, by track id.
 */
function spread(slices: Slice[]): Map<number, { name: string; from: number; to: number }> {
  const tracks = new Map<number, { name: string; from: number; to: number }>();
  slices.sort((a, b) => a.from - b.from);
  for (const slice of slices) {
    const { threadId, from, to } = slice;
    let lane = 0;
    while ((tracks.get(threadId * TRACKS + lane)?.to ?? -Infinity) > from) lane++;
    slice.tid = threadId * TRACKS + lane;
    const name = `thread ${threadId}${lane === 0 ? '' : ` (${lane + 1})`}`;
    tracks.set(slice.tid, { name, from: tracks.get(slice.tid)?.from ?? from, to });
  }
  return tracks;
}
