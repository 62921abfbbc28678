// Everything that makes counting and call paths difficult, without MPI. Prints a checksum, so that a build that
// changes the program's behaviour is noticed. Arguments: size [exit|abort].
#include <csetjmp>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <pthread.h>
#include <stdexcept>
#include <vector>

#define NOINLINE __attribute__((noinline))

NOINLINE int fib(int n) { return n < 2 ? n : fib(n - 1) + fib(n - 2); }

// ---- before main
static int initialised_early = fib(6);

// ---- exceptions: over several frames, with clean-ups, passed on, and caught by type
struct Guard {
    int &count;
    explicit Guard(int &c) : count(c) {}
    ~Guard() {
        for (int i = 0; i < 3; i++)
            count += i;
    }
};

NOINLINE void thrower(int k) {
    if (k % 3 == 0)
        throw std::runtime_error("three");
    if (k % 5 == 0)
        throw k;
}

NOINLINE int between(int k) {
    int count = 0;
    Guard guard(count);
    for (int i = 0; i < k % 7; i++)
        count += i;
    thrower(k);
    return count;
}

NOINLINE int passing_on(int k) {
    try {
        return between(k);
    } catch (int) {
        fib(2);
        throw;
    }
}

NOINLINE int catcher(int n) {
    int count = 0;
    for (int i = 0; i < n; i++) {
        try {
            count += passing_on(i);
        } catch (const std::exception &) {
            count += fib(3);
        } catch (int value) {
            count += value;
        }
    }
    return count;
}

// ---- longjmp
static jmp_buf target;

NOINLINE void deep(int n) {
    if (n == 0)
        longjmp(target, 1);
    deep(n - 1);
}

NOINLINE int jumper(int n) {
    volatile int count = 0;
    for (int i = 0; i < n; i++) {
        if (setjmp(target) == 0)
            deep(i % 10);
        else
            count = count + 1;
    }
    return count;
}

// ---- branches
NOINLINE int switches(int x) {
    switch (x % 9) {
    case 0:
        return 3;
    case 1:
    case 2:
        return x;
    case 3:
        x += 2; // falls through
    case 4:
        x *= 3;
        break;
    case 5:
        for (int i = 0; i < x % 17; i++)
            x ^= i * x;
        return x;
    default:
        x--;
    }
    return x;
}

NOINLINE int interpreter(const char *program) {
    static const void *const labels[] = {&&add, &&twice, &&stop};
    int value = 1;
    goto *labels[*program - '0'];
add:
    value += 1;
    goto *labels[*++program - '0'];
twice:
    value *= 2;
    goto *labels[*++program - '0'];
stop:
    return value;
}

// ---- calls that the compiler cannot see through
struct Base {
    virtual int f(int) = 0;
    virtual ~Base() {}
};
struct Adder : Base {
    int f(int x) override { return x + 1; }
};
struct Collatz : Base {
    int f(int x) override {
        int steps = 0;
        while (x > 1) {
            x = x & 1 ? 3 * x + 1 : x / 2;
            steps++;
        }
        return steps;
    }
};

static int compare(const void *a, const void *b) {
    int x, y;
    memcpy(&x, a, sizeof x);
    memcpy(&y, b, sizeof y);
    if (x < y)
        return -1;
    return x > y;
}

// ---- loops for the vectoriser, and functions that promise to touch no memory
NOINLINE double axpy(int n, double *a, const double *b, double c) {
    double sum = 0;
    for (int i = 0; i < n; i++) {
        a[i] += c * b[i];
        if (a[i] > 5)
            sum += a[i];
    }
    return sum;
}

NOINLINE long nest(int n) {
    long sum = 0;
    for (int i = 0; i < n; i++)
        for (int j = 0; j <= i; j++)
            for (int k = 0; k < 3; k++)
                sum += (i ^ j) * k;
    return sum;
}

__attribute__((const, noinline)) int promised_const(int x) {
    int sum = 0;
    for (int i = 0; i < x; i++)
        sum ^= i * i;
    return sum;
}

NOINLINE int uses_const(int n) {
    int sum = 0;
    for (int i = 0; i < n; i++)
        sum += promised_const(i % 13);
    return sum;
}

