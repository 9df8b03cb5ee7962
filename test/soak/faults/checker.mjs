/** @typedef {import('./history.mjs').Entry} Entry */
/** @typedef {{ from: number, to: number }} Loss When the store lost its data. */
/** @typedef {Entry & { start: number, end: number }} Hold */
/** @typedef {{ holds: [Hold, Hold], what: string }} Overlap Of two holds, the one that started first before the other. */

/**
 * The histories of all clients, and the fenced resource, prove or disprove:
 *
 * 1. certain holds of a key never overlap, unless all of them are shared. A hold is certain from its grant's return until the last time at which its
 *    holder was told that it is held. If the store was made to lose its data, holds from before and after that may
 *    overlap: no lease can prevent it.
 * 2. a grant that was requested after another had returned has a higher token. Shared ones may have the same token.
 * 3. the resource accepted no stale write, and lost none that it accepted: the values count up by one, under tokens that
 *    never fall, and every write that a client was told of is among them.
 * 4. the next holder of a key sees that it was abandoned if the last one had not released it, because it was killed or
 *    stopped; and does not see that if the last one had. After readers, it sees the same as they. Only grants that show
 *    `abandoned` count, and only if the store did not lose its data in between, nor a release when it was killed.
 *
 * @param {readonly Entry[]} history
 * @param {Pick<import('./resource.mjs').FencedResource, 'writes'>} resource
 * @param {readonly Loss[]} losses
 * @param {readonly Overlap[]} [overlaps] Those that count.
 * @param {readonly Loss[]} [crashes] When the store may have lost releases.
 * @returns {string[]} Sentences; none if there are no violations.
 */
export function check(history, resource, losses, overlaps = overlapsIn(history, losses), crashes = []) {
  const grants = history.filter(({ op }) => op === 'acquire');
  return [
    ...overlaps.map(({ what }) => what),
    ...fallingTokens(grants),
    ...wrongWrites(history, resource),
    ...wrongAbandonments(history, grants, [...losses, ...crashes]),
  ];
}

/**
 * @template {{ key: string }} E
 * @param {readonly E[]} entries
 */
function byKey(entries) {
  /** @type {Map<string, E[]>} */
  const groups = new Map();
  for (const entry of entries) {
    const group = groups.get(entry.key);
    if (group) group.push(entry);
    else groups.set(entry.key, [entry]);
  }
  return groups;
}

const holdId = (/** @type {Pick<Entry, 'client' | 'key' | 'token'>} */ { client, key, token }) =>
  `${client}/${key}/${token}`;

/**
 * @param {readonly Entry[]} history
 * @returns {Hold[]}
 */
function certainHolds(history) {
  /** @type {Map<string, number>} */
  const last = new Map();
  for (const entry of history) if (entry.op === 'held') last.set(holdId(entry), entry.at);
  return history.flatMap((grant) => {
    if (grant.op !== 'acquire') return [];
    const end = last.get(holdId(grant));
    return end === undefined || end <= grant.return ? [] : [{ ...grant, start: grant.return, end }];
  });
}

/**
 * Certain holds of a key that overlap, unless a loss came between them.
 *
 * @param {readonly Entry[]} history
 * @param {readonly Loss[]} losses
 */
export function overlapsIn(history, losses) {
  /** @type {Overlap[]} */
  const found = [];
  for (const [key, ofKey] of byKey(certainHolds(history))) {
    ofKey.sort((a, b) => a.start - b.start);
    /** Of those so far, the one that ends last: of the exclusive ones, and of the shared ones. @type {(Hold | undefined)[]} */
    const longest = [undefined, undefined];
    for (const hold of ofKey) {
      for (const other of hold.shared ? longest.slice(0, 1) : longest) {
        if (other === undefined || hold.start >= other.end || areApart(other, hold, losses)) continue;
        const together = (Math.min(other.end, hold.end) - hold.start).toFixed(1);
        const what = `${other.client} and ${hold.client} held ${key} together for ${together} ms`;
        found.push({ holds: [other, hold], what });
      }
      const mode = hold.shared ? 1 : 0;
      if (hold.end > (longest[mode]?.end ?? -Infinity)) longest[mode] = hold;
    }
  }
  return found;
}

/**
 * Whether a loss may have come between the two grants. Answers need not come in the order of grants.
 *
 * @param {Entry} one
 * @param {Entry} other
 * @param {readonly Loss[]} losses
 */
