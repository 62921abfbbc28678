/* Shared by the runtime's own translation units. */
#ifndef BURAN_INTERNAL_H
#define BURAN_INTERNAL_H

#include <stddef.h>

#include "runtime.h"

#define BURAN_TOKEN_RECORDED 0x80000000u
#define BURAN_TOKEN_DEPTH 0x7fffffffu

/* Functions deeper than this are booked on the function at this depth: unbounded recursion must not fill the memory
 * with call paths nobody can model. MPI operations are always recorded. */
#define BURAN_MAX_DEPTH 256

/* One call path of one thread. Times and blocks are inclusive, the rest is of this call path alone. */
typedef struct buran_node {
    buran_region *region;
    struct buran_node *parent, *child, *sibling;
    uint32_t index; /* order of creation: parents come before their children */
    uint32_t comm_min, comm_max;
    uint64_t visits, ticks, blocks;
    uint64_t bytes_sent, bytes_received, comm_sum;
} buran_node;

/* An entry that has not been left yet. */
typedef struct buran_frame {
    buran_node *node;
    uint64_t ticks, blocks; /* at the entry */
    const void *address;    /* of the machine's stack; only used by fallback.c */
} buran_frame;

#define BURAN_CHUNK_NODES 512

/* Nodes never move: the dump may read a thread that still runs. */
typedef struct buran_chunk {
    struct buran_chunk *next;
    uint32_t used;
    buran_node nodes[BURAN_CHUNK_NODES];
} buran_chunk;

typedef struct buran_thread {
    struct buran_thread *next;
    uint32_t id, node_count;
    buran_chunk *first_chunk, *last_chunk;
    buran_node *root, *current;
    buran_frame *frames;
    uint32_t depth, capacity;
    uint64_t started;         /* ticks */
    uint64_t skipped_visits;  /* entries below BURAN_MAX_DEPTH */
    uint64_t *blocks;         /* its buran_blocks while it lives, else &final_blocks */
    uint64_t final_blocks;
    uint64_t final_ticks;     /* 0 while it lives */
} buran_thread;

/* How far an MPI program has come; a program without MPI stays at BURAN_MPI_NONE. */
enum { BURAN_MPI_NONE, BURAN_MPI_RUNNING, BURAN_MPI_FINALIZED };

typedef struct buran_process {
    int rank, size;
    int mpi_state;
} buran_process;

extern buran_process buran_this_process;

/* Key, value, key, value, ..., NULL: what the toolchain knows of the build (build_info.c). */
extern const char *const buran_build_info[];
extern const int buran_counts_blocks;

uint64_t buran_ticks(void);
buran_thread *buran_self(void);

/* Write the profile of this process. Only the first call has an effect. `aborted` marks it as incomplete. */
void buran_write_dump(int aborted);

/* dump.c; `threads` is a linked list. */
typedef struct buran_dump_source {
    const buran_process *process;
    buran_thread *threads;
    buran_region *const *regions;
    uint32_t region_count;
    double ticks_per_second;
    uint64_t now; /* ticks */
    const char *clock;
    int complete;
} buran_dump_source;

int buran_dump_to_folder(const buran_dump_source *source, const char *folder);

#endif
