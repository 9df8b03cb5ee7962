import { createHash } from 'node:crypto';

/** The end of a channel's name, for a store on a cluster. */
export const OF_CLUSTER = '~';

/** Stands between an owner and the info of its lease. Neither contains it. */
export const BEFORE_INFO = '\0';

/** A Lua script. The server runs it atomically, on keys of one slot. */
export interface Script {
  readonly source: string;
  readonly sha: string;
}

/**
 * Milliseconds for which a key is kept for a waiter that was told of a release: enough for a store that is far away or
 * busy. A store that hangs delays the others by this time, once.
 */
export const KEPT_FOR = 100;

/**
 * The value at a lease's key is the token, in 19 digits, a mark and the owner, and then, if there is an info,
 * {@link BEFORE_INFO} and the info. The mark is ';' if somebody has registered as a waiter, else ':'. The lease's key is
 * KEYS[1].
 *
 * With the mark '~' the value is not a lease: the key is kept for a waiter, whose channel is in place of the owner.
 *
 * A script takes as long as its calls, and the server does nothing else in that time. So the usual case makes as few
 * calls as possible. A script checks whether the value is a lease at all only if the caller is not the owner: an
 * owner's name in its place is proof enough.
 */
const HELD = `
local call = redis.call
local held = call('GET', KEYS[1])
`;

/** Whether the value at a lease's key is a lease of that owner, or keeps the key for that channel. */
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
 * Puts a channel among the waiters of a lease that another owner holds, or of a key that is kept for another channel, in order
 * of arrival. The record lasts as long as the lease, `ends` milliseconds: then its waiters ask again.
 */
const REGISTER = `
local function register(lease, waiters, mark, score, channel, ends)
  if mark == ':' then redis.call('SETRANGE', lease, 19, ';') end
  redis.call('ZADD', waiters, 'NX', score, channel)
  if mark ~= '~' or redis.call('PTTL', waiters) < ends then redis.call('PEXPIRE', waiters, ends) end
end
`;

/**
 * KEYS: lease, the bucket's highest token in microseconds, and, if the caller waits, the lease's waiters. ARGV: owner,
 * milliseconds; the channel on which the caller hears, or ''; a token in microseconds that the new one must exceed;
 * {@link BEFORE_INFO} and the info. The last three may be left out. Answers the token, or {milliseconds until the lease of another owner ends}. In the latter
 * case the channel is among the waiters, in order of arrival, for that time.
 *
 * A token counts nanoseconds, but is made from microseconds: the server's TIME is no finer, and Lua's numbers are exact
 * up to 2^53 only, the year 2255. Three zeros are added to the decimal digits. Usually the clock is ahead of all
 * tokens, and texts of 16 digits are compared. After the clock was set back, it is not.
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
 * ARGV: owner, milliseconds, and, if the info changes, {@link BEFORE_INFO} and the info. A lease that lasts longer keeps its
 * time. Answers 1 or 0.
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

/** ARGV: owner, milliseconds, token. The only script that may shorten a lease, at its end. Answers 1 or 0. */
export const KEEP = script(`${HELD}${IS_OWN}
if not held then return 0 end
if not isOwn(held, ARGV[1]) then${REFUSE_FOREIGN}
  return 0
end
if string.sub(held, 1, 19) ~= ARGV[3] then return 0 end
return call('PEXPIRE', KEYS[1], ARGV[2])`);

/**
 * Tells the first waiter that receives the message, and keeps the key for it. Otherwise the store that has just
 * released the key would take it again first, over and over. If an ACL forbids telling waiters, that is no error: the
 * key is already free, and they find it by polling. The connection of a dead waiter receives nothing. In a cluster a
 * node cannot say who has received the message, so the key is kept for the first, and others are told to ask after that
 * time.
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
      redis.call('PSETEX', lease, ${KEPT_FOR}, '${'0'.repeat(19)}~' .. first)
      kept = true
    end
    if kept and known then break end
  end
  return kept
end
`;

/**
 * KEYS: lease, its waiters. ARGV: owner, and, if it must be one particular grant, its token. Answers 0 if that was not
 * held, 2 if a waiter was told of the release, else 1.
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
 * KEYS: lease, its waiters. ARGV: the channel of a store that was told of a release, or for which the key is kept, but in
 * which nobody waits any more.
 */
export const PASS_ON = script(`${HELD}${WAKE}
call('ZREM', KEYS[2], ARGV[1])
if held and string.sub(held, 20) == '~' .. ARGV[1] then
  call('DEL', KEYS[1])
  held = false
end
if not held and wake(KEYS[1], KEYS[2]) then return 2 end
return 1`);

/** Answers nil, or {owner and info, token, milliseconds until it ends}. */
export const INSPECT = script(`${HELD}
if not held then return false end${REFUSE_FOREIGN}
if string.sub(held, 20, 20) == '~' then return false end
return {string.sub(held, 21), string.sub(held, 1, 19), call('PTTL', KEYS[1])}`);

/*
 * The scripts for several keys, each atomic. On a cluster all keys must be in one slot. KEYS has one to three names for each
 * key: first the lease, then what the script says.
 */

/**
 * Second: the bucket's highest token; third, if the caller waits: the lease's waiters. ARGV: owner, milliseconds, '' or what
 * stands before an info and the info, the channel that notifies a waiting caller, or '', and for each key a token in
 * microseconds that the new one must exceed, or '0'. Answers {1, token, …}, or, if another owner has one of the keys, {0, its
 * place from 0, milliseconds until its lease ends}; then no lease was changed. In the latter case the channel is among the
 * waiters of that key, as by `ACQUIRE`, and keys before it that were kept for the channel go to the next waiters. Whatever can
 * fail comes before the first lease is written. A token is made as by `ACQUIRE`.
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

/** The answer for a key whose value is not a lease. The script for one key then answers with the error. */
export const UNDECIDED = -1;

/**
 * For keys of several owners, each decided by itself. `names`: how many keys there are for each lease; `args`: how
 * many texts, of which the first is its owner.
 * `body`: what to do with a `lease` that its owner has, whose value is `held`; it sets `result`.
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

/** ARGV for each lease: owner, milliseconds, and '' or '=', what stands before an info, and the info. Answers {1, 0 or -1, …}. */
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
 * Second key: the lease's waiters. ARGV for each lease: owner, and the token that it must have, or ''. Answers {0, 1, 2 or -1,
 * …}, as `RELEASE` does.
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
