import pg from 'pg';
import { postgresLeaseStore } from 'stripelock/postgres';

export const defaultUrl = 'postgres://localhost/postgres';

/** In two tables of the server; that of the journal is dropped when it has been read. */
export async function open({ url, prefix }) {
  const pool = new pg.Pool({ connectionString: url, max: 4 });
  pool.on('error', () => undefined);
  const table = `"${prefix}journal"`;
  await pool
    .query(`CREATE TABLE IF NOT EXISTS ${table} (night integer PRIMARY KEY, author text, token bigint)`)
    .catch((error) => {
      // Two processes may make it at the same time.
      if (error.code !== '23505') throw new Error(`no PostgreSQL server at ${url}: ${error.message}`);
    });
  const query = async (text, ...values) => pool.query(text, values);
  const journal = {
    has: async (night) =>
      (await query(`SELECT FROM ${table} WHERE night = $1 AND author IS NOT NULL`, night)).rowCount === 1,
    noteCrash: async () =>
      (await query(`INSERT INTO ${table} (night) VALUES (-1) ON CONFLICT DO NOTHING`)).rowCount === 1,
    write: async (night, author, token) =>
      (
        await query(
          `INSERT INTO ${table} AS j VALUES ($1, $2, $3) ON CONFLICT (night)
           DO UPDATE SET author = excluded.author, token = excluded.token WHERE j.token <= excluded.token`,
          night,
          author,
          token,
        )
      ).rowCount === 1,
    async read() {
      const { rows } = await query(
        `SELECT night, author, token FROM ${table} WHERE night > 0 ORDER BY night`,
      );
      await query(`DROP TABLE ${table}`);
      return rows.map(({ token, ...rest }) => ({ ...rest, token: BigInt(token) }));
    },
  };
  const store = postgresLeaseStore({ pool });
  const close = async () => {
    await store.close();
    await pool.end();
  };
  return { store, journal, close };
}
