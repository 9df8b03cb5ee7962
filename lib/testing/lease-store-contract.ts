import { abandonment } from './abandonment.js';
import { badInput } from './bad-input.js';
import { expiry } from './expiry.js';
import {
  assertions,
  runSentence,
  type ContractFramework,
  type MakeStore,
  type Sentence,
} from './framework.js';
import { holding } from './holding.js';
import { infos } from './infos.js';
import { lateRequests } from './late-requests.js';
import { listing } from './listing.js';
import { managed } from './managed.js';
import { oddTexts } from './odd-texts.js';
import { severalKeys, severalManaged } from './several-keys.js';
import { sharedManaged } from './shared-managed.js';
import { puttingOff } from './shared-put-off.js';
import { shared, sharedInputs } from './shared.js';
import { tokens } from './tokens.js';

export type { ContractFramework, Expect, MakeStore, StoreUnderTest } from './framework.js';

const CHAPTERS: Readonly<Record<string, readonly Sentence[]>> = {
  'who holds a key': holding,
  'when it expires': expiry,
  'requests that come late, or twice': lateRequests,
  'fencing tokens': tokens,
  'bad input': badInput,
  'texts that mean something to a database': oddTexts,
  'several keys in one step': severalKeys,
  'the info of a lease': infos,
  'a list of leases': listing,
  'holders that leave without a release': abandonment,
  'readers that hold a key together': [...shared, ...sharedInputs],
  'putting off readers': puttingOff,
  'under a LeaseManager': [...managed, ...severalManaged, ...sharedManaged],
};

/**
 * The suite that every `LeaseStore` must pass. Call this function in a test file, with the functions of your
 * test runner. `makeStore` is called for each test and creates an empty store.
 *
 *     import { describe, expect, it } from 'vitest';
 *     leaseStoreContract({ describe, it, expect }, 'my store', () => myStore());
 *
 * Without `advance` (see {@link StoreUnderTest}) some tests wait for leases to expire, a fraction of a second each.
 */
export function leaseStoreContract(framework: ContractFramework, name: string, makeStore: MakeStore): void {
  const { describe, it, expect = assertions } = framework;
  describe(`${name}: the contract of lease stores`, () => {
    for (const [chapter, sentences] of Object.entries(CHAPTERS)) {
      describe(chapter, () => {
        for (const [sentence, test] of sentences) it(sentence, () => runSentence(test, makeStore, expect));
      });
    }
  });
}
