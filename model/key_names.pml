/* Exact keys: which stripe a key has, who has it pinned, and how stripes come and go. Invariants N1 – N5 are those of
 * native/core/name_table.h.
 *
 *   name_table.cc                pin, unpin, allocate, moveFree, drop, forgetOldest, and the orphans
 *   membership.cc, registry.cc   each thread pins a key once; what it uses stays pinned; whose stripe is reused (pinOnce);
 *                                how a thread ends
 *   lib/lock/named-index.ts      the cache that holds pins, strays, when they are unpinned; `busy`
 *   lib/lock/key-set.ts          remembered sets, which hold stripes and no pins
 *
 * Words and queues are simpler than in stripe_word.pml, which is about them: to take a stripe or to wait for it is one step,
 * and so is to leave it and to grant it to the next. A step here is one section under the mutex of a shard of keys, or one
 * access of memory that is not guarded by it. A thread may be ended between any two calls of the addon or accesses of a
 * word.
 */

#ifndef THREADS
#define THREADS 2
#endif
#ifndef KEYS
#define KEYS 3
#endif
#ifndef STRIPES
#define STRIPES 2
#endif
/* NameTable::mostOrphans. */
#ifndef MOST_ORPHANS
#define MOST_ORPHANS 1
#endif
/* Which thread may end; which may look up keys while it looks up others, or uses remembered sets; which waits. */
#ifndef MORTAL
#define MORTAL false
#endif
#ifndef MAY_NEST
#define MAY_NEST false
#endif
#ifndef MAY_REMEMBER
#define MAY_REMEMBER false
#endif
#ifndef MAY_WAIT
#define MAY_WAIT true
#endif
#ifndef MAY_BLOCK
#define MAY_BLOCK true
#endif
/* Which keys a thread asks for. If ROUNDS is defined, it is how often. */
#ifndef MAY_ASK
#define MAY_ASK(k) true
#endif
/* Whether keys may bypass the cache, and be pinned by pinOnce(). */
#ifndef MAY_REUSE
#define MAY_REUSE false
#endif
/* Whether a stack overflow may end a look-up after the key was pinned. */
#ifndef MAY_OVERFLOW
#define MAY_OVERFLOW false
#endif

#define t         _pid
#define slot      (t + 1)
#define bit(n)    (1 << (n))
#define NONE      0
#define ABANDONED 64
#define HOLDER    63
#define isFree(x) (((x) & HOLDER) == 0)

/* ── Shared ── */

/* The words; who waits for which stripe, and whom it was granted, as a stripe + 1. */
byte word[STRIPES];
byte waits[THREADS];
byte granted[THREADS];
bool told[THREADS];

/* NameTable. Of two shards, one has the even keys. Stripes and keys are numbers + 1 where 0 is none. */
#ifndef SHARDS
#define SHARDS 2
#endif
#define shardOf(k) ((k) & (SHARDS - 1))
bool shard[SHARDS];
byte stripeFor[KEYS];
byte pins[KEYS];
byte free[SHARDS];
byte byStripe[STRIPES];
byte used;
/* Oldest first. */
byte orphans[KEYS];
bool orphan[KEYS];
#define oldest orphans[0]

/* Membership::pinned_: sets of stripes. */
byte pinned[THREADS];
#define hasPinned(s) (pinned[t] & bit(s))

/* Observation only. */

bool inUse[KEYS];
/* A holder died, and no other has been told. */
bool dirty[KEYS];
/* Stripes that a thread moves from one shard to another. */
byte moving;

