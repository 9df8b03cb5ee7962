import { LockError } from '../../common/errors.js';
import { READING, type Collection } from './client.js';
import { codeOf } from './requests.js';
import { TTL_INDEX } from './statements.js';

const UNAUTHORIZED = 13;
/** The user may not make indexes, or has made one on that field with other options. */
const NO_INDEX: ReadonlySet<unknown> = new Set([UNAUTHORIZED, 85, 86]);

/** What is done once before the first operation on a collection. */
export class Preparation {
  readonly #collection: Collection;
  readonly #writeConcern: object;
  #done: Promise<void> | undefined;

  constructor(collection: Collection, writeConcern: object) {
    this.#collection = collection;
    this.#writeConcern = writeConcern;
  }

  /**
   * Rejects with a LockError (ERR_MONGODB_UNSUPPORTED) if the collection compares texts by a language, and with the
   * driver's error if that cannot be known. Then the next call tries again.
   */
  ready(): Promise<void> {
    return (this.#done ??= this.#prepare().catch((error: unknown) => {
      this.#done = undefined;
      throw error;
    }));
  }

  /** Makes the collection and its index, if they are missing. Without the index, documents of old keys remain. */
  async #prepare(): Promise<void> {
    const [fields, options] = TTL_INDEX;
    try {
      await this.#collection.createIndex(fields, { ...options, writeConcern: this.#writeConcern });
    } catch (error) {
      if (!NO_INDEX.has(codeOf(error))) throw error;
    }
    const locale = await this.#locale();
    if (locale === undefined || locale === 'simple') return;
    throw new LockError(
      'ERR_MONGODB_UNSUPPORTED',
      `the collection ${this.#collection.collectionName} has the collation ${locale}, by which different keys or owners ` +
        'may be equal: leases need a collection without one',
    );
  }

  async #locale(): Promise<string | undefined> {
    try {
      return (await this.#collection.options(READING)).collation?.locale;
    } catch (error) {
      // A user who may not look must know.
      if (codeOf(error) === UNAUTHORIZED) return undefined;
      throw error;
    }
  }
}
