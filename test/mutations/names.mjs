// Mutations of exact keys, one or more for each invariant of native/core/name_table.h. See list.mjs.

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

export const nameMutations = [
  mutation(
    'N1: a stripe that is of a key is given to another, too',
    'name_table.cc',
    '    shard.free.pop_back();\n    return stripe;\n  }\n  std::uint32_t stripe = used_.load();',
    '    return stripe;\n  }\n  std::uint32_t stripe = used_.load();',
    'NameTable.AgreesWithAMap*:NameTable.GivesTheStripe*',
  ),
  mutation(
    'N2: the last pin of an abandoned key frees its stripe',
    'name_table.cc',
    'if (table_.word(stripe).load() == 0) {',
    'if (table_.word(stripe).load() != ~0u) {',
    'NameTable.KeepsTheStripe*:ExactKeys.OfAThreadThatEndsAreUnpinned*',
  ),
  mutation(
    'N2: the first unpin frees the stripe, whoever else has pinned it',
    'name_table.cc',
    'if (--name.pins != 0) return number;',
    '--name.pins;',
    'NameTable.GivesAKeyTheSameStripe*:NameTable.AgreesWithAMap*',
  ),
  mutation(
    'N2: an abandoned key that is pinned again stays an orphan',
    'name_table.cc',
    'if (name->orphan) removeOrphan(*name);',
    '',
    'NameTable.KeepsTheStripe*:NameTable.ForgetsTheOldest*',
  ),
  mutation(
    'N2: abandoned keys are kept without bound',
    'name_table.cc',
    'while (orphans() > mostOrphans_ && forgetOldest()) {',
    'while (false) {',
    'NameTable.ForgetsTheOldest*',
  ),
  mutation(
    'N3: a forgotten key leaves its word abandoned to the next key',
    'name_table.cc',
    'table_.word(name->stripe).store(0);',
    '',
    'NameTable.ForgetsAbandonedKeysRatherThanRefuse*',
  ),
  mutation(
    'a stripe that was never used keeps the word of an earlier table',
    'name_table.cc',
    '  table_.word(stripe).store(0);\n  return stripe;\n',
    '  return stripe;\n',
    'NameTable.StartsWithFreeStripes*',
  ),
  mutation(
    'N4: a key that its thread holds is unpinned',
    'membership.cc',
    'return isHeldAloneBy(table_.word(stripe).load(), participant_.slot()) || sharesOf(stripe) != 0 ||',
    'return sharesOf(stripe) != 0 ||',
    'ExactKeys.StayPinnedWhileTheirThreadHolds*',
  ),
  mutation(
    'N4: a key that an async acquisition waits for is unpinned',
    'async_waits.cc',
    '  waiter.membership->countWaits(waiter.stripes, waiter.count, +1);\n',
    '',
    'ExactKeys.StayPinnedWhileAnAcquisitionWaits*',
  ),
  mutation(
    'a key that was waited for once stays pinned',
    'async_waits.cc',
    '  waiter.membership->countWaits(waiter.stripes, waiter.count, -1);\n',
    '',
    'ExactKeys.StayPinnedWhileAnAcquisitionWaits*',
  ),
  mutation(
    'a list that names a stripe twice ends two pins',
    'membership.cc',
    '    if (!hasPinned(stripe)) continue;\n',
    '',
    'ExactKeys.ArePinnedOncePerThread*',
  ),
  mutation(
    'a thread pins a key each time that it looks it up',
    'membership.cc',
    '    table_.names()->unpin(stripe);\n    return {.stripe = stripe, .again = true',
    '    return {.stripe = stripe, .again = true',
    'ExactKeys.ArePinnedOncePerThread*',
  ),
  mutation(
    'a thread that ends leaves its keys pinned',
    'registry.cc',
    '  membership.unpinAll();\n',
    '',
    'ExactKeys.OfAThreadThatEndsAreUnpinned*',
  ),
  mutation(
    'a thread that ends unpins what it holds before it abandons it',
    'registry.cc',
    '    membership.abandon();\n    membership.unpinAll();\n',
    '    membership.unpinAll();\n    membership.abandon();\n',
    'ExactKeys.OfAThreadThatEndsAreUnpinned*',
  ),
  mutation(
    'a key is refused while another shard has a free stripe',
    'name_table.cc',
    'if (!moveFree(shard) && !forgetOldest())',
    'if (!forgetOldest())',
    'NameTable.RefusesAKeyOnlyIf*',
  ),
  mutation(
    'threads are never told that many keys have stripes',
    'name_table.cc',
    'return used_.load() > half && shard.names.size() * kShards > half;',
    'return false;',
    'NameTable.SaysThatItIsCrowded*',
  ),
  mutation(
    'threads are told that many keys have stripes long after that',
    'name_table.cc',
    'used_.load() > half && shard.names.size() * kShards > half',
    'used_.load() > half',
    'NameTable.SaysThatItIsCrowded*',
  ),
  mutation(
    'N2: the stripe of a key that others have pinned is reused',
    'name_table.cc',
    'if (name.pins != 1 || table_.word(idle).load() != 0) return false;',
    'if (table_.word(idle).load() != 0) return false;',
    'PinOnce.*',
  ),
  mutation(
    'N2: the stripe of an abandoned key is reused',
    'name_table.cc',
    'if (name.pins != 1 || table_.word(idle).load() != 0) return false;',
    'if (name.pins != 1) return false;',
    'PinOnce.*',
  ),
  mutation(
    'N4: the stripe of a key that this thread waits for is reused',
    'membership.cc',
    'once == NameTable::kNone || uses(once) ?',
    'once == NameTable::kNone ?',
    'PinOnce.*',
  ),
  mutation(
    'N4: the stripe of a key that was pinned otherwise since is reused',
    'membership.cc',
    '  if (once == pinned.stripe) once = NameTable::kNone;\n  return pinned;',
    '  return pinned;',
    'PinOnce.*',
  ),
  mutation(
    'N4: the stripe of a key that was unpinned is reused',
    'membership.cc',
    '    if (once == stripe) once = NameTable::kNone;\n  }\n',
    '  }\n',
    'PinOnce.*',
  ),
  mutation(
    'N1: a stripe that is reused keeps the name of the key before',
    'key_table.h',
    '    node.key.assign(key);\n',
    '',
    'PinOnce.*',
  ),
  mutation(
    'no stripe is ever reused',
    'membership.cc',
    'if (!pinned.again && pinned.stripe != NameTable::kNone) once = pinned.stripe;',
    '',
    'PinOnce.*',
  ),
  mutation(
    'keys that come again are not noticed',
    'recurrence.h',
    'if (mark == own) found_ += kShare;',
    '',
    'Recurrence.*',
  ),
  mutation(
    'new keys count as ones that come again',
    'recurrence.h',
    'if (mark == own) found_ += kShare;',
    'found_ += kShare;',
    'Recurrence.*',
  ),
  mutation(
    'a few keys outside of the sample are not noticed',
    'recurrence.h',
    '      ++found_;\n    } else',
    '    } else',
    'Recurrence.*',
  ),
  mutation('what was once usual stays so', 'recurrence.h', '    found_ = 0;\n', '', 'Recurrence.*'),
];
