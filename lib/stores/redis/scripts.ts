import { createHash } from 'node:crypto';
import { READERS } from '../../lease/contract/shared.js';

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

/** Milliseconds (one day) for which the mark of a lease is kept after the lease has expired. */
const MARK_STAYS = 86_400_000;

/**
 * Reads the value of a lease's key (KEYS[1]). The value consists of the token in 19 digits, a mark and the
 * owner. If the lease has an `info` text, {@link BEFORE_INFO} and this text follow. The mark is ';' if a
 * waiter is registered, else ':'.
 *
 * With the mark '~', the value is a reservation, not a lease. A reservation contains the name of the waiting
 * store's channel instead of an owner. In the place of the token, it has the time in microseconds until which
 * readers are refused, or zeros. If no store waits, the channel is empty: such a value only refuses readers, and
 * for any other owner the key is free.
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
 * The mark of a lease is a separate key that outlives the lease. The holder's release deletes the mark. So if
 * the mark exists without a lease, the last holder left the key without a release: the key is abandoned. The
 * mark's value is '1' if the current grant was of an abandoned key, else '0'.
 *
 * This function sets the mark for a grant. `isOwn`: whether the same owner already held the lease. Returns
 * the sign for the token: '-' if the key was abandoned, else ''.
 */
const SET_MARK = `
local function setMark(mark, isOwn, ttl)
  local stays = string.format('%.0f', ttl + ${MARK_STAYS})
  if redis.call('SET', mark, '0', 'NX', 'PX', stays) then return '' end
  local value = isOwn and redis.call('GET', mark) or '1'
  redis.call('SET', mark, value, 'PX', stays)
  return value == '1' and '-' or ''
end
`;

/**
 * Registers a channel as a waiter for a key that is leased to another owner or reserved for another channel.
 * Waiters are kept in order of arrival. Their list expires in `ends` milliseconds, together with the lease,
 * and the waiters then retry.
 *
 * A score is the time of arrival in microseconds. The score of a store that waits only for shared mode ends with
 * '.5', which is exact up to 2^52 microseconds, until the year 2112. If such a store also waits for exclusive mode, it
 * keeps its place, and the '.5' is removed.
 */
const REGISTER = `
local function register(lease, waiters, mark, score, channel, ends)
  if mark == ':' then redis.call('SETRANGE', lease, 19, ';') end
  if redis.call('ZADD', waiters, 'NX', score, channel) == 0 and score % 1 == 0 then
    local first = redis.call('ZSCORE', waiters, channel)
    if first % 1 > 0 then redis.call('ZADD', waiters, string.format('%.0f', math.floor(first)), channel) end
  end
  if mark ~= '~' or redis.call('PTTL', waiters) < ends then redis.call('PEXPIRE', waiters, ends) end
end
`;

/** The time to write for a lease: `ttl`, or the lease's remaining time if that is longer. */
const NOT_SHORTER = `
local function notShorter(lease, ttl)
  return string.format('%.0f', math.max(redis.call('PTTL', lease), tonumber(ttl)))
end
`;

/**
 * Sets `token` to a new token. KEYS[2]: the bucket's highest token in microseconds. ARGV[4]: optional lower
 * bound for the token in microseconds.
 *
 * A token counts nanoseconds but is computed in microseconds, because the server's TIME has microseconds, and
 * Lua's numbers are exact only up to 2^53. (2^53 microseconds after 1970 is in the year 2255.) Three zeros
 * are then appended. Usually the clock is ahead of all tokens, so comparing strings of 16 digits is enough. If
 * the clock was set back, the new token is the highest token plus one.
 */
const NEW_TOKEN = `local time = call('TIME')
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
`;

/**
 * KEYS: the lease; the bucket's highest token in microseconds; the lease's mark; and the lease's waiters,
 * only if the caller waits.
 *
 * ARGV: the owner; the TTL in milliseconds; the caller's channel or ''; a lower bound for the token in
 * microseconds; {@link BEFORE_INFO} followed by the `info` text. The last three arguments are optional.
 *
 * Replies with the token, or with {milliseconds until another owner's lease ends}. The token has a minus sign
 * if the key was abandoned. If the lease is refused and the caller waits, the caller's channel is registered
 * as a waiter, in order of arrival, until the other owner's lease ends.
 */
