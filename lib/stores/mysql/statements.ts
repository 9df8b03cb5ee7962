import type { FencingToken } from '../../lease/contract/lease-store.js';
import { isGroupName, READERS } from '../../lease/contract/shared.js';
import type { PageRange } from '../listing.js';
import type { Keeping, Releasing, Renewing, StoredLease, Wanted, WantedShared } from '../server-store.js';

/*
 * Each statement is a separate transaction. Each statement must run on both MySQL 8.0 and MariaDB 10.6, so
 * none of them uses RETURNING or user variables. A statement that changes one key returns its result as the
 * insert id, which the statement sets with LAST_INSERT_ID(expr). The number of changed rows cannot be the
 * result, because with some client options this number includes unchanged rows.
 *
 * Values are written as literals, with texts in hexadecimal. So their meaning does not depend on the SQL
 * mode, character sets or client options.
 */

/**
 * SQL for the microseconds from 1970 to the start of the statement. The value does not depend on the
 * session's time zone. If the statement then waits for a row, the value is outdated. That is safe: an old
 * lease counts as unexpired for longer, and a new lease ends earlier.
 */
const CLOCK = "TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6))";
/** SQL for the condition that a row's lease has not expired. */
const NOT_EXPIRED = `expires > ${CLOCK}`;
/** SQL for the milliseconds until a row's lease expires, rounded up, and at least 1. */
const LEFT = `GREATEST(CEIL((expires - ${CLOCK}) / 1000), 1)`;
/**
 * The lowest token. Every token is greater than every remaining time. So the insert id of an acquisition is a
 * token if it is at least this number. Otherwise the insert id is the remaining time of another owner's
 * lease.
 */
export const LOWEST_TOKEN = 2n ** 52n;
/**
 * The insert id of an acquisition in shared mode after which the row must be read: the reader joined a group,
 * or formed one of an abandoned key. Greater than every remaining time, and lower than every token.
 */
export const READ_ROW = 2n ** 51n;
/** SQL that overflows for every token. In every SQL mode, the resulting error undoes the whole statement. */
const FAIL = 'token + 9223372036854775807';
/** The server's error for {@link FAIL}. */
export const OUT_OF_RANGE = 1690;
/**
 * A purge removes a released row only if it was released at least this many microseconds ago. So a key in
 * regular use keeps its row.
 */
const KEPT = 60_000_000;
/**
 * Microseconds (one day): a purge removes the row of an abandoned key only if the lease ended at least this
 * long ago, so that the next holder sees that the key was abandoned.
 */
const REMEMBERED = 86_400_000_000;
/**
 * SQL that is 1 if the next grant of the row's key is of an abandoned key, else 0. The column `abandoned` is
 * 1 if the previous holder left the key without a release, else 0. When the current holder ends the lease,
 * `abandoned` becomes NULL.
 */
const IS_ABANDONED = `IF(${NOT_EXPIRED}, COALESCE(abandoned, 0), abandoned IS NOT NULL)`;
/** The maximum number of rows that one purge removes. */
const PURGED = 1000;

const text = (value: string): string => `X'${Buffer.from(value).toString('hex')}'`;
const infoOf = (info: string | undefined): string => (info === undefined ? 'NULL' : text(info));
const later = (milliseconds: number): string => `${CLOCK} + ${milliseconds * 1000}`;
const orderOf = (names: readonly string[]): Buffer[] =>
  names.map((name) => Buffer.from(name)).sort((a, b) => a.compare(b));

/**
 * SQL for the condition that a row belongs to this key, and has this owner and the given token, if any. The
 * condition does not check the expiry.
 */
function heldBy({
  name,
  owner,
  token,
}: {
  name: string;
  owner: string;
  token?: FencingToken | undefined;
}): string {
  const grant = token === undefined ? '' : ` AND token = ${token}`;
  return `name = ${text(name)} AND owner = ${text(owner)}${grant}`;
}

/**
 * SQL for the condition that a row belongs to one of these keys, has the owner (and the token) given for this
 * key, and has not expired.
 */
