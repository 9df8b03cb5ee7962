/* What the threads share, and what the model adds in order to observe it.
 *
 * One step of the model is one atomic instruction on memory that is read without a lock, together with whatever
 * around it only the holder of the shard's mutex, or only the thread itself, can see. Taking the mutex joins the
 * step that follows, and giving it back the step before: no other thread can tell the difference (Lipton 1975).
 * All atomics are sequentially consistent, in the core and in JavaScript, as all of Promela is.
 */

/* lock_word.h, in 8 bits. */
#define QUEUED     128
#define ABANDONED  64
#define SHARED     32
#define HOLDER     31

#define isFree(x)      (((x) & (SHARED | HOLDER)) == 0)
#define isShared(x)    (((x) & SHARED) != 0)
#define isExclusive(x) (!isShared(x) && ((x) & HOLDER) != 0)
#define holderOf(x)    ((x) & HOLDER)
#define heldBy(x, who) (isExclusive(x) && holderOf(x) == slotOf(who))
#define slotOf(who)    ((who) + 1)

/* Thread `t` has the sync waiter `t`, and perhaps the async waiter THREADS + t. */
#define WAITERS        (THREADS + ASYNC)
#define isAsync(w)     ((w) >= THREADS)
#define ownerOf(w)     (isAsync(w) -> (w) - THREADS : (w))
#define bit(n)         (1 << (n))

#define WAITING    0
#define DESIGNATED 1
#define GRANTED    2
#define WITHDRAWN  3

byte word[STRIPES];

/* Table: each stripe has a shard of its own. Queue entries are a waiter + 1; 0 ends the queue. */
bool shard[STRIPES];
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
/* The ready list: the waiter, if it is designated or granted, and those that were given up while they were. */
bool ready[ASYNC];
bool dropped[ASYNC];
#define hasReady(who) (ready[who] || dropped[who])
/* Whether there is an event loop to wake, whether a wake is under way to it, and has arrived. */
bool looping[ASYNC];
bool waking[ASYNC];
bool loopWake[ASYNC];
#endif

/* Observation only: nothing below is read by the protocol. */

/* Who is between the return of an acquisition and the start of its release: readers, or 8 for a writer. */
byte users[STRIPES];
/* A holder died, and no exclusive holder has been told of it and released since. */
bool dirty[STRIPES];
/* What a waiter should have been told. */
bool expected[WAITERS];
byte ended;
#if ASYNC
/* From block() to the end of unblock(): its async waiters are exempt from I3. */
bool inSyncWait[THREADS];
#define exempt(w) (isAsync(w) && inSyncWait[ownerOf(w)])
#else
#define exempt(w) false
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
#define i3(s)       each(i3Of, s)
#define i3Of(s, n)  (Q(s, n) == 0 || exempt(waiterAt(s, n)) || (word[s] & QUEUED) || designated[s])
#define i4(s)       (each(i4Of, s) && (designated[s] == 0 || isQueued(s)))
#define i4Of(s, n)  (Q(s, n) == 0 || (state[waiterAt(s, n)] == DESIGNATED) == (designated[s] == Q(s, n)))
#define i5(s)       each(i5Of, s)
#define i5Of(s, n)  (Q(s, n) == 0 || (position(waiterAt(s, n)) == s && isLinked(waiterAt(s, n))))
#define i6(s)       each(i6Of, s)
#define i6Of(s, n)  (Q(s, n) == 0 || s == 0 || low(waiterAt(s, n)) == 1 || holdsFirst(waiterAt(s, n)))

#define isLinked(w)   (state[w] == WAITING || state[w] == DESIGNATED)
#define holdsFirst(w) (shared[w] -> isShared(word[0]) : heldBy(word[0], ownerOf(w)))
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
#endif

#if STRIPES == 1
#define always(what) (shard[0] || what(0))
#else
#define always(what) ((shard[0] || what(0)) && (shard[1] || what(1)))
#endif
