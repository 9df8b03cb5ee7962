import { createHash } from 'node:crypto';

/** A Lua script. The server runs it as one step, on keys of one slot. */
export interface Script {
  readonly source: string;
  readonly sha: string;
}

/**
 * The value at a lease's key is `<token>:<owner>`. KEYS[1] is the lease; where there is a KEYS[2], it is the highest
 * token of the bucket in microseconds.
 */
const HELD = `
local held = redis.call('GET', KEYS[1])
local colon = held and string.find(held, ':', 1, true)
if held and not colon then return redis.error_reply('WRONGTYPE the value at ' .. KEYS[1] .. ' is no lease') end
local token = held and string.sub(held, 1, colon - 1)
local owner = held and string.sub(held, colon + 1)
`;

/**
 * ARGV: owner, milliseconds, the highest token that the client knows. Answers {1, token}, or {0, milliseconds until the
 * lease of another owner ends}.
 *
 * A token counts nanoseconds, but is made from microseconds: the server's TIME has no more, and Lua's numbers hold
 * whole ones exactly up to 2^53, the year 2255. The three zeros are added to its decimal digits.
 */
export const ACQUIRE = script(`${HELD}
if held and owner ~= ARGV[1] then return {0, redis.call('PTTL', KEYS[1])} end
local time = redis.call('TIME')
local now = tonumber(time[1]) * 1000000 + tonumber(time[2])
local highest = tonumber(redis.call('GET', KEYS[2]) or '0')
local next = highest and math.max(now, highest + 1, tonumber(ARGV[3]) + 1)
if not next or next > 9007199254740991 then
  return redis.error_reply('WRONGTYPE the value at ' .. KEYS[2] .. ' is no token')
end
local digits = string.format('%.0f', next)
redis.call('SET', KEYS[2], digits)
redis.call('SET', KEYS[1], digits .. '000:' .. ARGV[1], 'PX', ARGV[2])
return {1, digits .. '000'}`);

/** ARGV: owner, milliseconds. Answers 1 or 0. */
export const RENEW = script(`${HELD}
if owner ~= ARGV[1] then return 0 end
return redis.call('PEXPIRE', KEYS[1], ARGV[2])`);

/** ARGV: owner, token or '' for any, channel. Answers 1 or 0. Who may not publish still releases. */
export const RELEASE = script(`${HELD}
if owner ~= ARGV[1] or (ARGV[2] ~= '' and token ~= ARGV[2]) then return 0 end
redis.call('DEL', KEYS[1])
redis.pcall('PUBLISH', ARGV[3], '')
return 1`);

/** Answers nil, or {owner, token, milliseconds until it ends}. */
export const INSPECT = script(`${HELD}
return held and {owner, token, redis.call('PTTL', KEYS[1])}`);

function script(source: string): Script {
  return { source, sha: createHash('sha1').update(source).digest('hex') };
}
