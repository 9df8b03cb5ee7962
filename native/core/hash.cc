#include "core/hash.h"

#define XXH_INLINE_ALL
#include "xxhash.h"

namespace stripelock {

std::uint64_t hashBytes(const void* data, std::size_t length) { return XXH3_64bits(data, length); }

}  // namespace stripelock
