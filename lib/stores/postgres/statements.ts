import { createHash } from 'node:crypto';
import { READERS } from '../../lease/contract/shared.js';
import type { Statement } from './connection.js';

/** SQL for the server's current time. Unlike `now()`, it is read when the expression is evaluated. */
const NOW = 'clock_timestamp()';
/** SQL for the milliseconds until a row's lease expires, rounded up, as text. */
const LEFT = `ceil(extract(epoch FROM expires - ${NOW}) * 1000)::bigint::text`;
/** SQL for the condition that a row's lease has not expired. */
const NOT_EXPIRED = `expires > ${NOW}`;
/** SQL for the server's clock in nanoseconds since 1970. Its resolution is one microsecond. */
const CLOCK = `(extract(epoch FROM ${NOW}) * 1000000)::bigint * 1000`;
/**
 * An SQL interval: a purge deletes a row only if the row's lease expired at least this long ago. A purge may
 * delete a released row at once, because the column `expires` of such a row is -infinity. The row of an
 * abandoned key is kept longer, so that the next holder sees that the key was abandoned.
 */
const KEPT = `CASE WHEN abandoned IS NULL THEN interval '1 minute' ELSE interval '1 day' END`;
/** The key of the advisory lock that a store holds while it creates its tables. */
const CREATING = 0x5712be10;

/**
 * SQL for the time that is `length` milliseconds from now. `length` is the name of a parameter or column of
 * type text.
 */
const later = (length: string): string => `${NOW} + ${length}::text::bigint * interval '1 millisecond'`;

/**
 * SQL for a result column with a side effect: the commit waits until the transaction is on disk, even if
 * `synchronous_commit` is off. Grants and renewals use this column, because they must survive a crash of the
 * server. The server evaluates the column only when it writes a row.
 */
const DURABLE = `CASE current_setting('synchronous_commit') WHEN 'off'
  THEN set_config('synchronous_commit', 'on', true) END AS durable`;
/**
 * SQL for a result column with the opposite effect of {@link DURABLE}: the commit does not wait for the disk.
 * Releases use this column. If a crash loses a release, the lease still expires.
 */
const QUICK = `set_config('synchronous_commit', 'off', true) AS quick`;

/**
 * SQL for an item of a FROM clause. The item limits how long the statement waits for locks, because the
 * server evaluates the item before locking any row. `limit` is the name of a parameter.
 */
const limited = (limit: string): string =>
  `(SELECT set_config('lock_timeout', ${limit}::text, true)) AS limited`;

/**
 * SQL for a new token. `known` is the name of a parameter or column of type text that contains the highest
 * token that the client has received for the key.
 */
const nextToken = (table: Table, known: string): string =>
  `greatest(${CLOCK}, ${known}::text::bigint + 1, (SELECT token + 1 FROM ${table.floor}))`;

/**
 * The ON CONFLICT clause of an insertion. If the key already has a row, the insertion updates this row, but
 * only if the row is free, expired or of the same owner. `length` is the name of a parameter.
 *
 * A free or expired row with a text keeps its mark, because a reader that is put off marks the row after the lease
 * has ended. At worst, the next release sends one notification that no store needs.
 */
const unlessHeld = (length: string): string => `ON CONFLICT (key) DO UPDATE SET owner = excluded.owner,
  token = greatest(l.token + 1, excluded.token), expires = greatest(l.expires, ${later(length)}), info = excluded.info,
  waited = l.waited AND (l.owner = excluded.owner OR l.info IS NOT NULL),
  abandoned = CASE WHEN l.expires > ${NOW} THEN coalesce(l.abandoned, false)
    ELSE ${WAS_ABANDONED} END
  WHERE l.owner = excluded.owner OR l.expires <= ${NOW}`;

/**
 * SQL for whether the key of a row without an unexpired lease was abandoned. Version 1.0 does not know the column
 * `abandoned`, but sets `expires` to -infinity when it frees a row.
 */
const WAS_ABANDONED = `(l.abandoned IS NOT NULL AND l.expires > '-infinity')`;

/** The assignments of an UPDATE that frees a row. */
const FREE = `owner = '', expires = '-infinity', info = NULL, abandoned = NULL`;
/**
 * SQL for whether the key counts as abandoned. In that case, `takeBack` leaves the row as if the lease had
 * expired. $5 whether the grant was used.
 */
