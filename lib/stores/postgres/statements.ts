import { createHash } from 'node:crypto';
import type { Statement } from './connection.js';

const NOW = 'clock_timestamp()';
/** Milliseconds until a lease expires, rounded up. */
const LEFT = `ceil(extract(epoch FROM expires - ${NOW}) * 1000)::bigint::text`;
const NOT_EXPIRED = `expires > ${NOW}`;
/** Microseconds, as nanoseconds. */
const CLOCK = `(extract(epoch FROM ${NOW}) * 1000000)::bigint * 1000`;
/** An expired row stays for so long: one that is used again and again is not made anew each time. */
const KEPT = `interval '1 minute'`;
/** An advisory lock of this number covers the creation of tables. */
const CREATING = 0x5712be10;

/** So many milliseconds from now. `length`: a parameter. */
const later = (length: string): string => `${NOW} + ${length}::bigint * interval '1 millisecond'`;

/**
 * Where commits do not wait for the disk, those of grants and renewals do: a server that was killed must remember them. A
 * column, evaluated when the row is written.
 */
const DURABLE = `CASE current_setting('synchronous_commit') WHEN 'off'
  THEN set_config('synchronous_commit', 'on', true) END AS durable`;
/** A release that is forgotten ends with its lease, so its commit does not wait. A column. */
const QUICK = `set_config('synchronous_commit', 'off', true) AS quick`;

/** Limits the wait for locks, for this statement: a source of rows, read before any of them is locked. `limit`: a parameter. */
const limited = (limit: string): string =>
  `(SELECT set_config('lock_timeout', ${limit}::text, true)) AS limited`;

/** A new token; `known`: the highest that the client has seen of the key, a parameter or column. */
const nextToken = (table: Table, known: string): string =>
  `greatest(${CLOCK}, ${known}::bigint + 1, (SELECT token + 1 FROM ${table.floor}))`;

/** What an insertion does if there is a row: nothing unless it is free, expired, or of the same owner. `length`: a parameter. */
const unlessHeld = (length: string): string => `ON CONFLICT (key) DO UPDATE SET owner = excluded.owner,
  token = greatest(l.token + 1, excluded.token), expires = ${later(length)}, info = excluded.info,
  waited = l.waited AND l.owner = excluded.owner
  WHERE l.owner = excluded.owner OR l.expires <= ${NOW}`;

/** Frees a row. Its columns that are set. */
const FREE = `owner = '', expires = '-infinity', info = NULL`;

/** What a listener is notified with. `key`: a column. See `topicOf`. */
const topic = (key: string): string => `encode(sha256(convert_to(${key}, 'UTF8')), 'hex')`;

/** What a listener hears of a key. */
export const topicOf = (key: string): string => createHash('sha256').update(key).digest('hex');

/** The quoted names of a store's tables, and its channel. */
export interface Table {
  readonly rows: string;
  readonly floor: string;
  readonly channel: string;
}

/** `name`: with or without a schema. */
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

/** Named after the text: a server that keeps statements for several clients must never confuse them. */
function statement(text: string): Statement {
  return { name: `stripelock_${createHash('sha256').update(text).digest('hex').slice(0, 24)}`, text };
}

const COLUMNS = 'key, owner, token, expires, info';

export type Statements = ReturnType<typeof statementsOf>;

/**
 * The tables, and the statements on them. Each is a transaction by itself.
 *
 *     <table>         a row for each key: who holds it until when, its highest token, and whether somebody waits for it
 *     <table>_floor   one row: no lower than any token of a row that was purged
 *
 * Expiry and tokens are by `clock_timestamp()`, read when a row is changed: `now()` is when the statement began, and it may
 * have waited for the row. A token is that time in nanoseconds, or the last one of the key plus one, whichever is greater.
 */
