// Faults of native/core, one for each promise. See scripts/mutate.mjs.

/**
 * For each mark above a line: what stands there instead, and the tests that must find it (a filter of
 * GoogleTest).
 *
 * @type {Readonly<Record<string, readonly [fault: string, tests: string]>>}
 */
export const mutants = {
  // ── I1 – I7: words and queues ──
  'I3-joins-past-waiters': ['', 'AsyncWaits.LetReadersPass*'],
  'I5-leaves-shard-early': [
    'if (&shard != held && &shard != last.mutex()) { next = Lock(shard); last = Lock(); }',
    'Order.ChangesAPosition*',
  ],
  'I5-looks-once': ['return lock;', 'Order.FindsAWaiter*'],
  'I5-withdraws-granted': ['', 'AsyncWaits.PassTheirStripesOn*'],
  'I3-links-unseen': ['', 'AsyncWaits.WakeTheirEventLoop*'],
  'I10-stand-in-last': ['if (false) {', 'Local.StandInComesBefore*'],
  'I4-leaves-designated': ['', 'Designated.PassesItsTurnOnWhenItIsCancelled'],
  'I2-queues-on-free-word': [
    'if (canTake) continue; word.fetch_or(kQueued);',
    'WakeUp.IsNotLostWhereTheStripeComesFree*',
  ],
  'fairness-of-earlier-head': ['', 'FairnessClock.StartsAnewForTheNextWhenADesignated*'],
  'I3-served-passes-nobody': ['', 'WakeUp.IsNotLostForTheNextWhen*'],
  'I7-loses-its-place': ['queue.pushBack(waiter);', 'Requeue.*'],
  'I3-back-unseen': ['', 'Revocation.HasOneOutcome*'],
  'I3-grants-to-blocked': ['return false;', 'Requeue.PutsOneBetween*'],
  'I4-designates-twice': [
    'if (queue.designated.load() && hasPermits(limit_)) return planBesideDesignated(queue, bare);',
    'Designated.DoesNotLetABlockedThreadTimeOut*',
  ],
  'serves-no-local': ['return &first;', 'Fairness.PrefersAnAsync*'],
  'fairness-restarts': ['plan.fairAt = time + kBargingPeriod;', 'FairnessClock.RunsOnWhile*'],
  'I3-grant-drops-queued': ['', 'WakeUp.*:Fairness.GivesAsync*'],
  'I1-share-not-counted': ['', 'Exact.AReaderOfTwoStripes*'],
  'granted-sleeps': ['', 'WakeUp.IsNotLostForAThreadThatWants*'],

  // ── Locks between processes: E1 – E5, G1 – G6, L1 – L5 ──
  'process-overlooks-the-dead': ['', 'Process.TellsTheNext*'],
  'enters-without-report': ['return true;', 'Process.EntersAFreeKey*'],
  'process-hides-the-dead': ['page_.leave(byte, key.place);', 'Process.TellsOfAThread*'],
  'process-keeps-the-old-wait': ['', 'Process.LetsItsProcessKeep*'],
  'process-turn-without-end': ['return left > 0;', 'Process.BelievesATurn*'],
  'process-forgets-missed-turns': ['', 'Process.KeepsAKeyForLonger*'],
  'process-keeps-for-the-dead': [
    'return hasTurn(cell.turn.load(), byte);',
    'Process.KeepsNoKeyForAProcessThatDied*',
  ],
  'process-forgets-shared-early': ['', 'Process.SharesAKey*'],
  'L1-locks-the-first-only': ['if (key.holders == 0) {', 'ProcessPermits.HaveAsManyHolders*'],
  'process-clears-before-it-writes': ['if (false) {', 'Process.TellsOfADeathAlso*'],
  'process-keeps-dead-records': ['', 'Process.TellsOfADeathWhereTheDead*'],
  'process-keeps-living-readers': ['', 'Process.TellsOfADeathWhereReaders*'],
  'process-keeps-from-readers': [
    'if (hasTurn(cell.turn.load(), byte) && (!canShare || true)) kept = waiter.slot;',
    'Process.SharesAKeyThat*',
  ],
  'process-keeps-a-taken-turn': ['', 'Process.KeepsAKeyNoLongerFor*'],
  'process-wakes-one-reader': ['return;', 'Process.WakesAllProcesses*'],
  'G5-wakes-the-awake': ['const bool isAwake = false;', 'Process.WakesAProcessOnce*'],
  'G6-wakes-the-dead': ['return true;', 'Process.WakesTheProcessBehindOneThatDied'],
  'G6-keeps-the-dead': ['', 'Process.WakesTheProcessBehindOneThatDied'],
  'G6-waits-for-the-dead': [
    'const bool isAlert = isAwake || wake(slot);',
    'Process.WakesTheProcessBehindOneThatDiedAfter*',
  ],
  'G5-keeps-the-old-count': ['', 'Process.WakesAProcessOnce*'],
  'process-locks-before-it-looks': ['if (false) {', 'Process.DoesNotLockAKeyThat*'],
  'process-reads-unchecked': ['error = refresh();', 'Process.SurvivesATruncation*'],
  'process-waits-for-an-old-turn': ['key.gaveTurn = true;', 'Process.DoesNotLockAKeyThat*'],
  'process-looks-only-before-it-locks': ['int before = kNoSlot;', 'Process.WakesOnly*'],
  'asks-the-gate-twice': ['const bool isRefused = false;', 'Process.AsksForAKeyOnce*'],
  'asks-as-if-it-did-not-wait': [
    'if (position == request_.count && enter(false)) return granted();',
    'Process.KeepsAFreeKeyOfAList*',
  ],
  'process-wakes-those-behind': ['page_.wakeNext(key.byte);', 'Process.WakesOnly*'],
  'process-looks-before-it-locks': [
    'if (FileError().fault != FileFault::kNone) {',
    'Process.SaysThatTheFile*',
  ],
  'process-overlooks-a-rename': ['', 'Process.SaysThatTheFile*'],
  'process-takes-a-refusal-for-a-fault': [
    'if (first != LockFile::Answer::kTaken) error = {FileFault::kFileSystem, number};',
    'Process.OpensWhile*',
  ],
  'process-shares-with-all': ['return false;', 'Process.RefusesAFileThatOthers*'],
  'process-trusts-a-damaged-header': ['const bool isWhole = isMarked;', 'Process.RepairsADamagedHeader*'],
  'process-makes-an-open-file': ['if (false) {', 'Process.WritesNoHeader*'],
  'process-ignores-other-layouts': ['', 'Process.RefusesALayout*'],
  'process-joins-past-writers': ['', 'Process.LetsAReaderJoin*'],
  'cede-without-closed': ['', 'Process.LetsAReaderJoin*'],
  'E1-enters-without-words': ['if (table.gate() != nullptr) {', 'Process.ExcludesOther*'],
  'E3-kept-without-waiter': ['const bool isAwaited = true;', 'Process.StopsWaitingInThePage*'],
  'E4-abandons-the-word-only': [
    'const bool left = table_.leave(stripe, leave, &participant_, wakes);',
    'Process.TellsOfAThread*',
  ],
  'E5-keeps-the-watcher': [
    'if (!ceded || !key.attendant) key.attendant = first && !first->async ? first->owner : nullptr;',
    'Process.KeepsWaitingForAnotherProcess*',
  ],
  'E5-wakes-no-watcher': ['', 'Process.WatchesAKeyFor*:Process.SharesAKeyWithAnotherProcess*'],
  'E5-joins-unseen': ['', 'Process.SharesAKeyWithAnotherProcess*'],
  'process-cedes-unseen': ['return;', 'Process.GivesAKeyToAnotherProcess*'],
  'process-wakes-own-in-vain': ['cedes = false;', 'Process.GivesAKeyToAnotherProcess*'],
  'process-passes-no-watch-on': ['', 'Process.GivesAKeyToAnotherProcess*'],
  'process-reopens-never': ['', 'Process.WaitsForAnotherProcess'],
  'process-reads-late': [
    'wakeWord_.sleep(lock, wakeWord_.wakes(), most);',
    'Process.DoesNotMissAReleaseWhileABlocked*',
  ],
  'unpark-without-redirect': ['return wakeOne(permit_);', 'Process.WakesABlockedThreadThatSleeps*'],
  'process-stops-watching': ['', 'Process.KeepsWatchingForAnEventLoop*'],
  'process-waits-in-vain': ['', 'Process.StopsWaitingInThePage*'],
  'process-keeps-no-turns': ['const bool waits = false;', 'Process.KeepsTheTurnsOfAList*'],
  'process-ignores-other-limits': ['', 'ProcessPermits.HaveTheLimitThat*'],
  'process-passes-dead-permits': ['const bool isRecorded = pass == 1;', 'ProcessPermits.TellTheNextHolder*'],
  'process-keeps-all-permits': ['', 'ProcessPermits.AreKeptForAsMany*'],
  'process-keeps-own-from-permits': ['', 'ProcessPermits.GoToAWaiterOfTheSameProcess*'],
  'L4-keeps-an-old-wait': ['if (called || !isFree(word)) return;', 'ProcessPermits.AreWaitedForInThePage*'],
  'L5-wakes-no-next': ['', 'ProcessPermits.GoToTheNextProcess*'],

  // ── Permits: P1 – P3 ──
  'P1-release': ['if (placesFor(plan.next, waiter->mode) <= kept) break;', 'Permits.AreGrantedTogether*'],
  'P2-sleeps-beside-permit': ['const bool canTake = isFree(seen);', 'Permits.AreNotMissedByADesignated*'],
  'P2-waits-for-event-loop': [
    'if (!isLocal) return {.next = left, .designate = chosen};',
    'Permits.GoToTheNextIf*:Permits.AreHandedOver*',
  ],
  'P3-told-for-ever': ['', 'Permits.ComeBackFrom*'],
  'P3-rolled-back-was-told': ['', 'Permits.TellOfADeathAgain*'],
  'permits-some-free': ['', 'PermitCycle.IsNotRefusedThroughOnlySome*'],
  'permits-any-way-out': [
    'return std::any_of(wait.blockers.begin(), wait.blockers.end(), isIn);',
    'PermitCycle.IsNotRefusedIfABlocked*',
  ],

  // ── Death, and threads that come and go ──
  'death-rolled-back': [
    'if (traitsOf(leave.mode).mayWrite) *left &= ~kAbandoned;',
    'ThreadEnd.KeepsTheFlagWhereAnAcquisition*',
  ],
  'death-untold': ['', 'ThreadEnd.Frees*'],
  'death-of-one-share': ['shares[stripe].store(0);', 'ThreadEnd.GivesBackItsShares*'],
  'death-slot-first': [
    'participant.stop(); { const Lock early(mutex_); freeSlots_.push_back(participant.slot()); }',
    'Order.GivesASlot*',
  ],
  'metrics-forget-the-ended': ['', 'LockMetrics.StayWhenTheLast*'],
  'metrics-forget-threads': ['', 'LockMetrics.KeepWhatAThreadCounted*'],
  'S1-frees-what-others-know': ['', 'FreeSpans.DoNotGetTheMemoryOfATableThatASecondThreadHasOpened'],

  // ── Wake-ups, and grants that are not collected ──
  'wake-of-earlier-thread': ['', 'WakeUp.IsNotLostForTheNextThreadWithTheSlot*'],
  'wake-after-look': ['', 'WakeUp.IsNotLostForAThreadThatIsGranted*'],
  'wake-of-blocked': ['', 'WakeUp.IsNotLostForAThreadThatBlocks*'],
  'I3-passed-over-for-good': ['', 'Reclaim.MakesUpFor*'],
  'blocked-keeps-grants': ['', 'WakeUp.IsNotLostForAThreadThatBlocks*'],
  'times-out-at-free-stripe': ['', 'Designated.DoesNotLetABlockedThreadTimeOut*'],
  'ended-keeps-grant': ['', 'SyncWait.GivesBackWhatItIsGranted*'],
  'I7-turn-of-absent': ['', 'Revocation.PassesATurnOn*'],
  'I7-stays-absent': ['break;', 'Revocation.*'],
  'I7-absent-not-called': ['', 'Revocation.CallsAThread*'],
  'I7-one-lock-only': ['if (stripe == lastStripe && lastTable) continue;', 'Revocation.IsDoneInEachLock*'],

  // ── Deadlocks ──
  'graph-own-undelivered': [
    'return isHeldAloneBy(table_.word(stripe).load(), thread_.slot());',
    'Deadlock.IsNotSeenByAThread*',
  ],
  'graph-one-look': ['if (cycle.empty()) return {};', 'Deadlock.IsNotSeenInACycleThatOneLeaves*'],
  'graph-undelivered': [
    'if (holder && holder->blockedOn) blockers.push_back(holder);',
    'Deadlock.IsNotSeenInWhat*',
  ],
  'graph-writer-between': ['continue;', 'Deadlock.IsRefusedThroughASharedReaderBehind*'],

  // ── Exact keys: N1 – N5 ──
  'N1-stays-free': ['', 'KeyTable.GivesTheStripe*'],
  'N2-first-unpin': ['--entry.pins;', 'KeyTable.GivesAKeyTheSameStripe*:KeyTable.AgreesWithAMap*'],
  'N2-frees-abandoned': [
    'if (true) return remove(shard, entry);',
    'KeyTable.KeepsTheStripe*:ExactKeys.OfAThreadThatEndsAreUnpinned*',
  ],
  'N2-unpins-first': [
    'membership.unpinAll(); membership.abandon();',
    'ExactKeys.OfAThreadThatEndsAreUnpinned*',
  ],
  'N2-forgets-pinned': ['if (!oldestOrphan_) continue;', 'KeyTable.ForgetsOnlyAKey*'],
  'N1-left-beyond-stripes': ['const std::uint64_t left = found;', 'ExactKeys.MayBeLeftInAnyNumber*'],
  'N2-left-beyond-bound': [
    'used_.store(static_cast<std::uint32_t>(left));',
    'ExactKeys.MayBeLeftInAnyNumber*',
  ],
  'N2-orphans-without-bound': [
    'return std::max(stripes / 4, kFewOrphans);',
    'KeyTable.KeepsAQuarterOfItsKeysAbandoned*',
  ],
  'N2-given-up-without-bound': ['', 'KeyTable.ForgetsTheOldestAbandonedKeysAlsoOfThoseGivenUp'],
  'N2-unpinned-without-bound': ['', 'KeyTable.ForgetsTheOldestAbandonedKeysBeyondABound'],
  'N3-next-key-abandoned': ['', 'KeyTable.ForgetsAbandonedKeysRatherThanRefuse*'],
  'N4-unpins-awaited': ['', 'ExactKeys.StayPinnedWhileAnAcquisitionWaits*'],
  'N5-refuses-beside-free': [
    'if (!forgetOldest()) return {.stripe = kNone, .crowded = true};',
    'KeyTable.RefusesAKeyOnlyIf*',
  ],
  'N4-gives-used': [
    'const bool ends = idle != KeyTable::kNone && has(idle);',
    'ExactKeys.AreGivenUpForAnother*',
  ],
  'N4-gives-awaited': ['', 'ExactKeys.StayPinnedWhileTheirThreadBlocks'],
  'N4-unpins-blocked': ['const bool stays = uses(stripe);', 'ExactKeys.StayPinnedWhileTheirThreadBlocks'],
  'N4-hides-end': [
    'if (stripe == KeyTable::kNone) return {.stripe = stripe};',
    'ExactKeys.AreGivenUpAlsoIfThereIsNoStripe*',
  ],
  'N5-loses-idle': ['', 'KeyTable.FreesAStripeThatIsGivenUp*'],
  'N5-loses-dropped': ['', 'KeyTable.GivesTheStripe*'],

  // ── Web locks: W1 – W6 ──
  'W1-thief-joins': ['', 'WebLockNews.GoesToAllReaders*'],
  'W2-cancel-grants-none': [
    '{ request.record->listOf(request).remove(request); request.record = nullptr; }',
    'WebLocksTest.LetsInWhoWaited*',
  ],
  'W3-ends-stolen': ['remove(request, wakes);', 'WebLockNews.DropsATheft*'],
  'W3-drops-held': ['', 'WebLocksTest.CancelsInTheMiddle*:WebLocksTest.LetsReadersIn*'],
  'W4-ends-under-thief': ['', 'WebLockEnd.WaitsForAThief*'],
  'W5-news-twice': ['', 'WebLockNews.TellsOfAGrantAndItsTheft*'],
  'web-grant-without-wake': ['', 'WebLocksTest.ServesEachName*'],
  'W6-changes-before-copy': ['', 'WebLocksTest.AreSeenAtOneMoment*'],
  'web-names-mix-widths': ['', 'WebLockNames.DistinguishEveryString*'],

  // ── Profiles of contention ──
  'profile-keeps-earlier-records': ['', 'ContentionProfile.StartsWithoutTheRecords*'],
  'profile-takes-earlier-draws': [
    'static_cast<void>(after(recorded_.load()));',
    'ContentionProfile.DropsRecordsThatWereDrawnFor*',
  ],
  'profile-keeps-earlier-pace': ['', 'ContentionProfile.StartsWithoutTheRecords*'],
  'profile-keeps-earlier-lease-waits': ['', 'ContentionProfile.ForgetsTheWaitsForLeases*'],
  'profile-keeps-waits-of-ended-threads': ['', 'ContentionProfile.ForgetsTheWaitsForLeases*'],
  'profile-takes-any-place': ['const bool isThere = true;', 'ContentionProfile.RecordsAReleaseOfALease*'],
  'profile-draws-again-for-leases': [
    'const bool isLong = true;',
    'ContentionProfile.RecordsShortWaitsForLeases*',
  ],

  // ── Leases and gates ──
  'lease-released-without-token': [
    'const bool isOwn = entry && entry->owner == claim.owner;',
    'LeaseTable.ReleasesOnlyTheGrant*',
  ],
  'lease-shortened-by-a-grant': ['', 'LeaseTable.ShortensNothingByAnotherGrant*'],
  'lease-kept-without-token': ['if (!entry) return false;', 'LeaseTable.KeepsOnlyTheGrant*'],
  'lease-kept-twice': ['', 'LeaseTable.KeepsOnlyTheGrant*'],
  'lease-kept-by-its-owner': ['', 'LeaseTable.RefusesAKeptKey*'],
  'lease-joined-while-put-off': ['', 'LeaseTable.RefusesNewReadersWhileTheyArePutOff*'],
  'lease-put-off-ends-with-its-group': [
    'const bool isPutOff = false;',
    'LeaseTable.PutsOffReadersOfAFreeKey*',
  ],
  'lease-turn-of-refused-readers': [
    'callWatches(claim.key, true, wakes);',
    'LeaseTable.GivesNoThreadTheTurnForAKeyThatRefusesReaders*',
  ],
  'lease-freed-while-read': ['', 'LeaseTable.IsFreedByTheLastReader*'],
  'gate-counted-twice': ['', 'FencingGate.IsNotForgottenForOne*'],
  'gate-forgets': ['', 'FencingGate.ForgetsTheLowest*'],
};
