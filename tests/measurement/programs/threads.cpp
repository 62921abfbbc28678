// POSIX and C++ threads, and how they end. The argument chooses what to do; prints nothing.
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <pthread.h>
#include <thread>
#include <unistd.h>

#define NOINLINE __attribute__((noinline))

NOINLINE long work(long n) {
    volatile long sum = 0;
    for (long i = 0; i < n; i++)
        sum = sum + i;
    return sum;
}

NOINLINE void *plain(void *argument) {
    work(*static_cast<long *>(argument));
    return nullptr;
}

NOINLINE void leave_from_deep(long n) {
    work(n);
    volatile long sum = 0;
    for (long i = 0; i < n; i++) // counted after the last hook of this thread
        sum = sum + i;
    pthread_exit(nullptr);
}

NOINLINE void *leaving(void *argument) {
    leave_from_deep(*static_cast<long *>(argument));
    return nullptr;
}

NOINLINE void run(void *(*routine)(void *), long n) {
    pthread_t thread;
    if (pthread_create(&thread, nullptr, routine, &n))
        abort();
    pthread_join(thread, nullptr);
}

NOINLINE void from_here(long n) { run(plain, n); }
NOINLINE void from_there(long n) { run(plain, n); }

NOINLINE void *starting_another(void *argument) {
    from_there(*static_cast<long *>(argument));
    return nullptr;
}

NOINLINE void cpp_threads(long n) {
    std::thread first([n] { work(n); }), second([n] { work(2 * n); });
    first.join();
    second.join();
}

// A destructor of a thread's own data runs when the thread is over.
static pthread_key_t key;
NOINLINE void at_end(void *argument) { work(*static_cast<long *>(argument)); }
NOINLINE void *with_destructor(void *argument) {
    static long length = 40;
    pthread_setspecific(key, &length);
    work(*static_cast<long *>(argument));
    return nullptr;
}

static std::atomic<bool> is_running;
NOINLINE void *endless(void *) {
    for (;;) {
        work(1000);
        is_running = true;
        usleep(100);
    }
}

NOINLINE void *counting_down(void *argument) {
    work(*static_cast<long *>(argument));
    return nullptr;
}

NOINLINE void not_joined() {
    pthread_t thread;
    if (pthread_create(&thread, nullptr, endless, nullptr))
        abort();
    pthread_detach(thread);
    while (!is_running)
        usleep(100);
}

int main(int argc, char **argv) {
    const char *what = argc > 1 ? argv[1] : "";
    if (!strcmp(what, "paths")) {
        from_here(10);
        from_there(20);
        run(starting_another, 30);
    } else if (!strcmp(what, "leaving")) {
        run(leaving, 50);
    } else if (!strcmp(what, "cpp")) {
        cpp_threads(10);
    } else if (!strcmp(what, "destructor")) {
        // More keys before and after, so that the order of destruction is not in our favour.
        pthread_key_create(&key, at_end);
        run(with_destructor, 10);
    } else if (!strcmp(what, "detached")) {
        not_joined();
    } else if (!strcmp(what, "many")) {
        for (int i = 0; i < atoi(argv[2]); i++)
            run(counting_down, 10);
    } else if (!strcmp(what, "main leaves")) {
        pthread_t thread;
        static long n = 60;
        pthread_create(&thread, nullptr, plain, &n);
        pthread_exit(nullptr);
    }
    return 0;
}
