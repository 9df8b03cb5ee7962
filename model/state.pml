/* The shared state of the threads, and variables that the model adds to observe it.
 *
 * One step of the model is one atomic instruction on memory that is read without a lock, together with whatever
 * around it only the holder of the shard's mutex, or only the thread itself, can see. Taking the mutex joins the
 * step that follows, and giving it back the step before: no other thread can see the difference (Lipton 1975).
 * All atomics are sequentially consistent, in the core and in JavaScript, as all of Promela is.
 */

/* lock_word.h, in 8 bits. */
#define QUEUED     128
#define ABANDONED  64
#define SHARED     32
#define LOCAL      16
#define HOLDER     15

#define isFree(x)      (((x) & (SHARED | HOLDER)) == 0)
#define isShared(x)    (((x) & SHARED) != 0)
#define isExclusive(x) (!isShared(x) && ((x) & HOLDER) != 0)
#define holderOf(x)    ((x) & HOLDER)
#define heldBy(x, who) (isExclusive(x) && holderOf(x) == slotOf(who))
#define slotOf(who)    ((who) + 1)

/* Thread `t` has the sync waiter `t`, and if it is one of the first ASYNC threads, EACH async waiters. */
#define WAITERS        (THREADS + ASYNC * EACH)
#define isAsync(w)     ((w) >= THREADS)
#if EACH == 1
#define ownerOf(w)     (isAsync(w) -> (w) - THREADS : (w))
#else
#define ownerOf(w)     (isAsync(w) -> ((w) - THREADS) / EACH : (w))
#endif
#define bit(n)         (1 << (n))

#define WAITING    0
#define DESIGNATED 1
#define GRANTED    2
#define WITHDRAWN  3
/* It was unlinked with its stripe, and continues with the next. */
#define TAKING     4

byte word[STRIPES];

/* Table: of three stripes the first two share a shard. Queue entries are a waiter + 1; 0 ends the queue. */
#if STRIPES == 3
#define SHARDS     2
#define shardOf(s) ((s) / 2)
#else
#define SHARDS     STRIPES
#define shardOf(s) (s)
#endif
bool shard[SHARDS];
byte queue[STRIPES * (WAITERS + 1)];
byte designated[STRIPES];
#define Q(s, n)        queue[(s) * (WAITERS + 1) + (n)]
#define waiterAt(s, n) (Q(s, n) - 1)

/* Waiter. It asks for the stripes low … high, and is linked at position. */
byte state[WAITERS];
bool shared[WAITERS];
bool told[WAITERS];
#if STRIPES == 1
#define low(w)             0
#define high(w)            0
#define position(w)        0
#define setPosition(w, s)  skip
#else
byte lows[WAITERS];
byte highs[WAITERS];
byte positions[WAITERS];
#define low(w)             lows[w]
#define high(w)            highs[w]
#define position(w)        positions[w]
#define setPosition(w, s)  positions[w] = s
#endif

/* Participant and Membership. */
bool permit[THREADS];
byte shares[THREADS * STRIPES];
#define sharesOf(who, s) shares[(who) * STRIPES + (s)]
#if ASYNC
bool blocked[THREADS];
bool passedOver[THREADS];
byte undelivered[ASYNC];
#define undeliveredOf(who) (who < ASYNC -> undelivered[who] : 0)
/* The ready list: the set of waiters that are designated or granted, in any order; whether there are also some that were
 * given up while they were. */
byte ready[ASYNC];
bool dropped[ASYNC];
#define hasReady(who) (ready[who] || dropped[who] || chain)
#ifdef REVOKE
/* Something was taken back from it since it last came to take(); its mutex for that. */
bool absent[ASYNC];
bool revoking[ASYNC];
#endif
/* Whether there is an event loop to wake, whether a wake is under way to it, and has arrived. */
bool looping[ASYNC];
bool waking[ASYNC];
bool loopWake[ASYNC];
#else
#define undeliveredOf(who) 0
#endif

#ifdef LOCALS
/* The counts of LocalWaits, which other threads read. */
byte counted[LOCALS];
#endif

/* Observation only: nothing below is read by the protocol. */

