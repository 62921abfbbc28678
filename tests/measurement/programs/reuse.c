/* Walks through memory whose reuse distances are known: reuse lines rounds [threads|signals|mapped|file|pool|once|scattered|records|column [apart]] */
#define _GNU_SOURCE
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/time.h>

#define LINE 64
#define KERNEL static __attribute__((noinline))

static volatile char *memory;
static volatile int ticks;

/* One access to each line: its distance is the number of lines less one. */
KERNEL void walk(volatile char *at, long lines) {
    for (long i = 0; i < lines; i++)
        at[i * LINE] += 1;
}

/* As a walk, but each line is far from the one before. */
KERNEL void jump(volatile char *at, long lines) {
    for (long i = 0; i < lines; i++)
        at[i * 7919 % lines * LINE] += 1;
}

/* As a walk, with so many bytes from line to line: a column of a matrix. */
KERNEL void column(volatile char *at, long lines, long apart) {
    for (long i = 0; i < lines; i++)
        at[i * apart] += 1;
}

/* As many loads and stores as there are values, of which eight share a line. */
KERNEL double add_up(const double *values, long count) {
    double sum = 0;
    for (long i = 0; i < count; i++)
        sum += values[i];
    return sum;
}

/* Records that begin in the middle of a line and end in the next one, in no order of addresses. */
typedef struct {
    double first, middle[6], last;
} record;

KERNEL double visit(const record *records, long count) {
    double sum = 0;
    for (long i = 0; i < count; i++) {
        const record *one = &records[i * 7919 % count];
        sum += one->last + one->first;
    }
    return sum;
}

KERNEL void copy(char *to, const char *from, long bytes) { memcpy(to, from, (size_t)bytes); }

typedef struct {
    volatile char *at;
    long lines, rounds;
} part;

static void *worker(void *argument) {
    part *own = argument;
    for (long i = 0; i < own->rounds; i++)
        walk(own->at, own->lines);
    return NULL;
}

KERNEL void on_tick(int number) {
    (void)number;
    ticks++;
    walk(memory, 4);
}

/* An allocator of the program's own, with huge pages where the system has some. */
KERNEL char *from_pool(size_t bytes) {
    static char *pool;
    size_t huge = 2u << 20;
    if (!pool)
        pool = aligned_alloc(huge, 64 * huge);
    madvise(pool, 64 * huge, MADV_HUGEPAGE);
    pool += bytes;
    return pool - bytes;
}

int main(int argc, char **argv) {
    long lines = atol(argv[1]), rounds = atol(argv[2]);
    const char *how = argc > 3 ? argv[3] : "";
    long apart = argc > 4 ? atol(argv[4]) : LINE;
    size_t bytes = (size_t)(lines * apart);
    if (!strcmp(how, "mapped"))
        memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    else if (!strcmp(how, "file")) {
        FILE *file = tmpfile();
        if (!file || ftruncate(fileno(file), (off_t)bytes))
            return 1;
        memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fileno(file), 0);
    } else if (!strcmp(how, "pool"))
        memory = from_pool(bytes);
    else
        memory = aligned_alloc(LINE, bytes);
    if (!strcmp(how, "threads")) {
        pthread_t threads[2];
        part parts[2] = {{memory, lines / 2, rounds}, {memory + bytes / 2, lines / 2, rounds}};
        for (int i = 0; i < 2; i++)
            pthread_create(&threads[i], NULL, worker, &parts[i]);
        for (int i = 0; i < 2; i++)
            pthread_join(threads[i], NULL);
        return 0;
    }
    if (!strcmp(how, "signals")) {
        struct sigaction action = {.sa_handler = on_tick};
        struct itimerval often = {{0, 200}, {0, 200}};
        sigaction(SIGPROF, &action, NULL);
        setitimer(ITIMER_PROF, &often, NULL);
        while (ticks < 20)
            walk(memory, lines);
        setitimer(ITIMER_PROF, &(struct itimerval){{0, 0}, {0, 0}}, NULL);
        return 0;
    }
    if (!strcmp(how, "column")) {
        for (long i = 0; i < rounds; i++)
            column(memory, lines, apart);
        return 0;
    }
    if (!strcmp(how, "records"))
        return visit((const record *)(memory + LINE / 2), lines - 1) != 0;
    for (long i = 0; i < rounds && !strcmp(how, "scattered"); i++)
        jump(memory, lines);
    for (long i = 0; i < rounds && strcmp(how, "scattered"); i++)
        walk(memory + (strcmp(how, "once") ? 0 : i * (lines / rounds) * LINE), strcmp(how, "once") ? lines : lines / rounds);
    if (!strcmp(how, "values")) {
        memset((char *)memory, 0, bytes);
        double sum = add_up((const double *)memory, lines * 8);
        copy((char *)memory, (const char *)memory + bytes / 2, (long)bytes / 2);
        return sum != 0;
    }
    return 0;
}
