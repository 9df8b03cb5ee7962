/* The fast path (lib/guard.ts), and acquisitions that block their thread (sync_wait.cc, membership.cc). */

/* ── Guard ── */

/* take, takeShared. Says in `ok` whether it was taken. Where a thread can be ended there is a step between two
 * calls of this; between an exchange and the count of shares there is none, as nothing is called there. */
inline fastTake(s, who) {
  if
  :: !shared[who] ->
     d_step {
       ok = (word[s] == 0);
       if
       :: ok ->
          expected[who] = expected[who] || dirty[s];
          word[s] = slotOf(t);
          checkUnlocked(s)
       :: else -> skip
       fi
     }
  :: else ->
     seen = word[s];
     d_step {
       ok = word[s] == seen && (seen == 0 || (seen & ~HOLDER) == SHARED);
       if
       :: ok ->
          expected[who] = expected[who] || dirty[s];
          word[s] = (seen == 0 -> SHARED + 1 : seen + 1);
          sharesOf(t, s) = sharesOf(t, s) + 1;
          checkUnlocked(s)
       :: else -> skip
       fi;
       seen = 0
     }
  fi
}

/* giveBack, giveBackShared: without the core, if nobody waits or others go on sharing. Says in `ok` whether so. */
inline fastGiveBack(s, who) {
  if
  :: !shared[who] ->
     d_step {
       ok = (word[s] == slotOf(t));
       word[s] = (ok -> 0 : word[s]);
       checkUnlocked(s)
     }
  :: else ->
     seen = word[s];
     d_step {
       ok = word[s] == seen && (seen == (SHARED | 1) || holderOf(seen) > 1);
       if
       :: ok ->
          word[s] = (seen == (SHARED | 1) -> 0 : seen - 1);
          sharesOf(t, s) = sharesOf(t, s) - 1;
          checkUnlocked(s)
       :: else -> skip
       fi;
       seen = 0
     }
  fi
}

/* tryTake: leaves in `p` how far it came, and says in `got` whether that is all. */
inline takeAll(who) {
  p = low(who);
  do
  :: p > high(who) -> got = true; break
  :: p <= high(who) ->
     fastTake(p, who);
     if
     :: ok -> p++
     :: else -> break
     fi
  :: p > low(who) && p <= high(who) && mortal -> ending = true; break
  od;
  ok = false
}

/* release. The thread stops using what the lock protects before it starts. */
inline releaseAll(who) {
  leaveUsers(who);
  r = high(who) + 1;
  do
  :: r > low(who) ->
     r--;
     fastGiveBack(r, who);
     if
     :: ok -> ok = false
     :: else -> release(r, who)
     fi
  :: r > low(who) && r <= high(who) && mortal -> ending = true; break
  :: r == low(who) -> break
  od;
  r = 0;
  forgetRequest(who)
}

/* Membership::release; NativeTable: release. */
inline release(s, who) {
  assert(!shared[who] || sharesOf(t, s) > 0);
  leave(s, RELEASE, shared[who], 1);
  sharesOf(t, s) = sharesOf(t, s) - shared[who];
  settleSoon()
}

/* ── SyncWait ── */

/* run(), after the fast path came as far as `p`. The attempts of spinTake are those of proceed() here. */
inline acquireSyncSlow() {
  if
  :: patience == AT_ONCE ->
     do
     :: p > high(t) -> got = true; p = 0; break
     :: else ->
        tryTake(p, t);
        if
        :: ok -> p++; ok = false
        :: else -> rollBack(t, p); break
        fi
     od
  :: else ->
     block();
     proceedOwn(t);
     if
     :: ok -> got = true; ok = false
     :: else -> waitForGrant()
     fi;
     unblock()
  fi
}

/* Table::proceed for the thread's own waiter, from stripe `p` on. Says in `ok` whether all are taken. */
inline proceedOwn(who) {
  do
  :: atomic {
       p > high(who) ->
       ok = true;
       unlockLast();
       break
     }
  :: else ->
     tryTake(p, who);
     if
     :: ok -> p++
     :: else ->
        atomic {
          lockShard(p);
          setPosition(who, p);
          unlockLast();
          last = p + 1;
          seen = word[p]
        };
        takeOrLink(p, who);
        seen = 0;
        if
        :: ok -> p++
        :: else -> atomic { unlockLast(); break }
        fi
     fi
  od;
  p = 0
}

inline unlockLast() {
  if
  :: last != 0 -> unlockShard(last - 1); last = 0
  :: else -> skip
  fi
}

/* wait(). A thread parks without slices here: nothing may depend on them but the end of a thread, and what is said
 * at overtakeDesignated. One look at the state serves for the two of the code: whatever happens between those, a
 * permit is on its way, so that the park does not last. */
inline waitForGrant() {
  do
  :: state[t] == GRANTED && !giveUp -> got = true; break
  :: state[t] == DESIGNATED && !giveUp ->
     tryDesignated(t);
     if
     :: done ->
        done = false;
        goOnFrom();
        if
        :: got -> break
        :: else -> skip
        fi
     :: else -> skip
     fi
  :: state[t] == WAITING && !giveUp ->
     if
     :: atomic { permit[t] -> permit[t] = false };
        reclaimWhileParked()
     :: patience == TIMED -> giveUp = true
     :: mortal -> giveUp = true; ending = true
#if ASYNC
     :: overtakeDesignated(t);
        if
        :: done ->
           done = false;
           goOnFrom();
           if
           :: got -> break
           :: else -> skip
           fi
        :: else -> skip
        fi
#endif
     fi
  :: state[t] == DESIGNATED && !giveUp && patience == TIMED -> giveUp = true
  :: state[t] == DESIGNATED && !giveUp && mortal -> giveUp = true; ending = true
  :: giveUp ->
     giveUp = false;
     withdraw(t);
     if
     :: done -> done = false; rollBack(t, position(t)); break
     :: else -> skip
     fi
  od
}

/* goOn(): says in `got` whether it has all stripes. */
inline goOnFrom() {
#if STRIPES == 1
  got = true
#else
  p = position(t) + 1;
  proceedOwn(t);
  got = ok;
  ok = false
#endif
}