#define isIn(set, s) (((set) >> (s)) & 1)
#if SHARDS == 1
#define freeElsewhere 0
#else
#define freeElsewhere free[1]
#endif
#define places(s)    (isIn(free[0], s) + isIn(freeElsewhere, s) + isIn(moving, s) + (byStripe[s] != 0) + (used <= s))
#define isWaited(s)  (waits[0] == s + 1 || (THREADS > 1 && waits[THREADS - 1] == s + 1))
#define n1(k)        (stripeFor[k] == 0 || byStripe[stripeFor[k] - 1] == k + 1)
#define n1Stripe(s)  (byStripe[s] == 0 || stripeFor[byStripe[s] - 1] == s + 1)
#define n2(k)        (pins[k] == 0 || (stripeFor[k] != 0 && !orphan[k] && pins[k] <= 2 * THREADS))
/* Of a key that nobody has pinned. */
#define n2Idle(k)    (shard[shardOf(k)] || stripeFor[k] == 0 || pins[k] > 0 || \
                      (orphan[k] && word[stripeFor[k] - 1] == ABANDONED))
#define n3(s)        (byStripe[s] != 0 || used <= s || (word[s] == 0 && !isWaited(s)))
#define n5(s)        (places(s) == 1)
#if KEYS == 2
#define eachKey(what) (what(0) && what(1))
#else
#define eachKey(what) (what(0) && what(1) && what(2))
#endif
#if STRIPES == 1
#define eachStripe(what) what(0)
#else
#define eachStripe(what) (what(0) && what(1))
#endif

/* A stripe is touched: only by who has its key pinned (N3), and only for that key (N2). */
#define TOUCH(s, k) assert(hasPinned(s) && byStripe[s] == k + 1 && stripeFor[k] == s + 1);

/* ── NameTable ── */

inline lockShard(n) { !shard[n] -> shard[n] = true }

#if THREADS == 1
#define REFUSED assert(used == STRIPES && !free[0] && !freeElsewhere && !oldest);
#else
#define REFUSED
#endif

/* pin(), with a stripe + 1 in `idle` or 0: leaves the stripe + 1 in `got`, or 0. */
inline pinName(k) {
  do
  :: atomic {
       lockShard(shardOf(k));
       pinLocked(k);
       shard[shardOf(k)] = false;
       if
       :: got != NONE -> break
       :: else -> skip
       fi
     };
     moveFree(k);
     if
     :: !ok -> forgetOldest()
     :: else -> skip
     fi;
     if
     :: ok -> ok = false
     :: else -> REFUSED break
     fi
  od
}

#define mayReuse(idle) (idle != 0 && pins[byStripe[idle - 1] - 1] == 1 && word[idle - 1] == 0)

inline pinLocked(k) {
  if
  :: stripeFor[k] != 0 ->
     if
     :: orphan[k] -> unlinkOrphan(k)
     :: else -> skip
     fi;
     pins[k]++;
     got = stripeFor[k]
  :: stripeFor[k] == 0 && mayReuse(idle) -> rename(k)
  :: else ->
     allocate(k);
     if
     :: got != NONE ->
        assert(word[got - 1] == 0 && !isWaited(got - 1) && byStripe[got - 1] == 0);
        byStripe[got - 1] = k + 1;
        stripeFor[k] = got;
        pins[k] = 1
     :: else -> skip
     fi
  fi
}

/* The key of `idle` becomes this one. */
inline rename(k) {
  d_step {
    got = idle;
    reused = true;
    name = byStripe[got - 1] - 1;
    assert(hasPinned(got - 1) && shardOf(name) == shardOf(k) && !dirty[name] && !isWaited(got - 1));
    stripeFor[name] = 0;
    pins[name] = 0;
    byStripe[got - 1] = k + 1;
    stripeFor[k] = got;
    pins[k] = 1;
    name = 0
  }
}

#define lowestOf(set) (((set) & 1) -> 0 : 1)
inline allocate(k) {
  if
  :: free[shardOf(k)] != 0 ->
     got = lowestOf(free[shardOf(k)]) + 1;
     free[shardOf(k)] = free[shardOf(k)] & ~bit(got - 1)
  :: free[shardOf(k)] == 0 && used < STRIPES ->
     word[used] = 0;
     used++;
     got = used
  :: else -> got = NONE
  fi
}

