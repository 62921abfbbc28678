/* What compiled code of builds for memory calls and reads: reuse.c says what for. */
#ifndef BURAN_REUSE_H
#define BURAN_REUSE_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

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

#ifdef __cplusplus
}

// For compiler plugins. Local variables of up to a page are always near, and so many groups of accesses are looked at for
// one to join.
constexpr uint64_t Page = 4096;
constexpr size_t Compared = 16;
constexpr unsigned LineBits = 6;
static_assert(1u << LineBits == BURAN_LINE && BURAN_LINES_OF_PAIR == 2, "a pair is a shift by LineBits + 1");
#endif

#endif
