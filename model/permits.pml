/* Permits: a stripe whose word counts its holders up to a limit. Invariants P1 – P3 are stated in native/core/table/table.h.
 *
 *   lib/engine/fast-path.ts      takeShared, releaseShared
 *   mode.h                       withHold with a limit, and DEATH_REPORTED
 *   table.cc, table_grants.cc    take or link, leave, hand over, designate, withdraw; planBesideDesignated, planForSeveral, planForOne
 *   membership.cc                abandon: all permits of a thread that ended, in one exchange
 *
 * One stripe; each thread has one acquisition at a time. Ineligible async waiters, and the calls of event loops, are in
 * stripe_word.pml: here an event loop collects its grant at any later time. A step is defined as there (state.pml).
 */

#ifndef THREADS
#define THREADS 3
#endif
#ifndef LIMIT
#define LIMIT 2
#endif
/* How many permits a thread has at most; the second one is attempted. If ROUNDS is defined, it is how many acquisitions it
 * begins. */
#ifndef MOST
#define MOST 1
#endif
/* Which thread may begin an acquisition now; which blocks for a permit, waits for one asynchronously, gives up, ends, or
 * rolls back because of another key. */
#ifndef MAY_BEGIN
#define MAY_BEGIN true
#endif
#ifndef MAY_BLOCK
#define MAY_BLOCK true
#endif
#ifndef MAY_WAIT
#define MAY_WAIT true
#endif
#ifndef MAY_GIVE_UP
#define MAY_GIVE_UP false
#endif
#ifndef MORTAL
#define MORTAL false
#endif
#ifndef MAY_FAIL
#define MAY_FAIL false
#endif

#define t      _pid
#define bit(n) (1 << (n))

#define QUEUED    128
#define ABANDONED 64
#define SHARED    32
#define DEATH_REPORTED 16
#define HOLDER    15

#define count(x)  ((x) & HOLDER)
#define isFree(x) (((x) & (SHARED | HOLDER)) == 0)

/* withHold: whether there is a permit, and the word with one more taken. */
#define admits(x) (isFree(x) || count(x) < LIMIT)
#define taking(x) ((((x) + 1) | SHARED) | (((x) & ABANDONED) -> DEATH_REPORTED : 0))

#define WAITING    0
#define DESIGNATED 1
#define GRANTED    2

byte word;
bool shard;
/* Waiters + 1; 0 ends the queue. */
byte queue[THREADS + 1];
byte designated;
byte state[THREADS];
bool async[THREADS];
bool told[THREADS];
/* A wake is under way: to a parked thread or to an event loop. */
bool permit[THREADS];
byte shares[THREADS];

/* Observation only. */
byte inside;
byte ended;
/* A thread ended with a permit, and the word was not cleared of that since. */
bool owed;
bool expected[THREADS];
/* The threads that saw the last death and did not roll back; whether one of them came after the last roll-back or death. */
byte toldOnes;
bool calm;

#define STAY      0
#define RELEASE   1
#define ROLL_BACK 2
#define DIE       3

inline lockShard() { !shard -> shard = true }

/* ── Taking ── */

/* Records what thread `w` reads in the word that it takes. */
inline noteTaken(w, x) {
  told[w] = told[w] || ((x) & ABANDONED);
  expected[w] = expected[w] || owed;
  toldOnes = toldOnes | (owed -> bit(w) : 0);
  calm = calm || owed
}

/* takeShared: sets `ok`. It gives up if the word has any flag, so its holder sees no death. */
inline fastTake() {
  /* mutant: P1-takes-one-more */
  ok = word == 0 || (word > SHARED && word < (SHARED | LIMIT));
  if
  :: ok ->
     noteTaken(t, word);
     word = (word + 1) | SHARED;
     shares[t]++
  :: else -> skip
  fi
}

/* Table::tryTake: one step, as in table.pml. */
inline tryTake() {
  d_step {
    ok = (isFree(word) || !(word & QUEUED)) && admits(word);
    if
    :: ok ->
       noteTaken(t, word);
       word = taking(word);
       shares[t]++
    :: else -> skip
    fi
  }
}

