/* Acquisitions that wait without blocking their thread (async_waits.cc, participant.cc, lib/engine/native). */

#if ASYNC

/* ── AsyncWaits ── */

/* start(), after the fast path came as far as `p`. */
inline startSlow() {
  countOwn(p, -1);
  proceedOwn(own);
  atomic {
    if
    :: ok ->
       ok = false;
       countOwn(high(own) + 1, +1);
       enter(own);
       holdsAsync = true
    :: else -> pending = true
    fi
  }
}

/* Membership::countShares for the stripes up to, but without, `end`. */
inline countOwn(end, by) {
  d_step {
    i = low(own);
    do
    :: i < end -> sharesOf(t, i) = sharesOf(t, i) + (shared[own] -> by : 0); i++
    :: else -> break
    od;
    i = 0
  }
}

/* popReady(): says in `done` whether there is a waiter. */
inline popReady() {
  waking[t] = false;
  d_step {
    dropped[t] = false;
    done = ready[t];
    ready[t] = false
  }
}

/* take() */
inline settleReady() {
  do
  :: popReady();
     if
     :: !done -> break
     :: done && state[own] == GRANTED ->
        undelivered[t]--;
        done = false;
        deliver()
     :: done && state[own] != GRANTED ->
        tryDesignated(own);
        if
        :: done ->
           done = false;
#if STRIPES == 2
           p = position(own) + 1;
           proceedOwn(own);
           if
           :: ok -> ok = false; deliver()
           :: else -> skip
           fi
#else
           deliver()
#endif
        :: else -> skip
        fi
     fi
  od
}

inline deliver() {
  atomic {
    countOwn(high(own) + 1, +1);
    pending = false;
    holdsAsync = true;
    enter(own);
    break
  }
}

/* cancel(), expire() and close(): `aborting` tells whether a grant is given up, too. */
inline dropOwn() {
  withdraw(own);
  r = (done -> position(own) : high(own) + 1);
  if
  :: done || aborting ->
     rollBack(own, r);
     d_step {
       undelivered[t] = undelivered[t] - !done;
       dropped[t] = dropped[t] || ready[t];
       ready[t] = false;
       pending = false
     };
     forgetRequest(own)
  :: else -> skip
  fi;
  r = 0;
  done = false;
  aborting = false
}

inline reclaim() {
  reclaimReady()
#if STRIPES == 2
  ;
  if
  :: pending && low(own) < high(own) ->
     /* reclaimPartial() */
     lockFor(own);
     atomic {
       join(p);
       done = state[own] == WAITING && position(own) != low(own);
       unlockShard(p);
       p = 0
     };
     if
     :: done -> putOff(false)
     :: else -> skip
     fi
  :: else -> skip
  fi;
  reclaimReady()
#endif
}

inline reclaimReady() {
  do
  :: popReady();
     if
     :: done -> putOff(true)
     :: else -> break
     fi
  od
}

/* putOff(); for a granted waiter that was taken from the ready list, giveBack(). Then requeue(). */
inline putOff(evenGranted) {
  withdraw(own);
  r = (done -> position(own) : high(own) + 1);
  if
  :: done || evenGranted ->
     rollBack(own, r);
     undelivered[t] = undelivered[t] - !done;
     requeue(own);
     passedOver[t] = true
  :: else -> skip
  fi;
  done = false;
  r = 0
}

/* resettle() */
inline resettle() {
  lockFor(own);
  atomic {
    join(p);
    goOn = (state[own] == WAITING);
    if
    :: goOn -> seen = word[p]
    :: else -> unlockShard(p)
    fi
  };
  if
  :: goOn -> leaveLocked(p, STAY, false, 0)
  :: else -> skip
  fi;
  goOn = false;
  p = 0
}

/* ── Participant ── */

/* block(), and what SyncWait::waitsForItself has to find out: that the thread holds nothing for good. */
inline block() {
  if
  :: t < ASYNC ->
     atomic { blocked[t] = true; inSyncWait[t] = true };
     from = p;
     do
     :: reclaim();
        holdsForGood();
        if
        :: ok -> break
        :: else -> skip
        fi
     od;
     p = from;
     from = 0;
     ok = false
  :: else -> skip
  fi
}

/* SyncWait::holdsForGood: `ok` says that it is certain not to. Otherwise it is to be asked again. */
inline holdsForGood() {
  ok = true;
  i = from;
  do
  :: i > high(t) -> break
  :: i <= high(t) && heldBy(word[i], t) ->
     atomic {
       lockShard(i);
       ok = (undelivered[t] == 0);
       assert(!ok || !heldBy(word[i], t));                                        /* no false DeadlockError */
       shard[i] = false
     };
     if
     :: ok -> i++
     :: else -> break
     fi
  :: i <= high(t) && !heldBy(word[i], t) -> i++
  od;
  i = 0
}

/* unblock() */
inline unblock() {
  if
  :: t < ASYNC ->
     blocked[t] = false;
     atomic {
       goOn = passedOver[t] && pending;
       passedOver[t] = false
     };
     if
     :: goOn -> resettle()
     :: else -> skip
     fi;
     inSyncWait[t] = false
  :: else -> skip
  fi
}

inline reclaimWhileParked() {
  if
  :: t < ASYNC && hasReady(t) -> reclaim()
  :: else -> skip
  fi
}

/* NativeEngine: a microtask follows, which settles what its own release granted. */
inline settleSoon() {
  settling = settling || (t < ASYNC && hasReady(t))
}

#else

inline block() { skip }
inline unblock() { skip }
inline reclaimWhileParked() { skip }
inline settleSoon() { skip }

#endif
