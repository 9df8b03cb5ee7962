// GCC's atomics for arm64 call this function by glibc's name. musl provides it under the common name.
#include <sys/auxv.h>

extern "C" __attribute__((visibility("hidden"))) unsigned long __getauxval(unsigned long type) {
  return getauxval(type);
}
