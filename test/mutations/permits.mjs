// Mutations of permits: P1 – P3 of native/core/table.h, and which waits for permits count as deadlocks. See list.mjs.

/**
 * @param {string} name
 * @param {string} file Of native/core.
 * @param {string} find
 * @param {string} replace
 * @param {string} tests
 * @returns {import('./list.mjs').Mutation}
 */
function mutation(name, file, find, replace, tests) {
  return { name, edits: [{ file: `native/core/${file}`, find, replace }], tests, variant: 'plain' };
}

export const permitMutations = [
  mutation(
    'P1: one holder more than the limit is admitted',
    'mode.h',
    'holderOf(word) >= mostHolds(limit)',
    'holderOf(word) > mostHolds(limit)',
    'Permits.AdmitAsMany*',
  ),
  mutation(
    'P1: an attempt without a lock does not look at the limit',
    'table.cc',
    'withHold(seen, mode, slot, limit_)',
    'withHold(seen, mode, slot)',
    'Permits.AdmitAsMany*',
  ),
  mutation(
    'P1: a waiter is not stopped by the limit',
    'table.cc',
    'withHold(word, waiter.mode, waiter.owner->slot(), limit_)',
    'withHold(word, waiter.mode, waiter.owner->slot())',
    'Permits.GoToWaiters*',
  ),
  mutation(
    'P1: a release lets in all who wait',
    'table_grants.cc',
    'withHold(next, waiter->mode, waiter->owner->slot(), limit_)',
    'withHold(next, waiter->mode, waiter->owner->slot())',
    'Permits.AreGrantedTogether*',
  ),
  mutation(
    'P2: the next waiter is let in where one that gives up leaves no permit',
    'table_grants.cc',
    'withHold(bare, first->mode, first->owner->slot(), limit_)',
    'withHold(bare, first->mode, first->owner->slot())',
    'Permits.AreNotMissedByAnEventLoop*',
  ),
  mutation(
    'P2: permits wait until a designated waiter is awake, although there are more than it needs',
    'table_grants.cc',
    'return hasPermits(limit_) ? planBeside(queue, bare) : Plan{.next = bare};',
    'return {.next = bare};',
    'Permits.BesideTheOne*',
  ),
  mutation(
    'P1: the permit of a designated waiter is given to another one, too',
    'table_grants.cc',
    'waiter && holderOf(plan.next) + 1 < limit_;',
    'waiter && holderOf(plan.next) < limit_;',
    'Permits.BesideTheOne*',
  ),
  mutation(
    'P2: a designated waiter sleeps although a permit is left',
    'table.cc',
    'const bool canTake = withHold(seen, waiter.mode, waiter.owner->slot(), limit_).has_value();',
    'const bool canTake = isFree(seen);',
    'Permits.AreNotMissedByADesignated*',
  ),
  mutation(
    'P2: a permit waits for an event loop to try for it',
    'table_grants.cc',
    'if (!local && !mayBeLate) return',
    'static_cast<void>(mayBeLate);\n    if (!local) return',
    'Permits.ThatABusyThreadDoesNotCollect*:Permits.AreHandedOver*',
  ),
  mutation(
    'P2: of several free permits only one finds its waiter',
    'table_grants.cc',
    'hasPermits(limit_) ? holderOf(bare) + 1 < limit_ : isJoint(first->mode)',
    'hasPermits(limit_) ? false : isJoint(first->mode)',
    'Permits.AreGrantedTogether*',
  ),
  mutation(
    'P3: a death is told for ever',
    'table_grants.cc',
    'if (leave.how == Leave::How::kRelease && (*left & kTold) != 0) *left &= ~kAbandoned;',
    '',
    'Permits.OfADeadThread*',
  ),
  mutation(
    'P3: a holder from before a death keeps others from being told',
    'table_grants.cc',
    'leave.how == Leave::How::kRelease && (*left & kTold) != 0',
    'leave.how == Leave::How::kRelease',
    'Permits.OfADeadThread*',
  ),
  mutation(
    'P3: an acquisition that was told and rolled back counts as told',
    'table_grants.cc',
    '    *left &= ~kTold;\n',
    '',
    'Permits.TellOfADeathAgain*',
  ),
  mutation(
    'P3: nobody counts as told',
    'mode.h',
    'hasPermits(limit) && (word & kAbandoned) != 0 ? kTold : 0',
    '0',
    'Permits.OfADeadThread*',
  ),
  mutation(
    'a table is opened with another limit',
    'registry.cc',
    ' && table.limit() == limit',
    '',
    'Permits.OfOneTable*',
  ),
  mutation(
    'a thread is shown once, however many permits it has',
    'inspect.cc',
    'each ? shares : std::min(shares, 1u)',
    'std::min(shares, each ? 1u : 1u)',
    'Permits.AreShown*',
  ),
  mutation(
    'a thread that holds some permits may not wait for another one',
    'sync_wait.cc',
    'if (shares >= table_.limit()) return true;',
    'return true;',
    'PermitWait.OfAThreadThatHoldsSome*',
  ),
  mutation(
    'a thread waits for itself, as it has all permits',
    'sync_wait.cc',
    'if (shares >= table_.limit()) return true;',
    '',
    'PermitWait.OfAThreadThatHoldsAll*',
  ),
  mutation(
    'a holder that runs does not count',
    'wait_graph.cc',
    'if (permits < table.limit()) wait.blockers.clear();',
    '',
    'PermitCycle.ThroughOnlySome*',
  ),
  mutation(
    'a cycle through one of the holders is a deadlock, although another holder can go on',
    'wait_graph.cc',
    'return !wait.blockers.empty() && std::all_of(',
    'return !wait.blockers.empty() && std::any_of(',
    'PermitCycle.ThatABlockedThreadOutside*',
  ),
  mutation(
    'a cycle through permits is never a deadlock',
    'wait_graph.cc',
    'if (std::any_of(cycle.begin(), cycle.end(), waitsForAny)) {',
    'if (std::any_of(cycle.begin(), cycle.end(), waitsForAny)) return {};\n  if (false) {',
    'PermitCycle.IsRefused*:PermitWait.OfTwoThreads*',
  ),
  mutation(
    'the second look is at the cycle alone',
    'wait_graph.cc',
    '  return std::all_of(stuck.begin(), stuck.end(),\n' +
      '                     [&](const auto& entry) { return isStuck(waitOf(*entry.first), stuck); });\n',
    '  return true;\n',
    'PermitWait.IsNotRefusedIf*',
  ),
];