/* Sets `ok` to whether it was taken; else it is linked. */
inline takeOrLink() {
  atomic { lockShard(); seen = word };
  do
  :: atomic {
       ok = admits(seen);
       next = (ok -> taking(seen) : (designated -> seen : seen | QUEUED));
       if
       :: next != seen && word != seen -> seen = word
       :: next == seen || word == seen ->
          if
          :: ok ->
             noteTaken(t, seen);
             word = next;
             shares[t]++
          :: else ->
             word = (next == seen -> word : next);
             do
             :: queue[n] != 0 -> n++
             :: else -> break
             od;
             queue[n] = t + 1;
             n = 0;
             state[t] = WAITING
          fi;
          seen = 0;
          next = 0;
          shard = false;
          break
       fi
     }
  od
}

/* ── Leaving ── */

inline afterLeaving(how, holds) {
  left = seen;
  if
  :: how == STAY -> skip
  :: else ->
     assert(count(seen) >= holds && holds > 0);                                   /* I1 */
     left = (count(seen) == holds -> seen & ~(SHARED | HOLDER) : seen - holds);
     left = (how == DIE -> left | ABANDONED : left);
     /* mutant: P3-reported-forever */
     left = (how == RELEASE && (left & DEATH_REPORTED) -> left & ~ABANDONED : left);        /* keeps P3 */
     /* mutant: P3-rolled-back-saw-it */
     left = left & ~DEATH_REPORTED
  fi
}

inline grantAt() {
  grants = grants | bit(queue[n] - 1);
  next = taking(next)
}

/* Sets `next`, and `toDesignate` (a waiter + 1) or `grants` (a set of waiters). */
inline plan() {
  next = left & ~QUEUED;
  if
  /* mutant: P2-waits-for-designated */
  :: designated != 0 -> planBeside()
  :: designated == 0 && queue[0] == 0 -> skip
  :: designated == 0 && queue[0] != 0 && !admits(next) -> next = next | QUEUED
  :: designated == 0 && queue[0] != 0 && admits(next) ->
     if
     :: count(next) + 1 < LIMIT -> planJoint()
     :: else -> planAlone()
     fi
  fi;
  n = 0
}

inline planBeside() {
  do
  :: queue[n] != 0 && count(next) + 1 < LIMIT ->
     if
     :: queue[n] == designated -> skip
     :: else -> grantAt()
     fi;
     n++
  :: else -> break
  od
}

inline planJoint() {
  do
  :: queue[n] != 0 && admits(next) ->
     grantAt();
     n++
  :: else -> break
  od;
  /* mutant: P2-joint-drops-queued */
  next = next | (queue[n] != 0 -> QUEUED : 0)
}

/* Whether it is the turn of the first is chosen freely. An event loop may be late, and gets its permit at once. */
inline planAlone() {
  if
  :: true ->
     grantAt();
     next = next | (queue[1] != 0 -> QUEUED : 0)
  :: !async[queue[0] - 1] -> toDesignate = queue[0]
  fi
}

inline removeFromQueue(w) {
  k = 0;
  do
  :: queue[k] != 0 && queue[k] != w + 1 -> k++
  :: else -> break
  od;
  assert(queue[k] == w + 1);                                                      /* I5 */
  do
  :: queue[k] != 0 -> queue[k] = queue[k + 1]; k++
  :: else -> break
  od;
  k = 0
}

/* With the shard locked and the word in `seen`: leaves, grants, gives the shard back and wakes. */
inline leaveLocked(how, holds) {
  do
  :: atomic {
       afterLeaving(how, holds);
       plan();
       if
       :: word == seen ->
          word = next;
          observe(how);
          carryOut();
          seen = 0;
          left = 0;
          next = 0;
          break
       :: else ->
          seen = word;
          grants = 0;
          toDesignate = 0
       fi
     }
  od;
  tell()
}

/* P3 in another form: only a release after a holder saw the death ends the flag; and it does so if no thread rolled back
 * or died in between. */