/* Sets `ok` to whether. */
inline moveFree(k) {
  n = 0;
  do
  :: n == SHARDS -> break
  :: n < SHARDS ->
     atomic {
       !shard[n];
       if
       :: free[n] != 0 ->
          got = lowestOf(free[n]) + 1;
          free[n] = free[n] & ~bit(got - 1);
          moving = moving | bit(got - 1)
       :: else -> n++
       fi
     };
     if
     :: got != NONE ->
        atomic {
          !shard[shardOf(k)];
          free[shardOf(k)] = free[shardOf(k)] | bit(got - 1);
          moving = moving & ~bit(got - 1);
          got = NONE;
          ok = true;
          break
        }
     :: else -> skip
     fi
  od;
  n = 0
}

/* Sets `ok` to whether. */
inline forgetOldest() {
  do
  :: atomic {
       if
       :: oldest == 0 -> break
       :: else -> n = shardOf(oldest - 1)
       fi
     };
     atomic {
       lockShard(n);
       if
       :: oldest == 0 || shardOf(oldest - 1) != n -> shard[n] = false
       :: else ->
          victim = oldest;
          unlinkOrphan(victim - 1);
          ok = true
       fi
     };
     if
     :: ok ->
        atomic { word[stripeFor[victim - 1] - 1] = 0; dirty[victim - 1] = false };
        atomic {
          drop(victim - 1);
          victim = 0;
          shard[n] = false;
          break
        }
     :: else -> skip
     fi
  od;
  n = 0
}

inline drop(k) {
  d_step {
    assert(pins[k] == 0 && !orphan[k] && !dirty[k]);
    byStripe[stripeFor[k] - 1] = 0;
    free[shardOf(k)] = free[shardOf(k)] | bit(stripeFor[k] - 1);
    stripeFor[k] = 0
  }
}

inline addOrphan(k) {
  d_step {
    orphan[k] = true;
    i = 0;
    do
    :: orphans[i] != 0 -> i++
    :: else -> break
    od;
    orphans[i] = k + 1;
    i = 0
  }
}

inline unlinkOrphan(k) {
  d_step {
    orphan[k] = false;
    i = 0;
    do
    :: orphans[i] != k + 1 -> i++
    :: else -> break
    od;
    do
    :: i < KEYS - 1 -> orphans[i] = orphans[i + 1]; i++
    :: else -> orphans[i] = 0; break
    od;
    i = 0
  }
}

/* unpin(), of stripe `s`. */
inline unpinName(s) {
  atomic {
    assert(byStripe[s] != 0);
    name = byStripe[s] - 1
  };
  atomic {
    lockShard(shardOf(name));
    assert(pins[name] > 0 && byStripe[s] == name + 1);
    pins[name]--;
    if
    :: pins[name] != 0 -> shard[shardOf(name)] = false; last = false
    :: else -> last = true
    fi
  };
  if
  :: last ->
     seen = word[s];
     atomic {
       if
       :: seen == 0 -> drop(name)
       :: else -> addOrphan(name)
       fi;
       shard[shardOf(name)] = false;
       last = false
     };
     if
     :: seen != 0 ->
        seen = 0;
        do
        :: orphans[MOST_ORPHANS] != 0 -> forgetOldest(); ok = false
        :: else -> break
        od
     :: else -> skip
     fi
  :: else -> skip
  fi;
  name = 0
}

/* ── Membership, Registry ── */

#define uses(s) ((word[s] & HOLDER) == slot || async == s + 1)

/* Membership::pin: `got`, and `again`. */
inline pin(k) {
  pinName(k);
  addPin();
  if
  :: once[shardOf(k)] == got -> once[shardOf(k)] = 0
  :: else -> skip
  fi
}

/* Membership::pinOnce: the same, and `reused`. */
inline pinOnce(k) {
  idle = once[shardOf(k)];
  if
  :: idle != 0 && uses(idle - 1) -> idle = 0
  :: else -> skip
  fi;
  pinName(k);
  idle = 0;
  addPin();
  if
  :: got != NONE && !again -> once[shardOf(k)] = got
  :: else -> skip
  fi
}

