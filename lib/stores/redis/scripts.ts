import { createHash } from 'node:crypto';

/** The suffix of a store's channel name if the store's client is for a cluster. */
export const OF_CLUSTER = '~';

/**
 * Separates the owner of a lease from the lease's `info` text. Neither of the two contains this character.
 */
export const BEFORE_INFO = '\0';

/** A Lua script. The server runs it atomically. In a cluster, all its keys are in one slot. */
export interface Script {
  readonly source: string;
  readonly sha: string;
}

/**
 * Milliseconds for which a released key is reserved for the notified store. This is enough for a distant or
 * busy store. A store that hangs delays the other stores by this time, but only once.
 */
export const RESERVED_FOR = 100;

/**
 * Reads the value of a lease's key (KEYS[1]). The value consists of the token in 19 digits, a mark and the
 * owner. If the lease has an `info` text, {@link BEFORE_INFO} and this text follow. The mark is ';' if a
 * waiter is registered, else ':'.
 *
 * With the mark '~', the value is a reservation, not a lease. The key is then reserved for a waiting store,
 * and the value contains the name of this store's channel instead of an owner.
 *
 * The server does nothing else while a script runs, so the usual case makes as few calls as possible. If the
 * caller is the owner, the value is not validated, because a matching owner proves that the value is a lease.
 */
const HELD = `
local call = redis.call
local held = call('GET', KEYS[1])
`;

/** Whether the value is a lease of this owner, or a reservation for this channel. */
const IS_OWN = `
local function isOwn(held, owner)
  return string.sub(held, 21) == owner or string.sub(held, 21, 21 + #owner) == owner .. '\\0'
end
`;

const refuseForeign = (key: string): string => `
  if not string.find(held, '^%d+[:;~]') or not string.find(string.sub(held, 20, 20), '[:;~]') then
    return redis.error_reply('WRONGTYPE the value at ' .. ${key} .. ' is not a lease')
  end`;
const REFUSE_FOREIGN = refuseForeign('KEYS[1]');

/**
 * Registers a channel as a waiter for a key that is leased to another owner or reserved for another channel.
 * Waiters are kept in order of arrival. Their list expires in `ends` milliseconds, together with the lease,
 * and the waiters then retry.
 */
const REGISTER = `
local function register(lease, waiters, mark, score, channel, ends)
  if mark == ':' then redis.call('SETRANGE', lease, 19, ';') end
  redis.call('ZADD', waiters, 'NX', score, channel)
  if mark ~= '~' or redis.call('PTTL', waiters) < ends then redis.call('PEXPIRE', waiters, ends) end
end
`;

/**
 * KEYS: the lease; the bucket's highest token in microseconds; and the lease's waiters, only if the caller
 * waits.
 *
 * ARGV: the owner; the TTL in milliseconds; the caller's channel or ''; a lower bound for the token in
 * microseconds; {@link BEFORE_INFO} followed by the `info` text. The last three arguments are optional.
 *
 * Replies with the token, or with {milliseconds until another owner's lease ends}. In the latter case, if the
 * caller waits, the caller's channel is registered as a waiter for that time, in order of arrival.
 *
 * A token counts nanoseconds but is computed in microseconds, because the server's TIME has microseconds, and
 * Lua's numbers are exact only up to 2^53 (the year 2255). Three zeros are then appended. Usually the clock
 * is ahead of all tokens, so comparing strings of 16 digits is enough. If the clock was set back, the new
 * token is the highest token plus one.
 */
