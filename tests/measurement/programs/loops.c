/* Loops over arrays, evenly spaced: loops count */
#include <stdint.h>
#include <stdlib.h>

#define KERNEL static __attribute__((noinline))

KERNEL void forward(double *to, const double *from, long count) {
    for (long i = 0; i < count; i++)
        to[i] = 2 * from[i] + to[i];
}

KERNEL void backward(double *to, const double *from, long count) {
    for (long i = count - 1; i >= 0; i--)
        to[i] += from[count - 1 - i];
}

KERNEL void in_bytes(char *to, const int16_t *from, long count) {
    for (long i = 0; i < count; i++)
        to[i] ^= (char)from[i];
}

/* Three of five numbers that belong together, and a sum in memory. */
KERNEL void records(volatile double *sum, const double *values, long count) {
    for (long i = 0; i < count; i++)
        *sum += values[5 * i] + values[5 * i + 2] * values[5 * i + 4];
}

KERNEL void triangle(double *to, const double *from, long rows) {
    for (long row = 1; row < rows; row++)
        for (long i = 0; i < row; i++)
            to[row * rows + i] += from[i];
}

KERNEL void columns(double *to, const double *from, long rows) {
    for (long column = 0; column < rows; column++)
        for (long row = 0; row < rows; row++)
            to[column * rows + row] += from[row * rows + column];
}

int main(int argc, char **argv) {
    long count = atol(argv[argc - 1]), rows = 1;
    while ((rows + 1) * (rows + 1) <= count)
        rows++;
    double *a = aligned_alloc(64, (size_t)count * 40 + 64), *b = aligned_alloc(64, (size_t)count * 40 + 64);
    a += 3, b += 6;
    for (int round = 0; round < 3; round++) {
        forward(a, b, count);
        backward(a, b, count);
        in_bytes((char *)a, (const int16_t *)b, count);
        records(a, b, count);
        triangle(a, b, rows);
        columns(a, b, rows);
    }
    return 0;
}
