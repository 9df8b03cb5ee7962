import { createHash } from 'node:crypto';
import type { Statement } from './connection.js';

const NOW = 'clock_timestamp()';
/** Milliseconds until a lease expires, rounded up. */
const LEFT = `ceil(extract(epoch FROM expires - ${NOW}) * 1000)::bigint::text`;
const NOT_EXPIRED = `expires > ${NOW}`;
/** The clock in nanoseconds since 1970. It has microseconds. */
const CLOCK = `(extract(epoch FROM ${NOW}) * 1000000)::bigint * 1000`;
/** How long an expired row stays at least, so that a key in regular use keeps its row. */
const KEPT = `interval '1 minute'`;
/** The number of the advisory lock under which a store creates its tables. */
const CREATING = 0x5712be10;

/** The time in `length` milliseconds from now. `length` is a parameter or column with a text. */
const later = (length: string): string => `${NOW} + ${length}::text::bigint * interval '1 millisecond'`;

/**
 * A column that makes the commit wait for the disk, even if `synchronous_commit` is off. Grants and renewals need this,
 * because the server must remember them if it is killed. It is evaluated when the row is written.
 */
const DURABLE = `CASE current_setting('synchronous_commit') WHEN 'off'
  THEN set_config('synchronous_commit', 'on', true) END AS durable`;
/**
 * A column that makes the commit not wait for the disk. If the server forgets a release, the lease still expires.
 */
const QUICK = `set_config('synchronous_commit', 'off', true) AS quick`;

/**
 * A source of rows that limits how long this statement waits for locks. It is read before any row is locked. `limit` is a
 * parameter.
 */
const limited = (limit: string): string =>
  `(SELECT set_config('lock_timeout', ${limit}::text, true)) AS limited`;

/**
 * A new token. `known` is a parameter or column with a text: the highest token of the key that the client has seen.
 */
const nextToken = (table: Table, known: string): string =>
  `greatest(${CLOCK}, ${known}::text::bigint + 1, (SELECT token + 1 FROM ${table.floor}))`;

/**
 * If the key has a row, an insertion updates it if it is free, expired, or of the same owner. Otherwise it changes
 * nothing. `length` is a parameter.
 */
const unlessHeld = (length: string): string => `ON CONFLICT (key) DO UPDATE SET owner = excluded.owner,
  token = greatest(l.token + 1, excluded.token), expires = ${later(length)}, info = excluded.info,
  waited = l.waited AND l.owner = excluded.owner
  WHERE l.owner = excluded.owner OR l.expires <= ${NOW}`;

/** The assignments that free a row. */
const FREE = `owner = '', expires = '-infinity', info = NULL`;

/** A column that notifies the stores that wait for a key, if its row is marked. `key` is the column with the key. */
const notify = (table: Table, key: string): string => `CASE WHEN waited
  THEN pg_notify('${table.channel}', encode(sha256(convert_to(${key}, 'UTF8')), 'hex'))::text END AS notified`;

/** The payload of notifications about a key: a hash, because payloads are limited to 8000 bytes. */
export const topicOf = (key: string): string => createHash('sha256').update(key).digest('hex');

/** The quoted names of a store's tables, and its channel. */
export interface Table {
  readonly rows: string;
  readonly floor: string;
  readonly channel: string;
}

/** `name` may include a schema. */
export function tableOf(name: string): Table {
  const parts = name.split('.');
  const last = parts.pop()!;
  const schema = parts.map((part) => `"${part}".`).join('');
  return {
    rows: `${schema}"${last}"`,
    floor: `${schema}"${last}_floor"`,
    channel: `stripelock_${createHash('sha256').update(name).digest('hex').slice(0, 24)}`,
  };
}

/** The name is a hash of the text, so a pooler that shares prepared statements between clients never confuses two. */
function statement(text: string): Statement {
  return { name: `stripelock_${createHash('sha256').update(text).digest('hex').slice(0, 24)}`, text };
}

const COLUMNS = 'key, owner, token, expires, info';

export type Statements = ReturnType<typeof statementsOf>;

/**
 * The tables, and the statements on them. Each statement is a separate transaction. Parameters and columns are texts,
 * because clients convert other types differently. Each statement but `schema` is a SELECT, because some clients return the
 * rows of other statements in another form.
 *
 *     <table>         a row for each key: its owner, when its lease expires, its highest token, and whether a store waits
 *     <table>_floor   one row: a token not below the token of any purged row
 *
 * Leases expire by `clock_timestamp()`, which is read when the row is changed. `now()` is the start of the statement, which
 * may have waited for the row since. A token is the clock in nanoseconds, or the key's last token plus one if that is higher.
 */
