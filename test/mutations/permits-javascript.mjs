// Mutations of permits in the JavaScript engine: what dead threads leave of them (lib/engine/javascript/stripes.ts).

/**
 * @param {string} name
 * @param {string} file Of lib/engine/javascript.
 * @param {string} find
 * @param {string} replace
 * @param {string | { argued: string }} how The names of tests, or why there is none.
 * @returns {import('./list.mjs').Mutation}
 */
function mutation(name, file, find, replace, how) {
  const edits = [{ file: `lib/engine/javascript/${file}`, find, replace }];
  if (typeof how === 'object') return { name, edits, tests: '', variant: 'javascript', ...how };
  return { name, edits, tests: `test/engine/javascript/permits.test.ts:${how}`, variant: 'javascript' };
}

const asleep = 'if it died in its sleep as the head';
const awake = 'are kept for a head that died awake';

export const javascriptPermitMutations = [
  mutation(
    'permits stay reserved for a head that died in its sleep',
    'stripes.ts',
    '    if (this.lanes.passTurn(stripe, lane, claim)) return;\n    this.words.unreserve(stripe);\n',
    '    if (this.lanes.passTurn(stripe, lane, claim)) return;\n',
    asleep,
  ),
  mutation(
    'a permit that a dead head was offered is offered to nobody else',
    'stripes.ts',
    '    this.words.unreserve(stripe);\n    this.lanes.callHeads(stripe);\n',
    '    this.words.unreserve(stripe);\n',
    asleep,
  ),
  mutation(
    'a reservation of permits ends only where all of them are free',
    'stripe-words.ts',
    'if (this.hasPermits) this.clearQueued(stripe);\n    else Atomics',
    'Atomics',
    asleep,
  ),
  mutation(
    'a head counts as alive although it sleeps and does not wake up',
    'lanes.ts',
    'if (Atomics.notify(memory, index + CLAIM) > 0 || Atomics.load(memory, index + DOZES) === 0) return true;',
    'Atomics.notify(memory, index + CLAIM);\n    if (index >= 0) return true;',
    asleep,
  ),
  mutation(
    'those who look again do not see that a permit is kept',
    'stripes.ts',
    'words.hasPermits ? (word & QUEUED) !== 0 && words.hasRoom(word) : word === QUEUED;',
    'word === QUEUED;',
    awake,
  ),
  mutation(
    'those who look again end a reservation that may be answered',
    'stripes.ts',
    '(words.hasPermits ? lanes.isReserved(stripe) : lanes.isOfferedOfLate(stripe))',
    '(words.hasPermits ? false : lanes.isOfferedOfLate(stripe))',
    awake,
  ),
  mutation(
    'those who look again end a reservation, and call nobody',
    'stripes.ts',
    'lanes.isOfferedOfLate(stripe))) return;\n    words.unreserve(stripe);\n    this.relay(stripe);',
    'lanes.isOfferedOfLate(stripe))) return;\n    words.unreserve(stripe);',
    awake,
  ),
  mutation('an offer of a permit does not lapse', 'stripes.ts', '    lanes.voidOverdue(stripe);\n', '', {
    argued: 'The offer is overdue to the call that follows, too, which declares it void.',
  }),
  mutation(
    'those who look again clear QUEUED although no permit is left',
    'stripes.ts',
    'const reserved = words.hasPermits ? (word & QUEUED) !== 0 && words.hasRoom(word)',
    'const reserved = words.hasPermits ? (word & QUEUED) !== 0',
    { argued: 'What clears QUEUED looks for itself whether a permit is left, and so does what calls.' },
  ),
  mutation(
    'QUEUED ends although no permit is left',
    'stripe-words.ts',
    '(this.hasPermits ? this.hasRoom(word) : isShared(word))',
    '(this.hasPermits ? true : isShared(word))',
    'and that is gone when it withdraws',
  ),
  mutation(
    'permits are kept for a head that has gone',
    'lanes.ts',
    'if (Atomics.load(this.memory, index + CLAIM) === 0) continue;',
    '',
    'and that it has taken, keeps nobody',
  ),
  mutation(
    'permits are kept for a head without end',
    'lanes.ts',
    'if (this.#isOfLate(index + OFFERED_AT, patience.head)) return true;\n    }',
    'return true;\n    }',
    'are open again when a head',
  ),
  mutation(
    'newcomers take what is kept for a head',
    'stripes.ts',
    'return words.hasRoom(word) && ((word & QUEUED) === 0 || !lanes.isReserved(stripe));',
    'return words.hasRoom(word);',
    'are kept for a head that was offered one',
  ),
  mutation(
    'a second release opens what is kept for a head',
    'stripes.ts',
    'const reserves = claim !== 0 || (passes && words.hasPermits && lanes.isReserved(stripe));',
    'const reserves = claim !== 0;',
    'are kept for a head that was offered one',
  ),
  mutation(
    'one permit more than the limit is taken by a newcomer',
    'stripe-words.ts',
    'return bare === 0 || admits(bare, PERMIT_MODE, this.#most);',
    'return bare === 0 || admits(bare, PERMIT_MODE, this.#most + 1);',
    'are as many as the limit',
  ),
  mutation(
    'only the release of the last permit is passed on',
    'stripes.ts',
    'const passes = (last || words.hasPermits) && (word & QUEUED) !== 0;',
    'const passes = last && (word & QUEUED) !== 0;',
    'are kept for a head that was offered one',
  ),
  mutation(
    'who gets a permit leaves the next one to nobody',
    'stripes.ts',
    'if (!isWriter(mode)) this.#letReadersIn(stripe);',
    'if (isWriter(mode)) this.#letReadersIn(stripe);',
    'find the next head when one of them',
  ),
  mutation(
    'a head that answered in vain is not offered the next permit',
    'stripes.ts',
    'if (this.words.hasPermits) this.relay(stripe);',
    '',
    'are offered once more',
  ),
];