const heldByEach = (keys: readonly (Renewing | Releasing)[]): string =>
  `${NOT_EXPIRED} AND (${keys.map((key) => `(${heldBy(key)})`).join(' OR ')})`;

export type Statements = ReturnType<typeof statementsOf>;

/** `table` may include a database. */
export function statementsOf(table: string) {
  const quoted = (suffix: string): string => `\`${`${table}${suffix}`.replace('.', '`.`')}\``;
  const [rows, floor] = [quoted(''), quoted('_floor')];

  /** SQL that sets columns of one unexpired row. The insert id is the token, or 0 if there is no such row. */
  const changeWhere = (columns: string, condition: string): string =>
    `UPDATE ${rows} SET ${columns}, token = LAST_INSERT_ID(token) WHERE ${condition} AND ${NOT_EXPIRED}`;
  /** SQL that sets columns of the row of one key, if the owner holds the key. */
  const change = (columns: string, key: Parameters<typeof heldBy>[0]): string =>
    changeWhere(columns, heldBy(key));

  /**
   * SQL for a table `l` of the rows that meet the condition and are not locked by another transaction. So a
   * locked row does not delay the other rows. The forced index and the join order prevent the server from
   * locking further rows. The limit prevents the server from merging the inner query into the statement.
   */
  const unlocked = (condition: string, most: number): string =>
    `(SELECT name FROM ${rows} FORCE INDEX (PRIMARY) WHERE ${condition} LIMIT ${most} FOR UPDATE SKIP LOCKED) AS these
      STRAIGHT_JOIN ${rows} AS l FORCE INDEX (PRIMARY) ON l.name = these.name`;

  return {
    ...statementForAcquire(rows, floor),
    ...statementsForShared(rows, floor, changeWhere),
    /** Reads the rows of these keys without locking them. `held` is 1 if another owner holds the key. */
    look: (names: readonly string[], owner: string): string =>
      `SELECT name, CAST(token AS CHAR) AS token, owner <> ${text(owner)} AND ${NOT_EXPIRED} AS held, ${LEFT} AS remaining,
        ${IS_ABANDONED} AS abandoned FROM ${rows} WHERE name IN (${names.map(text).join()})`,
    renew: (key: Renewing): string =>
      change(
        `expires = GREATEST(expires, ${later(key.length)}), info = COALESCE(${infoOf(key.info)}, info)`,
        key,
      ),
    /**
     * Sets the owner and the remaining time of a grant. This is the only statement that may shorten a lease. A
     * repetition changes nothing. `owner` is assigned last, because the assignment of `expires` reads it.
     */
    keep: ({ name, owner, token, length, keptOwner }: Keeping): string =>
      changeWhere(
        `expires = IF(owner = ${text(owner)}, ${later(length)}, expires), abandoned = NULL, owner = ${text(keptOwner)}`,
        `name = ${text(name)} AND owner IN (${text(owner)}, ${text(keptOwner)}) AND token = ${token}`,
      ),
    /** Frees the row but does not delete it, because the row holds the key's last token. */
    release: (key: Releasing): string =>
      change(`owner = '', expires = 0, info = NULL, abandoned = NULL`, key),
    /**
     * Takes a grant back. If the key counts as abandoned, the row is left as if the lease had expired, but
     * without an owner. If the owner stayed, a renewal that started earlier and waited for the row could
     * succeed, because it compares `expires` with the time at which it started. `abandoned` is assigned last,
     * because the other assignments read it; see `acquire`.
     */
    takeBack(key: Releasing, wasUsed: boolean): string {
      const stays = wasUsed ? 'abandoned IS NOT NULL' : 'COALESCE(abandoned, 0) = 1';
      return change(
        `owner = '', expires = IF(${stays}, ${CLOCK}, 0), info = NULL, abandoned = IF(${stays}, 1, NULL)`,
        key,
      );
    },
    /** Renews all keys with the length and the `info` text of the first key. */
    renewAll: (keys: readonly Renewing[]): string =>
      `UPDATE ${unlocked(heldByEach(keys), keys.length)}
        SET l.expires = GREATEST(l.expires, ${later(keys[0]!.length)}), l.info = COALESCE(${infoOf(keys[0]!.info)}, l.info)`,
    releaseAll: (keys: readonly Releasing[]): string =>
      `UPDATE ${unlocked(heldByEach(keys), keys.length)}
        SET l.owner = '', l.expires = 0, l.info = NULL, l.abandoned = NULL`,
    /** Returns the names of the keys that their owners hold. */
    owned: (keys: readonly (Renewing | Releasing)[]): string =>
      `SELECT name FROM ${rows} WHERE ${heldByEach(keys)}`,
    /** Returns the names of the keys that any owner holds. */
    held: (names: readonly string[]): string =>
      `SELECT name FROM ${rows} WHERE name IN (${names.map(text).join()}) AND ${NOT_EXPIRED}`,
    ...statementsForReading(rows),
    ...statementsForPurge(rows, floor, unlocked),
    /**
     * Creates the tables. Their columns are binary, because most collations treat some different texts as
     * equal.
     */
    schema: [
      `CREATE TABLE IF NOT EXISTS ${rows} (name VARBINARY(512) NOT NULL PRIMARY KEY, owner MEDIUMBLOB NOT NULL,
        token BIGINT NOT NULL, expires BIGINT NOT NULL, info MEDIUMBLOB NULL, abandoned TINYINT NULL) ENGINE=InnoDB ROW_FORMAT=DYNAMIC`,
      `CREATE TABLE IF NOT EXISTS ${floor} (id INT NOT NULL PRIMARY KEY, token BIGINT NOT NULL) ENGINE=InnoDB`,
    ],
    /**
     * Reads the server's setting for writing its log to the disk. 0 means that the server writes the log only
     * once a second instead of at each commit.
     */
    flush: 'SELECT @@GLOBAL.innodb_flush_log_at_trx_commit AS flush',
  };
}