export function statementsOf(table: Table) {
  const { rows, floor } = table;
  // $1 key, $2 owner, $3 length, $4 known token, $5 info, $6 limit of waits for locks, $7 whether this client listens.
  const values = `$1::text, $2::text, ${nextToken(table, '$4')}, ${later('$3')}, $5::text`;
  const heldByOther = `key = $1 AND owner <> $2 AND ${NOT_EXPIRED}`;
  return {
    // It first reads the row without a lock, because locking a row writes to the database's log. If another owner holds the
    // key, it returns the remaining time, and marks the row if this store listens.
    acquire: statement(`WITH held AS MATERIALIZED (
        SELECT ${LEFT} AS remaining, waited FROM ${rows} WHERE ${heldByOther}),
      mark AS (UPDATE ${rows} SET waited = true FROM ${limited('$6')}
        WHERE $7::text::boolean AND ${heldByOther} AND NOT waited AND EXISTS (SELECT FROM held) RETURNING 1),
      won AS (INSERT INTO ${rows} AS l (${COLUMNS}) SELECT ${values} FROM ${limited('$6')}
        WHERE NOT EXISTS (SELECT FROM held) ${unlessHeld('$3')} RETURNING token::text AS token, ${DURABLE})
      SELECT token, NULL AS remaining, NULL AS marked FROM won
      UNION ALL SELECT NULL, remaining, (waited OR EXISTS (SELECT FROM mark))::text FROM held`),
    // $4 the new info, or null to leave it unchanged; $5 limit.
    renew:
      statement(`WITH done AS (UPDATE ${rows} SET expires = greatest(expires, ${later('$3')}), info = coalesce($4::text, info)
      FROM ${limited('$5')} WHERE key = $1 AND owner = $2 AND ${NOT_EXPIRED} RETURNING ${DURABLE})
      SELECT durable FROM done`),
    // The only statement that may shorten a lease, at its end. $4 token, $5 limit.
    keep: statement(`WITH done AS (UPDATE ${rows} SET expires = ${later('$3')} FROM ${limited('$5')}
      WHERE key = $1 AND owner = $2 AND ${NOT_EXPIRED} AND token = $4::text::bigint RETURNING ${DURABLE})
      SELECT durable FROM done`),
    // The row stays, because it holds the token. Listening stores are notified only if the row is marked. $3 the required
    // token, or null for any; $4 limit.
    release: statement(`WITH gone AS (UPDATE ${rows} SET ${FREE} FROM ${limited('$4')}
        WHERE key = $1 AND owner = $2 AND ${NOT_EXPIRED} AND ($3::text IS NULL OR token = $3::text::bigint)
        RETURNING key, waited)
      SELECT waited::text, ${QUICK}, ${notify(table, 'key')} FROM gone`),
    inspect: statement(
      `SELECT owner, token::text AS token, ${LEFT} AS remaining, info FROM ${rows} WHERE key = $1 AND ${NOT_EXPIRED}`,
    ),
    // $1 the first key of the range, $2 the key after which the page starts, $3 the end of the range, $4 the number of rows.
    list: statement(
      `SELECT key, owner, token::text AS token, ${LEFT} AS remaining, info FROM ${rows}
        WHERE key >= $1 AND key > $2 AND key < $3 AND ${NOT_EXPIRED} ORDER BY key LIMIT $4::text::bigint`,
    ),
    // Deletes only rows that the floor covered before this statement. A client that creates such a row again reads that
    // floor, so its token is higher. Then raises the floor for the next purge.
    purge: statement(`WITH gone AS (DELETE FROM ${rows} WHERE ctid = ANY (ARRAY(SELECT ctid FROM ${rows}
        WHERE expires < ${NOW} - ${KEPT} AND token <= (SELECT token FROM ${floor})
        LIMIT 1000 FOR UPDATE SKIP LOCKED)) RETURNING 1),
      done AS (UPDATE ${floor} SET token = greatest(token, (SELECT max(token) FROM ${rows} WHERE expires < ${NOW} - ${KEPT})),
        purged = purged + (SELECT count(*) FROM gone) RETURNING purged)
      SELECT purged::text FROM done`),
    // $1 keys. Returns those that any owner holds.
    held: statement(`SELECT key FROM ${rows}
      WHERE key = ANY (ARRAY(SELECT json_array_elements_text($1::text::json))) AND ${NOT_EXPIRED}`),
    ...statementsForSeveral(table),
    /** Creates the tables. `limit` is the longest wait for a lock. */
    schema: (limit: string) => schemaOf(table, limit),
  };
}

/** The SQLSTATE of `acquireAll` if another owner acquired one of the keys after it read the rows: division by zero. */
export const QUICKER = '22012';

/**
 * The statements for several keys. Lists are JSON, which every client passes on as text. `acquireAll` locks rows in the order
 * of their keys, so two transactions never wait for each other in a cycle. `renewAll` and `releaseAll` skip rows that another
 * transaction has locked, because one such row must not delay the rest. They return the index of each key that its owner
 * holds, and whether its row was changed.
 */
