import { afterEach, beforeEach } from 'vitest';
import { temporaryFile, type SqliteDriver, type TestDatabase } from '../support/sqlite.js';

/** A wall clock that tests can set, even backwards. */
export class WallClock {
  time = 1_700_000_000_000;
  now(): number {
    return this.time;
  }
}

/** Shared by the tests of a driver: for each test a file, which is deleted after it. */
export class SqliteScene {
  readonly driver: SqliteDriver;
  file!: string;
  #opened: TestDatabase[] = [];

  /** Registers the hooks. To be called within `describe`. */
  constructor(driver: SqliteDriver) {
    this.driver = driver;
    let remove: () => void;
    beforeEach(() => {
      ({ file: this.file, remove } = temporaryFile());
    });
    afterEach(() => {
      for (const database of this.#opened) database.close();
      this.#opened = [];
      remove();
    });
  }

  /** Another connection to the file. */
  open(): TestDatabase {
    const database = this.driver.open(this.file);
    this.#opened.push(database);
    return database;
  }
}
