import type { TextRange } from './exact-text.js';
import type { Operation } from './requests.js';
import type {
  Attempt,
  Backend,
  GrantedShared,
  Refused,
  Release,
  StoredLease,
  WantedShared,
} from './server-store.js';

/** A stored lease with its key. */
export interface StoredKey extends StoredLease {
  /** The key, encoded as the server stores it, without the store's prefix. */
  readonly text: string;
}

/**
 * A function that sends one request. Listing leases may need several requests, and each request has the full
 * time limit.
 */
export type Ask = <T>(request: (operation: Operation) => Promise<T>) => Promise<T>;

/** The server-specific half of a store that can enumerate leases and grant keys in shared mode. */
export interface ListingBackend extends Backend {
  /**
   * Returns the first `most` held leases whose texts are in the ranges. The leases are ordered by range, then
   * by text.
   */
  list(ranges: readonly TextRange[], most: number, ask: Ask): Promise<readonly StoredKey[]>;
  /** See `SharedLeaseStore.tryAcquireShared`. */
  acquireShared(
    wanted: WantedShared,
    attempt: Attempt,
    operation: Operation,
  ): Promise<GrantedShared | Refused>;
  /**
   * See `SharedLeaseStore.releaseShared`. If the server does not say whether other readers still hold the key,
   * the result is the same as for a key that is free.
   */
  releaseShared(name: string, reader: string, operation: Operation): Promise<Release>;
  /** See `SharedLeaseStore.putOffReaders`. */
  putOffReaders(name: string, milliseconds: number, operation: Operation): Promise<boolean>;
}

/** The texts of a range that are greater than `after`. */
export interface PageRange extends TextRange {
  readonly after: string;
}

/** One page of a list. */
export interface Page {
  readonly leases: readonly StoredKey[];
  /**
   * The last text that the request read. The next page starts after this text. Undefined if the range has no
   * more texts.
   */
  readonly last: string | undefined;
}

/** The maximum number of leases in a page. With this limit, an answer has at most about 100 kB. */
const PAGE = 1000;

/**
 * Lists leases page by page, so that no single request takes long. The function `page` returns at most `most`
 * leases from the start of the given range.
 */
export async function listByPages(
  ranges: readonly TextRange[],
  most: number,
  page: (range: PageRange, most: number) => Promise<Page>,
): Promise<readonly StoredKey[]> {
  const listed: StoredKey[] = [];
  for (const range of ranges) {
    let after: string | undefined = '';
    while (after !== undefined && listed.length < most) {
      const { leases, last }: Page = await page({ ...range, after }, Math.min(PAGE, most - listed.length));
      for (const lease of leases) listed.push(lease);
      after = last;
    }
  }
  return listed;
}

/** Makes a page from the result of a request for at most `most` leases. */
export function pageOf(leases: readonly StoredKey[], most: number): Page {
  return { leases, last: leases.length < most ? undefined : leases.at(-1)!.text };
}

/**
 * Calls `ask` for each item. At most `atOnce` calls are pending at the same time. Returns the answers in the
 * order of the items.
 */
export async function inGroups<I, T>(
  items: readonly I[],
  atOnce: number,
  ask: (item: I) => Promise<T>,
): Promise<readonly T[]> {
  const answers: T[] = [];
  for (let i = 0; i < items.length; i += atOnce) {
    answers.push(...(await Promise.all(items.slice(i, i + atOnce).map(ask))));
  }
  return answers;
}
