// Mutations of named locks, each with the tests that tell it. See list.mjs.

/**
 * @param {string} name
 * @param {readonly (readonly [file: string, find: string, replace: string])[]} edits Of files of native/core.
 * @param {string} tests
 * @param {string} [variant]
 * @returns {import('./list.mjs').Mutation}
 */
function mutation(name, edits, tests, variant = 'plain') {
  const files = edits.map(([file, find, replace]) => ({ file: `native/core/${file}`, find, replace }));
  return { name, edits: files, tests, variant };
}

export const namedMutations = [
  // ── who gets a named lock ──
  mutation(
    'a reader joins readers past a queued writer',
    [['named_locks.cc', 'record->pending.empty() && record->isCompatible', 'record->isCompatible']],
    'NamedLocksTest.LetsNoSharedRequestPass*',
  ),
  mutation(
    'whoever finds a name in use waits',
    [['named_locks.cc', '(record->pending.empty() && record->isCompatible(request.mode))', 'false']],
    'NamedLocksTest.AdmitsSharedRequestsTogether',
  ),
  mutation(
    'a thief waits',
    [['named_locks.cc', 'if (isNew || how == NamedHow::kSteal ||', 'if (isNew ||']],
    'NamedNews.GoesToAllReaders*',
  ),
  mutation(
    'a thief robs one holder',
    [
      [
        'named_locks.cc',
        'while (NamedRequest* const holder = record.held.first()) {',
        'if (NamedRequest* const holder = record.held.first()) {',
      ],
    ],
    'NamedNews.GoesToAllReaders*',
  ),
  mutation(
    'what is not available waits',
    [['named_locks.cc', '  if (how == NamedHow::kIfAvailable) return NamedAnswer::kUnavailable;\n', '']],
    'NamedLocksTest.RefusesAtOnce*',
  ),
  mutation(
    'a release grants one reader',
    [
      [
        'named_locks.cc',
        'wakes.addReady(first->client.participant());',
        'wakes.addReady(first->client.participant());\n    break;',
      ],
    ],
    'NamedLocksTest.LetsNoSharedRequestPass*',
  ),
  mutation(
    'a release grants all that wait',
    [['named_locks.cc', '    if (!record.isCompatible(first->mode)) return;\n', '']],
    'NamedLocksTest.ServesEachName*',
  ),
  mutation(
    'a cancelled request lets nobody in',
    [
      [
        'named_locks.cc',
        '  remove(request, wakes);\n  return true;',
        '  request.record->pending.remove(request);\n  request.record = nullptr;\n  return true;',
      ],
    ],
    'NamedLocksTest.LetsInWhoWaited*',
  ),
  mutation(
    'a name stays when nobody uses it',
    [['named_locks.cc', '  if (!record.held.empty()) return;\n', '  return;\n']],
    'NamedLocksTest.RemembersAName*',
  ),
  mutation(
    'a name goes while it is held',
    [['named_locks.cc', '  if (!record.held.empty()) return;\n', '']],
    'NamedLocksTest.CancelsInTheMiddle*:NamedLocksTest.LetsReadersIn*',
  ),
  mutation(
    'a record that is used again keeps its name',
    [['named_locks.cc', '    record->key.assign(key);\n', '']],
    'NamedLocksTest.GivesARecordThatIsUsedAgain*',
  ),
  mutation(
    'W8: a query sees one shard after the other',
    [['named_locks.cc', '  copyIfAsked(shard);\n  return lock;', '  return lock;']],
    'NamedLocksTest.AreSeenAtOneMoment*',
  ),
  mutation(
    'units are kept by their lower half',
    [['named_key.cc', 'narrow(name, out + kHead) >= 0x100', 'narrow(name, out + kHead) >= 0x200']],
    'NamedKeys.DistinguishEveryString*',
  ),
  mutation(
    'wide names look like narrow ones',
    [['named_key.cc', '    head |= kWide;\n', '']],
    'NamedKeys.DistinguishEveryString*',
  ),
  mutation(
    'managers share their names',
    [['named_key.cc', 'std::uint64_t head = manager << 1;', 'std::uint64_t head = manager & 0;']],
    'NamedLocksTest.KeepsManagersApart',
  ),

  // ── what a thread is told ──
  mutation(
    'a grant wakes nobody',
    [['named_locks.cc', '    wakes.addReady(first->client.participant());\n', '']],
    'NamedLocksTest.ServesEachName*',
  ),
  mutation(
    'a theft wakes nobody',
    [['named_locks.cc', '    wakes.addReady(robbed.participant());\n', '']],
    'NamedNews.TellsAHolder*',
  ),
  mutation(
    'the late release of a stolen lock is one of the record',
    [['named_locks.cc', 'if (kept) remove', 'remove']],
    'NamedNews.OfATheftIsNotHandedOut*',
  ),
  mutation(
    'a release does not tell that the lock was stolen',
    [['named_locks.cc', 'return kept;', 'return true;']],
    'NamedNews.OfATheftIsNotHandedOut*',
  ),
  mutation(
    'a late cancel hides a theft',
    [['named_client.cc', 'request->ready && request->state == NamedRequest::State::kHeld', 'request->ready']],
    'NamedNews.OfATheftIsStillHandedOut*',
  ),
  mutation(
    'a grant is handed out after a late cancel',
    [
      [
        'named_client.cc',
        '  if (request->ready && request->state == NamedRequest::State::kHeld) unlinkReady(*request);\n',
        '',
      ],
    ],
    'NamedNews.OfAGrantIsNotHandedOutOnceItIsCancelled',
  ),
  mutation(
    'a release leaves its news',
    [['named_client.cc', '  forgetNews(*request);\n', '']],
    'NamedNews.OfAGrantIsNotHandedOutOnceItIsReleased',
  ),
  mutation(
    'a theft is pushed behind the grant that it follows',
    [['named_client.cc', '  if (request.ready) return;\n', '']],
    'NamedNews.OfAGrantThatWasStolen*',
  ),
  mutation(
    'a thread without news still has some',
    [['named_client.cc', '  if (readyList_.empty()) hasReady_.store(false);\n', '']],
    'NamedNews.WakesNoThread*',
  ),
  mutation(
    'a grant waits after it was handed out',
    [
      [
        'named_client.cc',
        '    told(*request);\n    // It is in no record, and',
        '    // It is in no record, and',
      ],
    ],
    'NamedNews.OfManyGrants*',
  ),
  mutation(
    'a request stays when its theft was handed out',
    [['named_client.cc', '    if (stolen) destroy(*request);\n', '']],
    'NamedNews.TellsAHolder*',
  ),
  mutation(
    'a thread ends while a thief looks at it',
    [['named_client.cc', '  NamedLocks::instance().awaitPushers();\n', '']],
    'NamedEnd.WaitsForAThief*',
  ),
  mutation(
    'the end of a thread ends no request',
    [
      [
        'named_client.cc',
        '  for (std::uint32_t ticket = 0; ticket < requests_.size(); ++ticket) release(ticket);\n',
        '',
      ],
    ],
    'NamedEnd.FreesWhatTheThreadHeld*',
  ),

  // ── the mutex of the shards ──
  mutation(
    'whoever has napped has the mutex',
    [['short_mutex.h', '} while (!try_lock());', '} while (false);']],
    'ShortMutex.IsWaitedFor*',
  ),
  mutation(
    'whoever has yielded has the mutex',
    [['short_mutex.h', '      if (attempt()) return;\n', '      if (attempt() || i > 2) return;\n']],
    'ShortMutex.IsWaitedFor*',
  ),
];
