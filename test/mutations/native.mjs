// Mutations of native/core, each with the tests that tell it. See list.mjs.

const core = (name) => `native/core/${name}`;

/** `edits`: what to find in which file of native/core, once, and what to put there. */
function mutation(name, edits, rest) {
  return {
    kind: 'native',
    name,
    edits: edits.map(([file, find, replace]) => ({ file: core(file), find, replace })),
    variant: 'plain',
    ...rest,
  };
}

export const nativeMutations = [
  // ── the queue and its fairness ──
  mutation(
    'local grants restart the fairness clock',
    [['table.cc', 'chosen == &first ? time + kFairness : queue.fairAt', 'time + kFairness']],
    { tests: 'FairnessClock.RunsOnWhileAThreadServesItsOwnWaiters', smoke: true },
  ),
  mutation(
    'a waiter that was put off goes to the back',
    [['table.cc', 'queue.insertByArrival(waiter)', 'queue.pushBack(waiter)']],
    { tests: 'Requeue.*', smoke: true },
  ),

  // ── wake-ups ──
  mutation(
    'a designated waiter sets QUEUED whatever the word is by then',
    [
      [
        'table.cc',
        'if (isFree(seen) || !word.compare_exchange_strong(seen, seen | kQueued)) continue;',
        'if (isFree(seen)) continue;\n    word.fetch_or(kQueued);',
      ],
    ],
    { tests: 'LostWakeUp.IsNoneWhereTheStripeComesFree*', smoke: true },
  ),
  mutation(
    'a wake on its way is remembered when the slot is used again',
    [['participant.cc', 'wakeLoop_ = wakeLoop;\n  waking_.store(false);', 'wakeLoop_ = wakeLoop;']],
    { tests: 'LostWakeUp.IsNoneForTheNextThreadWithTheSlot*' },
  ),

  // ── what is held, and for how long ──
  mutation(
    'a thread looks at its own holds without the shard',
    [
      [
        'sync_wait.cc',
        'const Lock lock(table_.shardOf(stripe));\n      if (thread_.undelivered()',
        'if (thread_.undelivered()',
      ],
    ],
    { tests: 'Deadlock.IsNotSeenByAThreadInAGrantToItselfThatIsHalfMade' },
  ),
  mutation(
    'a grant counts as delivered before its stripes are given back',
    [
      [
        'async_waits.cc',
        'waiter.membership->table().rollBack(waiter.stripes, waiter.count, owner_, waiter.shared);\n',
        'owner_.delivered();\n  waiter.membership->table().rollBack(waiter.stripes, waiter.count, owner_, waiter.shared);\n',
      ],
      [
        'async_waits.cc',
        'for what it does not really hold.\n  owner_.delivered();',
        'for what it does not really hold.',
      ],
    ],
    { tests: 'Deadlock.IsNotSeenInWhatABlockedThreadIsGivingBack' },
  ),
  mutation(
    'the slot is given back before its stripes are free',
    [
      [
        'registry.cc',
        'participant.stop();\n',
        'participant.stop();\n  {\n    const Lock lock(mutex_);\n    freeSlots_.push_back(participant.slot());\n  }\n',
      ],
      ['registry.cc', '  const Lock lock(mutex_);\n  freeSlots_.push_back(participant.slot());\n}', '}'],
    ],
    { tests: 'Order.GivesASlotToAnotherThread*', smoke: true },
  ),
  mutation(
    'the old shard is free before the position changes',
    [
      [
        'table.cc',
        'STRIPELOCK_SEAM("proceed: before the position changes");',
        'if (next) last = std::move(next);\n    STRIPELOCK_SEAM("proceed: before the position changes");',
      ],
      ['table.cc', 'if (next) last = std::move(next);\n    if (!takeOrLink', 'if (!takeOrLink'],
    ],
    { tests: 'Order.ChangesAPosition*' },
  ),

  // ── the wait graph ──
  mutation(
    'the graph follows one reader only',
    [
      [
        'wait_graph.cc',
        'if (member->sharesOf(stripe) != 0) add(&member->participant());',
        'if (member->sharesOf(stripe) == 0) continue;\n      add(&member->participant());\n      break;',
      ],
    ],
    { tests: 'Deadlock.ThroughAnyOneOfSeveralReaders*', smoke: true },
  ),

  // ── races that ThreadSanitizer sees ──
  mutation(
    'a thread ends without the mutex of its wakes',
    [['participant.cc', 'const Lock lock(wakeMutex_);\n  wakeLoop_ = {};', 'wakeLoop_ = {};']],
    { tests: 'Race.IsNoneBetweenAThreadThatEndsAndOneThatWakesIt', variant: 'tsan' },
  ),
  mutation(
    'a thread leaves the wait graph without its mutex',
    [
      [
        'wait_graph.cc',
        'if (!thread.blockedOn) return;\n  const Lock lock(mutex_);',
        'if (!thread.blockedOn) return;',
      ],
    ],
    { tests: 'Race.IsNoneBetweenAThreadThatGoesOnAndOneThatLooksForCycles', variant: 'tsan' },
  ),
];
