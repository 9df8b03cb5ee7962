// Calls every function of the addon with wrong, right and mixed arguments, while another thread writes to the memory
// that they share. Each call must return or throw. Afterwards a table must still work. Argument: seed. Prints how many
// calls returned and how many were refused.
import assert from 'node:assert/strict';
import { fileURLToPath } from 'node:url';
import { isMainThread, threadId, Worker, workerData } from 'node:worker_threads';
import { HEADER_INTS, STRIPE_INTS } from '../../unbundled/engine/contract/layout.js';
import { EXCLUSIVE_MODE, SHARED_MODE } from '../../unbundled/engine/contract/mode.js';
import { loadAddon } from '../../unbundled/engine/native/addon.js';
import {
  GRANTED,
  WEB_LOCK_BYTES,
  WEB_LOCK_HOW,
  WEB_LOCK_MANAGER,
  WEB_LOCK_MODE,
  WEB_LOCK_TICKET,
  NOT_HELD,
} from '../../unbundled/engine/native/protocol.js';
import { below, randomFrom } from '../workers/random.mjs';

/** Milliseconds that one call may block. */
const LONGEST = 2;
const CALLS = 20_000;
const INT = Int32Array.BYTES_PER_ELEMENT;

/** Writes valid and invalid numbers into a list of stripes, in turns. */
function scribble({ shared, stop }) {
  for (let i = 0; Atomics.load(stop, 0) === 0; i++) {
    shared[i % shared.length] = i % 3 === 0 ? 0x7fff_ffff : i % 5;
  }
}

function detached(array) {
  structuredClone(array.buffer, { transfer: [array.buffer] });
  return array;
}

