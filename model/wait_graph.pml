/* WaitGraph: which threads block, and whether some wait for each other (wait_graph.cc). */

#ifdef GRAPH

/* WaitGraph::mutex_, which guards what follows. */
bool graphLocked;
/* Participant::blockedOn */
bool inGraph[THREADS];
/* The threads that have searched without a result since the last change. They need not search again: if all have, and
 * none continues, that is a dead end. */
byte vain;

#define CHANGED      vain = 0;
#define mayLook      (!(vain & bit(t)))

/* Observation only: whether `u` waits for `v`, which can do nothing about it. */
#define waitsAt(u)        (inGraph[u] && state[u] == WAITING)
#define waitsFor(u, v)    (waitsAt(u) && inGraph[v] && (blocksAsHolder(u, v, position(u)) || blocksAsWriter(u, v, position(u))))
#define blocksAsHolder(u, v, s) (!(shared[u] && isShared(word[s])) && (guardsOf(v, s) > 0 || (low(v) <= s && s < position(v))))
#define blocksAsWriter(u, v, s) (shared[u] && isShared(word[s]) && !shared[v] && position(v) == s && isLinked(v))

/* WaitGraph::waitOf: leaves the blockers in `found`. A thread in the graph takes and leaves only under the shard that is
 * locked here, so it is one step, except for undelivered grants. */
inline blockersOf(u) {
  do
  :: p = position(u);
     atomic {
       !shard[shardOf(p)] -> shard[shardOf(p)] = true;
       if
       :: position(u) == p -> break
       :: else -> unlockShard(p)
       fi
     }
  od;
  atomic {
    found = 0;
    i = 0;
    do
    /* mutant: graph-granted */
    :: i == THREADS || !waitsAt(u) -> break
    :: else ->
       if
       :: isExclusive(word[p]) && heldBy(word[p], i) -> found = found | bit(i)
       :: isShared(word[p]) && !shared[u] && sharesOf(i, p) > 0 -> found = found | bit(i)
       :: else -> skip
       fi;
       i++
    od;
    /* For a shared waiter where others share, the exclusive ones before it. */
    i = 0;
    do
    :: !(waitsAt(u) && isShared(word[p]) && shared[u]) || Q(p, i) == 0 || Q(p, i) == u + 1 -> break
    :: else ->
       if
       /* mutant: graph-writer-between */
       :: !shared[waiterAt(p, i)] && !isAsync(waiterAt(p, i)) -> found = found | bit(waiterAt(p, i))
       :: else -> skip
       fi;
       i++
    od;
    i = 0
  };
  d_step {
    do
    :: i == THREADS -> break
    :: else ->
       /* mutant: graph-undelivered */
       found = (inGraph[i] && undeliveredOf(i) == 0 -> found : found & ~bit(i));
       i++
    od;
    i = 0;
    unlockShard(p);
    p = 0
  }
}

/* refuse(): sets `refused` to whether the thread's wait was part of a cycle, and is withdrawn. */
inline refuse() {
  atomic {
    !graphLocked -> graphLocked = true;
    if
    :: !inGraph[t] -> inGraph[t] = true; CHANGED
    :: else -> skip
    fi;
    vain = vain | bit(t);
    path[0] = t;
    followed = bit(t)
  };
  blockersOf(t);
  atomic { toFollow[0] = found; r = 0 };
  do
  :: toFollow[r] == 0 && r == 0 -> break
  :: toFollow[r] == 0 && r > 0 -> r--
  :: toFollow[r] & bit(t) -> refused = true; break
  :: toFollow[r] != 0 && !(toFollow[r] & bit(t)) ->
     atomic {
       n = 0;
       do
       :: toFollow[r] & bit(n) -> break
       :: else -> n++
       od;
       toFollow[r] = toFollow[r] & ~bit(n)
     };
     if
     /* mutant: graph-of-two */
     :: followed & bit(n) -> n = 0
     :: else ->
        atomic {
          followed = followed | bit(n);
          r++;
          path[r] = n;
          n = 0
        };
        blockersOf(path[r]);
        toFollow[r] = found
     fi
  od;
  atomic {
    isCycle = refused;
    n = 0;
    do
    :: !refused || n > r -> break
    :: else -> isCycle = isCycle && waitsFor(path[n], path[(n == r -> 0 : n + 1)]); n++
    od;
    n = 0
  };
  /* The second look. */
  do
  :: !refused || n > r -> break
  :: else ->
     blockersOf(path[n]);
     atomic {
       /* mutant: graph-one-look */
       refused = refused && (found & bit(path[(n == r -> 0 : n + 1)]));
       n++
     }
  od;
  atomic { n = 0; r = 0; found = 0 };
  if
  :: refused ->
     assert(isCycle);                                                             /* no false deadlock */
     withdraw(t);
     assert(done);
     done = false
  :: else -> skip
  fi;
  d_step {
    if
    :: refused -> inGraph[t] = false; CHANGED
    :: else -> skip
    fi;
    isCycle = false;
    followed = 0;
    do
    :: n == THREADS -> break
    :: else -> path[n] = 0; toFollow[n] = 0; n++
    od;
    n = 0;
    graphLocked = false
  }
}

inline leaveGraph() {
  if
  :: inGraph[t] -> atomic { !graphLocked -> inGraph[t] = false; CHANGED }
  :: else -> skip
  fi
}

#define LEAVE_GRAPH leaveGraph();

#else

#define CHANGED
#define LEAVE_GRAPH

#endif