const STAYS = `(abandoned IS NOT NULL AND ($5::text::boolean OR abandoned))`;

/**
 * SQL for a result column that notifies the stores that wait for a key, if the key's row is marked as
 * `waited`. `key` is the name of the column that contains the key.
 */
const notify = (table: Table, key: string): string => `CASE WHEN waited
  THEN pg_notify('${table.channel}', encode(sha256(convert_to(${key}, 'UTF8')), 'hex'))::text END AS notified`;

/**
 * The payload of notifications about a key. The payload is a hash of the key, because PostgreSQL limits
 * payloads to 8000 bytes.
 */
export const topicOf = (key: string): string => createHash('sha256').update(key).digest('hex');

/** The quoted names of a store's tables, and the name of its notification channel. */
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

/**
 * Creates a statement. Its name is a hash of its text, so equal names mean equal texts. A pooler that shares
 * prepared statements between clients therefore never runs the wrong statement.
 */
function statement(text: string): Statement {
  return { name: `stripelock_${createHash('sha256').update(text).digest('hex').slice(0, 24)}`, text };
}

const COLUMNS = 'key, owner, token, expires, info, abandoned';

export type Statements = ReturnType<typeof statementsOf>;

/**
 * Builds the statements on a store's tables. Each statement is a separate transaction. All parameters and
 * columns are texts, because clients convert other types in different ways. Each statement except `schema` is
 * a SELECT, because some clients return the rows of other statements in another form.
 *
 *     <table>         one row per key: its owner, expiry, highest token, and whether a store waits for it
 *     <table>_floor   one row: a token that is at least as high as the token of every purged row
 *
 * `abandoned` is true if the previous holder left the key without a release, else false. When the current
 * holder ends the lease, by a release or by `keep`, `abandoned` becomes NULL. So if the lease of a row has
 * expired and `abandoned` is not NULL, the key was abandoned.
 *
 * Leases expire by `clock_timestamp()`, which the server reads when it changes the row. The start of the
 * statement (`now()`) would be too early, because the statement may have waited for the row. A token is the
 * server's clock in nanoseconds. If the key's last token or the floor is not lower than the clock, the token
 * is one more than the higher of the two.
 */