inline addPin() {
  again = false;
  if
  :: got == NONE || reused -> skip
  :: got != NONE && !reused && hasPinned(got - 1) -> unpinName(got - 1); again = true
  :: got != NONE && !reused && !hasPinned(got - 1) -> pinned[t] = pinned[t] | bit(got - 1)
  fi
}

/* Membership::unpin, of the strays; the addon refuses it while the thread blocks. */
inline unpinStrays() {
  forgetSets();
  do
  :: at == STRIPES || blocks -> break
  :: at < STRIPES && !blocks ->
     if
     :: !isIn(strays, at) -> skip
     :: isIn(strays, at) && !hasPinned(at) -> strays = strays & ~bit(at)
     :: isIn(strays, at) && hasPinned(at) ->
        if
        :: uses(at) -> skip
        :: else ->
           strays = strays & ~bit(at);
           pinned[t] = pinned[t] & ~bit(at);
           forgetOnce(byStripe[at] - 1, at);
           unpinName(at)
        fi
     fi;
     at++
  od;
  at = 0
}

inline forgetOnce(k, s) {
  if
  :: once[shardOf(k)] == s + 1 -> once[shardOf(k)] = 0
  :: else -> skip
  fi
}

/* leave(), of a stripe that the thread holds: `flag` stays, or is set. */
inline leave(s, flag) {
  atomic {
    assert((word[s] & HOLDER) == slot);
    if
    :: waits[0] == s + 1 -> grant(0, s, flag)
#if THREADS > 1
    :: waits[1] == s + 1 -> grant(1, s, flag)
#endif
    :: else -> word[s] = (flag)
    fi
  }
}

inline grant(w, s, flag) {
  word[s] = (flag) | (w + 1);
  waits[w] = 0;
  granted[w] = s + 1;
  told[w] = ((flag) != 0)
}

/* AsyncWaits::drop, and a sync waiter that gives up. */
inline giveUp() {
  atomic {
    assert(waits[t] != 0 || granted[t] != 0);
    got = granted[t];
    waits[t] = 0;
    granted[t] = 0;
    told[t] = false
  };
  if
  :: got != NONE -> leave(got - 1, word[got - 1] & ABANDONED)
  :: else -> skip
  fi;
  got = NONE
}

/* Registry::leave: first what waits, then what is held, then the pins. */
inline endThread() {
  d_step {
    at = 0;
    do
    :: at == KEYS -> break
    :: else ->
       if
       :: holds[at] -> inUse[at] = false
       :: else -> skip
       fi;
       at++
    od;
    at = 0
  };
  if
  :: waits[t] || granted[t] -> giveUp()
  :: else -> skip
  fi;
  abandon();
  unpinAll();
  forgetScripts()
}

inline abandon() {
  do
  :: at == STRIPES -> break
  :: at < STRIPES && hasPinned(at) && (word[at] & HOLDER) == slot ->
     atomic {
       dirty[byStripe[at] - 1] = true;
       leave(at, ABANDONED)
     };
     at++
  :: else -> at++
  od;
  at = 0;
  assertHoldsNothing()
}

inline assertHoldsNothing() {
  d_step {
    do
    :: at == STRIPES -> break
    :: else -> assert((word[at] & HOLDER) != slot && waits[t] == 0 && granted[t] == 0); at++
    od;
    at = 0
  }
}

inline unpinAll() {
  do
  :: at == STRIPES -> break
  :: at < STRIPES && hasPinned(at) -> unpinName(at); at++
  :: else -> at++
  od;
  at = 0;
  d_step {
    pinned[t] = 0;
    once[0] = 0;
#if SHARDS == 2
    once[1] = 0
#endif
  }
}

/* The memory of its JavaScript ends. */
inline forgetScripts() {
  d_step {
    do
    :: at == KEYS -> break
    :: else ->
       cached[at] = 0;
       set[at] = 0;
       holds[at] = 0;
       at++
    od;
    at = 0;
    key = 0;
    outer = 0;
    outerKey = 0;
    strays = 0;
    async = 0;
    asyncKey = 0;
    busy = 0;
    got = 0;
    again = false;
    reused = false;
    idle = 0;
    blocks = false;
    tells = false;
    remembered = false
  }
}

