/** A JSON file that several processes change: each change reads it again under the lock, and no reader sees half of one. */
import { open, readFile, rename } from 'node:fs/promises';
import { ProcessLock } from 'stripelock/process';

export class StateFile {
  #path;
  #lock;

  /** @param {string} path */
  constructor(path) {
    this.#path = path;
    // Not the state file itself: the rename puts another file in its place, and a lock belongs to the file.
    this.#lock = new ProcessLock({ path: `${path}.lock`, timeout: 30_000 });
  }

  /** Anybody may read without the lock: a rename puts the whole new file in place of the old one. */
  async read() {
    const text = await readFile(this.#path, 'utf8').catch((error) => {
      if (error.code === 'ENOENT') return '{}';
      throw error;
    });
    return JSON.parse(text);
  }

  /**
   * Resolves to what `change` returns for the state as it is now, which is then on the disk.
   *
   * @template S
   * @param {(state: any) => S | Promise<S>} change
   * @returns {Promise<S>}
   */
  update(change) {
    return this.#lock.withLock(async () => {
      // State that was read before the lock was held may be stale.
      const state = await change(await this.read());
      // Beside it, because a rename does not go from disk to disk. If this process dies now, the next one overwrites it.
      const fresh = `${this.#path}.new`;
      const file = await open(fresh, 'w', 0o600);
      try {
        await file.writeFile(`${JSON.stringify(state)}\n`);
        await file.sync();
      } finally {
        await file.close();
      }
      await rename(fresh, this.#path);
      return state;
    });
  }

  close() {
    return this.#lock.close();
  }
}