function main() {
  const seed = Number(process.argv[2]);
  const random = randomFrom(seed);
  const addon = loadAddon();
  // No engine does it, as none could settle the acquisitions that are made here.
  addon.start(threadId, () => undefined);
  const names = Object.keys(addon)
    .filter((name) => typeof addon[name] === 'function')
    .sort();

  const wordsOf = (stripes) =>
    new Int32Array(new SharedArrayBuffer((HEADER_INTS + stripes * STRIPE_INTS) * INT));
  const tables = [1, 4, 64].map((stripes) => ({ stripes, words: wordsOf(stripes) }));
  for (const table of tables) table.number = addon.open(table.words, table.stripes);
  let lease = addon.leaseOpen(addon.leaseIssue(), false);
  let gate = addon.gateOpen(addon.gateIssue(), 10);
  const named = new Float64Array(new SharedArrayBuffer(WEB_LOCK_BYTES));
  addon.webLockExchange(named);

  const shared = new Int32Array(new SharedArrayBuffer(64 * INT));
  const stop = new Int32Array(new SharedArrayBuffer(INT));
  const scribbler = new Worker(fileURLToPath(import.meta.url), { workerData: { shared, stop } });

  const growable = () => {
    const buffer = new SharedArrayBuffer(4 * INT, { maxByteLength: 64 * INT });
    const array = new Int32Array(buffer);
    if (random() < 0.5) buffer.grow(64 * INT);
    return array;
  };
  const shrinking = () => {
    const buffer = new ArrayBuffer(64 * INT, { maxByteLength: 128 * INT });
    const array = new Int32Array(buffer, 0, 32);
    if (random() < 0.5) buffer.resize(4);
    return array;
  };
  const integers = [
    0,
    1,
    2,
    3,
    4,
    5,
    63,
    64,
    -1,
    -0,
    2 ** 20,
    2 ** 20 + 1,
    2 ** 31 - 1,
    2 ** 31,
    2 ** 32,
    2 ** 53,
  ];
  const odd = [
    NaN,
    Infinity,
    -Infinity,
    0.5,
    1e300,
    undefined,
    null,
    true,
    false,
    'key',
    '',
    '\ud800',
    'x'.repeat(2000),
    5n,
    -1n,
  ];
  const makers = [
    () => integers[below(random, integers.length)],
    () => odd[below(random, odd.length)],
    () => tables[below(random, tables.length)].number,
    () => tables[below(random, tables.length)].words,
    () => [lease, gate][below(random, 2)],
    () => 2n ** BigInt(below(random, 70)),
    () => Int32Array.from({ length: below(random, 70) }, (_, i) => i),
    () => Int32Array.of(3, 1, 2),
    () => new Int32Array(256),
    () => new Int32Array(new SharedArrayBuffer(4 * below(random, 70))),
    () => shared,
    growable,
    shrinking,
    () => detached(new Int32Array(8)),
    () => detached(new Uint8Array(8)),
    () => new Uint8Array(below(random, 300)),
    () => new Float64Array(8),
    () => new DataView(new ArrayBuffer(8)),
    () => new SharedArrayBuffer(64),
    () => [0, 1],
    () => ({ valueOf: () => assert.fail('the addon runs what it is given') }),
    () => Symbol('a symbol'),
    () => () => undefined,
    () => new Proxy(new Int32Array(4), {}),
  ];
  const any = () => makers[below(random, makers.length)]();
  const table = () => tables[below(random, tables.length)];
  const mode = () => (random() < 0.5 ? SHARED_MODE.code : EXCLUSIVE_MODE.code);

  /** Arguments that may be right. */
  const likely = {
    acquireSync: () => acquisition(),
    acquireAsync: () => acquisition(),
    openShares: () => {
      const { number, stripes } = table();
      return [number, new Int32Array(new SharedArrayBuffer(2 * stripes * INT))];
    },
    release: () => [table().number, below(random, 4), mode()],
    open: () => {
      const { words, stripes } = table();
      return [words, stripes];
    },
    takeGrants: () => [new Int32Array(below(random, 300))],
    expire: () => [new Int32Array(below(random, 300))],
    addNote: () => [table().number, Int32Array.of(below(random, 70)), 'note'],
    leaseAcquire: () => [...leaseArguments(), below(random, 50), ['', 'info'][below(random, 2)]],
    leaseRenew: () => [...leaseArguments(), below(random, 50)],
    leaseEnd: () => [...leaseArguments(), BigInt(below(random, 50))],
    leaseKeep: () => [...leaseArguments(), BigInt(below(random, 50)), 'kept', below(random, 50)],
    leaseTakeBack: () => [...leaseArguments(), BigInt(below(random, 50)), below(random, 2) === 1],
    leaseInspect: () => leaseArguments().slice(0, 3),
    webLockRequest: () => namedArguments(['name', 'other'][below(random, 2)]),
    webLockCancel: () => namedArguments(),
    webLockRelease: () => namedArguments(),
    takeWebLockNews: () => [new Int32Array(below(random, 300))],
    gateAdmit: () => [gate, 'key', BigInt(below(random, 100))],
  };
  function acquisition() {
    const { number, stripes } = table();
    const count = 1 + below(random, Math.min(stripes, 4));
    const list = [
      () => below(random, stripes),
      () => Int32Array.from({ length: 4 }, (_, i) => i),
      () => shared,
      growable,
    ][below(random, 4)]();
    return [number, list, typeof list === 'number' ? 1 : count, 0, mode(), random() * LONGEST, 'note'];
  }
  function leaseArguments() {
    return [lease, 'key', NaN, ['owner', 'other'][below(random, 2)]];
  }
  function namedArguments(...args) {
    const numbersOfCall = new Int32Array(named.buffer);
    named[WEB_LOCK_MANAGER] = [0, 1, -1, 0.5, NaN, 2 ** 53][random() < 0.8 ? 0 : below(random, 6)];
    numbersOfCall[WEB_LOCK_MODE] = random() < 0.8 ? mode() : integers[below(random, integers.length)];
    numbersOfCall[WEB_LOCK_HOW] =
      random() < 0.9 ? below(random, 3) : integers[below(random, integers.length)];
    numbersOfCall[WEB_LOCK_TICKET] =
      random() < 0.8 ? below(random, 20) : integers[below(random, integers.length)];
    return args;
  }

  const counts = { returned: 0, refused: 0 };
  for (let i = 0; i < CALLS; i++) {
    const name = names[below(random, names.length)];
    const args =
      likely[name] && random() < 0.6 ? likely[name]() : Array.from({ length: below(random, 8) }, any);
    // An acquisition that is right by accident would block for long.
    if (name === 'acquireSync' && typeof args[5] === 'number' && args[5] > LONGEST) args[5] = 0;
    if (likely[name] && random() < 0.3 && args.length > 0)
      args[below(random, Math.min(args.length, 5))] = any();
    try {
      addon[name](...args);
      counts.returned++;
    } catch (error) {
      assert.equal(error.code, 'ERR_INVALID_ARG_TYPE', `${name}: ${error.stack}`);
      counts.refused++;
    }
    // The call may have closed one of them.
    for (const each of tables) each.number = addon.open(each.words, each.stripes);
    if (name === 'leaseClose') lease = addon.leaseOpen(addon.leaseIssue(), false);
    if (name === 'gateClose') gate = addon.gateOpen(addon.gateIssue(), 10);
    if (i % 1000 === 0) globalThis.gc();
  }
  Atomics.store(stop, 0, 1);
  const last = addon.open(wordsOf(2), 2);
  assert.equal(addon.acquireSync(last, Int32Array.of(0, 1), 2, 0, EXCLUSIVE_MODE.code, 0), GRANTED);
  assert.equal(addon.held(last), 2);
  assert.equal(addon.acquireSync(last, 1, 1, 0, EXCLUSIVE_MODE.code, 0).status, 'timeout');
  for (const stripe of [0, 1]) assert.notEqual(addon.release(last, stripe, EXCLUSIVE_MODE.code), NOT_HELD);
  assert.equal(addon.held(last), 0);
  console.log(JSON.stringify(counts));
  // Acquisitions are pending, and keep the event loop alive.
  scribbler.once('exit', () => process.exit(0));
}

if (isMainThread) main();
else scribble(workerData);
