/* Functions whose counters are known: `pages` touches new memory, `sleeps` waits, `works` computes. */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#define NOINLINE __attribute__((noinline))

NOINLINE void pages(long count) {
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    volatile char *memory = mmap(NULL, count * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    madvise((void *)memory, count * page, MADV_NOHUGEPAGE);
    for (long i = 0; i < count; i++)
        memory[i * page] = 1;
    munmap((void *)memory, count * page);
}

NOINLINE void works(long microseconds) {
    struct timespec now;
    volatile long sum = 0;
    do {
        for (long i = 0; i < 10000; i++)
            sum = sum + i;
        clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    } while (now.tv_sec * 1000000 + now.tv_nsec / 1000 < microseconds);
}

NOINLINE void sleeps(int times) {
    struct timespec shortly = {.tv_nsec = 2000000};
    for (int i = 0; i < times; i++)
        nanosleep(&shortly, NULL);
}

NOINLINE void *in_thread(void *argument) {
    pages(*(long *)argument);
    return NULL;
}

int main(int argc, char **argv) {
    long count = argc > 1 ? atol(argv[1]) : 1000;
    pages(count);
    works(50000);
    sleeps(20);
    long counts[2] = {2 * count, 3 * count};
    pthread_t threads[2];
    struct rlimit files, none;
    getrlimit(RLIMIT_NOFILE, &files);
    none = files;
    if (argc > 2 && !strcmp(argv[2], "threads without files")) {
        none.rlim_cur = 3;
        setrlimit(RLIMIT_NOFILE, &none);
    }
    for (int i = 0; i < 2; i++)
        if (pthread_create(&threads[i], NULL, in_thread, &counts[i]))
            abort();
    for (int i = 0; i < 2; i++)
        pthread_join(threads[i], NULL);
    setrlimit(RLIMIT_NOFILE, &files);
    pages(count);
    return 0;
}
