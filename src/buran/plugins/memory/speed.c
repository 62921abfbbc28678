/* How fast a machine is: what loads cost that wait for each other, how much memory passes, and what computing takes.
 *
 * speed TEST BYTES MILLISECONDS ROUNDS CPU...: a thread on each CPU runs the test on so many bytes of its own, in rounds
 * of that length which begin together. Prints for each round the mean over threads: CPU seconds for each operation.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#define LINE 64
#define SUMS 64    /* independent sums: enough for the vector units of today's cores */
#define SORTED 256 /* numbers; their sorting takes branches that nobody foresees */

typedef struct {
    size_t bytes;
    char *memory;
    void *at;
    double sums[SUMS], sum;
    uint64_t random;
} state;

static uint64_t next_random(state *s) {
    s->random ^= s->random << 13;
    s->random ^= s->random >> 7;
    return s->random ^= s->random << 17;
}

/* One cycle through all lines in random order (Sattolo's algorithm): no prefetcher foresees the next one. */
static void prepare_chase(state *s) {
    size_t lines = s->bytes / LINE;
    for (size_t i = 0; i < lines; i++) *(size_t *)(s->memory + i * LINE) = i;
    for (size_t i = lines - 1; i > 0; i--) {
        size_t *a = (size_t *)(s->memory + i * LINE);
        size_t *b = (size_t *)(s->memory + next_random(s) % i * LINE), kept = *a;
        *a = *b;
        *b = kept;
    }
    for (size_t i = 0; i < lines; i++) {
        void **link = (void **)(s->memory + i * LINE);
        *link = s->memory + *(size_t *)link * LINE;
    }
    s->at = s->memory;
}

static double chase(state *s, size_t steps) {
    void *at = s->at;
    for (size_t i = 0; i < steps; i++) at = *(void *volatile *)at;
    s->at = at;
    return (double)steps;
}

/* Lines in random order whose addresses are known beforehand: several are on their way at a time. */
static double gather(state *s, size_t steps) {
    size_t lines = s->bytes / LINE;
    uint64_t random = s->random, sum = 0;
    for (size_t i = 0; i < steps; i++) {
        random = random * 6364136223846793005u + 1442695040888963407u;
        sum += *(volatile uint64_t *)(s->memory + (size_t)(((__uint128_t)random * lines) >> 64) * LINE);
    }
    s->random = random;
    s->sum += (double)sum;
    return (double)steps;
}

static void prepare_numbers(state *s) {
    double *numbers = (double *)s->memory;
    for (size_t i = 0; i < s->bytes / sizeof(double); i++) numbers[i] = 1.0 + 1e-9 * (double)i;
}

/* Per byte that a triad reads and writes. */
static double triad(state *s, size_t steps) {
    size_t n = s->bytes / (3 * sizeof(double));
    double *restrict a = (double *)s->memory, *restrict b = a + n, *restrict c = b + n;
    for (size_t pass = 0; pass < steps; pass++) {
        for (size_t i = 0; i < n; i++) a[i] = b[i] + 3.0 * c[i];
        __asm__ volatile("" : : "r"(s->memory) : "memory");
    }
    return 3.0 * sizeof(double) * (double)n * (double)steps;
}

/* Per floating-point operation of sums that do not wait for each other: of few, or of as many as wide registers hold. */
static inline double sums_of(state *s, size_t steps, int count) {
    double sums[SUMS], factor = 1.0 - 1e-12;
    memcpy(sums, s->sums, sizeof sums);
    for (size_t i = 0; i < steps; i++)
        for (int k = 0; k < count; k++) sums[k] = sums[k] * factor + 1e-12;
    memcpy(s->sums, sums, sizeof sums);
    return 2.0 * count * (double)steps;
}

static double few_flops(state *s, size_t steps) { return sums_of(s, steps, SUMS / 2); }

static double many_flops(state *s, size_t steps) { return sums_of(s, steps, SUMS); }

/* Per operation that waits for the one before. */
static double chain(state *s, size_t steps) {
    double sum = s->sum;
    for (size_t i = 0; i < steps; i++) {
        sum = sum * 0.999 + 1.0;
        __asm__ volatile("" : "+m"(*(char *)s->memory));
    }
    s->sum = sum;
    return (double)steps;
}

/* Per number that is put into its place among others. */
static double branches(state *s, size_t steps) {
    uint32_t numbers[SORTED];
    for (size_t pass = 0; pass < steps; pass++) {
        for (int i = 0; i < SORTED; i++) {
            uint32_t number = (uint32_t)next_random(s);
            int at = i;
            for (; at > 0 && numbers[at - 1] > number; at--) numbers[at] = numbers[at - 1];
            numbers[at] = number;
        }
        s->sum += numbers[SORTED / 2];
    }
    return SORTED * (double)steps;
}

static __attribute__((noinline)) uint64_t tree(unsigned depth) {
    __asm__ volatile("" : "+r"(depth));
    return depth < 2 ? 1 : tree(depth - 1) + tree(depth - 2);
}

/* Per call. */
static double calls(state *s, size_t steps) {
    uint64_t leaves = 0;
    for (size_t i = 0; i < steps; i++) leaves += tree(12);
    s->sum += (double)leaves;
    return 2.0 * (double)leaves - (double)steps;
}

/* Per number of a loop over arrays in the nearest cache. */
static double loops(state *s, size_t steps) {
    size_t n = s->bytes / (2 * sizeof(double));
    double *restrict a = (double *)s->memory, *restrict b = a + n;
    for (size_t pass = 0; pass < steps; pass++) {
        for (size_t i = 1; i + 1 < n; i++) b[i] = 0.3 * (a[i - 1] + a[i] + a[i + 1]);
        __asm__ volatile("" : : "r"(s->memory) : "memory");
    }
    return (double)n * (double)steps;
}