export const ACQUIRE = script(`${IS_OWN}${REGISTER}${SET_MARK}${NOT_SHORTER}
local call = redis.call
local owner = ARGV[1] .. (ARGV[5] or '')
${NEW_TOKEN}if not KEYS[4] and call('SET', KEYS[1], token .. ':' .. owner, 'NX', 'PX', ARGV[2]) then
  return setMark(KEYS[3], false, ARGV[2]) .. token
end
local held = call('GET', KEYS[1])
local mark = held and string.sub(held, 20, 20)
if held and string.sub(held, 20) ~= '~' and not isOwn(held, mark == '~' and ARGV[3] or ARGV[1]) then${REFUSE_FOREIGN}
  local ends = call('PTTL', KEYS[1])
  if KEYS[4] then register(KEYS[1], KEYS[4], mark, string.sub(token, 1, 16), ARGV[3], ends) end
  return {ends}
end
local isAgain = held and mark ~= '~'
local ttl = isAgain and notShorter(KEYS[1], ARGV[2]) or ARGV[2]
local sign = setMark(KEYS[3], isAgain, ttl)
-- Readers may be registered that were put off.
mark = (mark == ';' or mark == '~' and not KEYS[4]) and ';' or ':'
if KEYS[4] then
  call('ZREM', KEYS[4], ARGV[3])
  if call('PEXPIRE', KEYS[4], ttl) == 1 then mark = ';' end
end
call('PSETEX', KEYS[1], ttl, token .. mark .. owner)
return sign .. token`);

/**
 * KEYS: the lease, its mark. ARGV: the owner; the TTL in milliseconds; and, only if the `info` text changes,
 * {@link BEFORE_INFO} and the new text. Never shortens a lease. Replies 1 if the owner holds the lease, else
 * 0.
 */
export const RENEW = script(`${HELD}${IS_OWN}
if not held then return 0 end
if not isOwn(held, ARGV[1]) then${REFUSE_FOREIGN}
  return 0
end
local left = math.max(call('PTTL', KEYS[1]), tonumber(ARGV[2]))
call('PEXPIRE', KEYS[2], string.format('%.0f', left + ${MARK_STAYS}))
if ARGV[3] then
  call('PSETEX', KEYS[1], string.format('%.0f', left), string.sub(held, 1, 20) .. ARGV[1] .. ARGV[3])
  return 1
end
return call('PEXPIRE', KEYS[1], string.format('%.0f', left))`);

/**
 * KEYS: the lease, its mark. ARGV: the owner, the TTL in milliseconds, the token, the owner after that. This is
 * the only script that may shorten a lease. Replies like `RENEW`.
 */
export const KEEP = script(`${HELD}${IS_OWN}
if not held then return 0 end
local isKept = isOwn(held, ARGV[4])
if not isKept and not isOwn(held, ARGV[1]) then${REFUSE_FOREIGN}
  return 0
end
if string.sub(held, 1, 19) ~= ARGV[3] then return 0 end
if isKept then return 1 end
call('DEL', KEYS[2])
call('PSETEX', KEYS[1], ARGV[2], string.sub(held, 1, 20) .. ARGV[4] .. string.sub(held, 21 + #ARGV[1]))
return 1`);

/**
 * Notifies the first waiting store that is still connected, and reserves the key for that store. Without the
 * reservation, the store that released the key would usually win the key again. PUBLISH returns how many
 * clients received the message, so the loop can skip dead stores. `till`: the time in microseconds until which
 * readers are put off, or nil if they are not. If `till` is set, stores that wait only for shared mode are not
 * notified, because they would be refused.
 *
 * `popFirst` removes the first store to notify. If readers are put off, it leaves the stores before index `from`
 * in the list, and reads the others in parts, because thousands of readers may wait. It also returns the index at
 * which the next search continues.
 *
 * In a cluster, a node does not know the number of recipients. So the key is reserved for the first waiting
 * store there, even if that store is dead. The other stores are notified, too, so that they retry after the
 * reservation. If an ACL forbids PUBLISH, the script does not fail: the key is already free, and waiters find
 * it by polling.
 */
const WAKE = `
local function reserve(lease, channel, till)
  redis.call('PSETEX', lease, ${RESERVED_FOR}, string.format('%016.0f', till or 0) .. '000~' .. channel)
end
local function popFirst(waiters, till, from)
  if not till then return redis.pcall('ZPOPMIN', waiters)[1] end
  repeat
    local some = redis.pcall('ZRANGE', waiters, from, from + 99, 'WITHSCORES')
    for i = 2, #some, 2 do
      if some[i] % 1 == 0 then
        redis.pcall('ZREM', waiters, some[i - 1])
        return some[i - 1], from
      end
      from = from + 1
    end
  until #some == 0
end
local function wake(lease, waiters, till)
  local kept, first, from = false, nil, 0
  for _ = 1, 32 do
    first, from = popFirst(waiters, till, from)
    if not first then break end
    local heard = redis.pcall('PUBLISH', first, lease)
    local known = string.sub(first, -1) ~= '${OF_CLUSTER}'
    if not kept and (not known or (type(heard) == 'number' and heard > 0)) then
      reserve(lease, first, till)
      kept = true
    end
    if kept and known then break end
  end
  return kept
end
`;

