/* Choosing and calibrating the clock. */
#define _GNU_SOURCE
#include "clock.h"

#include <fcntl.h>
#include <string.h>
#include <unistd.h>
#if defined(__x86_64__)
#include <cpuid.h>
#endif

buran_clock buran_the_clock = {.kind = BURAN_CLOCK_SYSTEM, .name = "CLOCK_MONOTONIC"};

/* Shorter spans are not calibrated: reading both clocks takes up to a microsecond. */
#define LEAST_SPAN_NS 10000000u

#if defined(__x86_64__)
/* Linux takes the counter off this list when it finds that it differs between cores or stands still. */
static int system_distrusts_counter(void) {
    char text[256];
    int file = open("/sys/devices/system/clocksource/clocksource0/available_clocksource", O_RDONLY | O_CLOEXEC);
    if (file < 0)
        return 0; /* not to be found out here */
    ssize_t length = read(file, text, sizeof text - 1);
    close(file);
    if (length <= 0)
        return 0;
    text[length] = '\0';
    return !strstr(text, "tsc");
}
#endif

/* Does the counter run at one rate in all power states (constant_tsc and nonstop_tsc)? */
static const char *counter_name(void) {
#if defined(__x86_64__)
    unsigned a, b, c, d;
    if (__get_cpuid(0x80000007u, &a, &b, &c, &d) && (d & (1u << 8)) && !system_distrusts_counter())
        return "time-stamp counter";
    return NULL;
#elif defined(__aarch64__)
    return "cntvct_el0";
#else
    return NULL;
#endif
}

/* Both clocks at one moment: the tightest of some readings, since the thread may lose its core in between. */
static void read_both(uint64_t *ticks, uint64_t *ns) {
    uint64_t least = UINT64_MAX;
    for (int i = 0; i < 8; i++) {
        uint64_t before = buran_counter(), now = buran_monotonic_ns(), after = buran_counter();
        if (after - before < least) {
            least = after - before;
            *ticks = before + least / 2;
            *ns = now;
        }
    }
}

const char *buran_clock_start(const char *wanted) {
    int any = !wanted || !*wanted;
    if (!any && strcmp(wanted, "counter") && strcmp(wanted, "system") && strcmp(wanted, "none"))
        return "must be `counter`, `system` or `none`";
    if (!any && wanted[0] == 'n') {
        buran_the_clock.kind = BURAN_CLOCK_NONE;
        buran_the_clock.name = "none";
        return NULL;
    }
    const char *name = any || wanted[0] == 'c' ? counter_name() : NULL;
    if (!any && wanted[0] == 'c' && !name)
        return "asks for the processor's counter, which does not run at a constant rate here";
    if (name) {
        buran_the_clock.name = name;
        read_both(&buran_the_clock.start_ticks, &buran_the_clock.start_ns);
        buran_the_clock.kind = BURAN_CLOCK_COUNTER;
    }
    return NULL;
}

double buran_clock_rate(void) {
    if (buran_the_clock.kind != BURAN_CLOCK_COUNTER)
        return 1e9;
#if defined(__aarch64__)
    uint64_t hertz;
    __asm__ volatile("mrs %0, cntfrq_el0" : "=r"(hertz));
    if (hertz)
        return (double)hertz;
#endif
    uint64_t ticks, ns;
    do
        read_both(&ticks, &ns);
    while (ns - buran_the_clock.start_ns < LEAST_SPAN_NS);
    return 1e9 * (double)(ticks - buran_the_clock.start_ticks) / (double)(ns - buran_the_clock.start_ns);
}
