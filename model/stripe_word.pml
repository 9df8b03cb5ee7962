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
/* How many acquisitions of such a thread may wait so at the same time: 1 or 2. */
#ifndef EACH
#define EACH 1
#endif

/* The modes that a waiter may ask for: expressions of `who`, the waiter, and `t`, its thread. */
#ifndef MAY_EXCLUDE
#define MAY_EXCLUDE true
#endif
#ifndef MAY_SHARE
#define MAY_SHARE   true
#endif
/* The stripes a … b. */
#ifndef MAY_TAKE
#define MAY_TAKE(a, b) true
#endif

/* Whether an async acquisition waits, where it does not get its stripes at once. */
#ifndef MAY_WAIT
#define MAY_WAIT true
#endif

/* Whether a thread may acquire while it holds a guard, or waits for one asynchronously and holds another. */
#ifdef MAY_NEST
#define NESTS 1
#else
#define MAY_NEST false
#endif
/* Whether it acquires synchronously only then. */
#ifndef MUST_NEST
#define MUST_NEST false
#endif

/* Which thread may begin to compute for ever, while it holds no guard. */
#ifndef MAY_STALL
#define MAY_STALL false
#endif

/* How many of the threads, from the first, have tasks that pass stripe 0 on to each other. At most QUEUE of them wait in
 * JavaScript. */
#ifdef LOCALS
#ifndef QUEUE
#define QUEUE 2
#endif
#endif
/* Which thread blocks for ever. */
#ifndef MAY_BLOCK
#define MAY_BLOCK true
#endif
/* Which thread also has async acquisitions that are not of that kind. */
#ifndef MAY_ELSEWHERE
#define MAY_ELSEWHERE true
#endif
/* Which thread gives up acquisitions that wait asynchronously. */
#ifndef MAY_GIVE_UP
#define MAY_GIVE_UP true
#endif

/* Which thread may close the lock, and open it again. */
#ifndef MAY_CLOSE
#define MAY_CLOSE false
#endif

/* Threads differ only by number, so it is enough that one of them can be ended. */
#ifdef MORTAL
#ifndef MAY_DIE
#define MAY_DIE (t == 0)
#endif
#define mortal MAY_DIE
#else
#define mortal false
#endif

/* How long a sync acquisition is ready to wait: that many of the threads, from the first, may do so. */
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

/* The running thread; its first async waiter, and the one that it is about. */
#define t        _pid
#define firstOwn (THREADS + t * EACH)
#if EACH == 1
#define own      firstOwn
#define chain    0
#define FORGET_CHAIN
#else
#define FORGET_CHAIN dropped[t] = dropped[t] || (chain & bit(own)); chain = chain & ~bit(own);
#endif

#define allOwn    (bit(firstOwn) * (bit(EACH) - 1))
#define idle      (allOwn & ~(pending | holdsAsync))
#define lowest(x) ((x) & -(x))

#ifdef REVOKE
#define BEGIN_PRESENT  absent[t] = false; away[t] = false
#define mayRevokeFor(w) ((pending & bit(w)) && state[w] == WAITING && anyRevocable(position(w)))
#else
#define BEGIN_PRESENT  skip
#define actor          t
#endif

#if ASYNC
#define UNREFUSE refused = false;
#else
#define pending    false
#define reclaiming false
#define holdsAsync false
#define refused    false
#define UNREFUSE
#endif

/* Whether the guard of a waiter is there. */
#if ASYNC
#define hold(who) holdsAsync = holdsAsync | (isAsync(who) -> bit(who) : 0); holdsSync = holdsSync || who == t
#define drop(who) holdsAsync = holdsAsync & (isAsync(who) -> ~bit(who) : 255); holdsSync = holdsSync && who != t
#else
#define hold(who) holdsSync = true
#define drop(who) holdsSync = false
#endif

#include "state.pml"
#include "wait_graph.pml"
#include "table.pml"
#include "local_waits.pml"
#include "revocation.pml"
#include "sync_wait.pml"
#include "async_waits.pml"

