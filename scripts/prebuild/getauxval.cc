// What GCC's atomics for arm64 ask by glibc's name, and musl answers by the common one.
#include <sys/auxv.h>

extern "C" __attribute__((visibility("hidden"))) unsigned long __getauxval(unsigned long type) {
  return getauxval(type);
}
