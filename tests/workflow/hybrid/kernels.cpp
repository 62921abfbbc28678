// Two loops that threads share: one in equal parts, one dealt out to whoever is free, as its rows are uneven.
#include "kernels.h"

__attribute__((noinline)) static double relaxed(const double *row, long n) {
    double sum = 0;
    for (long turn = 0; turn < n; turn++)
        for (long i = 1; i + 1 < n; i++)
            sum += 0.5 * row[i] - 0.25 * (row[i - 1] + row[i + 1]);
    return sum;
}

__attribute__((noinline)) static double nearest(const double *values, long row, long n) {
    double least = 1e30;
    for (long i = 0; i < row * n; i++) {
        double distance = values[row] - values[i % n];
        least = distance * distance < least ? distance * distance : least;
    }
    return least;
}

double relax(const double *values, long n) {
    double sum = 0;
#pragma omp parallel for schedule(static) reduction(+ : sum)
    for (long row = 0; row < n; row++)
        sum += relaxed(values, n);
    return sum;
}

double search(const double *values, long n) {
    double sum = 0;
#pragma omp parallel for schedule(dynamic) reduction(+ : sum)
    for (long row = 0; row < n; row++)
        sum += nearest(values, row, n);
    return sum;
}
