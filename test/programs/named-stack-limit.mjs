// Calls the native engine's named locks at every distance from a stack overflow. A call that fails must have changed
// nothing, one that returns must have done all, and whoever is to be told must be told. Prints how many calls returned
// and how many failed, for each scene.
import assert from 'node:assert/strict';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { EXCLUSIVE_MODE } from '../../unbundled/engine/contract/mode.js';
import { nativeNamedEngine } from '../../unbundled/engine/select.js';

/** Distances from the stack overflow at which to call: frames, and words of 8 bytes within a frame. */
const FRAMES = 24;
const WORDS = 20;
/** Compiling a function takes far more stack than calling it, so each is called this often before. */
const WARM_UP = 10;

const locks = nativeNamedEngine().open();

class Requester {
  ticket = -1;
  told = [];
  granted() {
    this.told.push('granted');
  }
  stolen() {
    this.told.push('stolen');
  }
}

function request(how, requester = new Requester()) {
  requester.status = locks.request('a', EXCLUSIVE_MODE, how, requester);
  return requester;
}

/** What is set up, what is called, and what must be true if it returned. All leave one holder, or none. */
const scenes = {
  request: {
    prepare: () => new Requester(),
    call: (requester) => request('wait', requester),
    failed: (requester) => assert.deepEqual([requester.ticket, counts()], [-1, [0, 0]]),
    done: (requester) => {
      assert.deepEqual(counts(), [1, 0]);
      locks.release(requester);
    },
  },
  release: {
    prepare: () => [request('wait'), request('wait')],
    call: ([held]) => locks.release(held),
    failed: ([held, waiting]) => {
      assert.deepEqual(counts(), [1, 1]);
      locks.release(held);
      scenes.release.told(waiting);
    },
    done: ([, waiting]) => scenes.release.told(waiting),
    told: (waiting) => expectTold(waiting, 'granted'),
  },
  cancel: {
    prepare: () => [request('wait'), request('wait')],
    call: ([, waiting]) => (waiting.cancelled = locks.cancel(waiting)),
    failed: ([held, waiting]) => {
      assert.deepEqual(counts(), [1, 1]);
      assert.equal(locks.cancel(waiting), true);
      locks.release(held);
    },
    done: ([held, waiting]) => {
      assert.deepEqual([waiting.cancelled, waiting.ticket, counts()], [true, -1, [1, 0]]);
      locks.release(held);
    },
  },
  steal: {
    prepare: () => [request('wait'), new Requester()],
    call: ([, thief]) => request('steal', thief),
    failed: ([held, thief]) => {
      assert.deepEqual([thief.ticket, counts()], [-1, [1, 0]]);
      locks.release(held);
    },
    done: ([held, thief]) => {
      expectTold(held, 'stolen');
      locks.release(thief);
    },
  },
};

function counts() {
  const { held, pending } = locks.query();
  return [held.length, pending.length];
}

let expected = [];
function expectTold(requester, what) {
  expected.push([requester, what]);
}

/** The padding adds unused arguments, so that the end of the stack moves by 8 bytes at a time. */
function descend(frames, last, argument, padding) {
  if (frames === 0) return last(argument, ...padding);
  return descend(frames - 1, last, argument, padding);
}

function deepest(padding) {
  let [reached, tooDeep] = [1, 1_000_000];
  while (reached < tooDeep - 1) {
    const middle = (reached + tooDeep) >> 1;
    try {
      descend(middle, () => undefined, undefined, padding);
      reached = middle;
    } catch {
      tooDeep = middle;
    }
  }
  return reached;
}

const result = {};
for (const [name, { prepare, call, failed, done }] of Object.entries(scenes)) {
  const total = (result[name] = { done: 0, failed: 0 });
  for (let round = -WARM_UP; round < WORDS; round++) {
    const padding = Array.from({ length: Math.max(round, 0) }, () => 0);
    const bottom = round < 0 ? 2 * FRAMES : deepest(padding);
    for (let frames = 0; frames < FRAMES; frames++) {
      const argument = prepare();
      let returned = false;
      try {
        descend(bottom - frames, call, argument, padding);
        returned = true;
      } catch (error) {
        if (!(error instanceof RangeError)) throw error;
      }
      (returned ? done : failed)(argument);
      total[returned ? 'done' : 'failed']++;
      // In the event loop, if not before.
      await nextTurn();
      await nextTurn();
      for (const [requester, what] of expected) {
        assert.deepEqual(requester.told, [what], `${name}, ${round}, ${frames}, ${returned}`);
        if (what === 'granted') locks.release(requester);
      }
      expected = [];
      assert.deepEqual(counts(), [0, 0]);
    }
  }
}
console.log(JSON.stringify(result));