/* Holders between the return of an acquisition and the start of its release: the number of readers, or 8 for a writer. */
byte users[STRIPES];
#if NESTS
/* How many guards a thread has for a stripe. */
byte guards[THREADS * STRIPES];
#define guardsOf(who, s) guards[(who) * STRIPES + (s)]
#define ADD_GUARD(s)     guardsOf(t, s)++;
#define REMOVE_GUARD(s)  guardsOf(t, s)--;
#else
#define guardsOf(who, s) 0
#define ADD_GUARD(s)
#define REMOVE_GUARD(s)
#endif
/* A holder died, and no exclusive holder has seen that and released since. */
bool dirty[STRIPES];
/* Whether a waiter should have seen a death. */
bool expected[WAITERS];
byte ended;
#if ASYNC
/* From block() to the end of unblock(): its async waiters are exempt from I3. */
bool inSyncWait[THREADS];
#ifdef REVOKE
/* From when it counts as absent to the end of its take(). */
bool away[ASYNC];
/* It has collected since. */
bool came[ASYNC];
#define exempt(w) (isAsync(w) && (inSyncWait[ownerOf(w)] || (away[ownerOf(w)] && position(w) == low(w))))
#else
#define exempt(w) (isAsync(w) && inSyncWait[ownerOf(w)])
#endif
#else
#define exempt(w) false
#endif
#if defined(LOCALS) && defined(STARVING)
/* How many tasks may wait in JavaScript that came before the starving thread. */
byte early;
#endif
#ifdef STARVING
/* The starving thread has just lost a race for the word, and is about to try again; it is about to lock a shard. */
bool lostRace;
bool atShard;
#define lose() lostRace = (lostRace || t == STARVING)
#define win()  lostRace = (lostRace && t != STARVING)
#else
#define lose() skip
#define win()  skip
#endif

/* I2 … I6 of table.h, for stripe `s` while its shard is not locked; of most, for entry `n` of its queue. */
#define i2(s)       (!(word[s] & QUEUED) || !isFree(word[s]))
#define i8(s)       (!(word[s] & LOCAL) || isExclusive(word[s]))
#define i3(s)       each(i3Of, s)
#define i3Of(s, n)  (Q(s, n) == 0 || exempt(waiterAt(s, n)) || (word[s] & QUEUED) || designated[s])
#define i4(s)       (each(i4Of, s) && (designated[s] == 0 || isQueued(s)))
#define i4Of(s, n)  (Q(s, n) == 0 || (state[waiterAt(s, n)] == DESIGNATED) == (designated[s] == Q(s, n)))
#define i5(s)       each(i5Of, s)
#define i5Of(s, n)  (Q(s, n) == 0 || (position(waiterAt(s, n)) == s && isLinked(waiterAt(s, n))))
#define i6(s)       each(i6Of, s)
#if STRIPES == 1
#define i6Of(s, n)  true
#else
#define i6Of(s, n)  (Q(s, n) == 0 || (holdsIfBefore(waiterAt(s, n), 0, s) && holdsIfBefore(waiterAt(s, n), 1, s)))
#endif

#define isLinked(w)   (state[w] == WAITING || state[w] == DESIGNATED)
#define holds(w, s)   (shared[w] -> isShared(word[s]) : heldBy(word[s], ownerOf(w)))
#define holdsIfBefore(w, r, s) (s <= r || low(w) > r || holds(w, r))
#define isAt(s, n)    (Q(s, n) == designated[s])

#if WAITERS == 2
#define each(what, s) (what(s, 0) && what(s, 1))
#define isQueued(s)   (isAt(s, 0) || isAt(s, 1))
#elif WAITERS == 3
#define each(what, s) (what(s, 0) && what(s, 1) && what(s, 2))
#define isQueued(s)   (isAt(s, 0) || isAt(s, 1) || isAt(s, 2))
#elif WAITERS == 4
#define each(what, s) (what(s, 0) && what(s, 1) && what(s, 2) && what(s, 3))
#define isQueued(s)   (isAt(s, 0) || isAt(s, 1) || isAt(s, 2) || isAt(s, 3))
#elif WAITERS == 5
#define each(what, s) (what(s, 0) && what(s, 1) && what(s, 2) && what(s, 3) && what(s, 4))
#define isQueued(s)   (isAt(s, 0) || isAt(s, 1) || isAt(s, 2) || isAt(s, 3) || isAt(s, 4))
#elif WAITERS == 6
#define each(what, s) (what(s, 0) && what(s, 1) && what(s, 2) && what(s, 3) && what(s, 4) && what(s, 5))
#define isQueued(s)   (isAt(s, 0) || isAt(s, 1) || isAt(s, 2) || isAt(s, 3) || isAt(s, 4) || isAt(s, 5))
#endif

#if STRIPES == 1
#define always(what) (shard[0] || what(0))
#elif STRIPES == 3
#define always(what) ((shard[0] || (what(0) && what(1))) && (shard[1] || what(2)))
#else
#define always(what) ((shard[0] || what(0)) && (shard[1] || what(1)))
#endif
