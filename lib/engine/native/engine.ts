import workerThreads from 'node:worker_threads';
import { HostFinalizationRegistry } from '../../common/host.js';
import { LockError } from '../../common/errors.js';
import { ENGINE_PROTOCOL, type Engine, type LockTable } from '../contract/engine.js';
import {
  COUNT,
  COUNTED_WAITS,
  createThreadCounts,
  LOCK_KINDS,
  type CountName,
  type LockCounts,
  type LockKind,
  type ThreadCounts,
} from '../contract/counts.js';
import { createMemory, fillHeader } from '../contract/header.js';
import { byteLengthFor, ENGINE_NATIVE, REGISTRY_INDEX } from '../contract/layout.js';
import type { ProcessLockEngine } from '../contract/process-locks.js';
import type { TerminalSignals } from '../contract/terminal-signals.js';
import { spanOf, type TableMemory, type TableShape, type TableSpan } from '../contract/table-memory.js';
import { loadAddon, type Addon } from './addon.js';
import { NativeContention } from './contention.js';
import { NativeLeases } from './leases.js';
import { nativeProcessLocks } from './process-locks.js';
import { NativeWebLocks } from './web-locks.js';
import { NO_ROOM, NOT_OPENED } from './protocol.js';
import { NativeTable, type OpenedMemory } from './table.js';
import { ThreadArena, type Arena } from './arena.js';
import { NativeThread } from './thread.js';

/**
 * The entry by which one copy of this package offers its engine to the other copies in its thread. Another
 * copy can use the engine if both copies have the same protocol number.
 */
interface Running {
  readonly protocol: number;
  readonly engine: NativeEngine;
}

/**
 * The object that stores the entry. The exports of Node's modules are the same objects in all realms of a
 * thread, unlike `globalThis`.
 */
const home = workerThreads as { [name: symbol]: Running | undefined };

/** Thrown if another version of this package has already started the addon in this thread. */
export class OtherVersion extends Error {}

/**
 * Returns this thread's engine on the addon: the engine that is already running, or a new one. Throws an
 * `AddonMissing` if the addon cannot be loaded. Throws an {@link OtherVersion} if another version
 * of this package has already started the addon in this thread.
 *
 * A thread can start the addon only once, but may load several copies of this package: for example in a test
 * runner with a module registry, or if the package is installed twice. All copies share one engine, so they
 * have a single slot, and one call notifies all waiters of the thread. The copies do not share classes, so no
 * code may depend on an object's class.
 */
export function loadNativeEngine(): NativeEngine {
  const addon = loadAddon();
  const [low, high] = addon.registryId();
  const name = Symbol.for(`stripelock.native-engine ${low} ${high}`);
  const running = home[name];
  if (running !== undefined) {
    if (running.protocol === ENGINE_PROTOCOL) return running.engine;
    throw new OtherVersion();
  }
  const engine = startEngine(addon);
  Object.defineProperty(home, name, { value: Object.freeze({ protocol: ENGINE_PROTOCOL, engine }) });
  return engine;
}

function startEngine(addon: Addon): NativeEngine {
  try {
    return new NativeEngine(addon);
  } catch (error) {
    // The addon refuses to start twice in a thread. So another version of this package, which does not share
    // its engine, has already started the addon.
    if ((error as { code?: unknown }).code === 'ERR_INVALID_ARG_TYPE') throw new OtherVersion();
    throw error;
  }
}

/**
 * The maximum number of names for which a thread has separate counts of leases and web locks. Further names
 * share the counts of the empty name.
 */
const MOST_NAMES = 1000;
/** The memory of a table that other threads cannot open. */
const NO_MEMORY: TableMemory = { arena: undefined, buffer: undefined, offset: 0, local: undefined };
/**
 * A compare-and-swap that always fails, so that the fast path takes no stripe. It returns -1, which is never
 * the word of a stripe.
 */
const NEVER = (): number => -1;