/**
 * KEYS: the lease, its waiters, its mark. ARGV: the owner; the token, or '' for any token of the owner; and
 * two optional arguments. The third is '1' or '0' if the holder did not release the grant: '1' if the grant
 * was used. The mark then stays if the grant was used, or if the key was abandoned before the grant. The
 * fourth is the caller's channel if the caller is in its turn; the third is then ''. If a waiter is
 * registered, the script then reserves the key for the caller instead of notifying the waiter.
 *
 * Replies 0 if the owner did not hold the lease, 2 if a waiter was notified, 4 if the key was reserved for
 * the caller, else 1.
 */
export const RELEASE = script(`${HELD}${IS_OWN}${WAKE}
if not held then return 0 end
if not isOwn(held, ARGV[1]) then${REFUSE_FOREIGN}
  return 0
end
if ARGV[2] and ARGV[2] ~= '' and string.sub(held, 1, 19) ~= ARGV[2] then return 0 end
if ARGV[3] == '1' or (ARGV[3] == '0' and call('GET', KEYS[3]) == '1') then
  call('DEL', KEYS[1])
else
  call('DEL', KEYS[1], KEYS[3])
end
if string.sub(held, 20, 20) ~= ';' then return 1 end
if ARGV[4] then
  reserve(KEYS[1], ARGV[4])
  return 4
end
return wake(KEYS[1], KEYS[2]) and 2 or 1`);

/**
 * A group of readers is a lease whose owner starts with {@link READERS} and ends with ':' and the token. In the
 * place of the `info` text, it has 16 digits: the time in microseconds until which new readers are put off. After
 * that follow '-' if the key was abandoned when the group was formed, else '+'; and the ids of the readers: ',' and
 * for each reader its id and ','. A group has a mark only if the key was abandoned when the group was formed, so its
 * end does not change whether the key is abandoned.
 *
 * `groupIn` parses the value of a lease. Returns nil if the value is not a group. The pattern has %c for
 * {@link BEFORE_INFO}, because a pattern must not contain this character in Lua 5.1.
 *
 * `putOff` refuses a free key to readers until `till`. Returns `till`, or nil if that time has passed or is 0.
 */
const GROUP = `
local function groupIn(held)
  local token, owner, till, sign, ids =
    string.match(held or '', '^(%d+)[:;](${READERS}[%w_:%-]+)%c(%d+)([+-])(,[%w_:,%-]*)$')
  if token and #token == 19 and #till == 16 and string.sub(owner, -20) == ':' .. token then
    return owner, till, sign, ids
  end
end
local function clock()
  local time = redis.call('TIME')
  return time[1] .. string.sub('00000' .. time[2], -6)
end
local function putOff(lease, till)
  if tonumber(till) == 0 then return end
  local left = math.ceil((till - clock()) / 1000)
  if left > 0 then
    redis.call('PSETEX', lease, string.format('%.0f', left), string.format('%016.0f', till) .. '000~')
    return till
  end
end
local function textOf(owner, till, sign, ids)
  return owner .. '\\0' .. string.format('%016.0f', till) .. sign .. ids
end
`;

/**
 * Notifies the store that has waited longest, but does not reserve the key for it. If that store waits for
 * shared mode, it joins the group, leaves the list of waiters, and notifies the next store. Otherwise the
 * store is refused and keeps its place in the list.
 */
const NOTIFY_NEXT = `
local function notifyNext(lease, waiters)
  for _ = 1, 32 do
    local first = redis.pcall('ZRANGE', waiters, 0, 0)[1]
    if not first or redis.pcall('PUBLISH', first, lease) ~= 0 or string.sub(first, -1) == '${OF_CLUSTER}' then
      return
    end
    redis.call('ZREM', waiters, first)
  end
end
`;

/**
 * KEYS: as for `ACQUIRE`. ARGV: the reader's id; the TTL in milliseconds; the caller's channel or ''; a lower
 * bound for the token in microseconds.
 *
 * Replies with {signed token, owner of the group}, where the sign is '-' if the key was abandoned when the
 * group was formed, else '+'. If the key is refused, replies with {milliseconds after which a retry may
 * succeed}, and registers the caller as `ACQUIRE` does. If the key is reserved for the caller, but readers are put
 * off, the script passes the reservation on.
 */