/** SQL for a new token. `known`: the highest token that the client has received. */
const nextToken = (floor: string, known: FencingToken): string =>
  `GREATEST(${CLOCK} * 1000, ${known + 1n}, ${LOWEST_TOKEN},
        COALESCE((SELECT f.token FROM ${floor} f WHERE f.id = 1), 0) + 1)`;

function statementForAcquire(rows: string, floor: string) {
  return {
    /**
     * Acquires keys. `known` is the highest token that the client has received. With one key, the insert id
     * is the new token, or the milliseconds until another owner's lease expires. With several keys, all keys
     * get the same token. If another owner holds one of several keys, or one of them has a higher token than
     * the new one, the statement fails with {@link OUT_OF_RANGE} and changes nothing. Rows are locked in the
     * order of their names, so two such statements never wait for each other in a cycle.
     *
     * `abandoned`: the names of the keys that the client knows to be abandoned. If this set is wrong about a
     * free key, the statement also fails with {@link OUT_OF_RANGE}, because the statement's result cannot
     * contain more than the token. This rarely happens, because abandoned keys are rare.
     *
     * In some SQL modes, an assignment reads the results of the assignments before it; in other modes, it
     * reads the old values. Both give the same result here, because `expires` is assigned last, and because
     * the assignment of `owner` does not change the value of the condition `isFree`.
     */
    acquire(
      { names, owner, length, info }: Wanted,
      known: FencingToken,
      abandoned: ReadonlySet<string>,
    ): string {
      const me = text(owner);
      const token = nextToken(floor, known);
      const values = orderOf(names).map(
        (name) =>
          `(X'${name.toString('hex')}', ${me}, LAST_INSERT_ID(${token}), ${later(length)}, ${infoOf(info)}, 0)`,
      );
      const listed = abandoned.size === 0 ? '0' : `name IN (${[...abandoned].map(text).join()})`;
      const isKnown = `${IS_ABANDONED} = ${listed}`;
      const isFree = `(owner = ${me} OR expires <= ${CLOCK})`;
      const taken =
        names.length === 1
          ? `IF(${isFree}, IF(${isKnown}, LAST_INSERT_ID(GREATEST(token + 1, ${token})), ${FAIL}),
              token + 0 * LAST_INSERT_ID(${LEFT}))`
          : `IF(${isFree} AND token < ${token} AND ${isKnown}, LAST_INSERT_ID(${token}), ${FAIL})`;
      return `INSERT INTO ${rows} (name, owner, token, expires, info, abandoned) VALUES ${values.join(', ')}
        ON DUPLICATE KEY UPDATE owner = IF(${isFree}, ${me}, owner), token = ${taken},
        info = IF(${isFree}, ${infoOf(info)}, info), abandoned = IF(${isFree}, ${listed}, abandoned), expires = IF(${isFree}, GREATEST(expires, ${later(length)}), expires)`;
    },
  };
}