// ---- inlining, templates, tail calls, memory on the stack
static inline int small_inline(int x) {
    int sum = 0;
    for (int i = 0; i < x % 5; i++)
        sum += fib(i);
    return sum;
}

// An accessor: called so often that a hook would multiply the run time.
struct Matrix {
    std::vector<double> values;
    int n;
    double &at(int i, int j) { return values[static_cast<size_t>(i * n + j)]; }
    double around(int i, int j) { return at(i - 1, j) + at(i + 1, j) + at(i, j - 1) + at(i, j + 1); }
};

NOINLINE double smooth(Matrix &matrix) {
    double sum = 0;
    for (int i = 1; i < matrix.n - 1; i++)
        for (int j = 1; j < matrix.n - 1; j++)
            sum += matrix.around(i, j);
    return sum;
}

template <class T> NOINLINE T accumulate(const std::vector<T> &values) {
    T sum = 0;
    for (T value : values)
        sum += value > 0 ? value : T(1);
    return sum;
}

NOINLINE int with_stack(int n) {
    char *memory = static_cast<char *>(__builtin_alloca(static_cast<size_t>(n)));
    memset(memory, 1, static_cast<size_t>(n));
    int sum = 0;
    for (int i = 0; i < n; i++)
        sum += memory[i];
    return sum;
}

#if defined(__clang__)
NOINLINE int countdown(int n, int sum) {
    if (n == 0)
        return sum;
    __attribute__((musttail)) return countdown(n - 1, sum + n % 3);
}
#else
NOINLINE int countdown(int n, int sum) { return n == 0 ? sum : countdown(n - 1, sum + n % 3); }
#endif

NOINLINE int bottomless(int n) { return n == 0 ? 0 : 1 + bottomless(n - 1) + (n & 1); }

NOINLINE static void *worker(void *argument) {
    int n = *static_cast<int *>(argument);
    return reinterpret_cast<void *>(fib(n) + nest(n));
}

NOINLINE void ends_here(int code) {
    fib(4);
    if (code)
        exit(code == 1 ? 0 : code);
}

int main(int argc, char **argv) {
    int n = argc > 1 ? atoi(argv[1]) : 100;
    long sum = initialised_early;
    sum += fib(n / 10 + 5);
    sum += catcher(n);
    sum += jumper(n);
    for (int i = 0; i < n * 10; i++)
        sum += switches(i);
    sum += interpreter("0101102");
    Adder adder;
    Collatz collatz;
    Base *objects[2] = {&adder, &collatz};
    for (int i = 0; i < n; i++)
        sum += objects[i & 1]->f(i + 1);
    std::vector<double> x(static_cast<size_t>(n) * 7, 1.0), y(static_cast<size_t>(n) * 7, 0.25);
    for (int i = 0; i < 30; i++)
        sum += static_cast<long>(axpy(n * 7 - i, x.data(), y.data(), 1.5));
    sum += nest(n);
    sum += uses_const(n);
    std::vector<int> shuffled(static_cast<size_t>(n));
    for (int i = 0; i < n; i++)
        shuffled[static_cast<size_t>(i)] = (i * 7919) % n;
    qsort(shuffled.data(), shuffled.size(), sizeof(int), compare);
    sum += shuffled[shuffled.size() / 2] + small_inline(n + 4) + accumulate(shuffled) + with_stack(n);
    Matrix matrix{std::vector<double>(static_cast<size_t>(n) * n, 2.0), n};
    sum += static_cast<long>(smooth(matrix));
    sum += countdown(n, 0) + bottomless(500);
    pthread_t threads[3];
    int sizes[3] = {n / 10, n / 12 + 1, n / 15 + 2};
    for (int i = 0; i < 3; i++) {
        void *result;
        pthread_create(&threads[i], nullptr, worker, &sizes[i]);
        pthread_join(threads[i], &result);
        sum += reinterpret_cast<long>(result);
    }
    printf("%ld\n", sum);
    fflush(stdout);
    if (argc > 2 && !strcmp(argv[2], "abort"))
        abort();
    ends_here(argc > 2 && !strcmp(argv[2], "exit"));
    return 0;
}