export function statementsOf(table: Table) {
  const { rows, floor } = table;
  // $1 key, $2 owner, $3 length, $4 known token, $5 info, $6 limit of waits for locks, $7 whether this client listens.
  const values = `$1::text, $2::text, ${nextToken(table, '$4')}, ${later('$3')}, $5::text`;
  const heldByOther = `key = $1 AND owner <> $2 AND ${NOT_EXPIRED}`;
  return {
    // It looks first, without a lock: to lock the row would write to the log of the database. If another has the key, it
    // returns the time that remains, and marks that somebody listens.
    acquire: statement(`WITH held AS MATERIALIZED (
        SELECT ${LEFT} AS remaining, waited FROM ${rows} WHERE ${heldByOther}),
      mark AS (UPDATE ${rows} SET waited = true FROM ${limited('$6')}
        WHERE $7::boolean AND ${heldByOther} AND NOT waited AND EXISTS (SELECT FROM held) RETURNING 1),
      won AS (INSERT INTO ${rows} AS l (${COLUMNS}) SELECT ${values} FROM ${limited('$6')}
        WHERE NOT EXISTS (SELECT FROM held) ${unlessHeld('$3')} RETURNING token::text AS token, ${DURABLE})
      SELECT token, NULL AS remaining, NULL AS marked FROM won
      UNION ALL SELECT NULL, remaining, waited OR EXISTS (SELECT FROM mark) FROM held`),
    // $4 info, or null if it stays; $5 limit.
    renew:
      statement(`UPDATE ${rows} SET expires = greatest(expires, ${later('$3')}), info = coalesce($4::text, info)
      FROM ${limited('$5')} WHERE key = $1 AND owner = $2 AND ${NOT_EXPIRED} RETURNING 1 AS renewed, ${DURABLE}`),
    // The only statement that may shorten a lease, at its end. $4 token, $5 limit.
    keep: statement(`UPDATE ${rows} SET expires = ${later('$3')} FROM ${limited('$5')}
      WHERE key = $1 AND owner = $2 AND ${NOT_EXPIRED} AND token = $4::bigint RETURNING 1 AS kept, ${DURABLE}`),
    // The row stays, for its token. Who listens is notified only if the row is marked. $3 token, or null for any; $4 limit.
    release: statement(`WITH gone AS (UPDATE ${rows} SET ${FREE} FROM ${limited('$4')}
        WHERE key = $1 AND owner = $2 AND ${NOT_EXPIRED} AND ($3::bigint IS NULL OR token = $3::bigint)
        RETURNING key, waited)
      SELECT waited, ${QUICK},
        CASE WHEN waited THEN pg_notify('${table.channel}', ${topic('key')}) END AS notified FROM gone`),
    inspect: statement(
      `SELECT owner, token::text AS token, ${LEFT} AS remaining, info FROM ${rows} WHERE key = $1 AND ${NOT_EXPIRED}`,
    ),
    // Only rows that the floor covered before this statement: who makes such a key anew sees that floor.
    purge: statement(`WITH gone AS (DELETE FROM ${rows} WHERE ctid = ANY (ARRAY(SELECT ctid FROM ${rows}
        WHERE expires < ${NOW} - ${KEPT} AND token <= (SELECT token FROM ${floor})
        LIMIT 1000 FOR UPDATE SKIP LOCKED)) RETURNING 1)
      UPDATE ${floor} SET token = greatest(token,
        (SELECT max(token) FROM ${rows} WHERE expires < ${NOW} - ${KEPT})), purged = purged + (SELECT count(*) FROM gone)`),
    ...statementsForSeveral(table),
    /** Creates the tables. Not one statement, but one transaction. `limit`: of its waits for locks. */
    schema: (limit: string) => schemaOf(table, limit),
  };
}

/** Means that another was quicker. */
export const QUICKER = '22012';

/**
 * Lists are JSON, which each client library passes on as text. Acquiring locks rows in the order of their keys, so two
 * transactions that lock the same rows never wait for each other in a cycle. Renewing and releasing skip rows that another
 * transaction has locked, because one such row must not delay the rest. They return the place of each row that its owner has,
 * and whether that row was changed.
 */
