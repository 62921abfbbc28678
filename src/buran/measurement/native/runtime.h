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

/* What they asked of the machine, where a feature has headers that say what is counted: the first BURAN_DETAILS of these
 * counters, and the others in objects that bring `buran_counts_details`. */
#if __has_include("requirements.h")
#include "requirements.h"
#else
enum { BURAN_DETAILS, BURAN_REQUIREMENTS = BURAN_DETAILS };
#define BURAN_REQUIREMENT_NAMES 0
#endif
extern __thread uint64_t buran_requirements[BURAN_REQUIREMENTS] __attribute__((tls_model("initial-exec")));

uint32_t buran_enter(buran_region *region);
void buran_exit(uint32_t token);
void buran_unwind(uint32_t token);

#ifdef __cplusplus
}
#endif

#endif
