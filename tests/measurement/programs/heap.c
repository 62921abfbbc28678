/* Functions that ask for memory whose size is known: heap n [own] */
#define _GNU_SOURCE
#include <malloc.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#define KERNEL __attribute__((noinline))

#ifdef OWN_ALLOCATOR
/* Each block has its size in front; only the newest one can be used again. */
enum { LINE = 64 };
static char pool[1 << 24] __attribute__((aligned(LINE)));
static size_t used;
void *malloc(size_t size) {
    size_t whole = LINE + (size + LINE - 1) / LINE * LINE, at = __atomic_fetch_add(&used, whole, __ATOMIC_RELAXED);
    if (at + whole > sizeof pool)
        return NULL;
    *(size_t *)(pool + at) = whole;
    return pool + at + LINE;
}
void *calloc(size_t count, size_t size) {
    void *memory = malloc(count * size);
    __asm__ volatile("" : "+r"(memory)); /* or compilers make this a call of calloc */
    return memory ? memset(memory, 0, count * size) : NULL;
}
void *realloc(void *old, size_t size) { return old ? memcpy(malloc(size), old, size) : malloc(size); }
void free(void *memory) {
    char *block = (char *)memory - LINE;
    if (!memory || block < pool || block >= pool + sizeof pool)
        return;
    size_t at = (size_t)(block - pool), end = at + *(size_t *)block;
    __atomic_compare_exchange_n(&used, &end, at, 0, __ATOMIC_RELAXED, __ATOMIC_RELAXED);
}
#endif

static void *volatile sink;
static volatile int ticks;
static void *early;

__attribute__((constructor)) static void before_main(void) { early = malloc(1000); }

static void *kept(void *memory) {
    sink = memory;
    memset(memory, 1, 16);
    return memory;
}

/* 28 n bytes */
KERNEL void grow(size_t n) {
    char *a = kept(malloc(8 * n)), *b = kept(calloc(n, 4));
    a = kept(realloc(a, 16 * n));
    free(a);
    free(b);
}

/* 7 n bytes, of which nothing is left */
KERNEL void aligned(size_t n) {
    void *a = kept(aligned_alloc(64, 64 * n / 64 * 4)), *b;
    if (posix_memalign(&b, 4096, 2 * n))
        abort();
    free(kept(b));
    free(a);
    free(kept(reallocarray(NULL, n, 1)));
}

/* 1000 n bytes, which stay */
KERNEL void keep(size_t n) { kept(malloc(1000 * n)); }

KERNEL void *works(void *n) {
    free(kept(malloc(3 * (size_t)(uintptr_t)n)));
    return NULL;
}

KERNEL void on_tick(int number) {
    (void)number;
    ticks++;
}

KERNEL void interrupted(size_t n) {
    struct sigaction action = {.sa_handler = on_tick};
    struct itimerval often = {{0, 500}, {0, 500}};
    sigaction(SIGPROF, &action, NULL);
    setitimer(ITIMER_PROF, &often, NULL);
    for (int i = 0; i < 10 || ticks < 5; i++)
        for (int k = 0; k < 100; k++)
            free(kept(malloc(n)));
    setitimer(ITIMER_PROF, &(struct itimerval){{0, 0}, {0, 0}}, NULL);
}

KERNEL void forks(size_t n) {
    pid_t child = fork();
    if (!child) {
        kept(malloc(5000 * n));
        _exit(0);
    }
    waitpid(child, NULL, 0);
}

int main(int argc, char **argv) {
    size_t n = (size_t)atol(argv[argc > 1 ? 1 : 0]);
    pthread_t threads[2];
    free(early);
    grow(n);
    aligned(n);
    for (int i = 0; i < 2; i++)
        pthread_create(threads + i, NULL, works, (void *)(uintptr_t)n);
    for (int i = 0; i < 2; i++)
        pthread_join(threads[i], NULL);
    interrupted(n);
    forks(n);
    keep(n);
    return 0;
}
