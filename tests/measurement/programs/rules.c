/* Functions whose blocks can be counted by hand. Arguments: how to leave, turns of the loop before that. */
#include <pthread.h>
#include <setjmp.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define NOINLINE __attribute__((noinline))

static volatile int sink;
static jmp_buf back;

/* The first way leads through a block in which nothing happens. */
NOINLINE void hollow(int way) {
    if (way)
        ;
    else
        sink = 1;
}

/* Blocks are counted in a register until the function leaves; here it never returns. */
NOINLINE void leaves(const char *how, int turns) {
    for (int i = 0; i < turns; i++)
        if (sink + i != -1)
            sink = i;
    if (!strcmp(how, "exit"))
        exit(0);
    if (!strcmp(how, "_exit"))
        _exit(0);
    if (!strcmp(how, "quick_exit"))
        quick_exit(0);
    if (!strcmp(how, "pthread_exit"))
        pthread_exit(NULL);
    if (!strcmp(how, "longjmp"))
        longjmp(back, 1);
}

int main(int argc, char **argv) {
    for (int i = 0; i < 100; i++)
        hollow(1);
    for (int i = 0; i < 10; i++)
        hollow(0);
    if (!setjmp(back))
        leaves(argc > 1 ? argv[1] : "", argc > 2 ? atoi(argv[2]) : 0);
    return 0;
}
