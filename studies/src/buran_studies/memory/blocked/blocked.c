/* A product of two square matrices of n x n numbers, in blocks of 32 x 32: blocked n */
#include <stdio.h>
#include <stdlib.h>

#define BLOCK 32

static __attribute__((noinline)) void multiply(int n, const double *a, const double *b, double *c) {
    for (int i = 0; i < n; i += BLOCK)
        for (int j = 0; j < n; j += BLOCK)
            for (int k = 0; k < n; k += BLOCK)
                for (int row = i; row < i + BLOCK; row++)
                    for (int inner = j; inner < j + BLOCK; inner++)
                        for (int column = k; column < k + BLOCK; column++)
                            c[row * n + column] += a[row * n + inner] * b[inner * n + column];
}

static __attribute__((noinline)) double *filled(int n, double value) {
    double *matrix = malloc(sizeof(double) * (size_t)n * (size_t)n);
    for (int i = 0; i < n * n; i++)
        matrix[i] = value;
    return matrix;
}

int main(int argc, char **argv) {
    int n = (atoi(argv[argc > 1 ? 1 : 0]) + BLOCK - 1) / BLOCK * BLOCK;
    double *a = filled(n, 1), *b = filled(n, 2), *c = filled(n, 0);
    multiply(n, a, b, c);
    return printf("%g\n", c[n * n - 1]) < 0;
}
