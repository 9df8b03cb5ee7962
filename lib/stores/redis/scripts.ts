import { createHash } from 'node:crypto';

/** A Lua script. The server runs it as one step, on keys of one slot. */
export interface Script {
  readonly source: string;
  readonly sha: string;
}

/**
 * The value at a lease's key is the token, in 19 digits, a colon and the owner. KEYS[1] is the lease; where there is a
 * KEYS[2], it is the highest token of the bucket in microseconds.
 *
 * A script's time is that of its calls, and the server does nothing else meanwhile: so the usual case makes as few as it
 * can. Only whoever is not the owner looks whether the value is a lease at all: the name at its place is proof enough.
 */
const HELD = `
local call = redis.call
local held = call('GET', KEYS[1])
`;

const REFUSE_FOREIGN = `
  if not string.find(held, '^%d+:') or string.sub(held, 20, 20) ~= ':' then
    return redis.error_reply('WRONGTYPE the value at ' .. KEYS[1] .. ' is no lease')
  end`;

/**
 * ARGV: owner, milliseconds, the highest token that the client knows, in 16 digits of microseconds. Answers the token,
 * or {milliseconds until the lease of another owner ends}.
 *
 * A token counts nanoseconds, but is made from microseconds: the server's TIME has no more, and Lua's numbers hold
 * whole ones exactly up to 2^53, the year 2255. The three zeros are added to its decimal digits. Where the clock is
 * ahead of all tokens, which it is but for steps back, texts of 16 digits are compared as they are.
 */
export const ACQUIRE = script(`${HELD}
if held and string.sub(held, 21) ~= ARGV[1] then${REFUSE_FOREIGN}
  return {call('PTTL', KEYS[1])}
end
local time = call('TIME')
local token = time[1] .. string.sub('00000' .. time[2], -6)
local highest = call('GETSET', KEYS[2], token)
local ahead = not highest or (#highest == 16 and highest < token and tonumber(highest))
if not ahead or token <= ARGV[3] or #token ~= 16 then
  local last = tonumber(highest or 0)
  local next = last and math.max(last + 1, tonumber(ARGV[3]) + 1, tonumber(token))
  if not next or not (next <= 9007199254740991) then
    call('SET', KEYS[2], highest or token)
    return redis.error_reply('WRONGTYPE the value at ' .. KEYS[2] .. ' is no token')
  end
  token = string.format('%016.0f', next)
  call('SET', KEYS[2], token)
end
token = token .. '000'
call('PSETEX', KEYS[1], ARGV[2], token .. ':' .. ARGV[1])
return token`);

/** ARGV: owner, milliseconds. Answers 1 or 0. */
export const RENEW = script(`${HELD}
if not held then return 0 end
if string.sub(held, 21) ~= ARGV[1] then${REFUSE_FOREIGN}
  return 0
end
return call('PEXPIRE', KEYS[1], ARGV[2])`);

/**
 * ARGV: owner, and the token where it must be that very grant. Answers 1 or 0. The release is published at the name of
 * the lease; who may not publish still releases.
 */
export const RELEASE = script(`${HELD}
if not held then return 0 end
if string.sub(held, 21) ~= ARGV[1] then${REFUSE_FOREIGN}
  return 0
end
if ARGV[2] and string.sub(held, 1, 19) ~= ARGV[2] then return 0 end
call('DEL', KEYS[1])
redis.pcall('PUBLISH', KEYS[1], '')
return 1`);

/** Answers nil, or {owner, token, milliseconds until it ends}. */
export const INSPECT = script(`${HELD}
if not held then return false end${REFUSE_FOREIGN}
return {string.sub(held, 21), string.sub(held, 1, 19), call('PTTL', KEYS[1])}`);

function script(source: string): Script {
  return { source, sha: createHash('sha1').update(source).digest('hex') };
}