export const ACQUIRE = script(`${IS_OWN}${REGISTER}
local call = redis.call
local owner = ARGV[1] .. (ARGV[5] or '')
local time = call('TIME')
local token = time[1] .. string.sub('00000' .. time[2], -6)
local highest = call('GETSET', KEYS[2], token)
local ahead = not highest or (#highest == 16 and highest < token and tonumber(highest))
if not ahead or ARGV[4] or #token ~= 16 then
  local last = tonumber(highest or 0)
  local next = last and math.max(last + 1, tonumber(ARGV[4] or 0) + 1, tonumber(token))
  if not next or not (next <= 9007199254740991) then
    call('SET', KEYS[2], highest or token)
    return redis.error_reply('WRONGTYPE the value at ' .. KEYS[2] .. ' is not a token')
  end
  token = string.format('%016.0f', next)
  call('SET', KEYS[2], token)
end
token = token .. '000'
if not KEYS[3] and call('SET', KEYS[1], token .. ':' .. owner, 'NX', 'PX', ARGV[2]) then return token end
local held = call('GET', KEYS[1])
local mark = held and string.sub(held, 20, 20)
if held and not isOwn(held, mark == '~' and ARGV[3] or ARGV[1]) then${REFUSE_FOREIGN}
  local ends = call('PTTL', KEYS[1])
  if KEYS[3] then register(KEYS[1], KEYS[3], mark, string.sub(token, 1, 16), ARGV[3], ends) end
  return {ends}
end
if mark ~= ';' then mark = ':' end
if KEYS[3] then
  call('ZREM', KEYS[3], ARGV[3])
  if call('PEXPIRE', KEYS[3], ARGV[2]) == 1 then mark = ';' end
end
call('PSETEX', KEYS[1], ARGV[2], token .. mark .. owner)
return token`);

/**
 * ARGV: the owner; the TTL in milliseconds; and, only if the `info` text changes, {@link BEFORE_INFO} and the
 * new text. Never shortens a lease. Replies 1 if the owner holds the lease, else 0.
 */
export const RENEW = script(`${HELD}${IS_OWN}
if not held then return 0 end
if not isOwn(held, ARGV[1]) then${REFUSE_FOREIGN}
  return 0
end
local left = math.max(call('PTTL', KEYS[1]), tonumber(ARGV[2]))
if ARGV[3] then
  call('PSETEX', KEYS[1], string.format('%.0f', left), string.sub(held, 1, 20) .. ARGV[1] .. ARGV[3])
  return 1
end
return call('PEXPIRE', KEYS[1], string.format('%.0f', left))`);

/**
 * ARGV: the owner, the TTL in milliseconds, the token. This is the only script that may shorten a lease.
 * Replies like `RENEW`.
 */
export const KEEP = script(`${HELD}${IS_OWN}
if not held then return 0 end
if not isOwn(held, ARGV[1]) then${REFUSE_FOREIGN}
  return 0
end
if string.sub(held, 1, 19) ~= ARGV[3] then return 0 end
return call('PEXPIRE', KEYS[1], ARGV[2])`);

/**
 * Notifies the first waiting store that is still connected, and reserves the key for that store. Without the
 * reservation, the store that released the key would usually win the key again. PUBLISH returns how many
 * clients received the message, so the loop can skip dead stores.
 *
 * In a cluster, a node does not know the number of recipients. So the key is reserved for the first waiting
 * store there, even if that store is dead. The other stores are notified, too, so that they retry after the
 * reservation. If an ACL forbids PUBLISH, the script does not fail: the key is already free, and waiters find
 * it by polling.
 */
const WAKE = `
local function wake(lease, waiters)
  local kept = false
  for _ = 1, 32 do
    local first = redis.pcall('ZPOPMIN', waiters)[1]
    if not first then break end
    local heard = redis.pcall('PUBLISH', first, lease)
    local known = string.sub(first, -1) ~= '${OF_CLUSTER}'
    if not kept and (not known or (type(heard) == 'number' and heard > 0)) then
      redis.call('PSETEX', lease, ${RESERVED_FOR}, '${'0'.repeat(19)}~' .. first)
      kept = true
    end
    if kept and known then break end
  end
  return kept
end
`;