/** Whether a lease is a group whose readers include this one. See {@link statementsForShared}. */
export const isReader = (
  { owner, token, info }: Pick<StoredLease, 'owner' | 'token' | 'info'>,
  reader: string,
): boolean => isGroupName(owner, token) && info.includes(`,${reader},`);

/** Whether the key was abandoned when this group was formed. */
export const wasAbandoned = ({ info }: Pick<StoredLease, 'info'>): boolean => info[16] === '-';

/**
 * The statements for groups of readers. A group is a lease whose owner starts with {@link READERS} and ends with
 * ':' and the token. In the place of the `info` text, it has 16 digits: the time in microseconds until which new
 * readers are put off. After that follow '-' if the key was abandoned when the group was formed, else '+'; and the
 * ids of the readers: ',' and for each reader its id and ','. The column `abandoned` of a group is 1 if the key was
 * abandoned when the group was formed, else NULL. So the end of the group does not change whether the key is
 * abandoned.
 *
 * If readers are put off when the last reader leaves, the free row keeps the 16 digits and the sign. Until that
 * time, such a row and the row of an expired group refuse readers. A purge may delete the row earlier.
 */
function statementsForShared(
  rows: string,
  floor: string,
  changeWhere: (columns: string, condition: string) => string,
) {
  // Every owner and every text is possible in a lease of `tryAcquire`, so this also checks the token in the owner's
  // name, which no owner knows before its grant. A renewal does not change the text of such an owner.
  const isGroup = `LEFT(owner, ${READERS.length}) = ${text(READERS)} AND LOCATE(',', info) = 18
    AND RIGHT(owner, CHAR_LENGTH(token) + 1) = CONCAT(':', token)`;
  const until = 'CAST(LEFT(info, 16) AS SIGNED)';
  // A free row has a text only if readers were put off.
  const isPutOff = `(COALESCE(${isGroup} OR (LENGTH(owner) = 0 AND LENGTH(info) = 17), 0) AND ${until} > ${CLOCK})`;
  const isIn = (reader: string): string => `LOCATE(${text(`,${reader},`)}, info) > 0`;
  return {
    /**
     * The insert id is the token of a new group, the milliseconds after which a retry may succeed, or
     * {@link READ_ROW}. As in `acquire`, the old and the new values of the columns give the same result. `info` is
     * assigned first: the new text puts off no readers, so `forms` stays true until `expires` is assigned last.
     * `owner` is assigned before `token`, because it contains the new token. If the row is not free, the assignments
     * do not change the value of `joins`.
     */
    acquireShared({ name, reader, length }: WantedShared, known: FencingToken): string {
      const token = nextToken(floor, known);
      const next = `GREATEST(token + 1, ${token})`;
      const group = (of: string): string => `CONCAT(${text(`${READERS}${reader}:`)}, ${of})`;
      const infoWith = (sign: string): string => text(`${'0'.repeat(16)}${sign},${reader},`);
      const forms = `(expires <= ${CLOCK} AND NOT ${isPutOff})`;
      const joins = `(${NOT_EXPIRED} AND ${isGroup} AND (${isIn(reader)} OR NOT ${isPutOff}))`;
      const putOffFor = `GREATEST(CEIL((${until} - ${CLOCK}) / 1000), 1)`;
      const wait = `IF(${isPutOff}, IF(${NOT_EXPIRED}, LEAST(${LEFT}, ${putOffFor}), ${putOffFor}), ${LEFT})`;
      return `INSERT INTO ${rows} (name, owner, token, expires, info, abandoned)
        VALUES (${text(name)}, ${group(token)}, LAST_INSERT_ID(${token}), ${later(length)}, ${infoWith('+')}, NULL)
        ON DUPLICATE KEY UPDATE info = IF(${forms}, IF(abandoned IS NULL, ${infoWith('+')}, ${infoWith('-')}),
            IF(${joins} AND NOT ${isIn(reader)}, CONCAT(info, ${text(`${reader},`)}), info)),
          owner = IF(${forms}, ${group(next)}, owner),
          token = IF(${forms}, ${next} + 0 * LAST_INSERT_ID(IF(abandoned IS NULL, ${next}, ${READ_ROW})),
            token + 0 * LAST_INSERT_ID(IF(${joins}, ${READ_ROW}, ${wait}))),
          abandoned = IF(${forms}, IF(abandoned IS NULL, NULL, 1), abandoned),
          expires = IF(${forms}, ${later(length)}, IF(${joins}, GREATEST(expires, ${later(length)}), expires))`;
    },
    /**
     * The last reader frees the row as `release` does, or as `takeBack` if the key is abandoned. `info` is assigned
     * last, because the others read it.
     */
    releaseShared(name: string, reader: string): string {
      const isLast = `SUBSTR(info, 18) = ${text(`,${reader},`)}`;
      return changeWhere(
        `owner = IF(${isLast}, ${text('')}, owner), expires = IF(${isLast}, IF(abandoned IS NULL, 0, ${CLOCK}), expires),
          info = IF(${isLast}, IF(${until} > ${CLOCK}, LEFT(info, 17), NULL), REPLACE(info, ${text(`,${reader},`)}, ','))`,
        `name = ${text(name)} AND ${isGroup} AND ${isIn(reader)}`,
      );
    },
    putOffReaders: (name: string, milliseconds: number): string =>
      changeWhere(
        `info = INSERT(info, 1, 16, GREATEST(${until}, ${later(milliseconds)}))`,
        `name = ${text(name)} AND ${isGroup}`,
      ),
  };
}