#define CAN_END                                                                                                         \
  if                                                                                                                    \
  :: MORTAL -> goto ends                                                                                                \
  :: true                                                                                                               \
  fi

/* ── NamedIndex, KeySets ── */

inline forgetSets() {
  d_step {
    i = 0;
    do
    :: i == KEYS -> break
    :: else -> set[i] = 0; i++
    od;
    i = 0
  }
}

/* Moves a part of the cache, or all of it, to the strays: #turnOver and #empty. */
inline evict() {
  if
  :: true ->
     d_step {
       i = 0;
       do
       :: i == KEYS -> break
       :: else -> evictOne(i); i++
       od;
       i = 0
     }
  :: cached[0] -> d_step { evictOne(0) }
  fi
}

inline evictOne(k) {
  if
  :: cached[k] != 0 -> strays = strays | bit(cached[k] - 1); cached[k] = 0
  :: else -> skip
  fi
}

/* #trim, if it has something to do. */
inline trim() {
  if
  :: busy == 0 -> evict(); unpinStrays()
  :: busy == 0 && strays != 0 -> unpinStrays()
  :: true
  fi;
  CAN_END
}

/* stripeOf: leaves the stripe + 1 in `got`, or 0 where it throws. */
inline lookUp(k) {
  if
  :: remembered && set[k] != 0 -> got = set[k]
  :: cached[k] != 0 -> got = cached[k]
  :: else ->
     trim();
     if
     :: true -> pin(k)
     :: MAY_REUSE && busy == 0 && !blocks -> pinOnce(k); strayed = true
     fi;
     CAN_END;
     if
     :: got == NONE && busy == 0 ->
        atomic {
          i = 0;
          do
          :: i == KEYS -> break
          :: else -> evictOne(i); i++
          od;
          i = 0
        };
        unpinStrays();
        pin(k);
        CAN_END
     :: else -> skip
     fi;
     if
     :: got != NONE && reused -> skip
     :: got != NONE && !again && !strayed -> cached[k] = got
     :: got != NONE && !reused -> strays = strays | bit(got - 1)
     :: got != NONE && MAY_OVERFLOW -> got = NONE
     :: got == NONE -> skip
     fi;
     d_step { again = false; reused = false; strayed = false };
     if
     :: remembered && got != NONE -> set[k] = got
     :: else -> skip
     fi
  fi
}

inline chooseKey(k) {
  if
  :: MAY_ASK(0) -> k = 0
  :: MAY_ASK(1) -> k = 1
#if KEYS > 2
  :: MAY_ASK(2) -> k = 2
#endif
  fi
}

/* The fast path, and the first attempt of the core: sets `ok` to whether. */
inline take(s, k) {
  atomic {
    TOUCH(s, k)
    ok = isFree(word[s]);
    if
    :: ok ->
       tells = (word[s] & ABANDONED) != 0;
       word[s] = word[s] | slot
    :: else -> skip
    fi
  }
}

/* The acquisition has returned. */
inline enter(k, s) {
  atomic {
    TOUCH(s, k)
    assert((word[s] & HOLDER) == slot);
    assert(!inUse[k] && tells == dirty[k]);
    inUse[k] = true;
    tells = false;
    holds[k] = s + 1
  }
}

inline release(k) {
  atomic {
    TOUCH(holds[k] - 1, k)
    inUse[k] = false;
    dirty[k] = false;
    got = holds[k];
    holds[k] = 0
  };
  leave(got - 1, 0);
  got = NONE
}

/* With the stripe + 1 in `got`. */
inline takeOrWait(k) {
  take(got - 1, k);
  if
  :: ok -> ok = false; CAN_END; enter(k, got - 1)
  :: !ok && MAY_WAIT && async == 0 -> link(k, got - 1); atomic { async = got; asyncKey = k }
  :: !ok && MAY_BLOCK && async == 0 -> blocks = true; link(k, got - 1); wait(k)
  :: else -> skip
  fi
}

