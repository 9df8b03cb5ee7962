/* Taking back what a thread was handed that does not run: AsyncWaits::revoke, Participant::isAway (participant.h). */

#ifdef REVOKE

/* Participant::revokeMutex. A thread holds its own in all that touches its waiters but start() and take(). */
#define LOCK_OWN   atomic { !revoking[t] -> revoking[t] = true };
#define UNLOCK_OWN revoking[t] = false;
#define COME       came[t] = true;

/* Whether waiter `w`, of another thread, has stripe `s`, or is to take it, and its thread has not come for it. */
#define isRevocable(w, s) (ownerOf(w) != t && (ready[ownerOf(w)] & bit(w)) && low(w) <= s && s <= endOf(w))
#define endOf(w)          (state[w] == GRANTED -> high(w) : position(w))

#if WAITERS == THREADS + 1
#define anyRevocable(s)   isRevocable(THREADS, s)
#elif WAITERS == THREADS + 2
#define anyRevocable(s)   (isRevocable(THREADS, s) || isRevocable(THREADS + 1, s))
#else
#define anyRevocable(s)   (isRevocable(THREADS, s) || isRevocable(THREADS + 1, s) || isRevocable(THREADS + 2, s))
#endif

/* For a waiter of stripe `from`, at the end of a slice, at its deadline, or when its event loop checks. A check that finds
 * nothing is not a step. */
inline revoke() {
  atomic {
    if
    :: isRevocable(THREADS, from) -> victim = THREADS
#if WAITERS > THREADS + 1
    :: isRevocable(THREADS + 1, from) -> victim = THREADS + 1
#endif
#if WAITERS > THREADS + 2
    :: isRevocable(THREADS + 2, from) -> victim = THREADS + 2
#endif
    :: else -> skip
    fi
  };
  if
  :: victim != 0 ->
     atomic { !revoking[ownerOf(victim)] -> revoking[ownerOf(victim)] = true };
     /* Under the mutex of the ready list. That says still that it has something: so its thread comes to take(). */
     atomic {
       actor = ownerOf(victim);
       if
       /* mutant: I7-takes-what-was-taken */
       :: isRevocable(victim, from) -> unlist()
       :: else -> victim = 0
       fi
     };
     if
     :: victim != 0 && state[victim] == DESIGNATED ->
        withdraw(victim);
        assert(done);
        rollBack(victim, position(victim))
     :: victim != 0 && state[victim] != DESIGNATED ->
        assert(state[victim] == GRANTED);
        rollBack(victim, high(victim) + 1);
        assert(undelivered[actor] > 0);
        undelivered[actor]--;
        CHANGED
        done = false
     :: else -> skip
     fi;
     if
     :: victim != 0 -> requeueRevoked()
     :: else -> skip
     fi;
     atomic {
       revoking[actor] = false;
       readies = (victim != 0 -> bit(actor) : 0);
       actor = t;
       done = false;
       victim = 0;
       from = 0
     };
     sendWakes(STAY)
  :: else -> from = 0
  fi
}

inline unlist() {
  ready[actor] = ready[actor] & ~bit(victim);
  dropped[actor] = true;
  absent[actor] = true;
  away[actor] = true;
  came[actor] = false
}

/* Table::requeue for a waiter whose thread may be eligible again: somebody must see to it. */
inline requeueRevoked() {
  atomic {
    lockShard(low(victim));
    relink(victim);
    seen = word[low(victim)]
  };
  /* mutant: I3-back-unseen */
  leaveLocked(low(victim), STAY, false, 0);
  /* It is not handed out again before its thread collects. */
  assert(came[actor] || !(ready[actor] & bit(victim)))
}

/* expire(): before it gives up, an async waiter takes its stripe where that is only designated. */
inline overtakeOwn() {
  LOCK_OWN
  overtakeDesignated(own);
  if
  :: done ->
     done = false;
     p = position(own) + 1;
     proceedOwn(own);
     if
     :: ok -> ok = false; deliver()
     :: else -> skip
     fi
  :: else -> skip
  fi;
  UNLOCK_OWN
}

/* In take(), after it took the ready list. */
inline comeBack() {
  if
  :: absent[t] ->
     /* mutant: I7-stays-absent */
     atomic { COME absent[t] = false };
     atomic {
       goOn = passedOver[t] && pending;
       passedOver[t] = false
     };
     if
     :: goOn -> resettle()
     :: else -> skip
     fi;
     away[t] = absent[t]
  :: else -> skip
  fi
}

#else

#define LOCK_OWN
#define UNLOCK_OWN
#define COME

#endif
