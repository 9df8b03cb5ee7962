import type { KeyState, LockKey } from '../../common/types.js';
import { NO_STRIPE, PINNED_AGAIN, type KeyNames } from '../contract/key-names.js';
import { wordIndex } from '../contract/layout.js';
import { corrupt } from '../contract/table-memory.js';
import { KeyText, keyFrom, lengthIn } from './key-text.js';
import {
  LOCK,
  VERSION,
  FREE,
  USED,
  HEADER_INTS,
  PINS,
  NEXT,
  PREVIOUS,
  LIST,
  HASH,
  META,
  DATA,
  RECORD_SHIFT,
  MOST_UNITS,
  listsFor,
  intsFor,
  type NamedWords,
} from './names-memory.js';

/*
 * Which stripe each key has, in shared memory: a header, a list of stripes for each value of a hash, and a record for each
 * stripe. In units of 32-bit integers; links are a stripe + 1, or 0 for none.
 *
 * N1 … N5 of `native/core/name_table.h` hold here, too, except that nobody learns that a thread has died: what it had
 * pinned stays pinned. So threads keep few keys pinned that they do not use (`KeyNames.keepsIdle`), and a key that a dead
 * thread held keeps its stripe, as it stays held.
 *
 * N6  Pins and links change only while LOCK is 1. From the exchange that sets it to the store that clears it there is no
 *     loop, and no call but of Atomics: no place for a stack overflow, for the end of a `vm` timeout, or for the end of the
 *     thread. So it is never left set.
 * N7  A search takes no lock, and may see lists as they are being changed. What it found, or did not find, counts only if
 *     VERSION is the same afterwards under LOCK: whoever links or unlinks a record changes it.
 * N8  A record's key changes only while it is in no list, and belongs to the one thread that took it from the free ones. If
 *     that thread ends then, the stripe is lost. Each thread loses one at most.
 */

/** How often `inspect()` looks at a key until nobody changes the lists meanwhile. */
const MOST_LOOKS = 1000;

/** After so many looks at LOCK, a thread sleeps for a millisecond: the thread that has it may need the processor. */
const SPINS = 200;

/** The exact keys of a table, as one thread uses them. */
export class JavaScriptNames implements KeyNames {
  readonly keepsIdle = false;
  readonly #ints: Int32Array;
  readonly #units: Uint16Array;
  readonly #stripes: number;
  readonly #mask: number;
  readonly #records: number;
  readonly #words: NamedWords;
  /** 1 for each stripe that this thread has pinned. */
  readonly #pinned: Uint8Array;
  /** 1 for each stripe that {@link unpin} has found in use. */
  readonly #isKept: Uint8Array;
  /** A stripe that this thread took from the free ones for a key that another thread was faster to pin; or -1. */
  #spare = -1;
  readonly #key = new KeyText(MOST_UNITS);

  /** Throws a TypeError if that is not memory for so many names. */
  constructor(names: SharedArrayBuffer, stripes: number, words: NamedWords) {
    if (names.byteLength !== intsFor(stripes) * Int32Array.BYTES_PER_ELEMENT)
      throw corrupt('its names do not fit its capacity');
    this.#ints = new Int32Array(names);
    this.#units = new Uint16Array(names);
    this.#stripes = stripes;
    this.#mask = listsFor(stripes) - 1;
    this.#records = HEADER_INTS + listsFor(stripes);
    this.#words = words;
    this.#pinned = new Uint8Array(stripes);
    this.#isKept = new Uint8Array(stripes);
  }