/**
 * KEYS: the lease, its waiters. ARGV: the owner; and the token, if only the grant with that token may be
 * released. Replies 0 if the owner did not hold the lease, 2 if a waiter was notified, else 1.
 */
export const RELEASE = script(`${HELD}${IS_OWN}${WAKE}
if not held then return 0 end
if not isOwn(held, ARGV[1]) then${REFUSE_FOREIGN}
  return 0
end
if ARGV[2] and string.sub(held, 1, 19) ~= ARGV[2] then return 0 end
call('DEL', KEYS[1])
if string.sub(held, 20, 20) == ';' and wake(KEYS[1], KEYS[2]) then return 2 end
return 1`);

/**
 * KEYS: the lease, its waiters. ARGV: the channel of a store that no longer waits. That store was notified of
 * a release, or has a reservation. The script notifies the next waiting store instead.
 */
export const PASS_ON = script(`${HELD}${WAKE}
call('ZREM', KEYS[2], ARGV[1])
if held and string.sub(held, 20) == '~' .. ARGV[1] then
  call('DEL', KEYS[1])
  held = false
end
if not held and wake(KEYS[1], KEYS[2]) then return 2 end
return 1`);

/**
 * Replies nil, or {mark, owner and `info` text; token; milliseconds until expiry}. The client of Upstash
 * parses every text that is valid JSON. The first text starts with the mark, so it is never valid JSON.
 */
export const INSPECT = script(`${HELD}
if not held then return false end${REFUSE_FOREIGN}
if string.sub(held, 20, 20) == '~' then return false end
return {string.sub(held, 20), string.sub(held, 1, 19), call('PTTL', KEYS[1])}`);

/*
 * The scripts for several keys. Each is atomic, and on a cluster all its keys must be in one slot. KEYS has
 * one to three names for each key: first the lease, then the names that the script's comment lists.
 */

/**
 * The second name of each key is the bucket's highest token. If the caller waits, the third name is the
 * lease's waiters.
 *
 * ARGV: the owner; the TTL in milliseconds; '' or {@link BEFORE_INFO} and the `info` text; the caller's
 * channel or ''; and for each key a lower bound for the token in microseconds, or '0'.
 *
 * Replies {1, token, …} with tokens made as in `ACQUIRE`. If another owner holds a key, the script replies
 * {0, zero-based index of that key, milliseconds until its lease ends} and changes no lease. In this case, if
 * the caller waits, the caller's channel is registered as a waiter of that key. Each earlier key that is
 * reserved for the caller's channel is passed on to the next waiter for that key. All steps that can fail are
 * done before the first write of a lease.
 */
export const ACQUIRE_ALL = script(`${IS_OWN}${REGISTER}${WAKE}
local call = redis.call
local channel = ARGV[4]
local names = channel == '' and 2 or 3
local count = #KEYS / names
local marks = {}
local time = call('TIME')
time = time[1] .. string.sub('00000' .. time[2], -6)
local function nameOf(i, which) return KEYS[names * (i - 1) + which] end
for i = 1, count do
  local lease = nameOf(i, 1)
  local held = call('GET', lease)
  if held then${refuseForeign('lease')}
    marks[i] = string.sub(held, 20, 20)
    if not isOwn(held, marks[i] == '~' and channel or ARGV[1]) then
      local ends = call('PTTL', lease)
      if channel ~= '' then register(lease, nameOf(i, 3), marks[i], time, channel, ends) end
      for j = 1, i - 1 do
        if marks[j] == '~' then
          call('DEL', nameOf(j, 1))
          wake(nameOf(j, 1), nameOf(j, 3))
        end
      end
      return {0, i - 1, ends}
    end
  end
end
local clock = tonumber(time)
local tokens = {1}
for i = 1, count do
  local bucket = nameOf(i, 2)
  local highest = call('GET', bucket) or '0'
  local last = tonumber(highest)
  local next = last and math.max(last + 1, tonumber(ARGV[4 + i]) + 1, clock)
  if not next or not (next <= 9007199254740991) then
    return redis.error_reply('WRONGTYPE the value at ' .. bucket .. ' is not a token')
  end
  local token = string.format('%016.0f', next)
  call('SET', bucket, token)
  tokens[i + 1] = token .. '000'
end
for i = 1, count do
  local mark = marks[i] == ';' and ';' or ':'
  if channel ~= '' then
    call('ZREM', nameOf(i, 3), channel)
    if call('PEXPIRE', nameOf(i, 3), ARGV[2]) == 1 then mark = ';' end
  end
  call('PSETEX', nameOf(i, 1), ARGV[2], tokens[i + 1] .. mark .. ARGV[1] .. ARGV[3])
end
return tokens`);

