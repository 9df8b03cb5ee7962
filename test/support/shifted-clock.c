// Preloaded into a process on Linux, it makes CLOCK_BOOTTIME and the wall clock run ahead by the milliseconds in the file
// that SHIFTED_CLOCK names, as if the machine had been suspended for that long. CLOCK_MONOTONIC stays as it is.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static const volatile int64_t *shift;

__attribute__((constructor)) static void open_shift(void) {
  const char *name = getenv("SHIFTED_CLOCK");
  const int file = name ? open(name, O_RDONLY) : -1;
  if (file < 0) return;
  void *memory = mmap(NULL, sizeof(int64_t), PROT_READ, MAP_SHARED, file, 0);
  close(file);
  if (memory != MAP_FAILED) shift = memory;
}

int clock_gettime(clockid_t clock, struct timespec *time) {
  static int (*real)(clockid_t, struct timespec *);
  if (!real) real = (int (*)(clockid_t, struct timespec *))dlsym(RTLD_NEXT, "clock_gettime");
  const int result = real(clock, time);
  if (result == 0 && shift && (clock == CLOCK_BOOTTIME || clock == CLOCK_REALTIME)) {
    time->tv_sec += *shift / 1000;
    time->tv_nsec += *shift % 1000 * 1000000;
    if (time->tv_nsec >= 1000000000) {
      time->tv_nsec -= 1000000000;
      time->tv_sec += 1;
    }
  }
  return result;
}

int gettimeofday(struct timeval *time, void *zone) {
  (void)zone;
  struct timespec now;
  if (clock_gettime(CLOCK_REALTIME, &now) != 0) return -1;
  time->tv_sec = now.tv_sec;
  time->tv_usec = now.tv_nsec / 1000;
  return 0;
}
