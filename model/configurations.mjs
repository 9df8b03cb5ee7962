// The checked configurations: the model with these definitions (see stripe_word.pml). Together they cover every
// combination that matters, and each is searched completely within seconds.

const exclusively = { MAY_SHARE: 'false' };
const oneWriter = { MAY_SHARE: '(t != 0)', MAY_EXCLUDE: '(t == 0)' };

/**
 * @typedef {object} Configuration
 * @property {string} name
 * @property {string} covers
 * @property {string} [model] The file that it is about, if not `stripe_word.pml`.
 * @property {Readonly<Record<string, string | number>>} define What the model is compiled with.
 * @property {boolean} [full] Searched only with `--full`, or when it is named.
 * @property {boolean} [progress] Checks a formula under weak fairness: a process that can continue for ever does so.
 *   The other configurations check assertions, and that no state is a dead end in which a thread waits for ever.
 */

/** @type {readonly Configuration[]} */
export const configurations = [
  {
    name: 'exclusive',
    covers: '3 threads, any number of acquisitions; one thread times out and tries',
    define: { THREADS: 3, TIMEOUTS: 1, TRIES: 1, ...exclusively },
  },
  {
    name: 'readers',
    covers: '3 threads, a writer and two readers, any number of acquisitions',
    define: { THREADS: 3, ...oneWriter },
  },
  {
    name: 'death',
    covers:
      '2 threads, both modes, timeouts; one thread dies and its slot is used again, any number of times',
    define: { THREADS: 2, TIMEOUTS: 2, MORTAL: '' },
  },
  {
    name: 'death-of-3',
    covers: '3 threads, both modes, one acquisition each; one thread dies at any time',
    define: { THREADS: 3, MORTAL: '', ROUNDS: 1 },
  },
  {
    name: 'pass-over',
    covers:
      '2 threads, one also waits asynchronously, times out and tries; each access of passOver() is a step',
    define: { THREADS: 2, ASYNC: 1, TIMEOUTS: 1, TRIES: 1, FINE_PASS_OVER: '', ...exclusively },
  },
  {
    name: 'async-shared',
    covers: '2 threads, one also waits asynchronously, both modes',
    define: { THREADS: 2, ASYNC: 1, MAY_SHARE: '(who != 0)' },
  },
  {
    name: 'async-both',
    covers: '2 threads, both also wait asynchronously, two acquisitions each',
    define: { THREADS: 2, ASYNC: 2, ROUNDS: 2, ...exclusively },
  },
  {
    name: 'async-of-3',
    covers: '3 threads, one also waits asynchronously but only for exclusive holds; one acquisition each',
    define: { THREADS: 3, ASYNC: 1, ROUNDS: 1, MAY_SHARE: '(who != 3)', MAY_EXCLUDE: '(who == 3 || t == 1)' },
  },
  {
    name: 'async-death',
    covers: '2 threads, both modes; one also waits asynchronously, and dies; two acquisitions each',
    define: { THREADS: 2, ASYNC: 1, MORTAL: '', ROUNDS: 2 },
  },
  {
    name: 'two-stripes',
    covers: '2 threads, requests for one or both of two stripes, both modes',
    define: { THREADS: 2, STRIPES: 2 },
  },
  {
    name: 'two-stripes-of-3',
    covers: '3 threads, the same, one acquisition each; one thread times out and tries',
    define: { THREADS: 3, STRIPES: 2, ROUNDS: 1, TIMEOUTS: 1, TRIES: 1, ...exclusively },
  },
  {
    name: 'two-stripes-death',
    covers: '2 threads, the same; one of them times out, tries, and dies',
    define: { THREADS: 2, STRIPES: 2, TIMEOUTS: 1, TRIES: 1, MORTAL: '', ...exclusively },
  },
  {
    name: 'two-stripes-async',
    covers:
      '2 threads; one waits for both stripes asynchronously and for one synchronously, the other for both',
    define: {
      THREADS: 2,
      STRIPES: 2,
      ASYNC: 1,
      ...exclusively,
      'MAY_TAKE(a, b)': '((a == b) == (who == 0))',
    },
  },
  {
    name: 'two-stripes-async-death',
    covers: '2 threads, the same, two acquisitions each; the one that waits asynchronously dies',
    define: {
      THREADS: 2,
      STRIPES: 2,
      ASYNC: 1,
      MORTAL: '',
      ROUNDS: 2,
      ...exclusively,
      'MAY_TAKE(a, b)': '((a == b) == (who == 0))',
    },
  },
  {
    name: 'three-stripes',
    covers: '2 threads, requests for one to three of three stripes, of which two share a shard, both modes',
    define: { THREADS: 2, STRIPES: 3, ROUNDS: 2 },
  },
  {
    name: 'three-stripes-async',
    covers:
      '2 threads, the same for exclusive holds; one also waits asynchronously, and only for all; two acquisitions each',
    define: {
      THREADS: 2,
      STRIPES: 3,
      ASYNC: 1,
      ROUNDS: 2,
      ...exclusively,
      'MAY_TAKE(a, b)': '(who == 2 -> (b == 2 && a == 0) : (who == 0 -> (a == b) : (b == 2)))',
    },
  },
  {
    name: 'async-twice',
    covers: '2 threads, one has two acquisitions that wait asynchronously; three acquisitions each',
    define: { THREADS: 2, ASYNC: 1, EACH: 2, ROUNDS: 3, ...exclusively },
  },
  {
    name: 'nested',
    covers: '2 threads, two stripes; one acquires while it holds a guard, and may wait for itself',
    define: {
      THREADS: 2,
      STRIPES: 2,
      ASYNC: 1,
      ROUNDS: 2,
      ...exclusively,
      MAY_NEST: 't == 0',
      'MAY_TAKE(a, b)': '(who == 2 -> (b == 0) : (who == 0 -> (a == b) : (b == 1)))',
    },
  },
  {
    name: 'close',
    covers:
      '2 threads; one closes the lock whatever it holds or waits for, and goes on; two acquisitions each',
    define: { THREADS: 2, ASYNC: 1, ROUNDS: 2, MAY_CLOSE: '(t == 0)' },
  },
  {
    name: 'revoke',
    covers:
      '2 threads, both modes; one also waits asynchronously, and may compute for ever; the other takes back what it wants',
    define: { THREADS: 2, ASYNC: 1, REVOKE: '', MAY_STALL: '(t == 0)', ROUNDS: 2 },
  },
  {
    name: 'revoke-fine',
    covers: '2 threads, the same for exclusive holds; each access of passOver() is a step',
    define: {
      THREADS: 2,
      ASYNC: 1,
      REVOKE: '',
      FINE_PASS_OVER: '',
      MAY_STALL: '(t == 0)',
      TIMEOUTS: 1,
      ROUNDS: 2,
      ...exclusively,
    },
  },
  {
    name: 'revoke-async',
    covers: '2 threads, the same, both wait asynchronously',
    full: true,
    define: { THREADS: 2, ASYNC: 2, REVOKE: '', MAY_STALL: '(t == 0)', ROUNDS: 2, ...exclusively },
  },
  {
    name: 'revoke-twice',
    covers: '2 threads, one has two acquisitions that wait asynchronously, and may compute for ever',
    define: { THREADS: 2, ASYNC: 1, EACH: 2, REVOKE: '', MAY_STALL: '(t == 0)', ROUNDS: 2, ...exclusively },
  },
  {
    name: 'revoke-of-3',
    covers:
      '3 threads, one only waits asynchronously, and may compute for ever; two take back what they want',
    define: {
      THREADS: 3,
      ASYNC: 1,
      REVOKE: '',
      MAY_STALL: '(t == 0)',
      ROUNDS: 1,
      ...exclusively,
    },
  },
  {
    name: 'revoke-death',
    covers: '2 threads, both modes; one also waits asynchronously, and dies; two acquisitions each',
    define: { THREADS: 2, ASYNC: 1, REVOKE: '', MORTAL: '', ROUNDS: 2 },
  },
  {
    name: 'revoke-two-stripes',
    covers:
      '2 threads; one waits for both stripes asynchronously and for one synchronously, the other for both; two each',
    define: {
      THREADS: 2,
      STRIPES: 2,
      ASYNC: 1,
      REVOKE: '',
      MAY_STALL: '(t == 0)',
      ROUNDS: 2,
      ...exclusively,
      'MAY_TAKE(a, b)': '(who == 1 || (a == b) == (who == 0))',
    },
  },
  {
    name: 'graph',
    covers: '3 threads, three stripes: each holds one and acquires the next',
    define: {
      THREADS: 3,
      STRIPES: 3,
      ASYNC: 3,
      GRAPH: '',
      ROUNDS: 2,
      MAY_NEST: 'true',
      MUST_NEST: 'true',
      MAY_WAIT: 'false',
      ...exclusively,
      'MAY_TAKE(a, b)': '(a == b && a == (isAsync(who) -> who - THREADS : (who + 1) % 3))',
    },
  },
  {
    name: 'graph-timeouts',
    covers: '2 threads, two stripes: the same; both time out',
    define: {
      THREADS: 2,
      STRIPES: 2,
      ASYNC: 2,
      GRAPH: '',
      ROUNDS: 2,
      TIMEOUTS: 2,
      MAY_NEST: 'true',
      MUST_NEST: 'true',
      MAY_WAIT: 'false',
      'MAY_TAKE(a, b)': '(a == b && a == (isAsync(who) -> who - THREADS : (who + 1) % 2))',
    },
  },
  {
    name: 'graph-shared',
    covers:
      '3 threads, two stripes: a reader that holds one waits behind a writer for what another reader holds',
    define: {
      THREADS: 3,
      STRIPES: 2,
      ASYNC: 3,
      GRAPH: '',
      ROUNDS: '(2 - (t == 1))',
      MAY_NEST: '(t != 1)',
      MUST_NEST: '(t != 1)',
      MAY_WAIT: 'false',
      MAY_SHARE: '(who == 3 || who == 2)',
      MAY_EXCLUDE: '!(who == 3 || who == 2)',
      'MAY_TAKE(a, b)': '(a == b && a == ((who == 0 || who == 5)))',
    },
  },
  {
    name: 'graph-async',
    covers:
      '2 threads, two stripes; one acquires both, one after the other, the other waits for one asynchronously',
    define: {
      THREADS: 2,
      STRIPES: 2,
      ASYNC: 2,
      GRAPH: '',
      ROUNDS: '(3 - (t == 0))',
      MAY_NEST: '(t == 1)',
      MAY_WAIT: '(t == 0)',
      ...exclusively,
      'MAY_TAKE(a, b)': '(a == b && a == ((who == 0 || who == 3)))',
    },
  },
  {
    name: 'graph-revoke',
    full: true,
    covers: '2 threads, the same; what is granted and not delivered is taken back',
    define: {
      THREADS: 2,
      STRIPES: 2,
      ASYNC: 2,
      GRAPH: '',
      REVOKE: '',
      ROUNDS: '(3 - (t == 0))',
      MAY_NEST: '(t == 1)',
      MAY_WAIT: '(t == 0)',
      ...exclusively,
      'MAY_TAKE(a, b)': '(a == b && a == ((who == 0 || who == 3)))',
    },
  },
  {
    name: 'local',
    covers:
      '2 threads; tasks of one pass the stripe on to each other; it also blocks, and tries; three acquisitions against two',
    define: {
      THREADS: 2,
      ASYNC: 1,
      LOCALS: 1,
      TRIES: 1,
      ROUNDS: '(t == 0 -> 3 : 2)',
      MAY_ELSEWHERE: 'false',
      MAY_GIVE_UP: 'false',
      ...exclusively,
    },
  },
  {
    name: 'local-both',
    covers: '2 threads, tasks of both pass the stripe on to each other; three acquisitions each',
    define: {
      THREADS: 2,
      ASYNC: 2,
      LOCALS: 2,
      QUEUE: 1,
      TRIES: 2,
      MAY_BLOCK: 'false',
      ROUNDS: '(3 - t)',
      MAY_ELSEWHERE: 'false',
      MAY_GIVE_UP: 'false',
      ...exclusively,
    },
  },
  {
    name: 'local-give-up',
    covers: '2 threads, the same for one; its tasks give up; four acquisitions against one',
    define: {
      THREADS: 2,
      ASYNC: 1,
      EACH: 2,
      LOCALS: 1,
      ROUNDS: '(t == 0 -> 4 : 1)',
      MAY_ELSEWHERE: 'false',
      ...exclusively,
    },
  },
  {
    name: 'local-death',
    covers: '2 threads, the same; it dies in the middle of any call, and its slot is used again',
    define: {
      THREADS: 2,
      ASYNC: 1,
      LOCALS: 1,
      MORTAL: '',
      ROUNDS: '(t == 0 -> 4 : 1)',
      MAY_ELSEWHERE: 'false',
      MAY_GIVE_UP: 'false',
      ...exclusively,
    },
  },
  {
    name: 'local-abandoned',
    covers: '2 threads, the same; tasks give up, and the other thread dies',
    define: {
      THREADS: 2,
      ASYNC: 1,
      LOCALS: 1,
      MORTAL: '',
      MAY_DIE: '(t == 1)',
      ROUNDS: '(t == 0 -> 3 : 1)',
      MAY_ELSEWHERE: 'false',
      ...exclusively,
    },
  },
  {
    name: 'local-reborn',
    covers: '2 threads, the same; the other thread dies, and comes again; two acquisitions each',
    define: {
      THREADS: 2,
      ASYNC: 1,
      LOCALS: 1,
      MORTAL: '',
      MAY_DIE: '(t == 1)',
      ROUNDS: 2,
      MAY_ELSEWHERE: 'false',
      MAY_GIVE_UP: 'false',
      ...exclusively,
    },
  },
  {
    name: 'local-revoke',
    covers: '2 threads, the same; one may compute for ever, and the other takes back what it wants',
    define: {
      THREADS: 2,
      ASYNC: 1,
      LOCALS: 1,
      REVOKE: '',
      MAY_STALL: '(t == 0)',
      ROUNDS: '(t == 0 -> 3 : 1)',
      MAY_ELSEWHERE: 'false',
      MAY_GIVE_UP: 'false',
      ...exclusively,
    },
  },
  {
    name: 'local-order',
    covers:
      '2 threads, two stripes; one has tasks for one stripe and for both; it serves them in order of arrival',
    define: {
      THREADS: 2,
      STRIPES: 2,
      ASYNC: 1,
      EACH: 2,
      LOCALS: 1,
      ORDER: '',
      TRIES: 1,
      MAY_BLOCK: '(t != 0)',
      ROUNDS: '(t == 0 -> 4 : 1)',
      MAY_GIVE_UP: 'false',
      ...exclusively,
      'MAY_TAKE(a, b)': '(who >= 2 -> (b == 1 && a == 0) : (a == b))',
    },
  },
  {
    name: 'local-progress',
    covers: '2 threads, the same for one stripe: all acquisitions end',
    define: {
      THREADS: 2,
      ASYNC: 1,
      LOCALS: 1,
      PROGRESS: '',
      ROUNDS: '(t == 0 -> 3 : 1)',
      MAY_ELSEWHERE: 'false',
      MAY_GIVE_UP: 'false',
      ...exclusively,
    },
    progress: true,
  },
  {
    name: 'local-fairness',
    covers: '2 threads: one is served, however often tasks of the other pass the stripe on to each other',
    define: {
      THREADS: 2,
      ASYNC: 1,
      LOCALS: 1,
      STARVING: 1,
      TRIES: 1,
      MAY_BLOCK: '(t == 1)',
      MAY_ELSEWHERE: 'false',
      ...exclusively,
    },
    progress: true,
  },
  {
    name: 'clock',
    covers: '3 threads, one acquisition each: nothing is handed over before its time',
    define: { THREADS: 3, CLOCK: '', ROUNDS: 1, ...exclusively },
  },
  {
    name: 'clock-async',
    covers: '2 threads, one also waits asynchronously, two acquisitions each: the same',
    define: { THREADS: 2, ASYNC: 1, CLOCK: '', ROUNDS: 2, ...exclusively },
  },
  {
    name: 'progress',
    covers: '3 threads, both modes: all acquisitions end',
    define: { THREADS: 3, ROUNDS: 1, PROGRESS: '' },
    progress: true,
  },
  {
    name: 'progress-timeouts',
    covers: '2 threads, both modes, timeouts, two acquisitions each: all end',
    define: { THREADS: 2, ROUNDS: 2, TIMEOUTS: 1, PROGRESS: '' },
    progress: true,
  },
  {
    name: 'progress-async',
    covers: '2 threads, one also waits asynchronously, two acquisitions each: all end',
    define: { THREADS: 2, ROUNDS: 2, ASYNC: 1, PROGRESS: '', ...exclusively },
    progress: true,
  },
  {
    name: 'fairness',
    covers: '2 threads: one is served, however often the other comes by',
    define: { THREADS: 2, STARVING: 0, ...exclusively },
    progress: true,
  },
  {
    name: 'fairness-async',
    covers: '2 threads: one is served, however often the other comes by, and waits asynchronously',
    define: { THREADS: 2, ASYNC: 1, STARVING: 1, ...exclusively },
    progress: true,
  },
  {
    name: 'fairness-readers',
    covers: '3 threads: a writer is served, however often two readers come by',
    define: { THREADS: 3, STARVING: 0, ...oneWriter },
    progress: true,
  },
  {
    name: 'permits',
    model: 'permits.pml',
    covers:
      '3 threads, 2 permits, any number of acquisitions; one waits asynchronously, one blocks, one does both and gives up',
    define: { THREADS: 3, LIMIT: 2, MAY_GIVE_UP: '(t == 0)', MAY_WAIT: '(t < 2)', MAY_BLOCK: '(t != 1)' },
  },
  {
    name: 'permits-of-4',
    model: 'permits.pml',
    covers: '4 threads, 2 permits, one acquisition each; one waits asynchronously, one gives up',
    define: {
      THREADS: 4,
      LIMIT: 2,
      ROUNDS: 1,
      MAY_WAIT: '(t == 1)',
      MAY_BLOCK: '(t != 1)',
      MAY_GIVE_UP: '(t == 0)',
    },
  },
  {
    name: 'permits-together',
    model: 'permits.pml',
    covers: '4 threads, 2 permits; one has both, and dies, while the others wait asynchronously',
    define: {
      THREADS: 4,
      LIMIT: 2,
      MAY_BEGIN: '(t == 0 || shares[0] == 2)',
      MOST: '(2 - (t != 0))',
      ROUNDS: '(2 - (t != 0))',
      MORTAL: '(t == 0 && mine == 2)',
      MAY_WAIT: '(t != 0)',
      MAY_BLOCK: '(t == 0)',
    },
  },
  {
    name: 'permits-death',
    model: 'permits.pml',
    covers:
      '3 threads that block, 2 permits; one has both, and dies at any time; two acquisitions against one',
    define: {
      THREADS: 3,
      LIMIT: 2,
      MOST: '(2 - (t != 0))',
      ROUNDS: '(2 - (t != 0))',
      MORTAL: '(t == 0)',
      MAY_WAIT: 'false',
    },
  },
  {
    name: 'permits-told',
    model: 'permits.pml',
    covers:
      '2 threads, 2 permits, sync and async; both have both; one dies, the other rolls back; three acquisitions each',
    define: { THREADS: 2, LIMIT: 2, MOST: 2, ROUNDS: 3, MORTAL: '(t == 0)', MAY_FAIL: '(t == 1)' },
  },
];
