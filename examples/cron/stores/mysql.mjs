import mysql from 'mysql2/promise';
import { mysqlLeaseStore } from 'stripelock/mysql';

export const defaultUrl = 'mysql://root@127.0.0.1:3306/test';

/** In two tables of the server. The journal's table is dropped when it has been read. */
export async function open({ url, prefix }) {
  const pool = mysql.createPool({ uri: url, connectionLimit: 4 });
  const table = `\`${prefix}journal\``;
  const query = async (text, ...values) => (await pool.query(text, values))[0];
  await query(
    `CREATE TABLE IF NOT EXISTS ${table} (night INT PRIMARY KEY, author TEXT, token BIGINT NOT NULL)`,
  ).catch((error) => {
    throw new Error(`no MySQL server at ${url}: ${error.message}`);
  });
  const make = (night) => query(`INSERT IGNORE INTO ${table} VALUES (?, NULL, 0)`, night);
  const journal = {
    has: async (night) =>
      (await query(`SELECT 1 FROM ${table} WHERE night = ? AND author IS NOT NULL`, night)).length === 1,
    noteCrash: async () => (await make(-1)).affectedRows === 1,
    // The row must exist before the first conditional write.
    async write(night, author, token) {
      await make(night);
      const text = `UPDATE ${table} SET author = ?, token = ? WHERE night = ? AND token <= ?`;
      return (await query(text, author, String(token), night, String(token))).affectedRows === 1;
    },
    async read() {
      const rows = await query(
        `SELECT night, author, CAST(token AS CHAR) AS token FROM ${table} WHERE night > 0 ORDER BY night`,
      );
      await query(`DROP TABLE ${table}`);
      return rows.map(({ token, ...rest }) => ({ ...rest, token: BigInt(token) }));
    },
  };
  const store = mysqlLeaseStore({ pool });
  const close = async () => {
    await store.close();
    await pool.end();
  };
  return { store, journal, close };
}
