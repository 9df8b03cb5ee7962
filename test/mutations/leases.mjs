// Mutations of how the lease table keeps leases, each with the tests that tell it. See list.mjs.

/**
 * @param {string} name
 * @param {string} find
 * @param {string} replace
 * @param {Partial<Pick<import('./list.mjs').Mutation, 'tests' | 'argued'>>} rest
 * @returns {import('./list.mjs').Mutation}
 */
function mutation(name, find, replace, rest) {
  const edits = [{ file: 'native/core/lease_table.cc', find, replace }];
  return { name, edits, tests: '', variant: 'plain', ...rest };
}

export const leaseMutations = [
  mutation(
    'a kept lease is extended after its thread has ended',
    'const bool lives = endedAt == LeaseKeeper::kLives;',
    'const bool lives = true;',
    { tests: 'LeaseKept.EndsWithinATtlAfterItsThread*' },
  ),
  mutation(
    'a kept lease has no limit',
    'std::min((lives ? at : endedAt) + kept.ttl, kept.limit)',
    '(lives ? at : endedAt) + kept.ttl',
    { tests: 'LeaseKept.DoesNotOutliveItsLimit*' },
  ),
  mutation(
    'keeping a lease ends it before the time to which it was renewed',
    'entry.expiresAt = std::max(entry.expiresAt, until);',
    'entry.expiresAt = until;',
    { argued: 'It is asked only when that time is over, and an earlier one is over, too.' },
  ),
  mutation(
    'the end of a thread is taken for a time of a clock of the caller',
    'if (lives || kept.steady) {',
    'if (endedAt != 0) {',
    { tests: 'LeaseKept.OnAClockOfTheCallers*' },
  ),
  mutation('a lease whose thread has ended is still looked up', '  if (!lives) entry.kept.reset();\n', '', {
    argued: 'Its keeper stays ended, so that every look comes to the same time. It only costs.',
  }),
  mutation(
    'a kept lease is swept when its time is over',
    'if (!isHeld(&entry, at)) {\n      erase',
    'if (entry.expiresAt <= at) {\n      erase',
    { tests: 'LeaseKept.IsNotSwept*' },
  ),
  mutation('a new grant to the same owner is kept', '    if (entry->kept) entry->kept.reset();\n', '', {
    tests: 'LeaseKept.IsNotKeptAfterANewGrant*',
  }),
  mutation(
    'a lease in the memory of a kept one is kept',
    '  if (removed->kept) removed->kept.reset();\n',
    '',
    { tests: 'LeaseKept.LeavesNothing*' },
  ),
];
