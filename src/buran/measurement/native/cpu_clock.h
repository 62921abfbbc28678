/* CPU time of a thread for the price of the wall clock; see cpu_clock.c. */
#ifndef BURAN_CPU_CLOCK_H
#define BURAN_CPU_CLOCK_H

#include <stdint.h>

typedef struct buran_cpu_clock {
    const volatile uint64_t *switches; /* another number after each time the thread was switched out */
    uint64_t seen;                     /* the last of them */
    uint64_t base_ticks, base_ns;      /* both clocks when it was seen */
    uint64_t first_seen;
    long switches_before; /* of the thread, when its clock started */
    void *page;
    int thread_id;
} buran_cpu_clock;

/* `wanted` is BURAN_CPU_CLOCK or NULL. Returns what is wrong with it, or NULL. */
const char *buran_cpu_clock_choose(const char *wanted);

/* Of the thread that calls. Where the kernel allows no such clock, nothing is ever switched out. */
void buran_cpu_clock_start(buran_cpu_clock *clock);
void buran_cpu_clock_stop(buran_cpu_clock *clock);

/* A forked child does not have the page. */
void buran_cpu_clock_forget(buran_cpu_clock *clock);

static inline int buran_was_switched(const buran_cpu_clock *clock) { return *clock->switches != clock->seen; }

/* Read both clocks after a switch; returns the ticks of the new base. */
uint64_t buran_cpu_clock_rebase(buran_cpu_clock *clock);

/* CPU time of a thread of this process, in ns; 0 where it cannot be had. */
uint64_t buran_cpu_time_of(const buran_cpu_clock *clock);

/* Why there is none, for the dump; empty if there is one. `clock` is that of the thread that calls. */
const char *buran_cpu_clock_missing(const buran_cpu_clock *clock);

#endif