inline observe(how) {
  assert(!(owed && how != STAY && !(next & ABANDONED)) || (how == RELEASE && toldOnes != 0));
  assert(!(how == RELEASE && calm) || !(left & ABANDONED));
  if
  :: how == ROLL_BACK -> toldOnes = toldOnes & ~bit(t); calm = false
  :: how == DIE -> toldOnes = 0; calm = false; owed = true
  :: else -> skip
  fi;
  if
  :: how == RELEASE && !(left & ABANDONED) -> owed = false; toldOnes = 0; calm = false
  :: else -> skip
  fi
}

/* The part of it that the shard guards. */
inline carryOut() {
  designated = (toDesignate -> toDesignate : designated);
  do
  :: n == THREADS -> break
  :: n < THREADS && (grants & bit(n)) ->
     removeFromQueue(n);
     noteTaken(n, next);
     shares[n] = shares[n] + !async[n];
     n++
  :: else -> n++
  od;
  n = 0;
  /* P2: one permit is left for a designated waiter, and no more while others wait. */
  assert(designated == 0 || count(next) < LIMIT || grants == 0);
  assert(designated == 0 || queue[1] == 0 || count(next) + 1 >= LIMIT);
  if
  :: grants == 0 && toDesignate == 0 -> shard = false
  :: else -> skip
  fi
}

/* The part that others see: states under the shard, and wakes after it. */
inline tell() {
  do
  :: atomic {
       toDesignate != 0 ->
       state[toDesignate - 1] = DESIGNATED;
       wakes = bit(toDesignate - 1);
       toDesignate = 0;
       shard = false
     }
  :: atomic {
       grants != 0 ->
       first(grants);
       assert(state[k] != GRANTED);                                               /* I5 */
       wakes = wakes | bit(k);
       state[k] = GRANTED;
       k = 0;
       shard = (grants != 0)
     }
  :: else -> break
  od;
  do
  :: atomic { wakes != 0 -> first(wakes); permit[k] = true; k = 0 }
  :: else -> break
  od
}

/* Takes the lowest bit out of a set, into `k`. */
inline first(set) {
  do
  :: !(set & bit(k)) -> k++
  :: else -> break
  od;
  set = set & ~bit(k)
}

inline leave(how, holds) {
  atomic { lockShard(); seen = word };
  leaveLocked(how, holds)
}

/* ── Waiting ── */

/* Table::withdraw: sets `ok` to whether it had not been granted. */
inline withdraw() {
  atomic {
    lockShard();
    ok = (state[t] != GRANTED);
    if
    :: ok ->
       removeFromQueue(t);
       designated = (designated == t + 1 -> 0 : designated);
       state[t] = WAITING;
       seen = word
    :: else -> shard = false
    fi
  };
  if
  :: ok -> leaveLocked(STAY, 0)
  :: else -> skip
  fi
}

inline unlinkServed() {
  removeFromQueue(t);
  designated = 0;
  state[t] = GRANTED;
  seen = word
}

/* Tries; sets QUEUED and sleeps again; or is unlinked. Sets `ok` to whether it was served. */
inline tryDesignated() {
  tryTake();
  if
  :: ok -> atomic { lockShard(); unlinkServed() }
  :: else ->
     atomic { lockShard(); tryTake() };
     do
     :: ok -> atomic { unlinkServed(); break }
     :: else ->
        seen = word;
        atomic {
          if
          /* mutant: P2-sleeps-beside-permit */
          :: !admits(seen) && word == seen ->
             word = seen | QUEUED;
             designated = 0;
             state[t] = WAITING;
             seen = 0;
             shard = false;
             break
          :: else -> seen = 0
          fi
        };
        tryTake()
     od
  fi;
  if
  :: ok -> leaveLocked(STAY, 0)
  :: else -> skip
  fi
}

