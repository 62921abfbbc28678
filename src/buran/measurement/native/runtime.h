/* What instrumented code calls: the interface between compiler plugins, the MPI layer and the runtime.
 *
 * The plugin emits one `buran_region` per hooked function and these calls:
 *
 *     uint32_t token = buran_enter(&region);   at the function's beginning
 *     buran_exit(token);                       before it returns or passes an exception on
 *     buran_unwind(token);                     where control comes back after a throw or a longjmp
 *
 * A token is the depth of the shadow stack before the entry, so leaving with it also drops whatever a throw or a longjmp
 * has skipped. Its top bit says whether the entry was recorded at all.
 */
#ifndef BURAN_RUNTIME_H
#define BURAN_RUNTIME_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

enum { BURAN_KIND_FUNCTION = 0, BURAN_KIND_MPI = 1, BURAN_KIND_ROOT = 2 };
enum { BURAN_STATE_UNSEEN = 0, BURAN_STATE_RECORDED = 1, BURAN_STATE_SKIPPED = -1 };

/* The plugin lays this out by hand: keep llvm_plugin.cpp in step. */
typedef struct buran_region {
    const char *name;    /* demangled */
    const char *mangled; /* linker symbol */
    const char *file;    /* "" if unknown */
    uint32_t line;       /* 0 if unknown */
    uint32_t kind;       /* BURAN_KIND_* */
    uint32_t id;         /* set by the runtime: index in the dump */
    int32_t state;       /* set by the runtime: BURAN_STATE_* */
} buran_region;

/* Basic blocks this thread has executed. Initial-exec, so that counting is one instruction. */
extern __thread uint64_t buran_blocks __attribute__((tls_model("initial-exec")));

/* What they asked of the machine; in the order of the names in dump.c. Those from BURAN_DETAILS on are counted in objects that
 * bring `buran_counts_details`. */
enum {
    BURAN_FLOPS,
    BURAN_LOADS,
    BURAN_STORES,
    BURAN_BYTES_LOADED,
    BURAN_BYTES_STORED,
    BURAN_DETAILS,
    BURAN_FLOPS_ADD = BURAN_DETAILS,
    BURAN_FLOPS_MULTIPLY,
    BURAN_FLOPS_DIVIDE,
    BURAN_FLOPS_ROOT,
    BURAN_FLOPS_SINGLE,
    BURAN_FLOPS_DOUBLE,
    BURAN_FLOPS_EXTENDED,
    BURAN_BRANCHES,
    BURAN_CALLS,
    BURAN_INTEGER_OPERATIONS,
    BURAN_REQUIREMENTS
};
extern __thread uint64_t buran_requirements[BURAN_REQUIREMENTS] __attribute__((tls_model("initial-exec")));

/* Bytes of a cache line; two neighbours are in the sample where the lower half of the number of the pair times the factor,
 * which is odd and 2^32 by the golden ratio (Knuth: neighbours are spread evenly), is below the threshold, in 32 bits. */
#define BURAN_LINE 64u
#define BURAN_LINES_OF_PAIR 2u
#define BURAN_LINE_FACTOR 0x9E3779B9u
extern uint32_t buran_reuse_threshold;

/* Of this thread: the line of the sample that was touched last, and where accesses to it are counted by so many while the
 * call path is the same. The plugin lays this out by hand. */
typedef struct buran_reuse_again {
    uint64_t line; /* number and 1; 0: none */
    const void *const *current;
    const void *node;
    uint64_t *count;
    uint64_t rate;
} buran_reuse_again;
extern __thread buran_reuse_again buran_reuse_last __attribute__((tls_model("initial-exec")));

/* Accesses to at most two lines, with the lowest and the highest of their addresses. */
void buran_reuse_accesses(uint64_t first, uint64_t last, uint32_t accesses);
void buran_reuse_range(uint64_t address, uint64_t length);

/* Accesses in each iteration of a loop, to at most two lines. The plugin lays this out by hand. */
typedef struct buran_reuse_stream {
    uint64_t first;    /* lowest of their addresses in the first iteration */
    uint64_t step;     /* from one iteration to the next, signed; at most a pair of lines */
    uint64_t span;     /* from the lowest to the highest address */
    uint64_t accesses; /* in an iteration */
} buran_reuse_stream;
enum { BURAN_REUSE_STREAMS = 32 }; /* of a loop, at most */

/* All accesses of a loop, before it begins; streams in the order of the first iteration, and where they are. */
void buran_reuse_loop(uint64_t streams, uint64_t iterations, uint32_t count);

uint32_t buran_enter(buran_region *region);
void buran_exit(uint32_t token);
void buran_unwind(uint32_t token);

#ifdef __cplusplus
}
#endif

#endif
