/* Memory of the heap: how much each call path asks for, and how much there is at the most. Effort builds only.
 *
 * These functions stand in the place of the C library's, or of those of another allocator's shared library, which they call.
 * They are weak: a program that brings a `malloc` of its own keeps it, and its heap is not counted. C++'s `new` and Fortran's
 * `allocate` end here; what is mapped by `mmap`, or by an allocator inside a library, does not.
 *
 * They may be called before anything of the program has run, while a library is loaded, and while the functions behind
 * them are looked for: then the C library's own are used, and without a thread that is known nothing is booked.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <malloc.h>
#include <stdlib.h>

#include "internal.h"

#define WEAK __attribute__((weak))

static int64_t live, most; /* bytes of all threads, as the allocator rounds them */

extern void *__libc_malloc(size_t) WEAK;
extern void *__libc_calloc(size_t, size_t) WEAK;
extern void *__libc_realloc(void *, size_t) WEAK;
extern void *__libc_memalign(size_t, size_t) WEAK;
extern void __libc_free(void *) WEAK;

static struct {
    void *(*malloc)(size_t);
    void *(*calloc)(size_t, size_t);
    void *(*realloc)(void *, size_t);
    void *(*memalign)(size_t, size_t);
    int (*posix_memalign)(void **, size_t, size_t);
    void (*free)(void *);
    size_t (*usable)(void *);
} next;

enum { UNKNOWN, LOOKING, KNOWN, MISSING };
static int state;

static void *counted_malloc(size_t size);

static int is_known(void) {
    int expected = UNKNOWN;
    if (__atomic_load_n(&state, __ATOMIC_ACQUIRE) == KNOWN)
        return 1;
    if (!__atomic_compare_exchange_n(&state, &expected, LOOKING, 0, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE))
        return 0; /* by this thread, in dlsym, or by another */
    int before = errno;
    next.malloc = (void *(*)(size_t))dlsym(RTLD_NEXT, "malloc");
    next.calloc = (void *(*)(size_t, size_t))dlsym(RTLD_NEXT, "calloc");
    next.realloc = (void *(*)(void *, size_t))dlsym(RTLD_NEXT, "realloc");
    next.memalign = (void *(*)(size_t, size_t))dlsym(RTLD_NEXT, "memalign");
    next.posix_memalign = (int (*)(void **, size_t, size_t))dlsym(RTLD_NEXT, "posix_memalign");
    next.free = (void (*)(void *))dlsym(RTLD_NEXT, "free");
    next.usable = (size_t (*)(void *))dlsym(RTLD_NEXT, "malloc_usable_size");
    errno = before;
    /* Nothing is next in a program that is linked statically, and a program with a malloc of its own calls that. */
    void *(*volatile called)(size_t) = malloc; /* compilers take for granted that it is another function */
    int all = called == counted_malloc && next.malloc && next.calloc && next.realloc && next.memalign &&
              next.posix_memalign && next.free && next.usable;
    __atomic_store_n(&state, all ? KNOWN : MISSING, __ATOMIC_RELEASE);
    return all;
}

static void *obtained(void *memory, size_t asked) {
    if (!memory)
        return memory;
    int64_t now = __atomic_add_fetch(&live, (int64_t)next.usable(memory), __ATOMIC_RELAXED);
    int64_t before = __atomic_load_n(&most, __ATOMIC_RELAXED);
    while (before < now && !__atomic_compare_exchange_n(&most, &before, now, 1, __ATOMIC_RELAXED, __ATOMIC_RELAXED))
        ;
    buran_thread *thread = buran_self_if_known();
    if (thread) {
        buran_node *node = thread->current;
        node->heap_bytes += asked;
        node->heap_peak = now > (int64_t)node->heap_peak ? (uint64_t)now : node->heap_peak;
    }
    return memory;
}

static void gone(void *memory) {
    if (memory)
        __atomic_sub_fetch(&live, (int64_t)next.usable(memory), __ATOMIC_RELAXED);
}

int buran_heap_is_counted(void) { return __atomic_load_n(&state, __ATOMIC_ACQUIRE) == KNOWN; }

uint64_t buran_heap_peak(void) { return most > 0 ? (uint64_t)most : 0; }

/* ---- what programs and libraries call */

static void *counted_malloc(size_t size) {
    return is_known() ? obtained(next.malloc(size), size) : __libc_malloc(size);
}

void *malloc(size_t size) __attribute__((weak, alias("counted_malloc")));

WEAK void *calloc(size_t count, size_t size) {
    return is_known() ? obtained(next.calloc(count, size), count * size) : __libc_calloc(count, size);
}

WEAK void *realloc(void *old, size_t size) {
    if (!is_known())
        return __libc_realloc(old, size);
    size_t before = old ? next.usable(old) : 0;
    void *memory = next.realloc(old, size);
    if (memory || !size)
        __atomic_sub_fetch(&live, (int64_t)before, __ATOMIC_RELAXED);
    return obtained(memory, size);
}

WEAK void *reallocarray(void *old, size_t count, size_t size) {
    size_t bytes;
    if (!__builtin_mul_overflow(count, size, &bytes))
        return realloc(old, bytes);
    errno = ENOMEM;
    return NULL;
}

WEAK void *memalign(size_t alignment, size_t size) {
    return is_known() ? obtained(next.memalign(alignment, size), size) : __libc_memalign(alignment, size);
}

WEAK void *aligned_alloc(size_t alignment, size_t size) { return memalign(alignment, size); }

WEAK int posix_memalign(void **memory, size_t alignment, size_t size) {
    if (!is_known()) {
        void *given = __libc_memalign(alignment, size);
        *memory = given ? given : *memory;
        return given ? 0 : ENOMEM;
    }
    int error = next.posix_memalign(memory, alignment, size);
    if (!error)
        obtained(*memory, size);
    return error;
}

WEAK void free(void *memory) {
    if (!is_known()) {
        __libc_free(memory);
        return;
    }
    gone(memory);
    next.free(memory);
}