/* Or it is granted, in the same step. */
inline link(k, s) {
  atomic {
    TOUCH(s, k)
    if
    :: isFree(word[s]) -> granted[t] = s + 1; told[t] = (word[s] & ABANDONED) != 0; word[s] = word[s] | slot
    :: else -> waits[t] = s + 1
    fi
  }
}

inline wait(k) {
  do
  :: granted[t] != 0 ->
     atomic {
       got = granted[t];
       granted[t] = 0;
       tells = told[t];
       told[t] = false;
       blocks = false
     };
     CAN_END;
     enter(k, got - 1);
     break
  :: waits[t] != 0 -> giveUp(); blocks = false; break
  /* An interrupt may run code of a debugger. */
  :: busy == 0 && (pinned[t] & ~strays) -> evict(); unpinStrays()
  :: MORTAL -> goto ends
  od
}

#ifdef ROUNDS
#define mayBegin    (rounds < ROUNDS)
#define COUNT_ROUND rounds++
#else
#define mayBegin    true
#define COUNT_ROUND skip
#endif

active [THREADS] proctype Thread() {
#ifdef ROUNDS
  byte rounds;
#endif
  byte got, at, i, n, name, seen, victim, key, outer, outerKey, strays, async, asyncKey, busy;
  byte idle;
  byte cached[KEYS], set[KEYS], holds[KEYS], once[SHARDS];
  bool ok, again, reused, strayed, last, blocks, remembered, tells;

turn:
end_turn:
  do
  /* Without options: no code of the program runs between look-up and take. */
  :: mayBegin -> atomic { chooseKey(key); COUNT_ROUND };
     lookUp(key);
     if
     :: got != NONE -> takeOrWait(key)
     :: else -> skip
     fi;
     atomic { got = NONE; key = 0 };
     CAN_END
  /* begin(): any code may run. */
  :: mayBegin && (MAY_NEST || MAY_REMEMBER) ->
     COUNT_ROUND;
     trim();
     atomic { busy++; remembered = MAY_REMEMBER };
     atomic { chooseKey(key) };
     lookUp(key);
     if
     :: got != NONE && MAY_NEST ->
        atomic { outer = got; got = NONE; outerKey = key; chooseKey(key) };
        lookUp(key);
        if
        :: got != NONE -> takeOrWait(key)
        :: else -> skip
        fi;
        atomic { key = outerKey; outerKey = 0; got = outer; outer = 0 }
     :: true -> skip
     fi;
     if
     :: got != NONE -> takeOrWait(key)
     :: else -> skip
     fi;
     atomic { busy--; got = NONE; key = 0; remembered = false };
     CAN_END
  :: holds[0] -> release(0)
  :: holds[1] -> release(1)
#if KEYS > 2
  :: holds[2] -> release(2)
#endif
  :: async != 0 && granted[t] != 0 && holds[asyncKey] == 0 ->
     atomic {
       got = granted[t];
       granted[t] = 0;
       tells = told[t];
       told[t] = false;
       async = 0
     };
     CAN_END;
     enter(asyncKey, got - 1);
     atomic { got = NONE; asyncKey = 0 }
  :: async != 0 -> giveUp(); atomic { async = 0; asyncKey = 0 }
  :: MORTAL -> goto ends
  od;
ends:
  endThread();
  goto turn
}

active proctype Monitor() {
end:
  if
  :: !eachKey(n1) -> assert(eachKey(n1))
  :: !eachStripe(n1Stripe) -> assert(eachStripe(n1Stripe))
  :: !eachKey(n2) -> assert(eachKey(n2))
  :: !eachKey(n2Idle) -> assert(eachKey(n2Idle))
  :: !eachStripe(n3) -> assert(eachStripe(n3))
  :: !eachStripe(n5) -> assert(eachStripe(n5))
  fi
}
