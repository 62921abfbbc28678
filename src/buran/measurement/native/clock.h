/* The clock of the hooks: the processor's counter where it is one, else the system's; simulated.c has another one. */
#ifndef BURAN_CLOCK_H
#define BURAN_CLOCK_H

#include <stdint.h>
#include <time.h>

enum { BURAN_CLOCK_SYSTEM, BURAN_CLOCK_COUNTER, BURAN_CLOCK_NONE };

typedef struct buran_clock {
    int kind;
    const char *name;
    uint64_t start_ticks, start_ns;
} buran_clock;

extern buran_clock buran_the_clock __attribute__((visibility("hidden")));

static inline uint64_t buran_monotonic_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static inline uint64_t buran_counter(void) {
#if defined(__x86_64__)
    return __builtin_ia32_rdtsc();
#elif defined(__aarch64__)
    uint64_t value;
    __asm__ volatile("mrs %0, cntvct_el0" : "=r"(value));
    return value;
#else
    return buran_monotonic_ns();
#endif
}

#ifdef BURAN_SIMULATED
enum { BURAN_IS_SIMULATED = 1 };

/* Picoseconds since the program began on the simulated machine. */
uint64_t buran_simulated_ps(void);

/* Let pass on the simulated machine what was computed since the last time, and read its clock: around MPI operations. */
void buran_meet_simulator(void);
#else
enum { BURAN_IS_SIMULATED = 0 };

static inline uint64_t buran_simulated_ps(void) { return 0; }
static inline void buran_meet_simulator(void) {}
#endif

static inline uint64_t buran_ticks(void) {
    if (BURAN_IS_SIMULATED)
        return buran_simulated_ps();
    if (__builtin_expect(buran_the_clock.kind == BURAN_CLOCK_COUNTER, 1))
        return buran_counter();
    return buran_the_clock.kind == BURAN_CLOCK_NONE ? 0 : buran_monotonic_ns();
}

/* Choose the clock; `wanted` is NULL, "counter", "system" or "none". Returns what is wrong with it, or NULL. */
const char *buran_clock_start(const char *wanted);

/* Ticks per second, measured since the start where the processor does not say it. */
double buran_clock_rate(void);

#endif
