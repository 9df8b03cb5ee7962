import type { ThreadCounts } from '../engine/contract/counts.js';
import type { WebLocks } from '../engine/contract/web-locks.js';
import { openCounts } from '../engine/open-counts.js';

/** The name in metrics of managers without a name. */
const UNNAMED = 'web-locks';

/** A manager, as the requests of one thread use it. The engine's manager is opened on first use. */
export class ManagerContext {
  readonly name: string;
  readonly #open: () => WebLocks;
  #locks: WebLocks | undefined = undefined;
  #counts: ThreadCounts | undefined = undefined;

  constructor(name: string, open: () => WebLocks) {
    this.name = name;
    this.#open = open;
  }

  /**
   * The engine's manager. Throws a LockError if another version of this package
   * uses the addon in this thread.
   */
  get locks(): WebLocks {
    return (this.#locks ??= this.#open());
  }

  /** This thread's counts for metrics. */
  get counts(): ThreadCounts {
    return (this.#counts ??= openCounts('web-lock', this.name === '' ? UNNAMED : this.name, this));
  }
}