function statementsForSeveral(table: Table) {
  const { rows } = table;
  const listed = (...columns: string[]): string => `wanted AS MATERIALIZED (
      SELECT key COLLATE "C" AS key, owner COLLATE "C" AS owner, ${columns.join(', ')}, place FROM ROWS FROM (
        ${['key', 'owner', ...columns].map((_, i) => `json_array_elements_text($${i + 1}::text::json)`).join(', ')}
      ) WITH ORDINALITY AS w(key, owner, ${columns.join(', ')}, place))`;
  // `own`: the wanted keys that the owners in the request still hold. It is read once, so all keys are judged by about the same
  // time. `free`: those of them whose rows no other transaction has locked.
  const chosen = (columns: string, which = ''): string => `own AS MATERIALIZED (
        SELECT w.key, w.owner, ${columns}, w.place FROM wanted w
        JOIN ${rows} l ON l.key = w.key AND l.owner = w.owner AND l.${NOT_EXPIRED}${which}),
      free AS MATERIALIZED (SELECT own.* FROM own JOIN ${rows} l ON l.key = own.key AND l.owner = own.owner
        ORDER BY l.key FOR UPDATE OF l SKIP LOCKED)`;
  const outcome = `own.place::text AS place, (done.place IS NOT NULL)::text AS done`;
  return {
    // It first reads the rows. If another owner holds one of the keys, it returns the index of the first such key, and only
    // marks its row. If another owner acquires a key after that, the statement fails with a division by zero,
    // which undoes everything, and a retry finds the other owner. $1 keys, $2 owner, $3 length, $4 known tokens, $5 info,
    // $6 limit, $7 whether this client listens.
    acquireAll:
      statement(`WITH wanted AS MATERIALIZED (SELECT key COLLATE "C" AS key, known, place FROM ROWS FROM (
          json_array_elements_text($1::text::json), json_array_elements_text($4::text::json)
        ) WITH ORDINALITY AS w(key, known, place)),
      held AS MATERIALIZED (SELECT l.key, w.place, ${LEFT} AS remaining, waited FROM wanted w JOIN ${rows} l ON l.key = w.key
        WHERE l.owner <> $2 AND l.${NOT_EXPIRED} ORDER BY w.place LIMIT 1),
      mark AS (UPDATE ${rows} l SET waited = true FROM held, ${limited('$6')}
        WHERE $7::text::boolean AND l.key = held.key AND NOT l.waited AND l.owner <> $2 AND l.${NOT_EXPIRED} RETURNING 1),
      won AS (INSERT INTO ${rows} AS l (key, owner, token, expires, info)
        SELECT key, $2::text, ${nextToken(table, 'known')}, ${later('$3')}, $5::text FROM wanted, ${limited('$6')}
        WHERE NOT EXISTS (SELECT FROM held) ORDER BY key ${unlessHeld('$3')}
        RETURNING l.key, token::text AS token, ${DURABLE})
      SELECT place::text AS place, token, NULL AS remaining, NULL AS marked FROM won JOIN wanted USING (key)
      UNION ALL SELECT place::text, NULL, remaining, (waited OR EXISTS (SELECT FROM mark))::text FROM held
      UNION ALL SELECT NULL, NULL, NULL, (1 / (EXISTS (SELECT FROM held)
        OR (SELECT count(*) FROM won) = (SELECT count(*) FROM wanted))::integer)::text`),
    // $1 keys, $2 owners, $3 lengths, $4 infos, with null for an info that stays unchanged.
    renewAll: statement(`WITH ${listed('length', 'info')}, ${chosen('w.length, w.info')},
      done AS (UPDATE ${rows} l SET expires = greatest(l.expires, ${later('w.length')}), info = coalesce(w.info, l.info)
        FROM free w WHERE l.key = w.key AND l.owner = w.owner RETURNING w.place, ${DURABLE})
      SELECT ${outcome} FROM own LEFT JOIN done USING (place)`),
    // $1 keys, $2 owners, $3 required tokens, with null for any.
    releaseAll: statement(`WITH ${listed('token')},
      ${chosen('l.token', ' AND (w.token IS NULL OR w.token::bigint = l.token)')},
      done AS (UPDATE ${rows} l SET ${FREE} FROM free w
        WHERE l.key = w.key AND l.owner = w.owner AND l.token = w.token RETURNING l.key, w.place, l.waited)
      SELECT ${outcome}, waited::text, ${QUICK},
        ${notify(table, 'done.key')}
        FROM own LEFT JOIN done USING (place)`),
  };
}

/**
 * Creates the tables in one statement, because most clients send only one at a time. It holds an advisory lock, because
 * clients that create the same table at once collide in the catalogue, despite IF NOT EXISTS.
 */
const schemaOf = ({ rows, floor }: Table, limit: string): Statement =>
  statement(`DO $stripelock$ BEGIN
    PERFORM set_config('lock_timeout', '${limit}', true);
    PERFORM pg_advisory_xact_lock(${CREATING});
    CREATE TABLE IF NOT EXISTS ${rows} (
      key text COLLATE "C" PRIMARY KEY, owner text COLLATE "C" NOT NULL, token bigint NOT NULL,
      expires timestamptz NOT NULL, info text, waited boolean NOT NULL DEFAULT false
    ) WITH (fillfactor = 70);
    CREATE TABLE IF NOT EXISTS ${floor} (
      id integer PRIMARY KEY CHECK (id = 1), token bigint NOT NULL, purged bigint NOT NULL
    );
    INSERT INTO ${floor} VALUES (1, 0, 0) ON CONFLICT DO NOTHING;
  END $stripelock$`);
