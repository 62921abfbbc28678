/* Functions that touch a known number of pages first: faults pages file */
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <unistd.h>

#define KERNEL __attribute__((noinline))
#define PAGE 4096

static size_t pages;
static volatile char sink;
static volatile int ticks;

static char *mapped(size_t bytes, int advice) {
    char *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED || madvise(memory, bytes, advice))
        _exit(1);
    return memory;
}

/* One page: shorter than any other stretch with a fault. */
KERNEL void one(char *page) { *page = 1; }

/* As short, without a fault. */
KERNEL void none(char *page) { *page = 2; }

KERNEL void each(char *memory) {
    for (size_t i = 0; i < pages; i++) {
        one(memory + i * PAGE);
        for (int k = 0; k < 4; k++)
            none(memory + i * PAGE);
    }
}

KERNEL void many(char *memory) {
    for (size_t i = 0; i < pages; i++)
        memory[i * PAGE] = 1;
}

KERNEL void again(char *memory) {
    for (int round = 0; round < 10; round++)
        for (size_t i = 0; i < pages; i++)
            memory[i * PAGE]++;
}

KERNEL void filled(size_t bytes) {
    char *memory = malloc(bytes);
    memset(memory, 1, bytes);
    sink = memory[bytes / 2];
}

/* The kernel writes to the pages. */
KERNEL void reads(int file, char *memory) {
    if (read(file, memory, pages * PAGE) != (ssize_t)(pages * PAGE))
        _exit(1);
}

/* The pages of a file are in memory: sixteen of them may come with one fault. */
KERNEL void looks(int file) {
    const char *memory = mmap(NULL, pages * PAGE, PROT_READ, MAP_SHARED, file, 0);
    for (size_t i = 0; i < pages; i++)
        sink = memory[i * PAGE];
}

/* The pages of a file as the program changes them for itself: each is copied. */
KERNEL void changes(int file) {
    char *memory = mmap(NULL, pages * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE, file, 0);
    for (size_t i = 0; i < pages; i++)
        memory[i * PAGE] = 1;
}

KERNEL void large(char *memory, size_t bytes) {
    for (size_t i = 0; i < bytes; i += PAGE)
        memory[i] = 1;
}

KERNEL void *works(void *memory) {
    many(memory);
    return NULL;
}

KERNEL void on_tick(int number) {
    (void)number;
    ticks++;
}

KERNEL void interrupted(char *memory) {
    struct sigaction action = {.sa_handler = on_tick};
    struct itimerval often = {{0, 500}, {0, 500}};
    sigaction(SIGPROF, &action, NULL);
    setitimer(ITIMER_PROF, &often, NULL);
    many(memory);
    while (ticks < 5)
        sink = *memory;
    setitimer(ITIMER_PROF, &(struct itimerval){{0, 0}, {0, 0}}, NULL);
}

int main(int count, char **words) {
    pages = count > 2 ? (size_t)atol(words[1]) : 0;
    size_t bytes = pages * PAGE, huge = (size_t)2 << 20;
    int file = pages ? open(words[2], O_RDWR | O_CREAT | O_TRUNC, 0600) : -1;
    char *own = pages ? mapped(bytes, MADV_NOHUGEPAGE) : NULL;
    if (file < 0 || write(file, own, bytes) != (ssize_t)bytes || lseek(file, 0, SEEK_SET))
        return 1;
    each(mapped(bytes, MADV_NOHUGEPAGE));
    char *memory = mapped(bytes, MADV_NOHUGEPAGE);
    many(memory);
    again(memory);
    filled(16 * bytes);
    reads(file, mapped(bytes, MADV_NOHUGEPAGE));
    looks(file);
    changes(file);
    interrupted(mapped(bytes, MADV_NOHUGEPAGE));
    char *wide = mapped(5 * huge, MADV_HUGEPAGE);
    large(wide + (huge - (uintptr_t)wide % huge) % huge, 4 * huge);
    pthread_t thread;
    pthread_create(&thread, NULL, works, mapped(bytes, MADV_NOHUGEPAGE));
    pthread_join(thread, NULL);
    return 0;
}
