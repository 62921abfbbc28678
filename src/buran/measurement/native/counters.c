/* Counters of the processor and the kernel, where BURAN_COUNTERS asks for them.
 *
 * Each thread has one group of events of perf_event_open, read by one system call whenever its call path changes. What the
 * machine does not have, does not allow, or counted only for a part of the time is no metric of the profile: the reason is
 * kept instead.
 *
 * Minor page faults are read apart, from getrusage, which everybody may ask: not where the call path was left sooner than a
 * fault takes, so that none is missed and none is booked elsewhere.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/perf_event.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "internal.h"

/* Context switches happen in the kernel: counting the program's own code alone would always give 0. */
static const struct {
    const char *name;
    uint32_t type;
    uint64_t config;
    int counts_kernel;
} events[] = {
    {"instructions", PERF_TYPE_HARDWARE, PERF_COUNT_HW_INSTRUCTIONS, 0},
    {"cycles", PERF_TYPE_HARDWARE, PERF_COUNT_HW_CPU_CYCLES, 0},
    {"cache_misses", PERF_TYPE_HARDWARE, PERF_COUNT_HW_CACHE_MISSES, 0},
    {"branch_misses", PERF_TYPE_HARDWARE, PERF_COUNT_HW_BRANCH_MISSES, 0},
    {"page_faults", PERF_TYPE_SOFTWARE, PERF_COUNT_SW_PAGE_FAULTS, 0},
    {"task_clock", PERF_TYPE_SOFTWARE, PERF_COUNT_SW_TASK_CLOCK, 0},
    {"context_switches", PERF_TYPE_SOFTWARE, PERF_COUNT_SW_CONTEXT_SWITCHES, 1},
    {"minor_faults", PERF_TYPE_MAX, 0, 1}, /* no event of perf: see above */
};

#define EVENTS (sizeof events / sizeof *events)
_Static_assert(EVENTS == BURAN_EVENTS, "internal.h knows their number");
#define FAULTS (EVENTS - 1)

/* Of the time-stamp counter: no processor that has one handles a fault in less, which is 2000 where it was measured. */
#define LEAST_TICKS_OF_FAULT 500u

/* Counts by the nodes' index: block b holds FIRST_BLOCK << b nodes. They never move, as nodes do not. */
#define FIRST_BLOCK 64u
#define BLOCKS 26

struct buran_counts {
    uint32_t used;                /* events of the open group */
    int files[EVENTS];            /* in the group's order; the first is its leader */
    uint32_t event_of[EVENTS];    /* in the group's order */
    uint64_t last[EVENTS];        /* by event, as all that follows: until here, everything is booked */
    uint64_t unbooked[EVENTS];    /* since the last hook; only used by the dump */
    uint64_t (*blocks[BLOCKS])[EVENTS];
};

static int is_wanted[EVENTS];
static char *reasons[EVENTS]; /* why an event is no metric; the first reason stays */
static int any_is_wanted;
static int is_in_dump[EVENTS];

/* ---- what is asked for, and what cannot be had */

const char *buran_counters_start(const char *names) {
    for (const char *at = names; at && *at;) {
        size_t length = strcspn(at, ","), event = 0;
        while (event < EVENTS && (strlen(events[event].name) != length || strncmp(events[event].name, at, length)))
            event++;
        if (event == EVENTS)
            return "must be names separated by commas, out of instructions, cycles, cache_misses, branch_misses, "
                   "page_faults, task_clock, context_switches, minor_faults";
        is_wanted[event] = any_is_wanted = 1;
        at += length;
        if (*at == ',' && *++at == '\0')
            return "ends with a comma";
    }
    return NULL;
}

/* Of this thread, those of the kernel on its behalf, too. */
static uint64_t faults(void) {
    struct rusage usage;
    return getrusage(RUSAGE_THREAD, &usage) ? 0 : (uint64_t)usage.ru_minflt;
}

static uint64_t least_ticks_of_fault(void) {
#if defined(__x86_64__)
    if (buran_the_clock.kind == BURAN_CLOCK_COUNTER)
        return LEAST_TICKS_OF_FAULT;
#endif
    return 0;
}

