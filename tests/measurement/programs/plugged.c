/* A library that is loaded and unloaded. NAME makes several of the same shape, so that one may take another's place. */
#define JOIN_(a, b) a##b
#define JOIN(a, b) JOIN_(a, b)

__attribute__((noinline)) int JOIN(only_in_, NAME)(int n) {
    volatile int sum = 0;
    for (int i = 0; i < n; i++)
        sum = sum + i;
    return sum;
}

void plugged_entry(void);
void plugged_entry(void) { JOIN(only_in_, NAME)(10); }
