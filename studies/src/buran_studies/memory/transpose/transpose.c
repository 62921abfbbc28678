/* The transpose of a matrix of n x n numbers, ten times; each row has some numbers more, unused: transpose n padding */
#include <stdio.h>
#include <stdlib.h>

#define ROUNDS 10

static __attribute__((noinline)) void transpose(int n, int row, const double *from, double *to) {
    for (int i = 0; i < n; i++)
        for (int j = 0; j < n; j++)
            to[i * row + j] = from[j * row + i];
}

int main(int argc, char **argv) {
    int n = argc > 1 ? atoi(argv[1]) : 256, row = n + (argc > 2 ? atoi(argv[2]) : 0);
    double *from = malloc(sizeof(double) * (size_t)n * (size_t)row), *to = malloc(sizeof(double) * (size_t)n * (size_t)row);
    for (int i = 0; i < n * row; i++)
        from[i] = to[i] = i;
    for (int round = 0; round < ROUNDS; round++)
        transpose(n, row, round % 2 ? to : from, round % 2 ? from : to);
    return printf("%g\n", to[n - 1]) < 0;
}