static int is_available(size_t event) { return !__atomic_load_n(&reasons[event], __ATOMIC_ACQUIRE); }

static void refuse(size_t event, const char *reason) {
    static char texts[EVENTS][160];
    static int is_taken[EVENTS];
    if (!is_available(event) || __atomic_exchange_n(&is_taken[event], 1, __ATOMIC_ACQ_REL))
        return;
    snprintf(texts[event], sizeof texts[event], "%s", reason);
    __atomic_store_n(&reasons[event], texts[event], __ATOMIC_RELEASE);
}

static void refuse_all(const buran_counts *counts, const char *reason) {
    for (uint32_t i = 0; i < counts->used; i++)
        refuse(counts->event_of[i], reason);
}

static void refuse_for(size_t event, int error) {
    char text[160], level[16] = "";
    const char *what = strerror(error);
    if (error == EACCES || error == EPERM) {
        int file = open("/proc/sys/kernel/perf_event_paranoid", O_RDONLY | O_CLOEXEC);
        ssize_t length = file < 0 ? 0 : read(file, level, sizeof level - 1);
        level[length > 0 ? strcspn(level, "\n") : 0] = '\0';
        if (file >= 0)
            close(file);
        snprintf(text, sizeof text, "%s; perf_event_paranoid is %s", what, *level ? level : "not to be read");
    } else if (error == ENOENT || error == EOPNOTSUPP || error == ENODEV) {
        snprintf(text, sizeof text, "this machine has no such counter (%s)", what);
    } else if (error == EINVAL) {
        snprintf(text, sizeof text, "it does not count together with the others (%s)", what);
    } else {
        snprintf(text, sizeof text, "%s", what);
    }
    refuse(event, text);
}

/* ---- one thread's group */

/* Out of the way: programs expect the lowest numbers, and close those they know of. */
static int moved_up(int file) {
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit))
        return file;
    rlim_t most = limit.rlim_cur > 1u << 20 ? 1u << 20 : limit.rlim_cur;
    int higher = fcntl(file, F_DUPFD_CLOEXEC, (int)(most / 2));
    if (higher < 0)
        return file;
    close(file);
    return higher;
}

static int open_event(size_t event, int leader) {
    struct perf_event_attr wanted = {
        .size = sizeof wanted,
        .type = events[event].type,
        .config = events[event].config,
        .disabled = leader < 0, /* the others follow their leader */
        .exclude_kernel = !events[event].counts_kernel,
        .exclude_hv = 1,
        .read_format = PERF_FORMAT_GROUP | PERF_FORMAT_TOTAL_TIME_ENABLED | PERF_FORMAT_TOTAL_TIME_RUNNING,
    };
    return (int)syscall(SYS_perf_event_open, &wanted, 0, -1, leader, PERF_FLAG_FD_CLOEXEC);
}

void buran_open_counters(buran_thread *thread) {
    if (!any_is_wanted)
        return;
    buran_counts *counts = thread->counts ? thread->counts : buran_memory(sizeof *counts);
    if (!counts)
        buran_give_up("out of memory", "while opening counters");
    counts->used = 0;
    for (size_t event = 0; event < EVENTS; event++) {
        if (!is_wanted[event] || !is_available(event) || event == FAULTS)
            continue;
        int file = open_event(event, counts->used ? counts->files[0] : -1);
        if (file < 0) {
            refuse_for(event, errno);
            continue;
        }
        counts->files[counts->used] = moved_up(file);
        counts->event_of[counts->used++] = (uint32_t)event;
        counts->last[event] = 0;
    }
    if (counts->used && ioctl(counts->files[0], PERF_EVENT_IOC_ENABLE, PERF_IOC_FLAG_GROUP))
        refuse_all(counts, strerror(errno));
    counts->last[FAULTS] = faults();
    if (counts->used || is_wanted[FAULTS])
        thread->counts = counts;
}

void buran_close_counters(buran_thread *thread) {
    buran_counts *counts = thread->counts;
    for (uint32_t i = 0; counts && i < counts->used; i++)
        close(counts->files[i]);
    if (counts)
        counts->used = 0;
}

