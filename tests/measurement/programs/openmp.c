/* OpenMP: loops, sections, nested regions, tasks. Every function does the same work however many threads there are.
 * Arguments: number of turns of a loop, milliseconds to sleep between two parallel regions. */
#include <omp.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define NOINLINE __attribute__((noinline))

NOINLINE long work(long i) {
    long sum = 0;
    for (long k = 0; k < 100 + i % 7; k++)
        sum += (k ^ i) & 3;
    return sum;
}

NOINLINE long fixed(long n) {
    long sum = 0;
#pragma omp parallel for reduction(+ : sum) schedule(static)
    for (long i = 0; i < n; i++)
        sum += work(i);
    return sum;
}

NOINLINE long dynamic(long n) {
    long sum = 0;
#pragma omp parallel for reduction(+ : sum) schedule(dynamic, 3)
    for (long i = 0; i < n; i++)
        sum += work(i);
    return sum;
}

NOINLINE long sections(void) {
    long first = 0, second = 0;
#pragma omp parallel sections
    {
#pragma omp section
        first = work(3);
#pragma omp section
        second = work(5);
    }
    return first + second;
}

/* An orphaned loop, called from all threads, with a barrier in the middle of a call path. */
NOINLINE void shared_loop(long n, long *sum) {
    long own = 0;
#pragma omp for
    for (long i = 0; i < n; i++)
        own += work(i);
#pragma omp atomic
    *sum += own;
}

NOINLINE long inner(long n) {
    long sum = 0;
#pragma omp parallel for reduction(+ : sum)
    for (long i = 0; i < n; i++)
        sum += work(i);
    return sum;
}

NOINLINE long nested(long n) {
    long sum = 0;
#pragma omp parallel for reduction(+ : sum)
    for (long i = 0; i < 4; i++)
        sum += inner(n);
    return sum;
}

NOINLINE long orphaned(long n) {
    long sum = 0;
#pragma omp parallel
    shared_loop(n, &sum);
    return sum;
}

NOINLINE long tree(long depth) {
    if (depth == 0)
        return work(depth);
    long left, right;
#pragma omp task shared(left)
    left = tree(depth - 1);
#pragma omp task shared(right) if (depth > 2)
    right = tree(depth - 1);
#pragma omp taskwait
    return left + right;
}

NOINLINE long tasks(long depth) {
    long sum = 0;
#pragma omp parallel
#pragma omp single
    sum = tree(depth);
    return sum;
}

NOINLINE long task_reduction(long n) {
    long sum = 0;
#pragma omp parallel reduction(task, + : sum)
#pragma omp single
    for (long i = 0; i < n; i++)
#pragma omp task in_reduction(+ : sum)
        sum += work(i);
    return sum;
}

/* Another thread has to take the task up: the one that made it waits without doing tasks. */
NOINLINE void make(long *sum) {
    int is_done = 0;
#pragma omp task shared(is_done)
    {
        *sum += work(9);
#pragma omp atomic write
        is_done = 1;
    }
    for (int done = omp_get_num_threads() == 1; !done;) {
        usleep(100);
#pragma omp atomic read
        done = is_done;
    }
#pragma omp taskwait
}

NOINLINE long handed_over(void) {
    long sum = 0;
#pragma omp parallel
#pragma omp single
    make(&sum);
    return sum;
}

int main(int argc, char **argv) {
    long n = argc > 1 ? atol(argv[1]) : 1000;
    long sum = fixed(n) + dynamic(n);
    usleep(argc > 2 ? 1000 * (useconds_t)atol(argv[2]) : 0);
    sum += sections() + orphaned(n) + nested(20) + tasks(5) + task_reduction(20) + handed_over();
    printf("%ld\n", sum);
    return 0;
}
