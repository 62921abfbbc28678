/* CPU time of a thread for the price of the wall clock.
 *
 * The kernel shows a page of a task-clock event, whose `time_enabled` changes whenever the thread gets a core again. As
 * long as it stays, elapsed ticks are CPU time, and a hook has to look at one number more. Once it has changed, the hook
 * asks the kernel for the thread's CPU time, which takes half a microsecond, and books what really passed since the last
 * such moment, the base: `switched_ns` instead of `switched_ticks`. Both are kept apart, as the rate of the ticks is
 * known at the end only.
 */
#define _GNU_SOURCE
#include "cpu_clock.h"

#include <errno.h>
#include <linux/perf_event.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "clock.h"

#define PAGE 4096u

static const volatile uint64_t never;
static int is_off;
static char missing[160];
static int is_missing;

const char *buran_cpu_clock_choose(const char *wanted) {
    if (wanted && *wanted && strcmp(wanted, "none"))
        return "must be `none`, or not be set";
    is_off = buran_the_clock.kind == BURAN_CLOCK_NONE;
    if (wanted && *wanted) {
        is_off = is_missing = 1;
        snprintf(missing, sizeof missing, "BURAN_CPU_CLOCK is none");
    }
    return NULL;
}

/* The first reason stays. */
static void refuse(const char *doing, int error) {
    if (!__atomic_exchange_n(&is_missing, 1, __ATOMIC_ACQ_REL))
        snprintf(missing, sizeof missing, "%s: %s", doing, strerror(error));
}

static void *page_of_events(void) {
    struct perf_event_attr wanted = {
        .size = sizeof wanted,
        .type = PERF_TYPE_SOFTWARE,
        .config = PERF_COUNT_SW_TASK_CLOCK,
        .exclude_kernel = 1, /* everybody may ask for that where perf_event_paranoid is 2 */
        .exclude_hv = 1,
    };
    int file = (int)syscall(SYS_perf_event_open, &wanted, 0, -1, -1, PERF_FLAG_FD_CLOEXEC);
    if (file < 0) {
        refuse("the kernel refuses perf_event_open", errno);
        return NULL;
    }
    void *page = mmap(NULL, PAGE, PROT_READ, MAP_SHARED, file, 0);
    if (page == MAP_FAILED)
        refuse("the kernel refuses the page of a perf event", errno);
    close(file); /* the page keeps the event alive */
    return page == MAP_FAILED ? NULL : page;
}

static long switches_of_this_thread(void) {
    struct rusage usage;
    return getrusage(RUSAGE_THREAD, &usage) ? 0 : usage.ru_nvcsw + usage.ru_nivcsw;
}

static uint64_t cpu_ns(clockid_t clock) {
    struct timespec t;
    return clock_gettime(clock, &t) ? 0 : (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

void buran_cpu_clock_start(buran_cpu_clock *clock) {
    int error = errno;
    buran_cpu_clock_forget(clock);
    clock->thread_id = (int)syscall(SYS_gettid);
    clock->page = is_off ? NULL : page_of_events();
    if (clock->page) {
        clock->switches_before = switches_of_this_thread();
        clock->switches = &((struct perf_event_mmap_page *)clock->page)->time_enabled;
        buran_cpu_clock_rebase(clock);
        clock->first_seen = clock->seen;
    }
    errno = error;
}

void buran_cpu_clock_forget(buran_cpu_clock *clock) {
    clock->switches = &never;
    clock->seen = never;
    clock->page = NULL;
}

void buran_cpu_clock_stop(buran_cpu_clock *clock) {
    void *page = clock->page;
    buran_cpu_clock_forget(clock);
    if (page)
        munmap(page, PAGE);
}

/* The thread may lose its core between the two readings: then once more. */
uint64_t buran_cpu_clock_rebase(buran_cpu_clock *clock) {
    for (int tries = 0; tries < 8; tries++) {
        clock->seen = *clock->switches;
        clock->base_ns = cpu_ns(CLOCK_THREAD_CPUTIME_ID);
        clock->base_ticks = buran_ticks();
        if (clock->seen == *clock->switches)
            break;
    }
    return clock->base_ticks;
}

/* As pthread_getcpuclockid() makes it, of a thread that need not exist any more. */
uint64_t buran_cpu_time_of(const buran_cpu_clock *clock) {
    enum { SCHEDULER = 2, OF_A_THREAD = 4 };
    return clock->page ? cpu_ns((clockid_t)((~(unsigned)clock->thread_id << 3) | SCHEDULER | OF_A_THREAD)) : 0;
}

const char *buran_cpu_clock_missing(const buran_cpu_clock *clock) {
    if (!is_missing && clock && clock->page && clock->seen == clock->first_seen && !buran_was_switched(clock) &&
        switches_of_this_thread() > clock->switches_before) {
        is_missing = 1;
        snprintf(missing, sizeof missing, "the kernel does not show when a thread was switched out");
    }
    return missing;
}