  pin(key: LockKey): number {
    this.#key.read(key);
    for (;;) {
      const version = Atomics.load(this.#ints, VERSION);
      const found = this.#find();
      if (found >= 0) {
        // Keeps N2: nobody unlinks what this thread has pinned.
        if (this.#pinned[found] === 1) return found | PINNED_AGAIN;
        if (this.#pinFound(found, version)) return found;
      } else {
        if (this.#spare < 0) this.#takeFree();
        if (this.#spare < 0 && this.#sweep()) this.#takeFree();
        const stripe = this.#spare;
        if (stripe < 0) return NO_STRIPE;
        this.#write(stripe);
        if (this.#link(stripe, version)) return stripe;
      }
    }
  }

  /** Reuses nothing: few keys stay pinned here, so there is little to gain. */
  pinOnce(key: LockKey): number {
    return this.pin(key);
  }

  unpin(stripes: Int32Array, count: number): number {
    const isKept = this.#isKept;
    let kept = 0;
    try {
      for (let i = 0; i < count; i++) {
        const stripe = stripes[i]!;
        if (this.#pinned[stripe] !== 1 || isKept[stripe] === 1) continue;
        if (this.#words.uses(stripe)) {
          isKept[stripe] = 1;
          stripes[kept++] = stripe;
        } else {
          this.#unpin(stripe, 1);
        }
      }
    } finally {
      for (let i = 0; i < kept; i++) isKept[stripes[i]!] = 0;
    }
    return kept;
  }

  inUse(): number {
    const used = this.#used();
    let count = 0;
    for (let stripe = 0; stripe < used; stripe++) {
      if (Atomics.load(this.#words.memory, wordIndex(stripe)) !== 0) count++;
    }
    return count;
  }

  inspect(): KeyState[] {
    return this.#words.inspect().flatMap(({ stripe, mode, holders, waiters }) => {
      const key = this.#keyOf(stripe);
      return key === undefined ? [] : [{ key, mode, holders, waiters }];
    });
  }

  /** Unpins what this thread does not use: to be called before the thread ends, where it knows that. */
  leave(): void {
    for (let stripe = 0; stripe < this.#stripes; stripe++) {
      if (this.#pinned[stripe] === 1 && !this.#words.uses(stripe)) this.#unpin(stripe, 1);
    }
  }

  /** Undefined if the stripe has none, or keys come and go all the time. */
  #keyOf(stripe: number): LockKey | undefined {
    const ints = this.#ints;
    const record = this.#recordOf(stripe);
    for (let looks = 0; looks < MOST_LOOKS; looks++) {
      const version = Atomics.load(ints, VERSION);
      const meta = ints[record + META]!;
      const first = 2 * (record + DATA);
      const units = this.#units.slice(first, first + Math.min(MOST_UNITS, lengthIn(meta)));
      if (Atomics.load(ints, VERSION) === version) return keyFrom(meta, units);
    }
    return undefined;
  }

  #used(): number {
    // Anybody who has a handle can write to this number.
    return Math.max(0, Math.min(Atomics.load(this.#ints, USED), this.#stripes));
  }

  #recordOf(stripe: number): number {
    return this.#records + (stripe << RECORD_SHIFT);
  }

  /** Keeps N7: its caller looks at the version before and after it. -1: there is none. */
  #find(): number {
    const ints = this.#ints;
    const stripes = this.#stripes;
    let link = Atomics.load(ints, HEADER_INTS + (this.#key.hash & this.#mask));
    for (let steps = 0; link > 0 && link <= stripes && steps < stripes; steps++) {
      const record = this.#recordOf(link - 1);
      if (Atomics.load(ints, record + HASH) === this.#key.hash && this.#isKeyOf(record)) return link - 1;
      link = Atomics.load(ints, record + NEXT);
    }
    return -1;
  }

  #isKeyOf(record: number): boolean {
    const meta = this.#key.meta;
    if (this.#ints[record + META] !== meta) return false;
    const units = this.#units;
    const first = 2 * (record + DATA);
    const length = lengthIn(meta);
    for (let i = 0; i < length; i++) {
      if (units[first + i] !== this.#key.units[i]) return false;
    }
    return true;
  }

  #write(stripe: number): void {
    const record = this.#recordOf(stripe);
    this.#ints[record + HASH] = this.#key.hash;
    this.#units.set(this.#key.units.subarray(0, lengthIn(this.#key.meta)), 2 * (record + DATA));
  }

  #pinFound(stripe: number, version: number): boolean {
    const ints = this.#ints;
    const pinned = this.#pinned;
    const pins = this.#recordOf(stripe) + PINS;
    for (let spins = 0; Atomics.compareExchange(ints, LOCK, 0, 1) !== 0; spins++) rest(ints, spins);
    const same = ints[VERSION] === version;
    if (same) {
      ints[pins]!++;
      pinned[stripe] = 1;
    }
    Atomics.store(ints, LOCK, 0);
    return same;
  }

  #takeFree(): void {
    const ints = this.#ints;
    const stripes = this.#stripes;
    const records = this.#records;
    for (let spins = 0; Atomics.compareExchange(ints, LOCK, 0, 1) !== 0; spins++) rest(ints, spins);
    const free = ints[FREE]!;
    const used = ints[USED]!;
    if (free > 0 && free <= stripes) {
      ints[FREE] = ints[records + ((free - 1) << RECORD_SHIFT) + NEXT]!;
      this.#spare = free - 1;
    } else if (used >= 0 && used < stripes) {
      ints[USED] = used + 1;
      this.#spare = used;
    }
    Atomics.store(ints, LOCK, 0);
  }

  #link(stripe: number, version: number): boolean {
    const ints = this.#ints;
    const pinned = this.#pinned;
    const records = this.#records;
    const record = this.#recordOf(stripe);
    const list = HEADER_INTS + (this.#key.hash & this.#mask);
    const meta = this.#key.meta;
    for (let spins = 0; Atomics.compareExchange(ints, LOCK, 0, 1) !== 0; spins++) rest(ints, spins);
    const same = ints[VERSION] === version;
    if (same) {
      const first = ints[list]!;
      ints[record + PINS] = 1;
      ints[record + NEXT] = first;
      ints[record + PREVIOUS] = 0;
      ints[record + LIST] = list;
      ints[record + META] = meta;
      if (first > 0) ints[records + ((first - 1) << RECORD_SHIFT) + PREVIOUS] = stripe + 1;
      ints[list] = stripe + 1;
      ints[VERSION]!++;
      pinned[stripe] = 1;
      this.#spare = -1;
    }
    Atomics.store(ints, LOCK, 0);
    return same;
  }

  /** Ends `pins` pins: one of this thread, or none. Frees the stripe if it has none and is not held (keeps N2). */
  #unpin(stripe: number, pins: 0 | 1): void {
    const ints = this.#ints;
    const pinned = this.#pinned;
    const records = this.#records;
    const record = this.#recordOf(stripe);
    const { memory } = this.#words;
    const word = wordIndex(stripe);
    for (let spins = 0; Atomics.compareExchange(ints, LOCK, 0, 1) !== 0; spins++) rest(ints, spins);
    const left = ints[record + PINS]! - pins;
    ints[record + PINS] = left;
    if (pins === 1) pinned[stripe] = 0;
    // By N3 nobody else changes the word then.
    if (left === 0 && ints[record + META] !== 0 && Atomics.load(memory, word) === 0) {
      const next = ints[record + NEXT]!;
      const previous = ints[record + PREVIOUS]!;
      if (next > 0) ints[records + ((next - 1) << RECORD_SHIFT) + PREVIOUS] = previous;
      if (previous > 0) ints[records + ((previous - 1) << RECORD_SHIFT) + NEXT] = next;
      else ints[ints[record + LIST]!] = next;
      ints[record + META] = 0;
      ints[record + NEXT] = ints[FREE]!;
      ints[FREE] = stripe + 1;
      ints[VERSION]!++;
    }
    Atomics.store(ints, LOCK, 0);
  }

  /** Frees what was left without pins while its word was not 0, as it was reserved for a thread that did not come. */
  #sweep(): boolean {
    const ints = this.#ints;
    const used = this.#used();
    for (let stripe = 0; stripe < used; stripe++) {
      const record = this.#recordOf(stripe);
      if (ints[record + PINS] === 0 && ints[record + META] !== 0) this.#unpin(stripe, 0);
    }
    return Atomics.load(ints, FREE) !== 0;
  }
}

function rest(ints: Int32Array, spins: number): void {
  if (spins > SPINS) Atomics.wait(ints, LOCK, 1, 1);
}