/* Sets `ok` to whether it has a permit. */
inline waitForGrant() {
  do
  :: state[t] == GRANTED -> ok = true; break
  :: state[t] == DESIGNATED ->
     tryDesignated();
     if
     :: ok -> break
     :: else -> skip
     fi
  :: state[t] == WAITING -> atomic { permit[t] -> permit[t] = false }
  :: state[t] != GRANTED && (MAY_GIVE_UP || MORTAL) ->
     if
     :: MAY_GIVE_UP -> skip
     :: MORTAL -> ending = true
     fi;
     withdraw();
     if
     :: ok -> ok = false; break
     :: else -> skip
     fi
  /* Its event loop does not come for the grant any more. */
  :: state[t] == GRANTED && async[t] && MORTAL -> ending = true; ok = true; break
  od;
  if
  :: ok && async[t] && ending -> leave(ROLL_BACK, 1); ok = false
  :: else -> skip
  fi;
  atomic {
    shares[t] = shares[t] + (ok && async[t]);
    state[t] = WAITING
  }
}

/* The acquisition has returned. */
inline enter() {
  d_step {
    assert(told[t] == expected[t]);
    assert(inside < LIMIT);                                                       /* P1 */
    inside++;
    mine++;
    told[t] = false;
    expected[t] = false;
    async[t] = false;
    ok = false
  }
}

inline forget() {
  d_step {
    told[t] = false;
    expected[t] = false;
    async[t] = false;
    ok = false
  }
}

/* Of several keys it has this one, and another one is refused. */
inline rollBack() {
  leave(ROLL_BACK, 1);
  shares[t]--;
  forget()
}

#ifdef ROUNDS
#define mayBegin (MAY_BEGIN && rounds < ROUNDS)
#else
#define mayBegin MAY_BEGIN
#endif

active [THREADS] proctype Thread() {
  byte seen, left, next, n, k, grants, wakes, toDesignate, mine;
  bool ok, ending;
#ifdef ROUNDS
  byte rounds;
#endif

turn:
  do
  :: !ending && mine == 0 -> break
  :: !ending && mine < MOST && mayBegin ->
     atomic {
#ifdef ROUNDS
       rounds++;
#endif
       fastTake();
       if
       :: ok -> enter(); goto turn
       :: else -> skip
       fi
     };
     tryTake();
     if
     :: !ok && mine == 0 ->
        if
        :: MAY_BLOCK -> skip
        :: MAY_WAIT -> async[t] = true
        fi;
        takeOrLink();
        if
        :: ok -> skip
        :: else -> waitForGrant()
        fi
     :: else -> skip
     fi;
     if
     :: ok && !ending -> enter()
     :: ok && !ending && mine == 0 && MAY_FAIL -> rollBack()
     :: !ok || ending -> forget()
     fi
  :: !ending && mine > 0 ->
     atomic {
       inside--;
       mine--;
       ok = (word > SHARED && word <= (SHARED | LIMIT));
       if
       :: ok ->
          assert(!owed);
          word = (word == (SHARED | 1) -> 0 : word - 1);
          shares[t]--;
          ok = false;
          goto turn
       :: else -> skip
       fi
     };
     leave(RELEASE, 1);
     shares[t]--
  :: !ending && MORTAL -> ending = true
  /* Membership::abandon. The next thread gets the same slot. */
  :: ending ->
     atomic { inside = inside - mine; mine = 0 };
     if
     :: shares[t] > 0 ->
        /* mutant: P1-dies-with-one */
        leave(DIE, shares[t]);
        shares[t] = 0
     :: else -> skip
     fi;
     ending = false
  od;

  atomic {
    ended++;
    if
    :: ended == THREADS ->
       assert((word & ~ABANDONED) == 0 && queue[0] == 0 && designated == 0 && inside == 0);
       do
       :: n == THREADS -> break
       :: else -> assert(shares[n] == 0); n++
       od
    :: else -> skip
    fi
  }
}

active proctype Monitor() {
end:
  if
  :: count(word) > LIMIT -> assert(false)                                         /* P1 */
  :: !shard && (word & QUEUED) && count(word) < LIMIT -> assert(false)            /* P2 */
  :: !shard && queue[0] != 0 && designated == 0 && !(word & QUEUED) -> assert(false)
  fi
}
