/* Functions whose counters are known: `pages` touches new memory, `sleeps` waits, `works` computes. */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#define NOINLINE __attribute__((noinline))

NOINLINE void pages(long count, int leaves_then) {
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    volatile char *memory = mmap(NULL, count * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    madvise((void *)memory, count * page, MADV_NOHUGEPAGE);
    for (long i = 0; i < count; i++)
        memory[i * page] = 1;
    if (leaves_then)
        _exit(0); /* after the last hook of the process */
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
    pages(*(long *)argument, 0);
    return NULL;
}

int main(int argc, char **argv) {
    long count = argc > 1 ? atol(argv[1]) : 1000;
    const char *how = argc > 2 ? argv[2] : "";
    pages(count, 0);
    works(50000);
    sleeps(20);
    long counts[2] = {2 * count, 3 * count};
    pthread_t threads[2];
    struct rlimit files, none;
    getrlimit(RLIMIT_NOFILE, &files);
    none = files;
    if (!strcmp(how, "threads without files")) {
        none.rlim_cur = 3;
        setrlimit(RLIMIT_NOFILE, &none);
    }
    int is_in_turn = !strcmp(how, "in turn");
    for (int i = 0; i < 2; i++) {
        if (pthread_create(&threads[i], NULL, in_thread, &counts[i]))
            abort();
        if (is_in_turn)
            pthread_join(threads[i], NULL);
    }
    for (int i = 0; i < 2 && !is_in_turn; i++)
        pthread_join(threads[i], NULL);
    setrlimit(RLIMIT_NOFILE, &files);
    pages(count, !strcmp(how, "leaves"));
    return 0;
}
