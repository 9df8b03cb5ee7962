import { createInterface } from 'node:readline/promises';
import { releasedOwner } from '../lease/contract/lease-store.js';
import { listedLease, type ListedLease } from '../lease/contract/listing.js';
import { revokeGrant } from '../lease/revoke.js';
import type { LeasesRequest } from './arguments.js';
import { withStore, type Store } from './store-url.js';
import { aligned } from './table.js';
import { printable, quoted, say, secondsText } from './words.js';

/** The output of the command, and its exit code. */
interface Result {
  readonly output: string;
  readonly code: number;
}

/** The exit code if no owner holds the key, or if the user did not confirm the revocation. */
const NOT_HELD = 1;

/** Shows or revokes leases of a store. */
export async function leases(request: LeasesRequest): Promise<Result> {
  const { store: url, what } = request;
  // This removes the arguments, which may contain a password, from the process list.
  process.title = `stripelock ${what}`;
  return withStore(url, { creates: false }, (store) => resultOf(request, store));
}

async function resultOf(request: LeasesRequest, store: Store): Promise<Result> {
  if (request.what === 'leases list') {
    const { prefix, limit, json } = request;
    const listed = await store.list({ prefix, limit });
    if (listed.length === limit) say(`these are the first ${limit} leases; --limit shows more`);
    if (json) return { output: jsonOf(listed.map(plain)), code: 0 };
    return { output: listed.length === 0 ? 'no lease is held' : tableOf(listed), code: 0 };
  }
  const { key, json } = request;
  const state = await store.inspect(key);
  const lease = state && listedLease(key, state);
  if (request.what === 'leases inspect') {
    if (json) return { output: jsonOf(lease ? plain(lease) : null), code: lease ? 0 : NOT_HELD };
    return lease ? { output: tableOf([lease]), code: 0 } : notHeld(key);
  }
  const answer = (isRevoked: boolean, text: string): Result => {
    const code = isRevoked ? 0 : NOT_HELD;
    return { output: json ? jsonOf({ revoked: isRevoked, lease: lease ? plain(lease) : null }) : text, code };
  };
  if (lease === undefined) return answer(false, notHeld(key).output);
  if (!(request.yes || (await isConfirmed(lease)))) return answer(false, 'nothing was revoked');
  const isRevoked = await revokeGrant(store, lease);
  return answer(
    isRevoked,
    isRevoked ? `revoked ${quoted(key)}` : `that lease of ${quoted(key)} has just ended`,
  );
}

/** Asks the user at the terminal. Rejects if there is no terminal. */
async function isConfirmed(lease: ListedLease): Promise<boolean> {
  const { stdin: input, stderr: output } = process;
  if (!input.isTTY || !output.isTTY) throw new Error('without a terminal, leases revoke needs --yes');
  output.write(`${tableOf([lease])}\n`);
  const terminal = createInterface({ input, output });
  const answer = await terminal.question(
    'Revoke this lease? Its holder works on until its next renewal. [y/N] ',
  );
  terminal.close();
  return /^y(?:es)?$/i.test(answer.trim());
}

const notHeld = (key: string): Result => ({ output: `no owner holds ${quoted(key)}`, code: NOT_HELD });

/** JSON has no 64-bit integers, so a token is text. */
const plain = (lease: ListedLease): object => ({ ...lease, token: String(lease.token) });
const jsonOf = (value: unknown): string => JSON.stringify(value, undefined, 2);

function holderOf(owner: string): string {
  const releasedBy = releasedOwner(owner);
  return releasedBy === undefined ? owner : `kept after a release by ${releasedBy}`;
}

function tableOf(listed: readonly ListedLease[]): string {
  const rows = listed.map(({ key, owner, token, remaining, info = '' }) => [
    printable(key),
    printable(holderOf(owner)),
    String(token),
    secondsText(remaining),
    printable(info),
  ]);
  return aligned([['KEY', 'OWNER', 'TOKEN', 'EXPIRES IN', 'INFO'], ...rows]);
}
