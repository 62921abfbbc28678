/* Kernels whose floating-point operations and accesses to memory can be counted by hand. Argument: n. */
#include <math.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define KERNEL __attribute__((noinline))

typedef struct {
    double x, y, z;
} Point;

static jmp_buf back;

/* 2 n^3 operations, 2 n^3 loads, n^2 stores */
KERNEL void product(int n, const double *a, const double *b, double *c) {
    for (int i = 0; i < n; i++)
        for (int j = 0; j < n; j++) {
            double sum = 0.0;
            for (int k = 0; k < n; k++)
                sum += a[i * n + k] * b[k * n + j];
            c[i * n + j] = sum;
        }
}

/* 2 n operations, 2 n loads and n stores of 4 bytes */
KERNEL void scale_add(int n, float alpha, const float *x, float *y) {
    for (int i = 0; i < n; i++)
        y[i] += alpha * x[i];
}

/* n divisions, n + 1 additions and a root; n loads */
KERNEL double root_of_sum(int n, const double *x) {
    double sum = 1.0;
    for (int i = 0; i < n; i++)
        sum += x[i] / 3.0;
    return sqrt(sum + 0.5);
}

/* 8 n bytes are read; 12 n are written, 4 n of them by filling */
KERNEL void copies(size_t n, char *to, const char *from) {
    memcpy(to, from, 8 * n);
    memset(to, 1, 4 * n);
}

/* 24 bytes each way, and nothing else */
KERNEL void moves(Point *to, const Point *from) { *to = *from; }

/* An operation of its own before and behind one that it calls, which is inlined or not */
static double halved(double x) { return x * 0.5; }
KERNEL double around(double x) { return halved(x + 1.0) - 2.0; }

/* A chain of pointers: as many rounds as elements, which no formula tells beforehand. n loads of pointers, n of values */
typedef struct Element {
    struct Element *next;
    double value;
} Element;
KERNEL double chain(const Element *at) {
    double sum = 0.0;
    for (; at; at = at->next)
        sum += at->value;
    return sum;
}

/* 2 n operations of long doubles */
KERNEL long double wide(int n, const long double *x) {
    long double sum = 0.0L;
    for (int i = 0; i < n; i++)
        sum += x[i] * x[i];
    return sum;
}

/* n calls, n integer operations, n + 1 branches */
static int (*volatile of_sum)(int) = abs;
KERNEL int calling(const Element *at, int (*of)(int)) {
    int sum = 0;
    for (; at; at = at->next)
        sum = of(sum) ^ 3;
    return sum;
}

/* What was done before the jump counts, what stands behind it does not: n operations */
KERNEL double jumps(int n, const double *x, int leaves) {
    double sum = 0.0;
    for (int i = 0; i < n; i++)
        sum += x[i];
    if (leaves)
        longjmp(back, 1);
    return sum * sum;
}

/* Threads count for themselves: each n operations */
typedef struct {
    int n;
    const double *x;
    double sum;
} Job;
KERNEL void *works(void *argument) {
    Job *job = argument;
    double sum = 0.0;
    for (int i = 0; i < job->n; i++)
        sum += job->x[i];
    job->sum = sum;
    return NULL;
}

int main(int argc, char **argv) {
    const int n = argc > 1 ? atoi(argv[1]) : 10;
    double *a = calloc((size_t)(3 * n * n), sizeof *a);
    Element *elements = calloc((size_t)n, sizeof *elements);
    float *x = calloc((size_t)(2 * n), sizeof *x);
    long double *wides = calloc((size_t)n, sizeof *wides);
    Point points[2] = {{1, 2, 3}, {4, 5, 6}};
    Job jobs[2] = {{n, a, 0}, {n, a, 0}};
    pthread_t threads[2];
    for (int i = 0; i + 1 < n; i++)
        elements[i].next = elements + i + 1;
    product(n, a, a + n * n, a + 2 * n * n);
    scale_add(n, 2.0f, x, x + n);
    copies((size_t)n, (char *)(a + n), (char *)a);
    moves(points, points + 1);
    double sum = root_of_sum(n, a) + around(points[0].x) + chain(elements);
    sum += (double)wide(n, wides) + calling(elements, of_sum);
    if (!setjmp(back))
        sum += jumps(n, a, 1);
    for (int i = 0; i < 2; i++)
        pthread_create(threads + i, NULL, works, jobs + i);
    for (int i = 0; i < 2; i++)
        pthread_join(threads[i], NULL);
    printf("%g\n", sum + jobs[0].sum + jobs[1].sum);
    return 0;
}
