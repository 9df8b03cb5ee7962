// Mutations of native/core, each with the tests that tell it. See list.mjs.

/**
 * @typedef {import('./list.mjs').Mutation} Mutation
 */

/**
 * @param {string} name
 * @param {readonly (readonly [file: string, find: string, replace: string])[]} edits Of files of native/core.
 * @param {Partial<Pick<Mutation, 'tests' | 'variant' | 'smoke' | 'argued'>>} rest
 * @returns {Mutation}
 */
function mutation(name, edits, rest) {
  return {
    name,
    edits: edits.map(([file, find, replace]) => ({ file: `native/core/${file}`, find, replace })),
    tests: '',
    variant: 'plain',
    ...rest,
  };
}

export const nativeMutations = [
  // ── what waits within a thread ──
  mutation(
    'a release leaves LOCAL behind',
    [['mode.h', 'kModeFlags | kHolderMask | kLocal)', 'kModeFlags | kHolderMask)']],
    { tests: 'Local.Flag*', smoke: true },
  ),
  mutation(
    'a stand-in goes to the back of the queue',
    [['table.cc', 'if (waiter.comesFirst) {', 'if (false) {']],
    { tests: 'Local.StandInComesBefore*' },
  ),
  mutation(
    'a stand-in goes behind all that wait',
    [['waiter.h', 'static_cast<std::int32_t>(after->arrival - waiter.arrival) <= 0)', 'true)']],
    { tests: 'Local.StandInComesBefore*' },
  ),
  mutation(
    'a stand-in counts as contended twice',
    [['async_waits.cc', 'if (!waiter->comesFirst) membership.count', 'membership.count']],
    { tests: 'Local.StandInComesBeforeThose*' },
  ),
  mutation(
    'what an ended thread has counted is lost',
    [['membership.cc', '  count(kContendedCell, localsAt(localContendedIndex(table_.stripes())));\n', '']],
    { tests: 'Local.CountsAreAddedUp*' },
  ),

  // ── memory of locks that are gone ──
  mutation(
    'the memory of a lock whose handle was read becomes free',
    [
      [
        'registry.cc',
        'tables_.at(membership.table().memory()).own.reset();',
        'static_cast<void>(membership);',
      ],
    ],
    { tests: 'FreeSpans.DoNotGetTheMemoryOfATableThatWasShared' },
  ),
  mutation(
    'the memory of a lock that a second thread has opened becomes free',
    [['registry.cc', 'if (entry.members > 1) entry.own.reset();', '']],
    { tests: 'FreeSpans.DoNotGetTheMemoryOfATableThatASecondThreadHasOpened' },
  ),
  mutation(
    'the memory of a lock that is gone stays unused',
    [['registry.cc', 'if (own) freeSpans_.add(*own);', 'static_cast<void>(own);']],
    { tests: 'FreeSpans.GetTheMemoryOfATableWhenItsOnlyThread*' },
  ),
  mutation(
    'the rest of a free part is lost',
    [
      [
        'free_spans.cc',
        'if (room > bytes) parts.emplace(offset + bytes, room - bytes);',
        'static_cast<void>(room);',
      ],
    ],
    { tests: 'FreeSpans.AreGivenOutOnce*:FreeSpans.NeverOverlap*' },
  ),
  mutation(
    'a free part is given out to a table that is larger',
    [['free_spans.cc', 'if (room < bytes) continue;', '']],
    { tests: 'FreeSpans.AreGivenOutOnce*:FreeSpans.NeverOverlap*' },
  ),
  mutation(
    'free parts are not joined with those behind them',
    [['free_spans.cc', 'if (after != parts.end() && after->first == offset + bytes) {', 'if (false) {']],
    { tests: 'FreeSpans.AreJoined*' },
  ),
  mutation(
    'free parts are not joined with those before them',
    [['free_spans.cc', 'if (before->first + before->second == offset) {', 'if (false) {']],
    { tests: 'FreeSpans.AreJoined*' },
  ),

  // ── the queue, and what a release comes to ──
  mutation(
    'local grants restart the fairness clock',
    [['table_grants.cc', 'chosen == &first ? time + kFairness : queue.fairAt', 'time + kFairness']],
    { tests: 'FairnessClock.RunsOnWhile*', smoke: true },
  ),
  mutation(
    'each that joins the queue restarts the fairness clock',
    [
      [
        'table.cc',
        'if (!queue.head) queue.fairAt = waiter.since + kFairness;',
        'queue.fairAt = waiter.since + kFairness;',
      ],
    ],
    { tests: 'FairnessClock.StartsWhenTheQueueForms' },
  ),
  mutation(
    'the fairness clock is not set when readers are granted',
    [['table_grants.cc', '.grant = &first, .fairAt = now() + kFairness};', '.grant = &first, .fairAt = 0};']],
    { tests: 'FairnessClock.StartsAnewForTheNextWhenReaders*' },
  ),
  mutation(
    'a waiter that was put off goes to the back',
    [['table.cc', 'queue.insertByArrival(waiter)', 'queue.pushBack(waiter)']],
    { tests: 'Requeue.*', smoke: true },
  ),
  mutation(
    'a waiter that was put off keeps the flag that it gave back',
    [['table.cc', '  waiter.abandoned = false;\n', '']],
    { tests: 'Exact.OnlyWhoWorks*' },
  ),
  mutation(
    'who waits behind a designated one sets QUEUED',
    [['table.cc', 'if (!taken && !queue.designated.load()) next |=', 'if (!taken) next |=']],
    { tests: 'Exact.WhoWaitsBehind*' },
  ),
  mutation(
    'a grant to the last in the queue sets QUEUED',
    [['table_grants.cc', 'if (!alone) plan.next |= kQueued;', 'plan.next |= kQueued;']],
    { tests: 'Fairness.HandsTheStripeToTheHead*' },
  ),
  mutation(
    'a grant leaves no QUEUED for those who wait on',
    [['table_grants.cc', 'if (!alone) plan.next |= kQueued;', '']],
    { tests: 'LostWakeUp.*:Fairness.GivesAsync*' },
  ),
  mutation(
    'one that waits alone is handed the stripe before its time',
    [['table_grants.cc', 'alone && first.async && first.owner == actor', 'alone && first.async']],
    { tests: 'FairnessClock.IsNotStartedAnew*' },
  ),
  mutation(
    'a reader of the releasing thread is granted exclusively, past a writer',
    [
      [
        'table_grants.cc',
        'return hasPermits(limit) || !isJoint(waiter.mode);',
        'return hasPermits(limit) || true;',
      ],
    ],
    { tests: 'Exact.AReaderOfTheReleasing*' },
  ),
  mutation(
    'readers are let in by a free word only',
    [['table_grants.cc', '!withHold(bare, first->mode, first->owner->slot(), limit_)', '!isFree(bare)']],
    { tests: 'AsyncWaits.LetReadersPass*' },
  ),
  mutation(
    'a new reader minds a writer whose thread blocks',
    [
      [
        'table.cc',
        'Waiter* other = passOverIneligible(queue.head);\n  while (other && goTogether(other->mode, waiter.mode)) other = passOverIneligible(other->next);',
        'Waiter* other = queue.head;\n  while (other && goTogether(other->mode, waiter.mode)) other = other->next;',
      ],
    ],
    { tests: 'Exact.AReaderPasses*' },
  ),
  mutation(
    'async waiters of a thread that blocks are granted',
    [
      [
        'table.cc',
        'return waiter.async && waiter.owner->passOver(waiter.position.load() > 0);',
        'static_cast<void>(waiter);\n  return false;',
      ],
    ],
    { tests: 'Requeue.PutsOneBetween*' },
  ),
  mutation(
    'a release forgets that nobody has seen to an abandoned stripe',
    [['table_grants.cc', 'leave.how == Leave::How::kRelease && traits', 'traits']],
    { tests: 'ThreadEnd.KeepsTheFlagWhereAnAcquisition*' },
  ),
  mutation(
    'a thread that dies leaves no flag',
    [
      [
        'table_grants.cc',
        '  if (leave.how == Leave::How::kDie && isDeathTold(leave.mode, limit)) *left |= kAbandoned;\n',
        '',
      ],
    ],
    { tests: 'ThreadEnd.Frees*' },
  ),
  mutation(
    'a waiter that gives up stays designated',
    [['table.cc', 'if (queue.designated.load() == &waiter) queue.designated.store(nullptr);', '']],
    { tests: 'Designated.PassesItsTurnOnWhenItIsCancelled' },
  ),
  mutation(
    'a share that is taken on linking is not counted',
    [
      [
        'table.cc',
        'waiter.abandoned = true;\n      waiter.membership->countTaken(waiter, stripe);',
        'waiter.abandoned = true;',
      ],
    ],
    { tests: 'Exact.AReaderThatIsLetIn*' },
  ),
  mutation(
    'a share that is taken on the way is not counted',
    [
      [
        'table.cc',
        'waiter.abandoned)) {\n      waiter.membership->countTaken(waiter, stripe);\n      continue;',
        'waiter.abandoned)) {\n      continue;',
      ],
    ],
    { tests: 'Exact.AReaderOfTwoStripes*' },
  ),
  mutation(
    'a share that is granted is not counted',
    [['table_grants.cc', '    waiter->membership->countTaken(*waiter, stripe);\n    // Its', '    // Its']],
    { tests: 'Exact.AReaderOfTwoStripes*' },
  ),
  mutation(
    'a share that is taken past a designated one is not counted',
    [
      [
        'table.cc',
        '  waiter.membership->countTaken(waiter, stripe);\n  queue.remove(waiter);',
        '  queue.remove(waiter);',
      ],
    ],
    { tests: 'Exact.AReaderThatOvertakes*' },
  ),

  // ── wake-ups ──
  mutation(
    'a designated waiter sets QUEUED whatever the word is by then',
    [
      [
        'table.cc',
        'if (canTake || !word.compare_exchange_strong(seen, seen | kQueued)) continue;',
        'if (canTake) continue;\n    word.fetch_or(kQueued);',
      ],
    ],
    { tests: 'LostWakeUp.IsNoneWhereTheStripeComesFree*', smoke: true },
  ),
  mutation(
    'a designated waiter sets QUEUED on a word that is free again',
    [['table.cc', 'if (canTake || !word', 'static_cast<void>(canTake);\n    if (!word']],
    { tests: 'LostWakeUp.IsNoneWhereTheStripeComesFree*' },
  ),
  mutation(
    'a wake on its way is remembered when the slot is used again',
    [['participant.cc', 'wakeLoop_ = wakeLoop;\n  waking_.store(false);', 'wakeLoop_ = wakeLoop;']],
    { tests: 'LostWakeUp.IsNoneForTheNextThreadWithTheSlot*' },
  ),
  mutation(
    'a thread that blocks is not told of grants to it',
    [['participant.cc', 'if (blocked_.load()) parker_.unpark();', '']],
    { tests: 'LostWakeUp.IsNoneForAThreadThatBlocks*' },
  ),
  mutation(
    'a blocked thread is told of grants only where no wake is on its way',
    [
      [
        'participant.cc',
        'if (blocked_.load()) parker_.unpark();\n  if (waking_.exchange(true)) return;',
        'if (waking_.exchange(true)) return;\n  if (blocked_.load()) parker_.unpark();',
      ],
    ],
    { tests: 'LostWakeUp.IsNoneForABlockedThread*' },
  ),
  mutation(
    'a thread is told of grants once more only after its event loop has looked',
    [['participant.cc', '  waking_.store(false);\n  STRIPELOCK_SEAM("take', '  STRIPELOCK_SEAM("take']],
    { tests: 'LostWakeUp.IsNoneForAThreadThatIsGranted*' },
  ),
  mutation(
    'whoever is passed over late counts as passed over in time',
    [
      [
        'participant.h',
        'passedOver_.store(true);\n    return isAway(holdsSome);',
        'passedOver_.store(true);\n    return true;',
      ],
    ],
    { tests: 'LostWakeUp.IsNoneForAnAsyncWaiterThatIsPassedOver*' },
  ),
  mutation(
    'a thread blocks after it has given back what it was granted',
    [
      ['participant.cc', '  blocked_.store(true);\n', ''],
      [
        'participant.cc',
        '  STRIPELOCK_SEAM("block: before reclaiming");\n  asyncWaits_.reclaim();\n',
        '  asyncWaits_.reclaim();\n  STRIPELOCK_SEAM("block: before reclaiming");\n  blocked_.store(true);\n',
      ],
    ],
    { tests: 'Exact.AGrantAsItsThreadBlocks*' },
  ),
  mutation(
    'a thread goes on after it has looked at those passed over',
    [
      ['participant.cc', '  blocked_.store(false);\n', ''],
      [
        'participant.cc',
        '  STRIPELOCK_SEAM("unblock: before resettling");\n  if (passedOver_.exchange(false)) asyncWaits_.resettle();',
        '  if (passedOver_.exchange(false)) asyncWaits_.resettle();\n  STRIPELOCK_SEAM("unblock: before resettling");\n  blocked_.store(false);',
      ],
    ],
    { tests: 'Reclaim.MakesUpFor*' },
  ),
  mutation(
    'a thread that finds its stripe taken does not sleep again',
    [
      [
        'table.cc',
        'designated.store(nullptr);\n    waiter.state.store(WaiterState::kWaiting);\n    return false;',
        'designated.store(nullptr);\n    return false;',
      ],
    ],
    { tests: 'Exact.AThreadThatFinds*' },
  ),
  mutation(
    'a waiter that is linked for its next stripe does not count as waiting',
    [
      [
        'table.cc',
        '    waiter.state.store(WaiterState::kWaiting);\n    if (waiter.comesFirst) {',
        '    queue.pushBack(waiter);',
      ],
    ],
    { tests: 'WaitEdges.StartAtAWaiterThatWas*' },
  ),
  mutation(
    'who takes the stripe as designated leaves the others no QUEUED',
    [
      [
        'table.cc',
        '  // Sets kQueued for those that go on waiting (keeps I3).\n  regrant(stripe, waiter.owner, wakes);',
        '',
      ],
    ],
    { tests: 'LostWakeUp.IsNoneForTheNextWhen*' },
  ),
  mutation(
    'a sync waiter that was granted all is not woken',
    [['table_grants.cc', '    wakes.addParked(owner);\n', '']],
    { tests: 'LostWakeUp.IsNoneForAThreadThatWants*', smoke: true },
  ),
  mutation(
    'a sync waiter that is designated is not woken',
    [['table_grants.cc', '      wakes.addParked(*waiter.owner);\n    }\n    return;', '    }\n    return;']],
    { tests: 'LostWakeUp.IsNoneForAThreadThatWants*' },
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
    { tests: 'Deadlock.IsNotSeenByAThread*HalfMade' },
  ),
  mutation(
    'a grant counts as delivered before its stripes are given back',
    [
      [
        'async_returns.cc',
        '  rollBack(waiter, waiter.count);\n',
        '  owner_.delivered();\n  rollBack(waiter, waiter.count);\n',
      ],
      [
        'async_returns.cc',
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
    { tests: 'Order.GivesASlot*', smoke: true },
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
  mutation(
    'a waiter is taken to be where it was',
    [['table.cc', 'if (waiter.position.load() == position) return lock;', 'return lock;']],
    { tests: 'Order.FindsAWaiter*' },
  ),
  mutation(
    'what is ready keeps what came after it the last time',
    [
      [
        'participant.cc',
        '  waiter.readyAt = recently();\n  waiter.nextReady = nullptr;\n',
        '  waiter.readyAt = recently();\n',
      ],
    ],
    { tests: 'Exact.AWaiterThatWasReady*' },
  ),
  mutation(
    'grants that were fetched and not taken are forgotten',
    [['async_waits.cc', 'return ready_ || owner_.hasReady();', 'return owner_.hasReady();']],
    { tests: 'Exact.GrantsThatWereNotTaken*' },
  ),
  mutation(
    'memory is in use for who was refused it',
    [
      [
        'registry.cc',
        '    if (!fits(*entry.table)) return nullptr;\n    ++entry.members;',
        '    ++entry.members;\n    if (!fits(*entry.table)) return nullptr;',
      ],
    ],
    { tests: 'Exact.MemoryIsForgotten*' },
  ),
  mutation(
    'a grant in the moment of an interrupt is lost',
    [
      [
        'sync_wait.cc',
        'holdsAll ? request_.count : waiter_.position.load()',
        '(static_cast<void>(holdsAll), waiter_.position.load())',
      ],
    ],
    { tests: 'Exact.AGrantInTheMomentOfAnInterrupt*' },
  ),
  mutation(
    'a grant to a thread that is interrupted after a slice is kept',
    [['sync_wait.cc', 'slept ? interrupt_.check() : interrupt_', 'slept ? false : interrupt_']],
    { tests: 'Exact.AGrantAfterTheFirstSlice*' },
  ),
  mutation(
    'each thread that wakes asks about its script',
    [['sync_wait.cc', 'slept ? interrupt_.check() : interrupt_.checkEnding()', 'interrupt_.check()']],
    { tests: 'Exact.AGrantWithinTheFirstSlice*' },
  ),
  mutation(
    'a grant to a thread that is being ended is kept',
    [['sync_wait.cc', ': interrupt_.checkEnding()', ': false']],
    { tests: 'SyncWait.GivesBackWhatItIsGranted*' },
  ),
  mutation(
    'a thread looks around once',
    [
      [
        'sync_wait.cc',
        'sliceEnd_ = nextSliceEnd(time);',
        "sliceEnd_ = nextSliceEnd(time) + 200'000'000'000;",
      ],
    ],
    { tests: 'Exact.AThreadLooksAround*' },
  ),

  // ── what others take back ──
  mutation(
    'nobody takes back what was handed to a thread that is away',
    [
      [
        'revocation.cc',
        'if (participant->asyncWaits().revoke(table, stripe, last)) any = true;',
        'static_cast<void>(participant->asyncWaits()), static_cast<void>(last);',
      ],
    ],
    { tests: 'Revocation.PassesATurnOn*', smoke: true },
  ),
  mutation(
    'a thread that something was taken back from is not passed over',
    [['participant.h', '    absent_.store(true);\n', '']],
    { tests: 'Revocation.PassesATurnOn*' },
  ),
  mutation(
    'the sets of a thread that is away are passed over, too',
    [['table.cc', 'passOver(waiter.position.load() > 0)', 'passOver(false)']],
    { tests: 'Revocation.FindsAThreadThatIsAwayAgain*' },
  ),
  mutation(
    'a thread comes back before it takes its ready list',
    [
      [
        'async_waits.cc',
        '      if (!owner_.comesBack()) break;\n      resettle();\n      continue;\n',
        '      break;\n',
      ],
      [
        'async_waits.cc',
        'STRIPELOCK_SEAM("take: before it looks");',
        'if (owner_.comesBack()) resettle();\n  STRIPELOCK_SEAM("take: before it looks");',
      ],
    ],
    { tests: 'Revocation.DoesNotForgetAThread*' },
  ),
  mutation(
    'a thread that something was taken back from is not called',
    [['async_returns.cc', 'if (any) owner_.wakeReady();', '']],
    { tests: 'Revocation.CallsAThread*' },
  ),
  mutation(
    'what is cancelled may be taken back at the same time',
    [
      [
        'async_waits.cc',
        'void AsyncWaits::drop(AsyncWaiter& waiter) {\n  const Lock revoking(owner_.revokeMutex());\n',
        'void AsyncWaits::drop(AsyncWaiter& waiter) {\n',
      ],
    ],
    { tests: 'Revocation.HasOneOutcome*' },
  ),
  mutation(
    'who was revoked waits with nobody on the way',
    [
      [
        'table.cc',
        'its thread will look after it.\n  regrant(stripe, waiter.owner, wakes);',
        'its thread will look after it.',
      ],
    ],
    { tests: 'Revocation.HasOneOutcome*' },
  ),
  mutation(
    'a waiter gets no more time each time that it is revoked',
    [['async_returns.cc', '(kRevokeAfter << waiter.revoked)', 'kRevokeAfter']],
    { tests: 'Revocation.GivesAWaiterTwice*' },
  ),
  mutation(
    'an async waiter makes no last attempt',
    [['async_waits.cc', 'const bool late = tryLate(waiter);', 'const bool late = false;']],
    { tests: 'Revocation.GrantsAnAsyncWaiterWhoseTimeIsUp*' },
  ),

  // ── the wait graph ──
  mutation(
    'the graph takes readers for what a reader waits for',
    [['wait_graph.cc', '    if (!waitsForHolders) {\n', '    waitsForHolders = true;\n    {\n']],
    { tests: 'WaitEdges.DoNotLeadPast*' },
  ),
  mutation(
    'the graph takes an async writer for one that stays',
    [['wait_graph.cc', '} else if (!other->mayGiveUp) {', '} else {']],
    { tests: 'WaitEdges.DoNotLeadPast*' },
  ),
  mutation(
    'the graph does not see writers that a reader waits behind',
    [['wait_graph.cc', '          add(other->owner);\n', '']],
    { tests: 'Deadlock.ThroughASharedReaderBehindAWriter*' },
  ),
  mutation(
    'a second shared hold is refused for a writer that gives up',
    [
      [
        'sync_wait.cc',
        '!goTogether(other->mode, request_.mode) && !other->mayGiveUp',
        '!goTogether(other->mode, request_.mode)',
      ],
    ],
    { tests: 'WaitEdges.OfASecondSharedHold*' },
  ),
  mutation(
    'one that has its stripe and goes on waits for it in the graph',
    [
      [
        'table.cc',
        '  queue.remove(waiter);\n  waiter.state.store(WaiterState::kGoingOn);\n  return true;',
        '  queue.remove(waiter);\n  return true;',
      ],
    ],
    { tests: 'WaitEdges.DoNotStartAt*' },
  ),
  mutation(
    'the graph follows one reader only',
    [
      [
        'wait_graph.cc',
        'if (member->sharesOf(stripe) != 0) add(&member->participant());',
        'if (member->sharesOf(stripe) == 0) continue;\n      add(&member->participant());\n      break;',
      ],
    ],
    { tests: 'Deadlock.ThroughAnyOne*', smoke: true },
  ),
  mutation(
    'the search ends where one way ends',
    [['wait_graph.cc', '      path.pop_back();\n      continue;', '      return {};']],
    { tests: 'Deadlock.ThroughAnyOne*' },
  ),
  mutation(
    'the search walks each way to a thread',
    [['wait_graph.cc', 'if (seen.insert(next).second) path', 'seen.insert(next);\n    path']],
    { tests: 'Deadlock.IsLookedForOnce*' },
  ),
  mutation(
    'a cycle is believed at the first look',
    [
      [
        'wait_graph.cc',
        'if (cycle.empty() || !holds(cycle, stuck)) return {};',
        'if (cycle.empty()) return {};',
      ],
    ],
    { tests: 'Deadlock.IsNotSeenInACycleThatOneLeaves*' },
  ),
  mutation(
    'what a thread was granted and does not know of counts as held',
    [['wait_graph.cc', ' && holder.undelivered() == 0', '']],
    { tests: 'Deadlock.IsNotSeenInWhat*' },
  ),
  mutation(
    'a waiter that gave up counts as waiting',
    [['table.cc', '  waiter.state.store(WaiterState::kWithdrawn);\n', '']],
    { tests: 'Deadlock.IsNotSeenInACycleThatOneLeaves*' },
  ),

  // ── sync waits and what their thread waits for ──
  mutation(
    'an upgrade is left to the wait graph',
    [['sync_wait.cc', '    if (!goTogether(kCountedMode, request_.mode)) return true;\n', '']],
    { tests: 'Deadlock.IsRefusedToAnUpgrade*', variant: 'plain-long-slices' },
  ),
  mutation(
    'a thread minds a writer of its own',
    [
      [
        'sync_wait.cc',
        'for (Waiter* other = passOverIneligible(table_.queueOf(stripe).head); other;\n         other = passOverIneligible(other->next)) {',
        'for (Waiter* other = table_.queueOf(stripe).head; other; other = other->next) {',
      ],
    ],
    { tests: 'Exact.AReaderMayEnterAgain*' },
  ),
  mutation(
    'only the first stripe is looked at for what the thread holds itself',
    [
      [
        'sync_wait.cc',
        'for (std::uint32_t i = position; i < request_.count; ++i) {',
        'for (std::uint32_t i = position; i < position + 1; ++i) {',
      ],
    ],
    { tests: 'Deadlock.IsRefusedBeforeWaiting*', variant: 'plain-long-slices' },
  ),
  mutation(
    'a blocked thread does not give back what it is granted',
    [['sync_wait.cc', '      if (thread_.asyncWaits().hasReady()) thread_.asyncWaits().reclaim();\n', '']],
    { tests: 'LostWakeUp.IsNoneForAThreadThatBlocks*' },
  ),
  mutation(
    'a blocked thread does not let readers pass its writers',
    [['sync_wait.cc', '    thread_.asyncWaits().resettle();\n', '']],
    { tests: 'Reclaim.LetsReadersPass*' },
  ),
  mutation(
    'a thread times out while its stripe is free',
    [['sync_wait.cc', 'if (overtake(true)) {', 'if (false) {']],
    { tests: 'Designated.DoesNotLetABlockedThreadTimeOut*' },
  ),
  mutation(
    'a thread is woken for an event loop that ends',
    [
      ['registry.cc', '  participant.stop();\n', ''],
      [
        'registry.cc',
        'participant.asyncWaits().close();',
        'participant.asyncWaits().close();\n  participant.stop();',
      ],
    ],
    { tests: 'ThreadEnd.PassesOnAGrantThatComes*' },
  ),
  mutation(
    'closing a lock cancels what waits for others, too',
    [['async_waits.cc', 'if (waiter && waiter->membership == &membership) drop', 'if (waiter) drop']],
    { tests: 'AsyncWaits.EndWithTheLock*' },
  ),
  mutation(
    'the cell of those who wait is not counted up',
    [['async_waits.cc', '  countWaiting(waiter, +1);\n', '']],
    { tests: 'AsyncWaits.KeepApart*:AsyncWaits.AreForgotten*' },
  ),
  mutation(
    'a cancelled acquisition keeps what it had',
    [
      [
        'async_waits.cc',
        '    countWaiting(waiter, -1);\n    rollBack(waiter, waiter.position.load());\n',
        '    countWaiting(waiter, -1);\n',
      ],
    ],
    { tests: 'AsyncWaits.AreForgotten*' },
  ),
  mutation(
    'an expired acquisition keeps what it had',
    [['async_waits.cc', '    rollBack(waiter, position);\n    dispose', '    dispose']],
    { tests: 'AsyncWaits.ExpireAtTheirDeadline*' },
  ),
  mutation(
    'a granted acquisition loses its deadline',
    [
      [
        'async_waits.cc',
        '  for (const auto& [deadline, waiter] : granted) deadlines_.add(*waiter, deadline);\n',
        '',
      ],
    ],
    { tests: 'AsyncWaits.KeepTheirDeadline*' },
  ),
  mutation(
    'a wait that was granted counts as waiting',
    [['wait_graph.cc', 'if (!waiter.is(WaiterState::kWaiting)) return wait;', '']],
    { tests: 'Deadlock.IsNotSeenInAWaitThatHasJust*' },
  ),

  // ── races that ThreadSanitizer sees ──
  mutation(
    'a thread ends without the mutex of its wakes',
    [['participant.cc', 'const Lock lock(wakeMutex_);\n  wakeLoop_ = {};', 'wakeLoop_ = {};']],
    { tests: 'Race.IsNoneBetweenAThreadThatEnds*', variant: 'tsan' },
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
    { tests: 'Race.IsNoneBetweenAThreadThatGoesOn*', variant: 'tsan' },
  ),

  // ── argued: nothing can tell these ──
  mutation(
    'the state of a granted sync waiter changes before its thread is to be woken',
    [
      [
        'table_grants.cc',
        '    wakes.addParked(owner);\n    // Last: its thread may return at once, and the waiter be gone.\n    waiter.state.store(WaiterState::kGranted);',
        '    waiter.state.store(WaiterState::kGranted);\n    wakes.addParked(owner);',
      ],
    ],
    {
      argued:
        'The wake is sent after the shard is unlocked, and names the participant, which is never freed.',
    },
  ),
  mutation(
    'what was given back before a sync wait is looked for once',
    [['async_returns.cc', 'to waiters just passed.\n  reclaimReady();', 'to waiters just passed.']],
    {
      argued:
        'Who grants after the first look sees the thread block, and wakes it; it then gives back. The second look saves that.',
    },
  ),
  mutation(
    'a thread that blocks looks for grants after the partial ones only',
    [
      [
        'async_returns.cc',
        '  reclaimReady();\n  for (AsyncWaiter* waiter : multiple_)',
        '  for (AsyncWaiter* waiter : multiple_)',
      ],
    ],
    {
      argued:
        'What is ready is no longer waiting, so that the partial ones skip it, and the second look finds it.',
    },
  ),
  mutation(
    'an acquisition that holds nothing is put off',
    [
      [
        'async_returns.cc',
        'if (!waiter.is(WaiterState::kWaiting) || waiter.position.load() == 0) return;',
        'if (!waiter.is(WaiterState::kWaiting)) return;',
      ],
    ],
    { argued: 'It comes back to the same place, by its time of arrival. It only costs.' },
  ),
  mutation(
    'a share is counted for a designated waiter',
    [
      [
        'table.cc',
        '      waiter.membership->countTaken(waiter, stripe);\n      unlinkServed',
        '      unlinkServed',
      ],
    ],
    { argued: 'Readers are granted by the release, so that only exclusive waiters are ever designated.' },
  ),
  mutation(
    'a thread that was refused stays in the graph until it returns',
    [['wait_graph.cc', 'return {};\n  thread.blockedOn = nullptr;', 'return {};']],
    {
      argued:
        'Its waiter is withdrawn, so that no edge leaves it, and it leaves the graph before anything else.',
    },
  ),
  mutation(
    'a waiter that was granted or is designated itself overtakes, too',
    [['table.cc', 'if (!waiter.is(WaiterState::kWaiting)) return false;', '']],
    {
      argued:
        'One that was granted holds the stripe, so that the attempt fails; one that is designated is not async.',
    },
  ),
  mutation(
    'a sync waiter overtakes a sync one that is designated',
    [['table.cc', 'if (!designated || !designated->async) return false;', '']],
    {
      argued:
        'Without a designated one the stripe is not free (I3). That a running thread is overtaken is only less fair, and it is bounded.',
    },
  ),
  mutation(
    'a waiter of the releasing thread is looked for among the sync ones',
    [
      [
        'table_grants.cc',
        'candidate->owner != actor || !candidate->async ||',
        'candidate->owner != actor ||',
      ],
    ],
    { argued: 'A thread that leaves a stripe has no sync waiter in the queue of that stripe.' },
  ),
  mutation(
    'the graph follows threads that run',
    [['wait_graph.cc', 'holder.blockedOn && holder', 'holder']],
    { argued: 'No edge leaves a thread that does not block, so that no cycle goes through it.' },
  ),
  mutation(
    'a grant in the moment of a timeout ends the wait like one',
    [['sync_wait.cc', '        if (!withdrawn) continue;\n', '']],
    { argued: 'What was not withdrawn was granted, and is returned as that.' },
  ),
  mutation(
    'those passed over are looked at after each sync wait',
    [
      [
        'participant.cc',
        'if (passedOver_.exchange(false)) asyncWaits_',
        'if (passedOver_.load()) asyncWaits_',
      ],
    ],
    { argued: 'It looks at what is pending once more than needed.' },
  ),
];
