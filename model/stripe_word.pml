/* The protocol of a lock's stripes, by threads that acquire and release for ever; see README.md. */

#ifndef THREADS
#define THREADS 2
#endif
#ifndef STRIPES
#define STRIPES 1
#endif
/* How many of the threads, from the first, wait also asynchronously. */
#ifndef ASYNC
#define ASYNC 0
#endif

/* What a waiter may ask for: expressions of `who`, the waiter, and `t`, its thread. */
#ifndef MAY_EXCLUDE
#define MAY_EXCLUDE true
#endif
#ifndef MAY_SHARE
#define MAY_SHARE   true
#endif
#ifndef MAY_TAKE_ONE
#define MAY_TAKE_ONE  true
#endif
#ifndef MAY_TAKE_BOTH
#define MAY_TAKE_BOTH true
#endif

/* Threads differ only by number, so it is enough that one of them can be ended. */
#ifdef MORTAL
#define mortal (t == 0)
#else
#define mortal false
#endif

/* How long a sync acquisition is ready to wait: so many of the threads, from the first, may do so. */
#ifndef TIMEOUTS
#define TIMEOUTS 0
#endif
#ifndef TRIES
#define TRIES 0
#endif
/* Whether a thread is watched that must be served, and which; that takes a clock. */
#ifdef STARVING
#define CLOCK
#endif

#define FOREVER 0
#define TIMED   1
#define AT_ONCE 2

/* The running thread, and its async waiter. */
#define t   _pid
#define own (THREADS + t)

#if !ASYNC
#define pending    false
#define reclaiming false
#define holdsAsync false
#endif

#include "state.pml"
#include "table.pml"
#include "sync_wait.pml"
#include "async_waits.pml"

inline chooseRequest(who) {
  atomic {
    if
    :: MAY_EXCLUDE -> skip
    :: MAY_SHARE -> shared[who] = true
    fi;
#if STRIPES == 2
    if
    :: MAY_TAKE_ONE -> skip
    :: MAY_TAKE_ONE -> lows[who] = 1; highs[who] = 1; positions[who] = 1
    :: MAY_TAKE_BOTH -> highs[who] = 1
    fi;
#endif
#ifdef ROUNDS
    rounds++
#else
    skip
#endif
  }
}

inline choosePatience() {
  if
  :: patience = FOREVER
  :: t < TIMEOUTS -> patience = TIMED
  :: t < TRIES -> patience = AT_ONCE
  fi
}

#ifdef ROUNDS
#define mayBegin (rounds < ROUNDS)
#elif defined(STARVING)
/* An event loop that is called is not too busy to come. */
#define mayBegin (t == STARVING -> !wasServed : !isCalled)
#define mayStop  (t != STARVING || wasServed)
#else
#define mayBegin true
#endif
#ifdef STARVING
#define mayGiveUp false
#else
#define mayGiveUp true
#endif
#ifndef mayStop
#define mayStop true
#endif

#ifdef STARVING
bool wasServed;
#define served() wasServed = (wasServed || t == STARVING)
#if ASYNC
#define isCalled (t < ASYNC && (settling || loopWake[t]))
#else
#define isCalled false
#endif
#else
#define served() skip
#endif

/* ── What a thread does with its guards ── */

/* The acquisition has returned: the thread uses what the lock protects. */
inline enter(who) {
  d_step {
    assert(told[who] == expected[who]);
    i = low(who);
    n = 0;
    do
    :: i > high(who) -> break
    :: else ->
       assert(users[i] < 8 && (shared[who] || users[i] == 0));                    /* mutual exclusion */
       users[i] = users[i] + (shared[who] -> 1 : 8);
       served();
       n = n + dirty[i];
       i++
    od;
    /* An exclusive holder is told exactly if somebody died since an earlier one was told. */
    assert(shared[who] || told[who] == (n > 0));
    i = 0;
    n = 0
  }
}

/* It does so no more, as it is about to release, or dead. */
inline leaveUsers(who) {
  d_step {
    i = low(who);
    do
    :: i > high(who) -> break
    :: else ->
       assert(shared[who] -> isShared(word[i]) : heldBy(word[i], t));             /* I1 */
       users[i] = users[i] - (shared[who] -> 1 : 8);
       dirty[i] = dirty[i] && shared[who];
       i++
    od;
    i = 0
  }
}

inline forgetRequest(who) {
  d_step {
    shared[who] = false;
    told[who] = false;
    expected[who] = false;
    state[who] = WAITING;
#if STRIPES == 2
    lows[who] = 0;
    highs[who] = 0;
    positions[who] = 0;
#endif
  }
}

/* ── The end of a thread ── */

/* Membership::abandon */
inline abandon() {
  do
  :: r == STRIPES -> break
  :: r < STRIPES && (sharesOf(t, r) > 0 || heldBy(word[r], t)) ->
     leave(r, DIE, sharesOf(t, r) > 0, sharesOf(t, r));
     sharesOf(t, r) = 0;
     r++
  :: r < STRIPES && sharesOf(t, r) == 0 && !heldBy(word[r], t) -> r++
  od;
  r = 0;
  forgetRequest(t);
#if ASYNC
  if
  :: t < ASYNC -> forgetRequest(own)
  :: else -> skip
  fi
#endif
}