inline chooseRequest(who) {
  atomic {
    if
    :: MAY_EXCLUDE -> skip
    :: MAY_SHARE -> shared[who] = true
    fi;
#if STRIPES > 1
    if
    :: MAY_TAKE(0, 0) -> skip
    :: MAY_TAKE(1, 1) -> lows[who] = 1; highs[who] = 1; positions[who] = 1
    :: MAY_TAKE(0, 1) -> highs[who] = 1
#if STRIPES == 3
    :: MAY_TAKE(2, 2) -> lows[who] = 2; highs[who] = 2; positions[who] = 2
    :: MAY_TAKE(1, 2) -> lows[who] = 1; highs[who] = 2; positions[who] = 1
    :: MAY_TAKE(0, 2) -> highs[who] = 2
#endif
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
  :: MAY_BLOCK -> patience = FOREVER
  :: t < TIMEOUTS -> patience = TIMED
  :: t < TRIES -> patience = AT_ONCE
  fi
}

#ifdef ROUNDS
#define mayBegin (rounds < ROUNDS)
#elif defined(STARVING)
/* An event loop that is called is not too busy to come, nor are microtasks. */
#define mayBegin (t == STARVING -> !wasServed : !isCalled && !handsOver)
#define mayStop  (t != STARVING || wasServed)
#else
#define mayBegin true
#endif
#ifdef STARVING
#define mayGiveUp false
#else
#define mayGiveUp (ending || MAY_GIVE_UP)
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
       ADD_GUARD(i)
       served();
       n = n + dirty[i];
       i++
    od;
    /* An exclusive holder sees a death exactly if a holder died since an earlier one saw it. */
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
       REMOVE_GUARD(i)
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
#if STRIPES > 1
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
     /* mutant: death-of-one-share */
     leave(r, DIE, sharesOf(t, r) > 0, sharesOf(t, r));
     sharesOf(t, r) = 0;
     r++
  :: r < STRIPES && sharesOf(t, r) == 0 && !heldBy(word[r], t) -> r++
  od;
  r = 0;
  forgetRequest(t);
#if ASYNC
  if
  :: t < ASYNC ->
     forgetRequest(firstOwn);
     forgetRequest(firstOwn + EACH - 1)
  :: else -> skip
  fi;
#endif
#ifdef LOCALS
  forgetLocals()
#else
  skip
#endif
}

#if ASYNC
/* Registry::close: as at its end, but the thread lives on, and opens the lock again. Its guards release nothing more. */
inline close() {
  if
  :: holdsSync -> leaveUsers(t); holdsSync = false
  :: else -> skip
  fi;
  do
  :: holdsAsync ->
     atomic { pick(holdsAsync) };
     leaveUsers(own);
     drop(own)
  :: !holdsAsync && pending ->
     atomic { pick(pending); evenGranted = true };
     giveUpOwn()
  :: !holdsAsync && !pending -> break
  od;
  abandon();
  assertGone()
}
#endif

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
     :: else -> assert(sharesOf(i, r) == 0 && undeliveredOf(i) == 0); i++
     od;
     r++
  od
}

active [THREADS] proctype Thread() {
  byte seen, next, left, at, n, i, k, p, r, last, toDesignate, grants, wakes, patience, from;
#if STRIPES > 1
  byte beyond;
#endif
  bool ok, done, goOn, got, waiting, giveUp, holdsSync, ending;
#if ASYNC
  byte readies;
  byte pending, holdsAsync, looked;
  bool settling, reclaiming, evenGranted, steppedAside, refused;
#if EACH > 1
  byte own = firstOwn, chain;
#endif
#ifdef REVOKE
  byte victim, actor = t;
#endif
#ifdef GRAPH
  /* The path that is followed, and of each of its threads the blockers that are not followed yet. */
  byte path[THREADS], toFollow[THREADS], followed, found;
  bool isCycle;
#endif
#endif
#ifdef LOCALS
  byte queued, standIn, fresh;
  bool armed, handing, queueAbandoned, comesFirst;
#ifdef ORDER
  byte latest, ranks[EACH], queuedRanks[QUEUE + 1];
#endif
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
    :: t < ASYNC ->
       looping[t] = true;
       /* mutant: wake-of-earlier-thread */
       waking[t] = false;
       BEGIN_PRESENT
    :: else -> skip
    fi
  };
