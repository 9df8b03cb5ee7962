import { sqliteLeaseStore } from 'stripelock/sqlite';

/** In a file of the machine. */
export function open({ file }) {
  const sqlite = process.getBuiltinModule('node:sqlite');
  if (sqlite === undefined)
    throw new Error('--store sqlite needs Node 22.13 or later here; try another store');
  const database = new sqlite.DatabaseSync(file, { timeout: 5000 });
  database.exec('CREATE TABLE IF NOT EXISTS journal (night INTEGER PRIMARY KEY, author TEXT, token INTEGER)');
  const find = database.prepare('SELECT 1 FROM journal WHERE night = ? AND author IS NOT NULL');
  const crash = database.prepare('INSERT OR IGNORE INTO journal (night) VALUES (-1)');
  const write = database.prepare(
    `INSERT INTO journal VALUES (?, ?, ?) ON CONFLICT (night)
     DO UPDATE SET author = excluded.author, token = excluded.token WHERE token <= excluded.token`,
  );
  const read = database.prepare('SELECT night, author, token FROM journal WHERE night > 0 ORDER BY night');
  read.setReadBigInts(true);
  const journal = {
    has: async (night) => find.get(night) !== undefined,
    noteCrash: async () => Number(crash.run().changes) === 1,
    write: async (night, author, token) => Number(write.run(night, author, token).changes) === 1,
    read: async () => read.all(),
  };
  return { store: sqliteLeaseStore({ database }), journal, close: async () => database.close() };
}