/**
 * The reply for a key with a value that is not a lease. The store then runs the script for a single key,
 * which replies with the error.
 */
export const UNDECIDED = -1;

/**
 * Builds a script that decides each key separately. The keys may have different owners. `names` and `args`
 * are the numbers of KEYS and ARGV per lease; the first ARGV is the owner. `body` is Lua code that runs for
 * each `lease` that its owner holds. This code reads the variable `held`, the lease's value, and sets
 * `result`.
 */
const eachOwn = (names: number, before: string, args: number, body: string): Script =>
  script(`${IS_OWN}${before}
local call = redis.call
local results = {}
for i = 1, #KEYS / ${names} do
  local lease = KEYS[${names} * (i - 1) + 1]
  local at = ${args} * (i - 1)
  local held = redis.pcall('GET', lease)
  local result = 0
  if type(held) == 'table' then
    result = ${UNDECIDED}
  elseif held and isOwn(held, ARGV[at + 1]) then
    ${body}
  elseif held and not (string.find(held, '^%d+[:;~]') and string.find(string.sub(held, 20, 20), '[:;~]')) then
    result = ${UNDECIDED}
  end
  results[i] = result
end
return results`);

/** Replies for each lease like `INSPECT`, but with 0 for a free key and for a value that is not a lease. */
export const INSPECT_ALL = script(`
local results = {}
for i = 1, #KEYS do
  local held = redis.pcall('GET', KEYS[i])
  results[i] = 0
  if type(held) == 'string' and string.find(held, '^%d+[:;]') and string.find(string.sub(held, 20, 20), '[:;]') then
    results[i] = {string.sub(held, 20), string.sub(held, 1, 19), redis.call('PTTL', KEYS[i])}
  end
end
return results`);

/**
 * ARGV per lease: the owner; the TTL in milliseconds; and either '' to leave the `info` text unchanged, or
 * '=' followed by the new text, with {@link BEFORE_INFO} before it unless it is empty. For each lease, the
 * reply is 1, 0 or {@link UNDECIDED}.
 */
export const RENEW_ALL = eachOwn(
  1,
  '',
  3,
  `local left = string.format('%.0f', math.max(call('PTTL', lease), tonumber(ARGV[at + 2])))
    local info = ARGV[at + 3]
    if info ~= '' then
      call('PSETEX', lease, left, string.sub(held, 1, 20) .. ARGV[at + 1] .. string.sub(info, 2))
      result = 1
    else
      result = call('PEXPIRE', lease, left)
    end`,
);

/**
 * The second name of each key is the lease's waiters. ARGV per lease: the owner, and the required token or
 * ''. Replies for each lease like `RELEASE`, or {@link UNDECIDED}.
 */
export const RELEASE_ALL = eachOwn(
  2,
  WAKE,
  2,
  `local token = ARGV[at + 2]
    if token == '' or string.sub(held, 1, 19) == token then
      call('DEL', lease)
      result = string.sub(held, 20, 20) == ';' and wake(lease, KEYS[2 * i]) and 2 or 1
    end`,
);

function script(source: string): Script {
  return { source, sha: createHash('sha1').update(source).digest('hex') };
}