export function statementsOf(table: Table) {
  const { rows, floor } = table;
  // Parameters of `acquire`: $1 key, $2 owner, $3 length in milliseconds, $4 known token, $5 info, $6 lock
  // timeout, $7 whether this store listens for notifications.
  const values = `$1::text, $2::text, ${nextToken(table, '$4')}, ${later('$3')}, $5::text, false`;
  const heldByOther = `key = $1 AND owner <> $2 AND ${NOT_EXPIRED}`;
  return {
    // The statement first reads the row without locking it, because a row lock writes to the database's log.
    // If another owner holds the key, the statement returns the remaining time. If this store also listens,
    // the statement marks the row, so that the release sends a notification.
    acquire: statement(`WITH held AS MATERIALIZED (
        SELECT ${LEFT} AS remaining, waited FROM ${rows} WHERE ${heldByOther}),
      mark AS (UPDATE ${rows} SET waited = true FROM ${limited('$6')}
        WHERE $7::text::boolean AND ${heldByOther} AND NOT waited AND EXISTS (SELECT FROM held) RETURNING 1),
      won AS (INSERT INTO ${rows} AS l (${COLUMNS}) SELECT ${values} FROM ${limited('$6')}
        WHERE NOT EXISTS (SELECT FROM held) ${unlessHeld('$3')}
        RETURNING token::text AS token, abandoned::text AS abandoned, ${DURABLE})
      SELECT token, NULL AS remaining, NULL AS marked, abandoned FROM won
      UNION ALL SELECT NULL, remaining, (waited OR EXISTS (SELECT FROM mark))::text, NULL FROM held`),
    // $1 to $3 are the same as for `acquire`; $4 the new `info` text, or null to leave it unchanged; $5 lock
    // timeout.
    renew:
      statement(`WITH done AS (UPDATE ${rows} SET expires = greatest(expires, ${later('$3')}), info = coalesce($4::text, info)
      FROM ${limited('$5')} WHERE key = $1 AND owner = $2 AND ${NOT_EXPIRED} RETURNING ${DURABLE})
      SELECT durable FROM done`),
    // Sets the owner and the remaining time of a grant. This is the only statement that may shorten a lease. A
    // repetition changes nothing. $1 to $3 are the same as for `acquire`; $4 the grant's token; $5 lock timeout;
    // $6 the owner after that.
    keep: statement(`WITH done AS (UPDATE ${rows} SET owner = $6,
        expires = CASE WHEN owner = $2 THEN ${later('$3')} ELSE expires END, abandoned = NULL FROM ${limited('$5')}
      WHERE key = $1 AND owner IN ($2, $6) AND ${NOT_EXPIRED} AND token = $4::text::bigint RETURNING ${DURABLE})
      SELECT durable FROM done`),
    // Frees the row but does not delete it, because the row holds the key's last token. Notifies listening
    // stores only if the row is marked. $1 key; $2 owner; $3 the required token, or null for any; $4 lock
    // timeout.
    release: statement(`WITH gone AS (UPDATE ${rows} SET ${FREE} FROM ${limited('$4')}
        WHERE key = $1 AND owner = $2 AND ${NOT_EXPIRED} AND ($3::text IS NULL OR token = $3::text::bigint)
        RETURNING key, waited)
      SELECT waited::text, ${QUICK}, ${notify(table, 'key')} FROM gone`),
    // Takes a grant back. The row has no owner after that, so that no late request of the owner finds its lease
    // again after the server's clock was set back. $1 to $4 are the same as for `release`, but $3 is not null. $5
    // whether the grant was used.
    takeBack: statement(`WITH gone AS (UPDATE ${rows} SET owner = '',
          expires = CASE WHEN ${STAYS} THEN ${NOW} ELSE '-infinity' END, info = NULL,
          abandoned = CASE WHEN ${STAYS} THEN abandoned END FROM ${limited('$4')}
        WHERE key = $1 AND owner = $2 AND ${NOT_EXPIRED} AND token = $3::text::bigint RETURNING key, waited)
      SELECT waited::text, NULL AS quick, ${notify(table, 'key')} FROM gone`),
    inspect: statement(
      `SELECT owner, token::text AS token, ${LEFT} AS remaining, info FROM ${rows} WHERE key = $1 AND ${NOT_EXPIRED}`,
    ),
    // $1 the first key of the range, $2 the key after which the page starts, $3 the end of the range
    // (excluded), $4 the maximum number of rows.
    list: statement(
      `SELECT key, owner, token::text AS token, ${LEFT} AS remaining, info FROM ${rows}
        WHERE key >= $1 AND key > $2 AND key < $3 AND ${NOT_EXPIRED} ORDER BY key LIMIT $4::text::bigint`,
    ),
    // Deletes expired rows whose tokens were not above the floor before this statement. A client that creates
    // a deleted row again reads this floor or a higher one, so the new token is higher than the deleted one.
    // The statement also raises the floor, so that the next purge can delete more rows.
    purge: statement(`WITH gone AS (DELETE FROM ${rows} WHERE ctid = ANY (ARRAY(SELECT ctid FROM ${rows}
        WHERE expires < ${NOW} - ${KEPT} AND token <= (SELECT token FROM ${floor})
        LIMIT 1000 FOR UPDATE SKIP LOCKED)) RETURNING 1),
      done AS (UPDATE ${floor} SET token = greatest(token, (SELECT max(token) FROM ${rows} WHERE expires < ${NOW} - ${KEPT})),
        purged = purged + (SELECT count(*) FROM gone) RETURNING purged)
      SELECT purged::text FROM done`),
    // $1 keys, as a JSON list. Returns the keys that any owner holds.
    held: statement(`SELECT key FROM ${rows}
      WHERE key = ANY (ARRAY(SELECT json_array_elements_text($1::text::json))) AND ${NOT_EXPIRED}`),
    ...statementsForSeveral(table),
    ...statementsForShared(table),
    /** Creates the tables. `limit` is a value for the server's setting `lock_timeout`. */
    schema: (limit: string) => schemaOf(table, limit),
  };
}

