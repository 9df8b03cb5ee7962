// Locks a byte of a file and unlocks it: the two system calls that a lock between processes consists of.

#define _GNU_SOURCE
#include <fcntl.h>
#include <node_api.h>
#include <string.h>

static int set(int file, short type) {
  struct flock lock;
  memset(&lock, 0, sizeof lock);
  lock.l_type = type;
  lock.l_whence = SEEK_SET;
  lock.l_start = 12345;
  lock.l_len = 1;
#ifdef F_OFD_SETLK
  return fcntl(file, F_OFD_SETLK, &lock);
#else
  return fcntl(file, F_SETLK, &lock);
#endif
}

// (file): whether both calls succeeded.
static napi_value pair(napi_env env, napi_callback_info info) {
  napi_value argument, result;
  size_t count = 1;
  int file = -1;
  napi_get_cb_info(env, info, &count, &argument, NULL, NULL);
  napi_get_value_int32(env, argument, &file);
  napi_get_boolean(env, set(file, F_WRLCK) == 0 && set(file, F_UNLCK) == 0, &result);
  return result;
}

NAPI_MODULE_INIT() {
  napi_value function;
  napi_create_function(env, "pair", NAPI_AUTO_LENGTH, pair, NULL, &function);
  napi_set_named_property(env, exports, "pair", function);
  return exports;
}