function statementsForSeveral(table: Table) {
  const { rows } = table;
  const listed = (...columns: string[]): string => `wanted AS MATERIALIZED (
      SELECT key COLLATE "C" AS key, owner COLLATE "C" AS owner, ${columns.join(', ')}, place FROM ROWS FROM (
        ${['key', 'owner', ...columns].map((_, i) => `json_array_elements_text($${i + 1}::text::json)`).join(', ')}
      ) WITH ORDINALITY AS w(key, owner, ${columns.join(', ')}, place))`;
  // `own`: rows that the owners hold, which reads the clock once. `free`: own rows that no other transaction has locked.
  const chosen = (columns: string, which = ''): string => `own AS MATERIALIZED (
        SELECT w.key, w.owner, ${columns}, w.place FROM wanted w
        JOIN ${rows} l ON l.key = w.key AND l.owner = w.owner AND l.${NOT_EXPIRED}${which}),
      free AS MATERIALIZED (SELECT own.* FROM own JOIN ${rows} l ON l.key = own.key AND l.owner = own.owner
        ORDER BY l.key FOR UPDATE OF l SKIP LOCKED)`;
  const outcome = `own.place::integer AS place, done.place IS NOT NULL AS done`;
  return {
    // It looks first. If another has one of the keys, it returns the place of the first, and changes nothing but its mark. If
    // another was quicker after that look, it fails with a division by zero: everything is undone, and who asks again finds
    // that other. $3 length, $4 known tokens, $5 info, $6 limit, $7 whether this client listens.
    acquireAll:
      statement(`WITH wanted AS MATERIALIZED (SELECT key COLLATE "C" AS key, known, place FROM ROWS FROM (
          json_array_elements_text($1::text::json), json_array_elements_text($4::text::json)
        ) WITH ORDINALITY AS w(key, known, place)),
      held AS MATERIALIZED (SELECT l.key, w.place, ${LEFT} AS remaining, waited FROM wanted w JOIN ${rows} l ON l.key = w.key
        WHERE l.owner <> $2 AND l.${NOT_EXPIRED} ORDER BY w.place LIMIT 1),
      mark AS (UPDATE ${rows} l SET waited = true FROM held, ${limited('$6')}
        WHERE $7::boolean AND l.key = held.key AND NOT l.waited AND l.owner <> $2 AND l.${NOT_EXPIRED} RETURNING 1),
      won AS (INSERT INTO ${rows} AS l (key, owner, token, expires, info)
        SELECT key, $2::text, ${nextToken(table, 'known')}, ${later('$3')}, $5::text FROM wanted, ${limited('$6')}
        WHERE NOT EXISTS (SELECT FROM held) ORDER BY key ${unlessHeld('$3')}
        RETURNING l.key, token::text AS token, ${DURABLE})
      SELECT place::integer AS place, token, NULL AS remaining, NULL AS marked FROM won JOIN wanted USING (key)
      UNION ALL SELECT place::integer, NULL, remaining, waited OR EXISTS (SELECT FROM mark) FROM held
      UNION ALL SELECT NULL, NULL, NULL, 1 / (EXISTS (SELECT FROM held)
        OR (SELECT count(*) FROM won) = (SELECT count(*) FROM wanted))::integer = 1`),
    // $1 keys, $2 owners, $3 lengths, $4 infos, or null for those that stay.
    renewAll: statement(`WITH ${listed('length', 'info')}, ${chosen('w.length, w.info')},
      done AS (UPDATE ${rows} l SET expires = greatest(l.expires, ${later('w.length')}), info = coalesce(w.info, l.info)
        FROM free w WHERE l.key = w.key AND l.owner = w.owner RETURNING w.place, ${DURABLE})
      SELECT ${outcome} FROM own LEFT JOIN done USING (place)`),
    // $1 keys, $2 owners, $3 tokens, or null for any.
    releaseAll: statement(`WITH ${listed('token')},
      ${chosen('l.token', ' AND (w.token IS NULL OR w.token::bigint = l.token)')},
      done AS (UPDATE ${rows} l SET ${FREE} FROM free w
        WHERE l.key = w.key AND l.owner = w.owner AND l.token = w.token RETURNING l.key, w.place, l.waited)
      SELECT ${outcome}, waited, ${QUICK},
        CASE WHEN waited THEN pg_notify('${table.channel}', ${topic('done.key')}) END AS notified
        FROM own LEFT JOIN done USING (place)`),
  };
}

/** Clients that make tables at the same time would collide in the catalogue, in spite of IF NOT EXISTS. */
const schemaOf = (
  { rows, floor }: Table,
  limit: string,
): string => `SELECT set_config('lock_timeout', '${limit}', true);
  SELECT pg_advisory_xact_lock(${CREATING});
  CREATE TABLE IF NOT EXISTS ${rows} (
    key text COLLATE "C" PRIMARY KEY, owner text COLLATE "C" NOT NULL, token bigint NOT NULL,
    expires timestamptz NOT NULL, info text, waited boolean NOT NULL DEFAULT false
  ) WITH (fillfactor = 70);
  CREATE TABLE IF NOT EXISTS ${floor} (
    id integer PRIMARY KEY CHECK (id = 1), token bigint NOT NULL, purged bigint NOT NULL
  );
  INSERT INTO ${floor} VALUES (1, 0, 0) ON CONFLICT DO NOTHING`;