/**
 * The SQLSTATE for a division by zero. `acquireAll` fails with this error if another owner acquires one of
 * the keys after `acquireAll` has read the rows.
 */
export const QUICKER = '22012';

/**
 * The statements for several keys. Lists are JSON, which every client passes on as text. `acquireAll` locks
 * rows in the order of their keys, so two transactions never wait for each other in a cycle. `renewAll` and
 * `releaseAll` skip rows that another transaction has locked, because such a row must not delay the others.
 * For each key that its owner holds, both statements return the key's position in the list, counted from 1,
 * and whether the key's row was changed.
 */
function statementsForSeveral(table: Table) {
  const { rows } = table;
  const listed = (...columns: string[]): string => `wanted AS MATERIALIZED (
      SELECT key COLLATE "C" AS key, owner COLLATE "C" AS owner, ${columns.join(', ')}, place FROM ROWS FROM (
        ${['key', 'owner', ...columns].map((_, i) => `json_array_elements_text($${i + 1}::text::json)`).join(', ')}
      ) WITH ORDINALITY AS w(key, owner, ${columns.join(', ')}, place))`;
  // `own` contains the wanted keys that the given owners still hold. It is evaluated only once, so all keys
  // are checked at about the same time. `free` contains those keys of `own` whose rows no other transaction
  // has locked.
  const chosen = (columns: string, which = ''): string => `own AS MATERIALIZED (
        SELECT w.key, w.owner, ${columns}, w.place FROM wanted w
        JOIN ${rows} l ON l.key = w.key AND l.owner = w.owner AND l.${NOT_EXPIRED}${which}),
      free AS MATERIALIZED (SELECT own.* FROM own JOIN ${rows} l ON l.key = own.key AND l.owner = own.owner
        ORDER BY l.key FOR UPDATE OF l SKIP LOCKED)`;
  const outcome = `own.place::text AS place, (done.place IS NOT NULL)::text AS done`;
  return {
    // The statement first reads the rows. If another owner holds one of the keys, the statement returns the
    // position of the first such key, and changes at most the mark of its row. If another owner acquires a
    // key after that read, the last line divides by zero. The error undoes the whole statement, and a retry
    // finds the other owner. $1 keys, $2 owner, $3 length, $4 known tokens, $5 info, $6 lock timeout, $7
    // whether this store listens.
    acquireAll:
      statement(`WITH wanted AS MATERIALIZED (SELECT key COLLATE "C" AS key, known, place FROM ROWS FROM (
          json_array_elements_text($1::text::json), json_array_elements_text($4::text::json)
        ) WITH ORDINALITY AS w(key, known, place)),
      held AS MATERIALIZED (SELECT l.key, w.place, ${LEFT} AS remaining, waited FROM wanted w JOIN ${rows} l ON l.key = w.key
        WHERE l.owner <> $2 AND l.${NOT_EXPIRED} ORDER BY w.place LIMIT 1),
      mark AS (UPDATE ${rows} l SET waited = true FROM held, ${limited('$6')}
        WHERE $7::text::boolean AND l.key = held.key AND NOT l.waited AND l.owner <> $2 AND l.${NOT_EXPIRED} RETURNING 1),
      won AS (INSERT INTO ${rows} AS l (${COLUMNS})
        SELECT key, $2::text, ${nextToken(table, 'known')}, ${later('$3')}, $5::text, false FROM wanted, ${limited('$6')}
        WHERE NOT EXISTS (SELECT FROM held) ORDER BY key ${unlessHeld('$3')}
        RETURNING l.key, token::text AS token, abandoned::text AS abandoned, ${DURABLE})
      SELECT place::text AS place, token, NULL AS remaining, NULL AS marked, abandoned FROM won JOIN wanted USING (key)
      UNION ALL SELECT place::text, NULL, remaining, (waited OR EXISTS (SELECT FROM mark))::text, NULL FROM held
      UNION ALL SELECT NULL, NULL, NULL, NULL, (1 / (EXISTS (SELECT FROM held)
        OR (SELECT count(*) FROM won) = (SELECT count(*) FROM wanted))::integer)::text`),
    // $1 keys, $2 owners, $3 lengths, $4 new `info` texts. A null leaves the stored `info` text unchanged.
    renewAll: statement(`WITH ${listed('length', 'info')}, ${chosen('w.length, w.info')},
      done AS (UPDATE ${rows} l SET expires = greatest(l.expires, ${later('w.length')}), info = coalesce(w.info, l.info)
        FROM free w WHERE l.key = w.key AND l.owner = w.owner RETURNING w.place, ${DURABLE})
      SELECT ${outcome} FROM own LEFT JOIN done USING (place)`),
    // $1 keys, $2 owners, $3 required tokens. If the token is null, any grant of the owner matches.
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
 * The statements for groups of readers. A group is a lease whose owner starts with {@link READERS} and ends with
 * ':' and the token. In the place of the `info` text, it has 19 digits: the time in nanoseconds until which new
 * readers are put off. After that follow '-' if the key was abandoned when the group was formed, else '+'; and the
 * ids of the readers: ',' and for each reader its id and ','. The column `abandoned` of a group is true if the key
 * was abandoned when the group was formed, else NULL. So the end of the group does not change whether the key is
 * abandoned.
 *
 * If readers are put off when the last reader leaves, the free row keeps the 19 digits and the sign. Until that
 * time, such a row and the row of an expired group refuse readers. A purge may delete the row earlier.
 */
function statementsForShared(table: Table) {
  const { rows } = table;
  // Every owner and every text is possible in a lease of `tryAcquire`, so this also checks the token in the owner's
  // name, which no owner knows before its grant. A renewal does not change the text of such an owner.
  const isGroup = (row: string): string =>
    `(starts_with(${row}.owner, '${READERS}') AND right(${row}.owner, length(${row}.token::text) + 1) = ':' || ${row}.token
      AND ${row}.info ~ '^[0-9]{19}[+-],')`;
  const until = (row: string): string => `substr(${row}.info, 1, 19)::bigint`;
  // The time until which readers are put off; null if they are not.
  const putOffUntil = (row: string): string =>
    `CASE WHEN ${isGroup(row)} OR (${row}.owner = '' AND ${row}.info ~ '^[0-9]{19}[+-]$') THEN ${until(row)} END`;
  // $2 the reader's id.
  const isIn = (row: string): string => `strpos(${row}.info, ',' || $2::text || ',') > 0`;
  const isOpen = `coalesce(${putOffUntil('l')} <= ${CLOCK}, l.expires <= ${NOW})`;
  const admits = `CASE WHEN l.expires <= ${NOW} THEN ${isOpen} ELSE ${isGroup('l')} AND (${isIn('l')} OR ${isOpen}) END`;
  const refuses = `l.key = $1 AND NOT (${admits})`;
  const isLast = `substr(info, 21) = ',' || $2::text || ','`;
  // After a release. Without readers, the text has at most 21 characters.
  const hasNoReader = '(info IS NULL OR length(info) < 22)';
  return {
    // As `acquire`, but a group that admits the reader does not hold the key against it. A put-off that ends
    // before the group's lease ends the wait. `isFree` is evaluated only once, because all columns must agree
    // on it. $1 key, $2 the reader's id, $3 length, $4 known token, $5 lock timeout, $6 whether this store
    // listens.
    acquireShared: statement(`WITH held AS MATERIALIZED (
        SELECT ceil(greatest(least(CASE WHEN l.${NOT_EXPIRED} THEN extract(epoch FROM l.expires - ${NOW}) * 1000 END,
          (${putOffUntil('l')} - ${CLOCK}) / 1e6), 0))::bigint::text AS remaining, waited
          FROM ${rows} l WHERE ${refuses}),
      mark AS (UPDATE ${rows} l SET waited = true FROM ${limited('$5')}
        WHERE $6::text::boolean AND ${refuses} AND NOT l.waited AND EXISTS (SELECT FROM held) RETURNING 1),
      won AS (INSERT INTO ${rows} AS l (${COLUMNS})
        SELECT $1::text, '${READERS}' || $2::text || ':' || token, token, ${later('$3')}, repeat('0', 19) || '+,' || $2::text || ',', NULL::boolean
          FROM ${limited('$5')}, (SELECT ${nextToken(table, '$4')} AS token OFFSET 0) AS next WHERE NOT EXISTS (SELECT FROM held)
        ON CONFLICT (key) DO UPDATE SET (owner, token, expires, info, waited, abandoned) = (SELECT
            CASE WHEN is_free THEN '${READERS}' || $2::text || ':' || next ELSE l.owner END,
            CASE WHEN is_free THEN next ELSE l.token END,
            greatest(l.expires, ${later('$3')}),
            CASE WHEN is_free THEN overlay(excluded.info PLACING CASE WHEN was_abandoned THEN '-' ELSE '+' END FROM 20)
              WHEN ${isIn('l')} THEN l.info ELSE l.info || $2::text || ',' END,
            l.waited AND NOT is_free,
            CASE WHEN is_free THEN CASE WHEN was_abandoned THEN true END ELSE l.abandoned END
            FROM (SELECT l.expires <= ${NOW} AS is_free, greatest(l.token + 1, excluded.token) AS next,
              ${WAS_ABANDONED} AS was_abandoned OFFSET 0) AS now)
          WHERE ${admits}
        RETURNING token::text AS token, owner, (substr(info, 20, 1) = '-')::text AS abandoned, ${DURABLE})
      SELECT token, owner, abandoned, NULL AS remaining, NULL AS marked FROM won
      UNION ALL SELECT NULL, NULL, NULL, remaining, (waited OR EXISTS (SELECT FROM mark))::text FROM held`),
    // The last reader frees the row as `release` does, or as `takeBack` if the key is abandoned. After another
    // reader's release, `waited` is 'left'. $1 key, $2 the reader's id, $3 lock timeout.
    releaseShared:
      statement(`WITH gone AS (UPDATE ${rows} l SET owner = CASE WHEN ${isLast} THEN '' ELSE owner END,
          expires = CASE WHEN NOT ${isLast} THEN expires WHEN abandoned IS NULL THEN '-infinity' ELSE ${NOW} END,
          info = CASE WHEN NOT ${isLast} THEN replace(info, ',' || $2::text || ',', ',')
            WHEN ${until('l')} > ${CLOCK} THEN substr(info, 1, 20) END FROM ${limited('$3')}
        WHERE key = $1 AND ${NOT_EXPIRED} AND ${isGroup('l')} AND ${isIn('l')}
        RETURNING key, waited AND ${hasNoReader} AS waited, ${hasNoReader} AS ended)
      SELECT CASE WHEN ended THEN waited::text ELSE 'left' END AS waited, ${QUICK}, ${notify(table, 'key')} FROM gone`),
    // $1 key, $2 length of the put-off in milliseconds, $3 lock timeout.
    putOffReaders: statement(`WITH done AS (UPDATE ${rows} l SET info = overlay(info PLACING
          greatest(${until('l')}, ${CLOCK} + $2::text::bigint * 1000000)::text FROM 1 FOR 19) FROM ${limited('$3')}
        WHERE key = $1 AND ${NOT_EXPIRED} AND ${isGroup('l')} RETURNING 1)
      SELECT ${QUICK} FROM done`),
  };
}

/**
 * Creates the tables. This is a single statement, because most clients send only one statement at a time. The
 * statement holds an advisory lock, because two clients that create the same table at the same time can
 * conflict in the system catalog, despite IF NOT EXISTS.
 */
const schemaOf = ({ rows, floor }: Table, limit: string): Statement =>
  statement(`DO $stripelock$ BEGIN
    PERFORM set_config('lock_timeout', '${limit}', true);
    PERFORM pg_advisory_xact_lock(${CREATING});
    CREATE TABLE IF NOT EXISTS ${rows} (
      key text COLLATE "C" PRIMARY KEY, owner text COLLATE "C" NOT NULL, token bigint NOT NULL,
      expires timestamptz NOT NULL, info text, waited boolean NOT NULL DEFAULT false, abandoned boolean
    ) WITH (fillfactor = 70);
    ALTER TABLE ${rows} ADD COLUMN IF NOT EXISTS abandoned boolean;
    CREATE TABLE IF NOT EXISTS ${floor} (
      id integer PRIMARY KEY CHECK (id = 1), token bigint NOT NULL, purged bigint NOT NULL
    );
    INSERT INTO ${floor} VALUES (1, 0, 0) ON CONFLICT DO NOTHING;
  END $stripelock$`);