function areApart(one, other, losses) {
  const isBetween = (
    /** @type {Loss} */ { from, to },
    /** @type {Entry} */ before,
    /** @type {Entry} */ after,
  ) => before.call <= to && after.return >= from;
  return losses.some((loss) => isBetween(loss, one, other) || isBetween(loss, other, one));
}

/** @param {readonly Entry[]} grants */
function fallingTokens(grants) {
  const found = [];
  for (const [key, ofKey] of byKey(grants)) {
    const calls = [...ofKey].sort((a, b) => a.call - b.call);
    const returns = [...ofKey].sort((a, b) => a.return - b.return);
    /** @type {Entry | undefined} */
    let highest;
    let next = 0;
    for (const grant of calls) {
      for (; returns[next].return < grant.call; next++) {
        if (!highest || returns[next].token > highest.token) highest = returns[next];
      }
      const mayBeEqual = grant.shared && highest?.shared;
      if (highest && (grant.token < highest.token || (grant.token === highest.token && !mayBeEqual))) {
        found.push(
          `${key}: token ${grant.token} (${grant.client}) came after ${highest.token} (${highest.client})`,
        );
      }
    }
  }
  return found;
}

/**
 * @param {readonly Entry[]} history
 * @param {Pick<import('./resource.mjs').FencedResource, 'writes'>} resource
 */
function wrongWrites(history, { writes }) {
  const found = [];
  const accepted = new Set();
  for (const [key, ofKey] of byKey(writes)) {
    ofKey.forEach(({ token, value }, i) => {
      accepted.add(`${key}/${token}/${value}`);
      if (value !== i + 1)
        found.push(`${key}: write ${i + 1} has the value ${value}: an accepted one was lost`);
      if (i > 0 && token < ofKey[i - 1].token) found.push(`${key}: the stale token ${token} was accepted`);
    });
  }
  for (const { op, key, token, value } of history) {
    if (op === 'write' && !accepted.has(`${key}/${token}/${value}`))
      found.push(`${key}: value ${value} was lost`);
  }
  return found;
}

/**
 * @param {readonly Entry[]} history
 * @param {readonly Entry[]} grants
 * @param {readonly Loss[]} losses
 */
function wrongAbandonments(history, grants, losses) {
  /** When the client of a hold was about to release it. @type {Map<string, number>} */
  const left = new Map();
  /** When the release of a hold that freed its key was requested. @type {Map<string, number>} */
  const released = new Map();
  /** Until when readers were certain to hold a key together. @type {Map<string, number>} */
  const lastHeld = new Map();
  const groupId = (/** @type {Pick<Entry, 'key' | 'token'>} */ { key, token }) => `${key}/${token}`;
  for (const entry of history) {
    if (entry.op === 'held') {
      lastHeld.set(groupId(entry), Math.max(entry.at, lastHeld.get(groupId(entry)) ?? -Infinity));
    }
    if (entry.op === 'leave') left.set(holdId(entry), entry.at);
    if (entry.op === 'release' && entry.freed === true) released.set(holdId(entry), entry.call);
  }
  const found = [];
  for (const [key, ofKey] of byKey(grants)) {
    ofKey.sort((a, b) => Number(a.token - b.token));
    for (const [i, next] of ofKey.slice(1).entries()) {
      const last = ofKey[i];
      // Readers that join others see what those saw.
      if (next.abandoned === undefined || last.token === next.token || areApart(last, next, losses)) continue;
      // A grant that no history has, because its acquisition failed, was given back and changes nothing.
      // The end of readers neither makes a key abandoned nor ends that.
      const readersLeftAt = last.abandoned === true ? Infinity : -Infinity;
      const leftAt = last.shared ? readersLeftAt : (left.get(holdId(last)) ?? Infinity);
      if (!next.abandoned && leftAt > next.return)
        found.push(
          `${key}: ${next.client} did not see that ${last.client} had abandoned token ${last.token}`,
        );
      // A grant that no history has may have been abandoned, but only if its TTL has passed since the release.
      const readersHeld = last.abandoned === false ? lastHeld.get(groupId(last)) : undefined;
      const endedAt = (last.shared ? readersHeld : released.get(holdId(last))) ?? -Infinity;
      if (next.abandoned && next.return - endedAt < next.ttl)
        found.push(
          `${key}: ${next.client} saw that ${last.client} had abandoned token ${last.token}, which was ` +
            (last.shared ? 'shared' : 'released'),
        );
    }
  }
  return found;
}