export const ACQUIRE_SHARED = script(`${HELD}${GROUP}${REGISTER}${WAKE}${NOTIFY_NEXT}
local channel = ARGV[3]
local owner, till, sign, ids = groupIn(held)
local isOurs = held and channel ~= '' and string.sub(held, 20) == '~' .. channel
if held and string.sub(held, 20, 20) == '~' then till = string.sub(held, 1, 16) end
local isIn = owner and string.find(ids, ',' .. ARGV[1] .. ',', 1, true)
local left = held and call('PTTL', KEYS[1]) or 0
local mark = held and string.sub(held, 20, 20) or ':'
if held and not isIn then${REFUSE_FOREIGN}
  local now = clock()
  local putOffFor = till and math.ceil((till - now) / 1000) or 0
  local wait = left
  if owner then wait = math.min(left, putOffFor) end
  if isOurs then
    wait = putOffFor
    if wait > 0 then wake(KEYS[1], KEYS[4], putOff(KEYS[1], till)) end
  end
  if wait > 0 or not (owner or isOurs) then
    if KEYS[4] then register(KEYS[1], KEYS[4], mark, now .. '.5', channel, math.max(left, wait)) end
    return {wait}
  end
end
local isFree = not owner
if isFree then
  left, mark = 0, ':'
${NEW_TOKEN}  held, owner, till, ids = token, '${READERS}' .. ARGV[1] .. ':' .. token, 0, ','
  sign = call('EXISTS', KEYS[3]) == 1 and '-' or '+'
end
if not isIn then ids = ids .. ARGV[1] .. ',' end
left = math.max(left, tonumber(ARGV[2]))
if sign == '-' then call('SET', KEYS[3], '1', 'PX', string.format('%.0f', left + ${MARK_STAYS})) end
left = string.format('%.0f', left)
if KEYS[4] then
  local score = call('ZSCORE', KEYS[4], channel)
  local waited = score and score % 1 > 0
  if waited then call('ZREM', KEYS[4], channel) end
  if call('PEXPIRE', KEYS[4], left) == 1 then
    mark = ';'
    if isFree or waited then notifyNext(KEYS[1], KEYS[4]) end
  end
end
local token = string.sub(held, 1, 19)
call('PSETEX', KEYS[1], left, token .. mark .. textOf(owner, till, sign, ids))
return {sign .. token, owner}`);

/**
 * KEYS: the lease, its waiters. ARGV: the reader's id. Replies 0 if the reader was not in the group that
 * holds the key, 3 if other readers still hold the key, 2 if it was the last one and a waiter was notified, else
 * 1.
 */
export const RELEASE_SHARED = script(`${HELD}${GROUP}${WAKE}
if not held then return 0 end
local owner, till, sign, ids = groupIn(held)
if not owner then${REFUSE_FOREIGN}
  return 0
end
local first, last = string.find(ids, ',' .. ARGV[1] .. ',', 1, true)
if not first then return 0 end
ids = string.sub(ids, 1, first) .. string.sub(ids, last + 1)
if ids ~= ',' then
  local left = string.format('%.0f', math.max(call('PTTL', KEYS[1]), 1))
  call('PSETEX', KEYS[1], left, string.sub(held, 1, 20) .. textOf(owner, till, sign, ids))
  return 3
end
call('DEL', KEYS[1])
till = putOff(KEYS[1], till)
if string.sub(held, 20, 20) == ';' and wake(KEYS[1], KEYS[2], till) then return 2 end
return 1`);

/**
 * KEYS: the lease. ARGV: milliseconds for which new readers are put off. Replies 1 if a group holds the key,
 * else 0.
 */
export const PUT_OFF_READERS = script(`${HELD}${GROUP}
if not held then return 0 end
local owner, till = groupIn(held)
if not owner then${REFUSE_FOREIGN}
  return 0
end
till = math.max(tonumber(till), clock() + 1000 * ARGV[1])
call('SETRANGE', KEYS[1], 21 + #owner, string.format('%016.0f', till))
return 1`);

/**
 * KEYS: the lease, its waiters. ARGV: the channel of a store that no longer waits. That store was notified of
 * a release, or has a reservation. The script notifies the next waiting store instead. If readers hold the key, that store
 * may be able to join them.
 */
