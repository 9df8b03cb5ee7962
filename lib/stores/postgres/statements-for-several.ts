import type { Statement } from './connection.js';
import {
  DURABLE,
  FREE,
  LEFT,
  later,
  limited,
  nextToken,
  NOT_EXPIRED,
  QUICK,
  statement,
  topic,
  unlessHeld,
  type Table,
} from './statements.js';

/**
 * Statements on several keys. Lists are JSON, which each client library passes on as text. Rows are locked in the order of
 * their keys, so that two who want the same keys do not wait for each other.
 */
export interface StatementsForSeveral {
  /**
   * Looks first. If another has one of the keys, it returns the place of the first, and changes nothing but its mark.
   * If another was quicker after that look, it fails with a division by zero: everything is undone, and who asks again
   * finds that other.
   */
  readonly acquireAll: Statement;
  /** Return the places of those that were extended, or freed. */
  readonly renewAll: Statement;
  readonly releaseAll: Statement;
}

/** Means that another was quicker. */
export const QUICKER = '22012';

export function statementsForSeveral(table: Table): StatementsForSeveral {
  const { rows } = table;
  // $1 keys, $2 owner.
  const wanted = `wanted AS MATERIALIZED (SELECT key COLLATE "C" AS key, place
    FROM json_array_elements_text($1::text::json) WITH ORDINALITY AS w(key, place))`;
  const mine = `l.key = w.key AND l.owner = $2 AND l.${NOT_EXPIRED}`;
  return {
    // $3 length, $4 known tokens, $5 info, $6 limit, $7 whether this client listens.
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
    // $3 length, $4 info, or null if it stays, $5 limit.
    renewAll: statement(`WITH ${wanted}
      UPDATE ${rows} l SET expires = ${later('$3')}, info = coalesce($4::text, l.info)
      FROM wanted w, ${limited('$5')} WHERE ${mine} RETURNING w.place::integer AS place, ${DURABLE}`),
    // $3 limit.
    releaseAll:
      statement(`WITH ${wanted}, gone AS (UPDATE ${rows} l SET ${FREE} FROM wanted w, ${limited('$3')}
        WHERE ${mine} RETURNING l.key, w.place, l.waited)
      SELECT place::integer AS place, waited, ${QUICK},
        CASE WHEN waited THEN pg_notify('${table.channel}', ${topic('key')}) END AS notified FROM gone`),
  };
}