#endif
turn:
  do
  :: !ending && !holdsSync && !holdsAsync && !pending && !handsOver && !waitsLocally && mayStop -> break
#ifdef LOCALS
  :: !ending && hasLocals && !(isSound) -> assert(isSound)
  /* The fast path finds the stripe taken. */
  :: !ending && hasLocals && mayStartLocal && mayBegin && word[0] != 0 ->
     COUNT_ROUND
     startLocal()
  :: !ending && handing && !holdsSync && mayDeliver -> deliverLocal()
  /* An abort, or a timer. */
  :: !ending && queued != 0 && mayGiveUp ->
     if
     :: true -> skip
     :: queued > 1 -> at = 1
     fi;
     unlink()
#endif
  :: !ending && !holdsSync && (holdsAsync -> MAY_NEST : !(MUST_NEST)) && mayBegin ->
     atomic { chooseRequest(t); choosePatience() };
     takeAll(t);
     MEANWHILE(t)
     if
     :: ending -> p = 0
     :: else -> acquireSyncSlow()
     fi
  :: !ending && holdsSync -> releaseAll(t)
#if ASYNC
  :: !ending && t < ASYNC && MAY_ELSEWHERE && idle && leavesRoom && !(holdsSync && MUST_NEST) && (!holdsAsync || MAY_NEST) && mayBegin ->
     atomic { pick(lowest(idle)); chooseRequest(own); ARRIVED };
     takeAll(own);
     MEANWHILE(own)
     if
     :: ending -> p = 0
     :: !ending && MAY_WAIT -> EXPOSE(own) startSlow()
     :: !ending && !(MAY_WAIT) -> giveBackOwn()
     fi
  :: !ending && holdsAsync ->
     atomic { pick(holdsAsync) };
     releaseAll(own)
  /* Idle, until its event loop is called. An idle thread keeps no guard. */
  :: !ending && pending && !settling && !holdsSync && !holdsAsync && !handsOver ->
     if
     :: atomic { loopWake[t] -> loopWake[t] = false; settling = true }
#ifdef REVOKE
     :: mayRevokeFor(firstOwn) -> from = position(firstOwn); revoke()
     :: mayRevokeFor(firstOwn + EACH - 1) -> from = position(firstOwn + EACH - 1); revoke()
#endif
     fi
#if EACH > 1 || NESTS || defined(LOCALS)
  :: !ending && t < ASYNC && !settling && (holdsSync || holdsAsync || handsOver) && loopWake[t] -> atomic { loopWake[t] = false; settling = true }
#endif
  :: !ending && settling -> settling = false; settleReady()
  /* An abort, a timer, or the environment's clean-up: AsyncWaits::cancel, expire, close. */
  :: pending && !(ending && (holdsSync || holdsAsync)) && mayGiveUp ->
     atomic { pick(pending) };
     if
     :: atomic { mayCancel -> evenGranted = true; looping[t] = !ending }
        REPLACE_BEFORE
     :: !ending && state[own] != GRANTED -> skip
     :: else -> goto turn
     fi;
     giveUpOwn();
     REPLACE_AFTER
#ifdef REVOKE
  :: !ending && t < ASYNC && !settling && (pending & bit(own)) && state[own] == WAITING && mayOvertake(own) ->
     overtakeOwn()
#endif
  :: !ending && MAY_CLOSE && !settling -> close()
#endif
  :: !ending && mortal -> ending = true
  :: !ending && MAY_STALL && !holdsSync && !holdsAsync && !handsOver ->
end_stalled:
     false
  /* The environment's clean-up: Registry::leave. */
  :: ending && holdsSync -> leaveUsers(t); holdsSync = false
#if ASYNC
  :: ending && holdsAsync ->
     atomic { pick(holdsAsync) };
     leaveUsers(own);
     drop(own)
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
  :: !always(i8) -> assert(always(i8))
  :: !always(i2) -> assert(always(i2))
  :: !always(i3) -> assert(always(i3))
  :: !always(i4) -> assert(always(i4))
  :: !always(i5) -> assert(always(i5))
  :: !always(i6) -> assert(always(i6))
  fi
}

/* ── Liveness, if every thread that can continue does ── */

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
