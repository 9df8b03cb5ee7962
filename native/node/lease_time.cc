#include "node/lease_time.h"

#include "core/platform.h"
#include "node/lease_call.h"

namespace stripelock {

namespace {

// leaseNow(): the steady clock, in milliseconds
napi_value leaseNow(napi_env env, napi_callback_info info) {
  return Call(env, info, 0).number(toMilliseconds(now()));
}

// leaseElapsed(): the clock that also counts while the machine is suspended, in milliseconds
napi_value leaseElapsed(napi_env env, napi_callback_info info) {
  return Call(env, info, 0).number(toMilliseconds(elapsed()));
}

// leaseKeep(key, owner, table, at, ttl, most): whether the owner holds the lease, which from now on is kept while this
// thread lives. ttl 0: it is not kept any more
napi_value leaseKeep(napi_env env, napi_callback_info info) {
  const LeaseCall call(env, info, 6);
  LeaseTable* const table = call.toLeaseTable(2);
  Text key;
  Text owner;
  double time = 0;
  double ttl = 0;
  double most = 0;
  Nanoseconds at = 0;
  const bool valid = table && call.toKey(0, key) && call.toKey(1, owner) && call.toDouble(3, time) &&
                     toTime(time, at) && call.toDouble(4, ttl) && call.toDouble(5, most) && ttl >= 0 &&
                     ttl <= most && most <= kMaxTime;
  if (!valid) return call.refuse("expected a key, an owner, an open table and three times");
  const LeaseTable::Claim claim{.key = KeyView(key.view()), .owner = owner.view(), .at = at};
  if (ttl == 0) return call.boolean(table->letGo(claim));
  return call.boolean(table->keep(claim, toNanoseconds(ttl), toNanoseconds(most), call.leases().keeper));
}

}  // namespace

void addLeaseTime(Napi::Env env, Napi::Object exports) {
  addFunction(env, exports, "leaseNow", leaseNow);
  addFunction(env, exports, "leaseElapsed", leaseElapsed);
  addFunction(env, exports, "leaseKeep", leaseKeep);
}

}  // namespace stripelock