/* Adds to `sums`, by event, what has been counted since the last time. */
static void add_new(buran_counts *counts, uint64_t *sums) {
    struct {
        uint64_t events, enabled, running, values[EVENTS];
    } now;
    size_t size = (3 + counts->used) * sizeof now.events;
    ssize_t got = read(counts->files[0], &now, size);
    if (got != (ssize_t)size || now.events != counts->used) {
        refuse_all(counts, got < 0 ? strerror(errno) : "it could not be read any more");
        counts->used = 0;
        return;
    }
    if (now.running != now.enabled)
        refuse_all(counts, "it shared the processor's counters with others and did not count all the time");
    for (uint32_t i = 0; i < counts->used; i++) {
        uint32_t event = counts->event_of[i];
        sums[event] += now.values[i] - counts->last[event];
        counts->last[event] = now.values[i];
    }
}

static uint64_t *sums_of(buran_counts *counts, uint32_t node, int may_make) {
    uint32_t block = 31u - (uint32_t)__builtin_clz(node / FIRST_BLOCK + 1);
    uint32_t at = node - FIRST_BLOCK * ((1u << block) - 1);
    if (!counts->blocks[block] && may_make)
        counts->blocks[block] = buran_memory(((size_t)FIRST_BLOCK << block) * sizeof *counts->blocks[block]);
    return counts->blocks[block] ? counts->blocks[block][at] : NULL;
}

int buran_count(buran_counts *counts, const buran_node *node, uint64_t ticks) {
    int may_fault = is_wanted[FAULTS] && ticks >= least_ticks_of_fault();
    if (!counts->used && !may_fault)
        return 0;
    int error = errno; /* hooks stand where the program may look at it next */
    uint64_t *sums = sums_of(counts, node->index, 1);
    if (!sums) {
        refuse_all(counts, "out of memory");
        refuse(FAULTS, "out of memory");
    } else if (counts->used) {
        add_new(counts, sums);
    }
    if (sums && may_fault) {
        uint64_t now = faults();
        sums[FAULTS] += now - counts->last[FAULTS];
        counts->last[FAULTS] = now;
    }
    errno = error;
    return may_fault;
}

void *buran_touched_memory(buran_thread *thread, size_t size) {
    uint64_t before = thread->counts && is_wanted[FAULTS] ? faults() : 0;
    volatile char *memory = buran_memory(size);
    for (size_t at = 0; memory && at < size; at += 4096)
        memory[at] = 0;
    if (thread->counts && is_wanted[FAULTS])
        thread->counts->last[FAULTS] += faults() - before;
    return (void *)memory;
}

/* ---- for the dump */

void buran_count_unbooked(buran_thread *thread) {
    buran_counts *counts = thread->counts;
    if (!counts)
        return;
    memset(counts->unbooked, 0, sizeof counts->unbooked);
    if (counts->used && thread->state == BURAN_THREAD_RUNNING)
        add_new(counts, counts->unbooked);
}

uint64_t buran_count_of(const buran_thread *thread, const buran_node *node, uint32_t event) {
    if (!thread->counts)
        return 0;
    const uint64_t *sums = sums_of(thread->counts, node->index, 0);
    int is_open = thread->state == BURAN_THREAD_RUNNING && node == thread->current;
    return (sums ? sums[event] : 0) + (is_open ? thread->counts->unbooked[event] : 0);
}

/* Threads that still run may meet an obstacle while the dump is written. */
void buran_settle_counters(void) {
    for (size_t event = 0; event < EVENTS; event++)
        is_in_dump[event] = is_wanted[event] && is_available(event);
}

const char *buran_counter_name(uint32_t event) { return is_in_dump[event] ? events[event].name : NULL; }

void buran_missing_counters(char *text, size_t size) {
    size_t length = 0;
    *text = '\0';
    for (size_t event = 0; event < EVENTS; event++)
        if (is_wanted[event] && !is_in_dump[event] && length < size)
            length += (size_t)snprintf(text + length, size - length, "%s%s: %s", length ? "\n" : "", events[event].name,
                                       reasons[event]);
}
