/* Shared by the runtime's own translation units. */
#ifndef BURAN_INTERNAL_H
#define BURAN_INTERNAL_H

#include <limits.h>
#include <stddef.h>

#include "clock.h"
#include "cpu_clock.h"
#include "runtime.h"

/* A token's bits: recorded; left out because it interrupted a hook; depth of the stack before the entry. */
#define BURAN_TOKEN_RECORDED 0x80000000u
#define BURAN_TOKEN_INTERRUPTED 0x40000000u
#define BURAN_TOKEN_DEPTH 0x3fffffffu

/* One call path of one thread. All numbers are of this call path alone, without its callees. */
typedef struct buran_node {
    uint32_t region; /* buran_region.id; not the region itself, which is gone when its library is unloaded */
    uint32_t index;  /* order of creation: parents come before their children */
    struct buran_node *sibling; /* a ring, in the order of first visits */
    struct buran_node *child;   /* the one visited last: the next visit is likely to it or to its sibling */
    struct buran_node *parent;
    uint64_t visits, ticks, blocks;
    uint64_t bytes_sent, bytes_received, comm_sum;
    uint32_t comm_min, comm_max;
    uint64_t requirements[BURAN_REQUIREMENTS];
    uint64_t heap_bytes, heap_peak; /* asked for here; the most that there was when something was asked for here */
#ifdef BURAN_SIMULATED
    const struct buran_cost *cost; /* simulated.c; NULL until it is asked for */
#endif
} buran_node;

/* An entry that has not been left yet. */
typedef struct buran_frame {
    buran_node *node;
    const void *address; /* of the machine's stack; only used by fallback.c */
    const void *task;    /* an OpenMP task or team whose call path begins here; only used by threads.c */
    uint64_t begin;      /* of the work for a team, in ticks without waiting; only used by threads.c */
} buran_frame;

/* What passed in a call path while its thread did not compute: apart from the node, which hooks touch all the time. */
typedef struct buran_pauses {
    uint64_t waited;                      /* ticks in which the thread waited for its team */
    uint64_t switched_ticks, switched_ns; /* CPU time is ticks - switched_ticks + switched_ns: see cpu_clock.c */
    uint64_t idle, imbalance;             /* ticks, of the teams that were opened here */
} buran_pauses;

/* Nodes never move: other threads and the dump look at them while their thread runs. Their pauses stand behind them. */
typedef struct buran_chunk {
    struct buran_chunk *next;
    uint32_t used, capacity;
    buran_node nodes[];
} buran_chunk;

static inline buran_pauses *buran_pauses_in(const buran_chunk *chunk, uint32_t i) {
    return (buran_pauses *)(chunk->nodes + chunk->capacity) + i;
}

enum { BURAN_THREAD_RESERVED, BURAN_THREAD_RUNNING, BURAN_THREAD_ENDED };

#define BURAN_REPLICAS 16

typedef struct buran_thread {
    /* what every hook touches */
    buran_node *current;
    buran_frame *frames;
    uint64_t last_ticks, last_blocks; /* until here, everything is booked */
    uint32_t depth, depth_limit;
    uint32_t busy; /* inside a hook: a signal handler must not touch this structure */
    int counts_more; /* than time and blocks: requirements, or what follows */
    struct buran_counts *counts; /* counters.c; NULL if there are none */
    struct buran_sampler *sampler; /* of a feature's sources; NULL until it is needed */
    buran_cpu_clock cpu_clock;
    uint64_t last_requirements[BURAN_REQUIREMENTS]; /* as last_blocks */

    uint32_t node_count, capacity; /* capacity: of frames */
    buran_chunk *first_chunk, *last_chunk;
    buran_node *root;
    buran_node **table; /* children of nodes with many, by (parent, region); see runtime.c */
    uint32_t table_used, table_size;
    struct buran_thread *next;
    uint32_t number; /* order of creation */
    int state;       /* BURAN_THREAD_*; changes under the registry's lock */
    int is_in_dump;  /* set by the dump */
    int is_used;     /* worked for a parallel region, even if nothing was visited there */
    uint32_t shared_by;           /* threads that were recorded here, one after the other */
    uint64_t below_limit;         /* entries below the depth limit */
    uint64_t interrupting;        /* entries from signal handlers that interrupted a hook */
    uint64_t without_node;        /* entries for which no call path could be made any more */
    const uint64_t *blocks;       /* its buran_blocks while it lives */
    const uint64_t *requirements; /* its buran_requirements, likewise */
    const buran_node *origin;     /* where it was created */
    struct {
        const buran_node *origin;
        buran_node *local;
    } replicas[BURAN_REPLICAS];   /* of other threads' call paths below which this one has worked */
    void *(*routine)(void *);     /* of pthread_create */
    void *argument;
    int endings;
    uint64_t waited;              /* ticks, in all call paths */
    struct buran_team *free_teams; /* threads.c */
} buran_thread;

/* How far an MPI program has come; a program without MPI stays at BURAN_MPI_NONE. */
enum { BURAN_MPI_NONE, BURAN_MPI_RUNNING, BURAN_MPI_FINALIZED };

typedef struct buran_process {
    int rank, size;
    int mpi_state;
} buran_process;

extern buran_process buran_this_process;

/* What the environment asks for, read once when the process starts. */
typedef struct buran_settings {
    char folder[PATH_MAX];        /* BURAN_PROFILE_DIR, absolute; "" for no profile */
    uint32_t depth_limit;         /* BURAN_DEPTH_LIMIT: functions below are booked on the one at this depth */
    uint32_t node_limit;          /* BURAN_NODE_LIMIT: call paths of all threads together */
    uint32_t thread_limit;        /* BURAN_THREAD_LIMIT: then new threads take the place of ended ones */
    int folds_recursion;          /* BURAN_RECURSION=fold */
} buran_settings;