/* Per step of four mixtures of whole numbers that do not wait for each other. */
static double integers(state *s, size_t steps) {
    uint64_t mixed[4] = {s->random, s->random + 1, s->random + 2, s->random + 3};
    for (size_t i = 0; i < steps; i++)
        for (int k = 0; k < 4; k++) {
            mixed[k] = (mixed[k] ^ mixed[k] >> 29) * 0xbf58476d1ce4e5b9u + i;
            __asm__ volatile("" : "+r"(mixed[k])); /* one after the other, as code that is no vector has it */
        }
    s->random = mixed[0] ^ mixed[1] ^ mixed[2] ^ mixed[3] ^ 1;
    return 4.0 * (double)steps;
}

/* Per quotient, each of which waits for the one before. */
static double divisions(state *s, size_t steps) {
    double number = 2.0 + 1e-9 * s->sum;
    for (size_t i = 0; i < steps; i++) number = 0.5 + 3.0 / number;
    s->sum += number;
    return (double)steps;
}

static void prepare_pages(state *s) { madvise(s->memory, s->bytes, MADV_NOHUGEPAGE); }

/* Per page of the smallest size that the system hands over and takes back. */
static double faults(state *s, size_t steps) {
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    for (size_t pass = 0; pass < steps; pass++) {
        for (size_t at = 0; at < s->bytes; at += page) *(volatile char *)(s->memory + at) = 1;
        madvise(s->memory, s->bytes, MADV_DONTNEED);
    }
    return (double)(s->bytes / page) * (double)steps;
}

typedef struct {
    const char *name;
    void (*prepare)(state *);
    double (*work)(state *, size_t);
} test;

static const test TESTS[] = {
    {"chase", prepare_chase, chase},
    {"gather", prepare_numbers, gather},
    {"triad", prepare_numbers, triad},
    {"few_flops", prepare_numbers, few_flops},
    {"many_flops", prepare_numbers, many_flops},
    {"chain", prepare_numbers, chain},
    {"branches", prepare_numbers, branches},
    {"calls", prepare_numbers, calls},
    {"loops", prepare_numbers, loops},
    {"integers", prepare_numbers, integers},
    {"divisions", prepare_numbers, divisions},
    {"faults", prepare_pages, faults},
};

typedef struct {
    const test *test;
    size_t bytes;
    double round_s;
    int rounds, cpu, failed;
    double *seconds; /* of each round, for each operation */
    pthread_barrier_t *barrier;
    pthread_t thread;
} worker;

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void *run(void *argument) {
    worker *w = argument;
    cpu_set_t cpus;
    CPU_ZERO(&cpus);
    CPU_SET(w->cpu, &cpus);
    sched_setaffinity(0, sizeof cpus, &cpus); /* where that is refused, the system places the thread */
    state s = {.bytes = w->bytes, .random = 88172645463325252u + (uint64_t)w->cpu};
    /* whole large pages, which are used where the system gives them unasked: what programs get, and no other ones */
    size_t huge = (size_t)2 << 20, whole = (s.bytes + 2 * huge - 1) / huge * huge;
    char *mapped = mmap(NULL, whole, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    w->failed = mapped == MAP_FAILED;
    if (!w->failed) {
        s.memory = mapped + (huge - (uintptr_t)mapped % huge) % huge;
        w->test->prepare(&s);
    }
    size_t steps = 1;
    for (double took = 0.0; !w->failed && took < w->round_s / 2;) {
        double start = now();
        w->test->work(&s, steps);
        took = now() - start;
        if (took < w->round_s / 2) steps *= 2;
    }
    for (int round = 0; round < w->rounds; round++) {
        pthread_barrier_wait(w->barrier);
        double start = now();
        double done = w->failed ? 1.0 : w->test->work(&s, steps);
        w->seconds[round] = (now() - start) / done;
    }
    return NULL;
}

int main(int count, char **words) {
    const test *chosen = NULL;
    for (size_t i = 0; count > 5 && i < sizeof TESTS / sizeof *TESTS; i++)
        if (!strcmp(words[1], TESTS[i].name)) chosen = &TESTS[i];
    if (!chosen) return fprintf(stderr, "usage: speed TEST BYTES MILLISECONDS ROUNDS CPU...\n"), 2;
    int threads = count - 5, rounds = atoi(words[4]);
    worker *workers = calloc((size_t)threads, sizeof *workers);
    double *seconds = calloc((size_t)threads * (size_t)rounds, sizeof *seconds);
    pthread_barrier_t barrier;
    if (!workers || !seconds || pthread_barrier_init(&barrier, NULL, (unsigned)threads)) return perror("speed"), 1;
    for (int i = 0; i < threads; i++) {
        workers[i] = (worker){chosen, strtoull(words[2], NULL, 10), atof(words[3]) / 1000, rounds, atoi(words[5 + i]), 0,
                              seconds + (size_t)i * (size_t)rounds, &barrier, 0};
        if (pthread_create(&workers[i].thread, NULL, run, &workers[i])) return perror("speed"), 1;
    }
    for (int i = 0; i < threads; i++) pthread_join(workers[i].thread, NULL);
    for (int i = 0; i < threads; i++)
        if (workers[i].failed) return fprintf(stderr, "speed: no room for %s bytes\n", words[2]), 1;
    for (int round = 0; round < rounds; round++) {
        double sum = 0.0;
        for (int i = 0; i < threads; i++) sum += seconds[(size_t)i * (size_t)rounds + (size_t)round];
        printf("%.9g\n", sum / threads);
    }
    return 0;
}