/* No word and no queue knows the thread any more. */
inline assertGone() {
  d_step {
    do
    :: r == STRIPES -> break
    :: else ->
       assert(!heldBy(word[r], t));
       do
       :: Q(r, i) == 0 -> break
       :: else -> assert(ownerOf(waiterAt(r, i)) != t); i++
       od;
       i = 0;
       r++
    od;
    r = 0
  }
}

/* All threads have stopped, and held nothing. */
inline assertFree() {
  do
  :: r == STRIPES -> break
  :: else ->
     assert((word[r] & ~ABANDONED) == 0 && Q(r, 0) == 0 && designated[r] == 0 && users[r] == 0);
     i = 0;
     do
     :: i == THREADS -> break
     :: else -> assert(sharesOf(i, r) == 0); i++
     od;
     r++
  od
}

active [THREADS] proctype Thread() {
  byte seen, next, left, at, n, i, k, p, r, last, toDesignate, grants, wakes, patience, from;
  bool ok, done, goOn, got, waiting, giveUp, holdsSync, ending;
#if ASYNC
  byte readies;
  bool pending, holdsAsync, settling, reclaiming, evenGranted, looked, steppedAside;
#endif
#ifdef ROUNDS
  byte rounds;
#endif
#ifdef CLOCK
  bool inTurn;
#endif

born:
#if ASYNC
  /* Participant::start */
  atomic {
    if
    :: t < ASYNC -> looping[t] = true; waking[t] = false
    :: else -> skip
    fi
  };
#endif
turn:
  do
  :: !ending && !holdsSync && !holdsAsync && !pending && mayStop -> break
  :: !ending && !holdsSync && !holdsAsync && mayBegin ->
     atomic { chooseRequest(t); choosePatience() };
     takeAll(t, holdsSync);
     if
     :: ending -> p = 0
     :: else -> acquireSyncSlow()
     fi
  :: !ending && holdsSync -> releaseAll(t, holdsSync)
#if ASYNC
  :: !ending && t < ASYNC && !holdsAsync && !pending && mayBegin ->
     chooseRequest(own);
     takeAll(own, holdsAsync);
     if
     :: ending -> p = 0
     :: else -> startSlow()
     fi
  :: !ending && holdsAsync -> releaseAll(own, holdsAsync)
  /* Idle, until its event loop is called. Nobody who idles keeps a guard. */
  :: !ending && pending && !settling && !holdsSync ->
     atomic { loopWake[t] -> loopWake[t] = false; settling = true }
  :: !ending && settling -> settling = false; settleReady()
  /* An abort, a timer, or the environment's clean-up: AsyncWaits::cancel, expire, close. */
  :: pending && !(ending && (holdsSync || holdsAsync)) && mayGiveUp ->
     if
     :: atomic { evenGranted = true; looping[t] = !ending }
     :: !ending && state[own] != GRANTED -> skip
     fi;
     giveUpOwn()
#endif
  :: !ending && mortal -> ending = true
  /* The environment's clean-up: Registry::leave. */
  :: ending && holdsSync -> leaveUsers(t); holdsSync = false
#if ASYNC
  :: ending && holdsAsync -> leaveUsers(own); holdsAsync = false
#endif
  :: ending && !holdsSync && !holdsAsync && !pending -> break
  od;

  if
  :: ending ->
#if ASYNC
     if
     :: t < ASYNC ->
        looping[t] = false;
        popReady();
        assert(!done);
        settling = false
     :: else -> skip
     fi;
#endif
     abandon();
     assertGone();
     ending = false;
     /* The next thread gets the same slot. */
     goto born
  :: else -> skip
  fi;

  atomic {
    ended++;
    if
    :: ended == THREADS -> assertFree()
    :: else -> skip
    fi
  }
}

/* ── What must hold at any time ── */

active proctype Monitor() {
end:
  if
  :: !always(i2) -> assert(always(i2))
  :: !always(i3) -> assert(always(i3))
  :: !always(i4) -> assert(always(i4))
  :: !always(i5) -> assert(always(i5))
  :: !always(i6) -> assert(always(i6))
  fi
}

/* ── What must come about, if every thread that can go on does ── */

#ifdef PROGRESS
/* All acquisitions end. */
ltl everyWaitEnds { <> (ended == THREADS) }
#endif

#ifdef CLOCK
active proctype Clock() {
end:
  do
  :: !fairnessDue -> d_step { passTime }
  od
}
#endif

#ifdef STARVING
/* The only acquisition of the starving thread succeeds, however often others come by; unless, without end, it is about
 * to exchange the word in the very moment in which somebody else does, or a mutex never lets it in. */
ltl nobodyStarves { ((<> [] !lostRace) && ([] <> !atShard)) -> <> wasServed }
#endif
