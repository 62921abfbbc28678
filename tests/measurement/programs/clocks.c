/* Works, sleeps, forks a child that works, and prints the CPU time of its thread in seconds. */
#include <stdio.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define NOINLINE __attribute__((noinline))

NOINLINE double work(long n) {
    volatile double sum = 0;
    for (long i = 0; i < n; i++)
        sum += 1.0 / (double)(i + 1);
    return sum;
}

NOINLINE void often(void) {
    for (long i = 0; i < 200000; i++)
        work(20);
}

NOINLINE void sleeping(void) { usleep(300000); }

int main(void) {
    work(20000000);
    sleeping();
    often();
    pid_t child = fork();
    if (!child) {
        work(1000);
        return 0;
    }
    int status = 1;
    if (waitpid(child, &status, 0) != child || status)
        return 1;
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    printf("%.6f\n", (double)t.tv_sec + 1e-9 * (double)t.tv_nsec);
    return 0;
}
