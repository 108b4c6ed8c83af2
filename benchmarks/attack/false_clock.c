/* The time of day of a program, moved by the number of seconds in a file, which may change at any moment:
 *
 *   cc -shared -fPIC -O2 -o false_clock.so false_clock.c
 *   FALSE_CLOCK=FILE LD_PRELOAD=./false_clock.so program
 *
 * FILE holds a 64-bit integer. Only what tells the time of day is replaced: monotonic clocks, and what waits for them,
 * stay right, as they do when the clock of a machine is set. (libfaketime 0.9.10 makes sleeps fail then.) */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static const volatile int64_t *moved;

__attribute__((constructor)) static void begin(void) {
  const char *path = getenv("FALSE_CLOCK");
  int file = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
  if (file < 0) return;
  void *memory = mmap(NULL, sizeof(int64_t), PROT_READ, MAP_SHARED, file, 0);
  if (memory != MAP_FAILED) moved = memory;
  close(file);
}

int clock_gettime(clockid_t clock, struct timespec *now) {
  int code = (int)syscall(SYS_clock_gettime, clock, now);
  if (code == 0 && moved && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE)) now->tv_sec += *moved;
  return code;
}

int gettimeofday(struct timeval *restrict now, void *restrict zone) {
  struct timespec exact;
  (void)zone;
  if (clock_gettime(CLOCK_REALTIME, &exact)) return -1;
  now->tv_sec = exact.tv_sec;
  now->tv_usec = exact.tv_nsec / 1000;
  return 0;
}

time_t time(time_t *now) {
  struct timespec exact;
  clock_gettime(CLOCK_REALTIME, &exact);
  if (now) *now = exact.tv_sec;
  return exact.tv_sec;
}
