/*
 * Moves the wall clock of one process by an offset that can change at any time. It is loaded with
 * LD_PRELOAD. The file that TIDEGATE_CLOCK_FILE names holds the offset as milliseconds in eight
 * bytes of the machine's order; it is mapped, so a write to the file is seen at once. Clocks that
 * count from the start of the machine stay as they are.
 */

#define _GNU_SOURCE
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static const volatile int64_t *offset_ms;

__attribute__((constructor)) static void map_offset(void) {
  const char *path = getenv("TIDEGATE_CLOCK_FILE");
  int file = path == NULL ? -1 : open(path, O_RDONLY | O_CLOEXEC);
  if (file < 0) return;
  void *mapped = mmap(NULL, sizeof *offset_ms, PROT_READ, MAP_SHARED, file, 0);
  close(file);
  if (mapped != MAP_FAILED) offset_ms = mapped;
}

/* By system call, as the function of this name in the C library is the one replaced here. */
int clock_gettime(clockid_t clock, struct timespec *now) {
  if (syscall(SYS_clock_gettime, clock, now) != 0) return -1;
  int is_wall_clock = clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE;
  if (!is_wall_clock || offset_ms == NULL) return 0;
  int64_t ms = *offset_ms;
  now->tv_sec += ms / 1000;
  now->tv_nsec += ms % 1000 * 1000000;
  if (now->tv_nsec < 0) now->tv_sec -= 1, now->tv_nsec += 1000000000;
  if (now->tv_nsec >= 1000000000) now->tv_sec += 1, now->tv_nsec -= 1000000000;
  return 0;
}

int gettimeofday(struct timeval *restrict now, void *restrict zone) {
  struct timespec precise;
  (void)zone;
  if (clock_gettime(CLOCK_REALTIME, &precise) != 0) return -1;
  now->tv_sec = precise.tv_sec;
  now->tv_usec = precise.tv_nsec / 1000;
  return 0;
}

time_t time(time_t *seconds) {
  struct timespec precise;
  if (clock_gettime(CLOCK_REALTIME, &precise) != 0) return (time_t)-1;
  if (seconds != NULL) *seconds = precise.tv_sec;
  return precise.tv_sec;
}