export const PASS_ON = script(`${HELD}${GROUP}${WAKE}${NOTIFY_NEXT}
call('ZREM', KEYS[2], ARGV[1])
local till
if held and (string.sub(held, 20) == '~' or string.sub(held, 20) == '~' .. ARGV[1]) then
  call('DEL', KEYS[1])
  till = putOff(KEYS[1], string.sub(held, 1, 16))
  held = false
end
if not held and wake(KEYS[1], KEYS[2], till) then return 2 end
if groupIn(held) then notifyNext(KEYS[1], KEYS[2]) end
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
 * one to four names for each key: first the lease, then the names that the script's comment lists.
 */

/**
 * The second name of each key is the bucket's highest token, and the third name is the lease's mark. If the
 * caller waits, the fourth name is the lease's waiters.
 *
 * ARGV: the owner; the TTL in milliseconds; '' or {@link BEFORE_INFO} and the `info` text; the caller's
 * channel or ''; and for each key a lower bound for the token in microseconds, or '0'.
 *
 * Replies {1, token, …} with tokens made as in `ACQUIRE`. If another owner holds a key, the script replies
 * {0, zero-based index of that key, milliseconds until its lease ends} and changes no lease. In this case, if
 * the caller waits, the caller's channel is registered as a waiter of that key. Each other key that is
 * reserved for the caller's channel is passed on to the next waiter for that key. All steps that can fail are
 * done before the first write of a lease.
 */
export const ACQUIRE_ALL = script(`${IS_OWN}${GROUP}${REGISTER}${WAKE}${SET_MARK}${NOT_SHORTER}
local call = redis.call
local channel = ARGV[4]
local names = channel == '' and 3 or 4
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
    if string.sub(held, 20) ~= '~' and not isOwn(held, marks[i] == '~' and channel or ARGV[1]) then
      local ends = call('PTTL', lease)
      if channel ~= '' then register(lease, nameOf(i, 4), marks[i], time, channel, ends) end
      for j = 1, channel == '' and 0 or count do
        local reserved = redis.pcall('GET', nameOf(j, 1))
        if type(reserved) == 'string' and string.sub(reserved, 20) == '~' .. channel then
          call('DEL', nameOf(j, 1))
          wake(nameOf(j, 1), nameOf(j, 4), putOff(nameOf(j, 1), string.sub(reserved, 1, 16)))
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
  local mark = (marks[i] == ';' or marks[i] == '~' and channel == '') and ';' or ':'
  local isAgain = marks[i] and marks[i] ~= '~'
  local ttl = isAgain and notShorter(nameOf(i, 1), ARGV[2]) or ARGV[2]
  if channel ~= '' then
    call('ZREM', nameOf(i, 4), channel)
    if call('PEXPIRE', nameOf(i, 4), ttl) == 1 then mark = ';' end
  end
  call('PSETEX', nameOf(i, 1), ttl, tokens[i + 1] .. mark .. ARGV[1] .. ARGV[3])
  tokens[i + 1] = setMark(nameOf(i, 3), isAgain, ttl) .. tokens[i + 1]
end
return tokens`);

/**
 * The reply for a key whose value is not a lease. The store then runs the script for a single key, which
 * replies with an error.
 */
export const UNDECIDED = -1;

/**
 * Builds a script that handles each key separately. The keys may have different owners. `names` and `args`
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
 * The second name of each key is the lease's mark. ARGV per lease: the owner; the TTL in milliseconds; and
 * either '' to leave the `info` text unchanged, or '=' and the new text. {@link BEFORE_INFO} precedes a text
 * that is not empty. For each lease, the reply is 1, 0 or {@link UNDECIDED}.
 */
export const RENEW_ALL = eachOwn(
  2,
  '',
  3,
  `local left = math.max(call('PTTL', lease), tonumber(ARGV[at + 2]))
    call('PEXPIRE', KEYS[2 * i], string.format('%.0f', left + ${MARK_STAYS}))
    left = string.format('%.0f', left)
    local info = ARGV[at + 3]
    if info ~= '' then
      call('PSETEX', lease, left, string.sub(held, 1, 20) .. ARGV[at + 1] .. string.sub(info, 2))
      result = 1
    else
      result = call('PEXPIRE', lease, left)
    end`,
);

/**
 * The second name of each key is the lease's waiters, and the third name is its mark. ARGV per lease: the
 * owner, and the required token or ''. Replies for each lease like `RELEASE`, or {@link UNDECIDED}.
 */
export const RELEASE_ALL = eachOwn(
  3,
  WAKE,
  2,
  `local token = ARGV[at + 2]
    if token == '' or string.sub(held, 1, 19) == token then
      call('DEL', lease, KEYS[3 * i])
      result = string.sub(held, 20, 20) == ';' and wake(lease, KEYS[3 * i - 1]) and 2 or 1
    end`,
);

function script(source: string): Script {
  return { source, sha: createHash('sha1').update(source).digest('hex') };
}
