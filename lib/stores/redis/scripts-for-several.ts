import { IS_OWN, refuseForeign, script, WAKE, type Script } from './scripts.js';

/*
 * The scripts for several keys, each atomic. On a cluster all keys must be in one slot. KEYS has two names for each key:
 * first the lease, then what the script says.
 */

/**
 * Second: the bucket's highest token. ARGV: owner, milliseconds, '' or what stands before an info and the info, and for
 * each key a token in microseconds that the new one must exceed, or '0'. Answers {1, token, …}, or, if another owner has
 * one of the keys, {0, its place from 0, milliseconds until its lease ends}; then nothing was changed. Whatever can fail
 * comes before the first lease is written. A token is made as by `ACQUIRE`.
 */
export const ACQUIRE_ALL = script(`${IS_OWN}
local call = redis.call
local count = #KEYS / 2
local marks = {}
for i = 1, count do
  local lease = KEYS[2 * i - 1]
  local held = call('GET', lease)
  if held then${refuseForeign('lease')}
    marks[i] = string.sub(held, 20, 20)
    if marks[i] == '~' or not isOwn(held, ARGV[1]) then return {0, i - 1, call('PTTL', lease)} end
  end
end
local time = call('TIME')
local clock = tonumber(time[1] .. string.sub('00000' .. time[2], -6))
local tokens = {1}
for i = 1, count do
  local bucket = KEYS[2 * i]
  local highest = call('GET', bucket) or '0'
  local last = tonumber(highest)
  local next = last and math.max(last + 1, tonumber(ARGV[3 + i]) + 1, clock)
  if not next or not (next <= 9007199254740991) then
    return redis.error_reply('WRONGTYPE the value at ' .. bucket .. ' is no token')
  end
  local token = string.format('%016.0f', next)
  call('SET', bucket, token)
  tokens[i + 1] = token .. '000'
end
for i = 1, count do
  local mark = marks[i] == ';' and ';' or ':'
  call('PSETEX', KEYS[2 * i - 1], ARGV[2], tokens[i + 1] .. mark .. ARGV[1] .. ARGV[3])
end
return tokens`);

/** `body`: what to do with each `lease` that the owner has, whose value is `held`. It sets `results[i]`, which is 0 else. */
const eachOwn = (before: string, body: string): Script =>
  script(`${IS_OWN}${before}
local call = redis.call
local results = {}
for i = 1, #KEYS / 2 do
  local lease = KEYS[2 * i - 1]
  local held = call('GET', lease)
  results[i] = 0
  if held and isOwn(held, ARGV[1]) then
    ${body}
  end
end
return results`);

/** Second: anything. ARGV: owner, milliseconds, and, if the info changes, what stands before it and the info. Answers {1 or 0, …}. */
export const RENEW_ALL = eachOwn(
  '',
  `if ARGV[3] then
      call('PSETEX', lease, ARGV[2], string.sub(held, 1, 20) .. ARGV[1] .. ARGV[3])
      results[i] = 1
    else
      results[i] = call('PEXPIRE', lease, ARGV[2])
    end`,
);

/** Second: the lease's waiters. ARGV: owner. Answers {0, 1 or 2, …}, as `RELEASE` does. */
export const RELEASE_ALL = eachOwn(
  WAKE,
  `call('DEL', lease)
    results[i] = string.sub(held, 20, 20) == ';' and wake(lease, KEYS[2 * i]) and 2 or 1`,
);
