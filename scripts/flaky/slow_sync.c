// A library for LD_PRELOAD: every fsync and fdatasync takes MUSTER_FLAKY_SYNC_MS (15) more, one in twenty ten times that, as on
// a busy disk. `make flaky` builds it.
#define _GNU_SOURCE
#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static void wait_for_disk(void) {
  static atomic_uint calls;
  const char* given = getenv("MUSTER_FLAKY_SYNC_MS");
  long ms = given != NULL ? atol(given) : 15;
  if (atomic_fetch_add(&calls, 1) % 20 == 19) ms *= 10;
  struct timespec left = {ms / 1000, ms % 1000 * 1000000};
  while (nanosleep(&left, &left) != 0 && errno == EINTR) {
  }
}

int fsync(int fd) {
  wait_for_disk();
  return (int)syscall(SYS_fsync, fd);
}

int fdatasync(int fd) {
  wait_for_disk();
  return (int)syscall(SYS_fdatasync, fd);
}
