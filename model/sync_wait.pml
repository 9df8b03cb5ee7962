/* The fast path (lib/lock/guard.ts), and acquisitions that block their thread (sync_wait.cc, membership.cc). */

/* ── Guard ── */

/* take, takeShared: sets `ok` to whether it was taken. The latter loads, decides and exchanges, and gives up where
 * it loses a race between: one step that may fail for no reason. No thread can be ended before the share counts. */
#ifdef STARVING
#define mayLoseForNothing false
#else
#define mayLoseForNothing true
#endif

inline fastTake(s, who) {
  /* mutant: I1-takes-unseen */
  ok = (shared[who] -> (word[s] == 0 || (word[s] & ~HOLDER) == SHARED) : word[s] == 0);
  if
  :: ok ->
     expected[who] = expected[who] || dirty[s];
     CHANGED
     word[s] = (shared[who] -> (word[s] == 0 -> SHARED + 1 : word[s] + 1) : slotOf(t));
     sharesOf(t, s) = sharesOf(t, s) + shared[who]
  :: ok && shared[who] && mayLoseForNothing -> ok = false
  :: else -> skip
  fi
}

/* giveBack, releaseShared: the same for leaving, if no thread waits or others keep sharing. */
inline fastGiveBack(s, who) {
  /* mutant: I3-last-share-wakes-none */
  ok = (shared[who] -> word[s] == (SHARED | 1) || holderOf(word[s]) > 1 : word[s] == slotOf(t));
  if
  :: ok ->
     CHANGED
     word[s] = (shared[who] -> (word[s] == (SHARED | 1) -> 0 : word[s] - 1) : 0);
     sharesOf(t, s) = sharesOf(t, s) - shared[who]
  :: ok && shared[who] && mayLoseForNothing -> ok = false
  :: else -> skip
  fi
}

/* tryTake(guard): if it takes all, the next turn follows. Otherwise `p` is the stripe at which it stopped. */
inline takeAll(who) {
  atomic {
    p = low(who);
    fastTake(p, who);
    turnIfTaken(who)
  }
#if STRIPES > 1
  ;
  do
  :: ok && mortal -> ending = true; break
  :: ok ->
     atomic {
       p++;
       fastTake(p, who);
       turnIfTaken(who)
     }
  :: !ok -> break
  od;
  ok = false
#endif
}

inline turnIfTaken(who) {
  if
  :: ok && p == high(who) ->
     ok = false;
     p = 0;
     UNRANK(who)
     enter(who);
     hold(who);
     goto turn
  :: else -> skip
  fi
}

/* release(): last stripe first. The thread stops using what the lock protects before it starts. */
inline releaseAll(who) {
  atomic {
    leaveUsers(who);
    drop(who);
    r = high(who);
    fastGiveBack(r, who);
    turnIfReleased(who)
  };
  do
  :: !ok ->
     RELEASE_LOCALLY(who)
     leave(r, RELEASE, shared[who], 1);
     atomic {
       assert(!shared[who] || sharesOf(t, r) > 0);
       sharesOf(t, r) = sharesOf(t, r) - shared[who];
       settleSoon();
       GAVE_BACK
       ok = true;
       turnIfReleased(who)
     }
#if STRIPES > 1
  :: ok && mortal -> ok = false; r = 0; ending = true; break
  :: ok ->
     atomic {
       r--;
       fastGiveBack(r, who);
       turnIfReleased(who)
     }
#endif
  od
}

inline turnIfReleased(who) {
  if
  :: ok && r == low(who) ->
     ok = false;
     r = 0;
     FORGET_RELEASED(who)
     goto turn
  :: else -> skip
  fi
}

/* ── SyncWait ── */

/* run(), after the fast path stopped at `p`. The attempts of spinTake are covered by proceed() here. */
inline acquireSyncSlow() {
  EXPOSE(t)
  if
  :: patience == AT_ONCE ->
     do
     :: p > high(t) -> got = true; p = 0; break
     :: else ->
        tryTake(p, t);
        if
        :: ok -> p++; ok = false
        :: else -> from = p; rollBack(t, from); from = 0; break
        fi
     od
  :: else ->
     TAKE_BACK
     block();
     waitForGrant();
     unblock()
  fi;
  atomic {
    patience = FOREVER;
    if
    :: got && !ending -> enter(t); hold(t); state[t] = WAITING
    :: !got && !ending -> forgetRequest(t)
    :: else -> skip
    fi;
    got = false
  }
}

