/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * A wall clock that a test sets, for one process: put before libc (LD_PRELOAD), it adds to
 * CLOCK_REALTIME as many nanoseconds as the file says that WALL_CLOCK names. The machine's own
 * clock is shared with all programs.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define SECOND 1000000000LL

static const volatile int64_t *ahead;

__attribute__((constructor)) static void begin(void)
{
	const char *path = getenv("WALL_CLOCK");
	int file = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
	void *map = mmap(NULL, sizeof(*ahead), PROT_READ, MAP_SHARED, file, 0);

	if (map == MAP_FAILED)
		abort();
	close(file);
	ahead = map;
}

int clock_gettime(clockid_t clock, struct timespec *time)
{
	int64_t nanos;

	if (syscall(SYS_clock_gettime, clock, time))
		return -1;
	if (clock != CLOCK_REALTIME || !ahead)
		return 0;
	nanos = time->tv_nsec + *ahead % SECOND;
	time->tv_sec += *ahead / SECOND + (nanos >= SECOND) - (nanos < 0);
	time->tv_nsec = nanos + (nanos < 0) * SECOND - (nanos >= SECOND) * SECOND;
	return 0;
}