extern buran_settings buran_the_settings;

/* Key, value, key, value, ..., NULL: what the toolchain knows of the build (build_info.c). */
extern const char *const buran_build_info[];
extern const int buran_counts_blocks, buran_counts_requirements;

/* How many requirements compiled code counts: all of them, only those before the details, or none. */
extern const char buran_counts_details __attribute__((weak));
static inline uint32_t buran_requirements_counted(void) {
    return !buran_counts_requirements ? 0 : &buran_counts_details ? BURAN_REQUIREMENTS : BURAN_DETAILS;
}

/* ---- runtime.c */

buran_thread *buran_self(void);
buran_thread *buran_self_if_known(void); /* else NULL: makes nothing, so that it can be asked under the lock */

/* A thread that is about to be created by this one, and its beginning and end. `origin` NULL: it belongs to a pool. */
buran_thread *buran_reserve_thread(const buran_node *origin);
void buran_release_thread(buran_thread *thread);
void buran_attach_thread(buran_thread *thread);

/* Work of this thread for a call path of any thread: what it does until `buran_exit` is recorded below that. */
uint32_t buran_enter_path(const buran_node *origin, const void *task);

/* The linker's name of its function; empty for the root. */
const char *buran_symbol_of(const buran_node *node);

/* Of one of the thread's own nodes. */
buran_pauses *buran_pauses_of(const buran_thread *thread, const buran_node *node);

/* Book time and blocks up to now: as work, or as waiting for the team. */
void buran_book(buran_thread *thread);
void buran_book_wait(buran_thread *thread);

/* Memory that is never given back, without malloc, which the program may have instrumented. NULL if there is none. */
void *buran_memory(size_t size);

/* The registry of regions and threads: locked around fork(), so that a child finds it free, and for the dump. */
/* The filter file of the run; returns what is wrong with it, or NULL. */
const char *buran_filter_start(const char *path);

void buran_lock_registry(void);
void buran_unlock_registry(void);

struct buran_dump_source;
void buran_describe_registry(struct buran_dump_source *source);

/* ---- counters.c */

#define BURAN_EVENTS 8u

typedef struct buran_counts buran_counts;

/* `names` is BURAN_COUNTERS or NULL. Returns what is wrong with it, or NULL. */
const char *buran_counters_start(const char *names);

/* Of the thread that calls; its numbers stay when it ends. */
void buran_open_counters(buran_thread *thread);
void buran_close_counters(buran_thread *thread);

/* Book what was counted up to now on a call path, on which the thread was for so many ticks. Whether that took time which
 * the next call path shall not have. */
int buran_count(buran_counts *counts, const buran_node *node, uint64_t ticks);
/* Memory of our own, all pages of which are touched, so that none of its faults is counted as the program's. */
void *buran_touched_memory(buran_thread *thread, size_t size);

/* For the dump: look once at what each thread has counted since its last hook, settle which events are metrics of this
 * profile, and ask for names and numbers; others have no name. Missing ones are lines of name and reason. */
void buran_count_unbooked(buran_thread *thread);
uint64_t buran_count_of(const buran_thread *thread, const buran_node *node, uint32_t event);
const char *buran_counter_name(uint32_t event);
void buran_settle_counters(void);
void buran_missing_counters(char *text, size_t size);

/* ---- what a feature's sources add to builds for memory; NULL in all others */

/* Before anything is recorded; gives up where a setting is wrong. */
void buran_sampler_start(void) __attribute__((weak));

/* Of the thread that ends: its numbers stay. */
void buran_sampler_close(buran_thread *thread) __attribute__((weak));

/* For the dump: settle which numbers it has, and how many these are; their names, and those of a call path; and what else
 * is to know: key, value, key, value, ..., NULL. */
uint32_t buran_sampler_settle(const buran_thread *threads) __attribute__((weak));
const char *buran_sampler_name(uint32_t number) __attribute__((weak));
uint64_t buran_sampler_value(const buran_thread *thread, const buran_node *node, uint32_t number) __attribute__((weak));
const char *const *buran_sampler_info(void) __attribute__((weak));

/* ---- heap.c */

/* In effort builds only. The second: the most that there was at a time, in bytes. */
/* Not in every build; no where another malloc than ours is called. */
int buran_heap_is_counted(void) __attribute__((weak));
uint64_t buran_heap_peak(void) __attribute__((weak));

/* ---- process.c */

/* Called once, before anything is recorded. */
void buran_start_process(void);

/* The node on which it runs, where that is not the machine it runs on. */
void buran_set_place(const char *node);

/* Write the profile of this process. Only the first call has an effect. `aborted` marks it as incomplete. */
void buran_write_dump(int aborted);

_Noreturn void buran_give_up(const char *what, const char *why);

/* ---- dump.c */

/* The runtime's copy of a region. */
typedef struct buran_known_region {
    const char *name, *mangled, *file;
    uint32_t line, kind;
    uint32_t next; /* with the same hash; 0 ends the chain */
} buran_known_region;

typedef struct buran_dump_source {
    const buran_process *process;
    const buran_settings *settings;
    buran_thread *threads; /* linked, in the order of creation */
    const buran_known_region *regions;
    uint32_t region_count;
    uint64_t memory_bytes;
    double ticks_per_second;
    uint64_t now; /* ticks */
    uint32_t forks;
    const char *clock, *build_id, *executable;
    const char *host, *cpus; /* where the process runs; empty if unknown */
    const char *no_cpu_clock; /* why times are wall-clock times; empty if they are not */
    const char *incomplete; /* why the profile is not whole; NULL if it is */
} buran_dump_source;

int buran_dump_to_folder(const buran_dump_source *source, const char *folder);

#endif