/** One thread's engine on the addon. */
export class NativeEngine implements Engine {
  readonly name = 'native';
  #leases: NativeLeases | undefined;
  #webLocks: NativeWebLocks | undefined;
  #contention: NativeContention | undefined;
  readonly #addon: Addon;
  readonly #registry: readonly [number, number];
  readonly #arena: ThreadArena;
  readonly #thread: NativeThread;
  /**
   * The memory that the last call of {@link create} allocated in the arena. While {@link create} runs, no
   * other thread has access to this memory.
   */
  #made: TableMemory | undefined;
  readonly #tables = new Map<number, WeakRef<NativeTable>>();
  /** This thread's counts. The map's key consists of the kind and the name. */
  readonly #counts = new Map<string, ThreadCounts>();
  readonly #closed = new HostFinalizationRegistry((table: number) => {
    this.#addon.close(table);
  });

  constructor(addon: Addon) {
    this.#addon = addon;
    this.#registry = addon.registryId();
    this.#arena = new ThreadArena(addon);
    this.#thread = new NativeThread(addon, () => {
      this.#leases?.deliver();
      this.#webLocks?.deliver();
    });
  }

  /**
   * The objects of this getter and the next ones are created on demand, because most threads that use locks
   * need none of them.
   */
  get leases(): NativeLeases {
    return (this.#leases ??= new NativeLeases(this.#addon));
  }

  get webLocks(): NativeWebLocks {
    return (this.#webLocks ??= new NativeWebLocks(this.#addon));
  }

  get contention(): NativeContention {
    return (this.#contention ??= new NativeContention(this.#addon));
  }

  /**
   * Returns the counters of all locks of the process. The first call also starts the measurement of waits for
   * locks.
   */
  lockCounts(): LockCounts[] {
    return this.#addon.metrics().map(([kind, name, ...row]) => {
      const numbers = row as number[];
      const counts = Object.entries(COUNT).map(([count, place]) => [count, numbers[place]]);
      return {
        kind: LOCK_KINDS[kind as number]!,
        name: name as string,
        ...(Object.fromEntries(counts) as Record<CountName, number>),
        waits: numbers.slice(COUNTED_WAITS),
      };
    });
  }

  /**
   * This thread's counts for locks of one kind and name. They stay part of {@link lockCounts} after the
   * thread has ended.
   */
  threadCounts(kind: LockKind, name: string): ThreadCounts {
    const key = `${kind} ${name}`;
    let counts = this.#counts.get(key);
    if (counts !== undefined) return counts;
    if (this.#counts.size >= MOST_NAMES && name !== '') return this.threadCounts(kind, '');
    counts = createThreadCounts();
    this.#addon.openCounts(LOCK_KINDS.indexOf(kind), name, counts);
    this.#counts.set(key, counts);
    return counts;
  }

  get processLocks(): ProcessLockEngine {
    return nativeProcessLocks(this.#addon, this.#openOfFile);
  }

  get terminalSignals(): TerminalSignals {
    const addon = this.#addon;
    return {
      count: (signal) => void addon.countTerminalSignals(signal),
      take: (signal) => addon.takeTerminalSignal(signal),
    };
  }

  create(shape: TableShape): LockTable {
    const memory = this.#allocate(shape);
    return this.open(memory, spanOf(memory, shape.stripes), shape);
  }

  #allocate(shape: TableShape): TableMemory {
    const { stripes } = shape;
    const arena = this.#arena.get();
    const offset = arena && (this.#reuse(arena, stripes) ?? arena.allocate(stripes));
    if (offset === undefined) {
      const buffer = createMemory(ENGINE_NATIVE, shape);
      new Int32Array(buffer).set(this.#registry, REGISTRY_INDEX);
      return { arena: undefined, buffer, offset: 0, local: undefined };
    }
    const { buffer, memory } = arena!;
    fillHeader(buffer, offset, ENGINE_NATIVE, shape);
    new Int32Array(buffer, offset).set(this.#registry, REGISTRY_INDEX);
    this.#made = { arena: memory, buffer: undefined, offset, local: undefined };
    return this.#made;
  }

  /**
   * Zeroes the memory of a lock that is no longer used, and returns its offset. Returns undefined if no such
   * memory is large enough.
   */
  #reuse(arena: Arena, stripes: number): number | undefined {
    const offset = this.#addon.reuse(...arena.id, stripes);
    // The offset is checked, because any code with a handle can overwrite the arena's id.
    if (offset === NO_ROOM || !arena.hasRoom(offset, stripes)) return undefined;
    arena.clear(offset, stripes);
    return offset;
  }

  open(memory: TableMemory, { buffer, offset }: TableSpan, shape: TableShape): LockTable {
    const { name, stripes, exact, limit } = shape;
    const words = new Int32Array(buffer, offset, byteLengthFor(stripes) / Int32Array.BYTES_PER_ELEMENT);
    if (words[REGISTRY_INDEX] !== this.#registry[0] || words[REGISTRY_INDEX + 1] !== this.#registry[1]) {
      throw new LockError(
        'ERR_LOCK_ENGINE',
        'the lock was made by another copy of the stripelock addon; all threads must load the same installation',
      );
    }
    const table = this.#addon.open(words, stripes, exact, limit, name);
    if (table === NOT_OPENED)
      throw new LockError(
        'ERR_LOCK_ENGINE',
        'the lock is in use with another number of stripes or another limit',
      );
    return this.#opened(table, () => {
      const compareExchange = this.#arena.compareExchangeIn(memory.arena, new Int32Array(buffer));
      const own = memory === this.#made ? this.#arena.get()?.id : undefined;
      return { table, memory, words, shape, compareExchange, own };
    });
  }

  /**
   * Returns this thread's view of a table that the addon has just opened. If the thread already had a view,
   * this method closes the table once, which only undoes the additional opening: the addon counts how often a
   * table was opened.
   */
  #opened(table: number, memoryOf: () => OpenedMemory): NativeTable {
    const known = this.#tables.get(table)?.deref();
    if (known !== undefined) {
      this.#addon.close(table);
      return known;
    }
    const opened = new NativeTable(this.#thread, memoryOf());
    this.#tables.set(table, new WeakRef(opened));
    this.#closed.register(opened, table);
    return opened;
  }

  /**
   * Opens the table of a file's keys. The addon owns the memory of the table. The fast path is disabled,
   * because each acquisition must also exclude other processes.
   */
  readonly #openOfFile = (table: number, words: Int32Array, shape: TableShape): LockTable =>
    this.#opened(table, () => ({
      table,
      memory: NO_MEMORY,
      words,
      shape,
      compareExchange: NEVER,
      own: undefined,
      isOfFile: true,
    }));
}
