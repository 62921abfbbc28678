/* The clock of a simulated machine, in place of clock.c.
 *
 * How long this machine takes to compute tells nothing of another one. So each basic block costs the same time, and it
 * is the simulator's clock that MPI operations are timed by: what was computed is told to the simulator where the next
 * operation begins, before others can notice. A rank is a copy of the program, and of this clock, in one process.
 */
#include <mpi.h>
#include <stdlib.h>

#include "internal.h"

/* of libsimgrid; its headers want C++ */
extern void smpi_execute_flops(double flops);
extern double simgrid_get_clock(void);
extern void *sg_host_self(void);
extern const char *sg_host_self_get_name(void);
extern double sg_host_get_speed(const void *host);

#define PS_PER_SECOND 1e12

buran_clock buran_the_clock = {.kind = BURAN_CLOCK_NONE, .name = "simulated"};

static double ps_per_block;
static uint64_t met_ps, met_blocks; /* the clock and the counter when the simulator was met last */

const char *buran_clock_start(const char *wanted) {
    (void)wanted;
    const char *text = getenv("BURAN_SECONDS_PER_BLOCK");
    char *end = NULL;
    ps_per_block = text ? strtod(text, &end) * PS_PER_SECOND : 0;
    return !text || (end != text && !*end && ps_per_block >= 0) ? NULL : "BURAN_SECONDS_PER_BLOCK must be a number";
}

double buran_clock_rate(void) { return PS_PER_SECOND; }

static uint64_t computed_ps(void) { return (uint64_t)((double)(buran_blocks - met_blocks) * ps_per_block + 0.5); }

uint64_t buran_simulated_ps(void) { return met_ps + computed_ps(); }

void buran_meet_simulator(void) {
    static int is_placed;
    uint64_t computed = computed_ps();
    if (!is_placed) {
        is_placed = 1;
        buran_set_place(sg_host_self_get_name());
    }
    if (computed)
        smpi_execute_flops((double)computed / PS_PER_SECOND * sg_host_get_speed(sg_host_self()));
    met_blocks = buran_blocks;
    met_ps = (uint64_t)(simgrid_get_clock() * PS_PER_SECOND + 0.5);
}

/* The program's own look at the clock: what it has computed so far has passed. */
double MPI_Wtime(void) {
    buran_meet_simulator();
    return PMPI_Wtime();
}

/* SimGrid 3.32 makes 9 x 1 of 9 ranks, which would be another program. Here, as the standard wants it, lengths are as
 * close as divisors allow: the largest prime factors come first, each to the shortest dimension. */
int MPI_Dims_create(int ranks, int count, int *dims) {
    int factors[32], left = ranks, found = 0, open = 0;
    for (int i = 0; i < count; i++) {
        if (dims[i] < 0 || (dims[i] > 0 && left % dims[i]))
            return PMPI_Dims_create(ranks, count, dims); /* an error */
        left /= dims[i] ? dims[i] : 1;
        open += dims[i] == 0;
    }
    if (ranks < 1 || !open)
        return PMPI_Dims_create(ranks, count, dims);
    for (int divisor = 2; left > 1; divisor++)
        for (; left % divisor == 0; left /= divisor)
            factors[found++] = divisor;
    int lengths[open]; /* the longest first */
    for (int i = 0; i < open; i++)
        lengths[i] = 1;
    while (found) {
        int length = lengths[open - 1] * factors[--found], at = open - 1;
        for (; at > 0 && lengths[at - 1] < length; at--)
            lengths[at] = lengths[at - 1];
        lengths[at] = length;
    }
    for (int i = 0, next = 0; i < count; i++)
        if (!dims[i])
            dims[i] = lengths[next++];
    return MPI_SUCCESS;
}