function statementsForReading(rows: string) {
  return {
    inspect: (name: string): string =>
      `SELECT owner, CAST(token AS CHAR) AS token, ${LEFT} AS remaining, info FROM ${rows}
      WHERE name = ${text(name)} AND ${NOT_EXPIRED}`,
    list: ({ from, after, to }: PageRange, most: number): string =>
      `SELECT name, owner, CAST(token AS CHAR) AS token, ${LEFT} AS remaining, info FROM ${rows}
      WHERE name >= ${text(from)} AND name > ${text(after)} AND name < ${text(to)} AND ${NOT_EXPIRED}
      ORDER BY name LIMIT ${most}`,
  };
}

function statementsForPurge(
  rows: string,
  floor: string,
  unlocked: (condition: string, most: number) => string,
) {
  const isOld = `expires <= ${CLOCK} - IF(abandoned IS NULL, ${KEPT}, ${REMEMBERED})`;
  return {
    /** Reads the floor, and the rows that a purge may remove. Scans the table without locking rows. */
    old: `SELECT name, CAST(token AS CHAR) AS token,
        CAST(COALESCE((SELECT f.token FROM ${floor} f WHERE f.id = 1), 0) AS CHAR) AS floor
      FROM ${rows} WHERE ${isOld} AND token <= (${CLOCK} - ${KEPT}) * 1000 LIMIT ${PURGED}`,
    /** Removes those named rows that are still old and whose tokens are not above the floor. */
    purge: (names: readonly Buffer[], floorToken: FencingToken): string =>
      `DELETE l FROM ${unlocked(
        `name IN (${names.map((name) => `X'${name.toString('hex')}'`).join()})
          AND ${isOld} AND token <= ${floorToken}`,
        names.length,
      )}`,
    raiseFloor: (token: FencingToken): string =>
      `INSERT INTO ${floor} VALUES (1, ${token}) ON DUPLICATE KEY UPDATE token = GREATEST(token, ${token})`,
  };
}
