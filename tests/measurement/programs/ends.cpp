// All the ways in which a program can end, start others, and be interrupted. The first argument chooses one.
#include <csetjmp>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <dlfcn.h>
#include <new>
#include <string>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#define NOINLINE __attribute__((noinline))

NOINLINE long work(long n) {
    volatile long sum = 0;
    for (long i = 0; i < n; i++)
        sum = sum + i;
    return sum;
}

// ---- before and after main
struct Early {
    Early() { begin(); }
    ~Early() { end(); }
    NOINLINE void begin() { work(5); }
    NOINLINE void end() { work(6); }
};
static Early early;

NOINLINE void registered() { work(7); }
__attribute__((destructor)) NOINLINE static void at_unloading() { work(8); }

// ---- ends
NOINLINE void leave(const std::string &how) {
    work(10);
    if (how == "exit")
        exit(0);
    if (how == "_exit")
        _exit(0);
    if (how == "_Exit")
        _Exit(0);
    if (how == "quick_exit")
        quick_exit(0);
    if (how == "abort")
        abort();
    if (how == "segv")
        raise(SIGSEGV);
    if (how == "kill")
        kill(getpid(), SIGKILL);
}

// ---- other processes
NOINLINE void in_child() { work(20); }

NOINLINE void wait_for(pid_t child) {
    int status = 1;
    if (waitpid(child, &status, 0) != child || status)
        exit(3);
}

NOINLINE void forks(const std::string &how, char **argv) {
    pid_t child = fork();
    if (child == 0) {
        in_child();
        if (how == "fork and exit")
            exit(0);
        if (how == "fork and _exit")
            _exit(0);
        execl(argv[0], argv[0], "work", static_cast<char *>(nullptr));
        exit(4);
    }
    wait_for(child);
}

NOINLINE void start_from_here(char **argv) {
    execl(argv[0], argv[0], "no such thing", static_cast<char *>(nullptr));
    _exit(4);
}

NOINLINE void vforks(char **argv) {
    pid_t child = vfork();
    if (child == 0)
        start_from_here(argv); // never comes back, in memory that is the parent's
    wait_for(child);
    work(21);
}

// ---- signals
static volatile sig_atomic_t handled;
NOINLINE void on_signal(int) {
    handled = handled + 1;
    work(3);
}

NOINLINE long tiny(long i) { return i + 1; }

NOINLINE void interrupted(long turns, int microseconds) {
    struct sigaction action = {};
    action.sa_handler = on_signal;
    sigaction(SIGALRM, &action, nullptr);
    struct itimerval often = {{0, microseconds}, {0, microseconds}}, never = {};
    setitimer(ITIMER_REAL, &often, nullptr);
    long sum = 0;
    for (long i = 0; i < turns; i++)
        sum += tiny(i);
    setitimer(ITIMER_REAL, &never, nullptr);
    printf("%d %ld\n", static_cast<int>(handled), sum);
}

NOINLINE void raised(long times) {
    struct sigaction action = {};
    action.sa_handler = on_signal;
    sigaction(SIGALRM, &action, nullptr);
    for (long i = 0; i < times; i++)
        raise(SIGALRM);
}

static sigjmp_buf back;
NOINLINE void jump_out(int) { siglongjmp(back, 1); }

NOINLINE void jumped_out_of(long times) {
    struct sigaction action = {};
    action.sa_handler = jump_out;
    sigaction(SIGALRM, &action, nullptr);
    volatile long jumps = 0, sum = 0;
    while (jumps < times) {
        if (sigsetjmp(back, 1)) {
            jumps = jumps + 1;
            continue;
        }
        struct itimerval soon = {{0, 0}, {0, 100}};
        setitimer(ITIMER_REAL, &soon, nullptr);
        for (;;)
            sum = sum + tiny(sum);
    }
    work(30);
}

// ---- memory: an allocator that is instrumented itself
static bool counts_allocations;
NOINLINE void on_allocation() {
    if (counts_allocations)
        work(1);
}
void *operator new(size_t size) {
    on_allocation();
    if (void *memory = malloc(size))
        return memory;
    throw std::bad_alloc();
}
void operator delete(void *memory) noexcept { free(memory); }
void operator delete(void *memory, size_t) noexcept { free(memory); }

static long *volatile kept; // compilers may leave out allocations that nobody looks at

NOINLINE void allocates(long n) {
    counts_allocations = true;
    for (long i = 0; i < n; i++) {
        kept = new long(i);
        delete kept;
    }
    counts_allocations = false;
}

// ---- recursion
NOINLINE long down(long n);
NOINLINE long other(long n) { return work(2) + down(n - 1); }
NOINLINE long down(long n) { return n == 0 ? 0 : n % 3 == 0 ? other(n) : work(1) + down(n - 1); }

template <int N> NOINLINE long fan(long depth) {
    work(1);
    return depth ? fan<(N * 2) % 7>(depth - 1) + fan<(N * 3 + 1) % 7>(depth - 1) : 0;
}

// ---- libraries that come and go
NOINLINE void plugged(int count, char **libraries, long turns) {
    for (long i = 0; i < turns; i++) {
        void *library = dlopen(libraries[i % count], RTLD_NOW);
        if (!library) {
            fprintf(stderr, "%s\n", dlerror());
            exit(5);
        }
        reinterpret_cast<void (*)(void)>(dlsym(library, "plugged_entry"))();
        dlclose(library);
        if (dlopen(libraries[i % count], RTLD_NOW | RTLD_NOLOAD))
            exit(6); // it has not been unloaded, so that nothing is tested
    }
}

int main(int argc, char **argv) {
    std::string what = argc > 1 ? argv[1] : "";
    long number = argc > 2 ? atol(argv[2]) : 0;
    atexit(registered);
    work(1);
    if (what.rfind("fork", 0) == 0)
        forks(what, argv);
    else if (what == "vfork")
        vforks(argv);
    else if (what == "system")
        return system((std::string(argv[0]) + " work").c_str());
    else if (what == "exec")
        execl(argv[0], argv[0], "work", static_cast<char *>(nullptr));
    else if (what == "interrupted")
        interrupted(number, argc > 3 ? atoi(argv[3]) : 0);
    else if (what == "raised")
        raised(number);
    else if (what == "jumped")
        jumped_out_of(number);
    else if (what == "chdir")
        return chdir("/");
    else if (what == "allocates")
        allocates(number);
    else if (what == "down")
        down(number);
    else if (what == "fan")
        fan<1>(number);
    else if (what == "plugged")
        plugged(argc - 3, argv + 3, number);
    else
        leave(what);
    return 0;
}
