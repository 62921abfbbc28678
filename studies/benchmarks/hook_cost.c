/* Calls the hooks as instrumented code does, and prints what a visit costs: one line for each pattern of calls, its name
 * and nanoseconds of CPU time for one enter and exit, with what the empty loop takes subtracted. */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "clock.h"
#include "runtime.h"

#define REGIONS 1024
static buran_region regions[REGIONS];

static double cpu_s(void) {
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* Every function calls all others in turn, as a loop over kernels does. */
static void __attribute__((noinline)) in_turn(long visits, long different) {
    for (long i = 0, at = 0; i < visits; i++) {
        uint32_t token = buran_enter(&regions[1 + at]);
        __asm__ volatile("" ::: "memory");
        buran_exit(token);
        at = at + 1 == different ? 0 : at + 1;
    }
}

static void __attribute__((noinline)) at_random(long visits, long different) {
    uint64_t state = 88172645463325252u;
    for (long i = 0; i < visits; i++) {
        state ^= state << 13, state ^= state >> 7, state ^= state << 17;
        uint32_t token = buran_enter(&regions[1 + state % (uint64_t)different]);
        __asm__ volatile("" ::: "memory");
        buran_exit(token);
    }
}

static void __attribute__((noinline)) nested(long visits, long depth) {
    uint32_t tokens[64];
    for (long i = 0; i < visits; i += depth) {
        for (long level = 0; level < depth; level++)
            tokens[level] = buran_enter(&regions[1 + level]);
        for (long level = depth; level-- > 0;)
            buran_exit(tokens[level]);
    }
}

static void __attribute__((noinline)) nothing(long visits, long different) {
    for (long i = 0, at = 0; i < visits; i++) {
        __asm__ volatile("" ::: "memory");
        at = at + 1 == different ? 0 : at + 1;
    }
}

static void __attribute__((noinline)) two_readings(long visits, long different) {
    (void)different;
    for (long i = 0; i < visits; i++) {
        uint64_t sum = buran_ticks() + buran_ticks();
        __asm__ volatile("" : : "r"(sum));
    }
}

static double ns_of(void (*pattern)(long, long), long visits, long different) {
    double best = 1e9;
    for (int round = 0; round < 7; round++) {
        double before = cpu_s();
        pattern(visits, different);
        double spent = 1e9 * (cpu_s() - before) / (double)visits;
        best = spent < best ? spent : best;
    }
    return best;
}

int main(int argc, char **argv) {
    long visits = argc > 1 ? atol(argv[1]) : 2000000;
    for (int i = 0; i < REGIONS; i++) {
        char *name = malloc(16);
        snprintf(name, 16, "region%d", i);
        regions[i] = (buran_region){.name = name, .mangled = name, .file = ""};
    }
    uint32_t main_token = buran_enter(&regions[0]);
    double empty = ns_of(nothing, visits, 4);
    printf("clock %.1f\n", ns_of(two_readings, visits, 1));
    printf("same %.1f\n", ns_of(in_turn, visits, 1) - empty);
    printf("in_turn_4 %.1f\n", ns_of(in_turn, visits, 4) - empty);
    printf("in_turn_32 %.1f\n", ns_of(in_turn, visits, 32) - empty);
    printf("nested_16 %.1f\n", ns_of(nested, visits, 16) - empty);
    printf("random_32 %.1f\n", ns_of(at_random, visits, 32) - empty);
    printf("random_1000 %.1f\n", ns_of(at_random, visits / 10, 1000) - empty);
    buran_exit(main_token);
    return 0;
}
