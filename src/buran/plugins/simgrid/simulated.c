/* The clock of a simulated machine, in place of clock.c.
 *
 * How long this machine takes to compute tells nothing of another one. So each basic block costs what a file says of its
 * call path, and it is the simulator's clock that MPI operations are timed by: what was computed is told to the simulator
 * where the next operation begins, before others can notice. A rank is a copy of the program, and of this clock, in one
 * process.
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "internal.h"

/* of libsimgrid; its headers want C++ */
extern void smpi_execute_flops(double flops);
extern double simgrid_get_clock(void);
extern void *sg_host_self(void);
extern const char *sg_host_self_get_name(void);
extern double sg_host_get_speed(const void *host);

#define PS_PER_SECOND 1e12

buran_clock buran_the_clock = {.kind = BURAN_CLOCK_NONE, .name = "simulated"};

/* What a basic block of a call path costs. Callers stand before their callees; the first one is the root. */
typedef struct buran_cost {
    unsigned depth;
    double ps_per_block;
    const char *symbol;
} buran_cost;

static buran_cost *costs;
static size_t cost_count;
static uint64_t met_ps, seen_blocks; /* the clock when the simulator was met last; blocks whose cost is counted */
static double computed_ps;           /* since the simulator was met */

/* The file BURAN_COSTS: depth, seconds for each block, and the function's symbol, one call path a line. */
const char *buran_clock_start(const char *wanted) {
    (void)wanted;
    const char *path = getenv("BURAN_COSTS");
    FILE *file = path ? fopen(path, "re") : NULL;
    if (!file)
        return "BURAN_COSTS must name a file that says what basic blocks cost";
    char *line = NULL;
    size_t size = 0, room = 0;
    int is_right = 1;
    while (is_right && getline(&line, &size, file) > 0) {
        buran_cost cost;
        int at = 0;
        is_right = sscanf(line, "%u %lf %n", &cost.depth, &cost.ps_per_block, &at) == 2 && at > 0 &&
                   cost.ps_per_block >= 0 && (cost.depth == 0) == (cost_count == 0);
        cost.ps_per_block *= PS_PER_SECOND;
        line[strcspn(line, "\n")] = '\0';
        cost.symbol = strdup(line + (is_right ? at : 0));
        if (cost_count == room) {
            room = room ? 2 * room : 64;
            costs = realloc(costs, room * sizeof *costs);
        }
        if (!costs || !cost.symbol)
            buran_give_up("out of memory", "while reading what basic blocks cost");
        costs[cost_count++] = cost;
    }
    free(line);
    fclose(file);
    return is_right && cost_count ? NULL : "the file BURAN_COSTS is not as it must be";
}

double buran_clock_rate(void) { return PS_PER_SECOND; }

/* A call path that the file lacks is part of its caller: there, its function was left out of the hooks. */
static const buran_cost *cost_of(buran_node *node) {
    if (!node->cost && !node->parent)
        node->cost = costs;
    if (!node->cost) {
        const buran_cost *above = cost_of(node->parent), *end = costs + cost_count;
        const char *symbol = buran_symbol_of(node);
        node->cost = above;
        for (const buran_cost *cost = above + 1; cost < end && cost->depth > above->depth; cost++)
            if (cost->depth == above->depth + 1 && !strcmp(cost->symbol, symbol)) {
                node->cost = cost;
                break;
            }
    }
    return node->cost;
}

uint64_t buran_simulated_ps(void) {
    uint64_t blocks = buran_blocks - seen_blocks;
    if (blocks) {
        buran_thread *thread = buran_self_if_known();
        const buran_cost *cost = thread ? cost_of(thread->current) : costs;
        computed_ps += (double)blocks * cost->ps_per_block;
        seen_blocks += blocks;
    }
    return met_ps + (uint64_t)(computed_ps + 0.5);
}

void buran_meet_simulator(void) {
    static int is_placed;
    uint64_t computed = buran_simulated_ps() - met_ps;
    if (!is_placed) {
        is_placed = 1;
        buran_set_place(sg_host_self_get_name());
    }
    if (computed)
        smpi_execute_flops((double)computed / PS_PER_SECOND * sg_host_get_speed(sg_host_self()));
    computed_ps = 0;
    met_ps = (uint64_t)(simgrid_get_clock() * PS_PER_SECOND + 0.5);
}

/* The program's own look at the clock: what it has computed so far has passed. */
double MPI_Wtime(void) {
    buran_meet_simulator();
    return PMPI_Wtime();
}

double mpi_wtime_(void) { return MPI_Wtime(); } /* Fortran's */

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

void mpi_dims_create_(const int *ranks, const int *count, int *dims, int *error) {
    *error = MPI_Dims_create(*ranks, *count, dims);
}