/* Table::proceed for the thread's own waiter, from stripe `p` on. Sets `ok` to whether all are taken. */
inline proceedOwn(who) {
  do
  :: p > high(who) -> ok = true; break
  :: else ->
     atomic {
       tryTake(p, who);
       if
       :: ok && p == high(who) && last != 0 -> unlockLast()
       :: else -> skip
       fi
     };
     if
     :: ok -> p++
     :: else ->
        AWAIT_SHARD
        atomic {
          if
          :: last != shardOf(p) + 1 ->
             lockShard(p);
             setPosition(who, p);
             if
             :: last != 0 -> unlockLast()
             :: else -> skip
             fi;
             last = shardOf(p) + 1
          :: else -> setPosition(who, p)
          fi;
          seen = word[p]
        };
        takeOrLink(p, who);
        if
        :: ok -> p++
        :: else -> break
        fi
     fi
  od;
  p = 0
}

/* block(), wait(). A park ends here only with a permit, not with its slice: nothing may depend on slices. The actions at the
 * end of a slice, and at a timeout, may happen before the thread parks. The code reads the state twice, the model once:
 * whatever happens between the two, a permit is on its way, so the park ends. */
inline waitForGrant() {
  do
#if ASYNC
  :: reclaiming ->
     reclaiming = false;
     from = p;
     reclaim();
     p = from;
     from = 0
#endif
  :: !reclaiming && !waiting ->
     waitsForItself();
     if
     :: refused -> UNREFUSE from = p; rollBack(t, from); from = 0; break
     :: !refused && !reclaiming ->
        waiting = true;
        proceedOwn(t);
        if
        :: ok -> ok = false; got = true; break
        :: else -> skip
        fi
     :: !refused && reclaiming -> skip
     fi
  :: !reclaiming && waiting && giveUp ->
     giveUp = false;
     withdraw(t);
     if
     :: done -> done = false; LEAVE_GRAPH rollBack(t, position(t)); break
     :: else -> skip
     fi
#ifdef GRAPH
  :: refused && waiting -> refused = false; rollBack(t, position(t)); break
#endif
  :: !reclaiming && waiting && !giveUp && !refused ->
     if
     :: state[t] == GRANTED -> got = true; break
     :: state[t] == DESIGNATED ->
        tryDesignated(t);
        goOnIfDone()
     :: state[t] == WAITING ->
        if
        :: true ->
           if
           /* mutant: park-drops-permit */
           :: atomic { permit[t] -> permit[t] = false }
#ifdef GRAPH
           :: mayLook -> refuse()
#endif
#ifdef REVOKE
           /* At the end of a slice, as others need not come. */
           :: anyRevocable(position(t)) -> from = position(t); revoke()
           :: mayOvertake(t) -> skip
#endif
           fi
#if ASYNC
           ;
           /* mutant: blocked-keeps-grants */
           reclaiming = !refused && t < ASYNC && hasReady(t)
#endif
        :: patience == TIMED -> giveUp = true
        :: mortal -> giveUp = true; ending = true
#if ASYNC
#ifndef PROGRESS
        :: mayOvertake(t) ->
           overtakeDesignated(t);
           goOnIfDone()
#endif
        :: t < ASYNC && pending && !steppedAside ->
           steppedAside = true;
           resettle()
#endif
        fi
     :: state[t] == DESIGNATED && patience == TIMED -> giveUp = true
     :: state[t] == DESIGNATED && mortal -> giveUp = true; ending = true
     fi
  od;
#if ASYNC
  steppedAside = false;
#endif
  LEAVE_GRAPH
  waiting = false
}

/* goOn(), where `done` says that the stripe waited for was taken. */
inline goOnIfDone() {
  if
  :: done ->
     done = false;
#if STRIPES == 1
     got = true;
     break
#else
     p = position(t) + 1;
     proceedOwn(t);
     if
     :: ok -> ok = false; got = true; break
     :: else -> skip
     fi
#endif
  :: else -> skip
  fi
}
