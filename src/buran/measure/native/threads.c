/* Threads: each is a location of its own, and what it does is recorded below the call path that started it.
 *
 * The program's calls of pthread_create and of libgomp's parallel regions come here first, also those from its
 * libraries, since a program's own symbols go before its libraries'. libomp (clang, and the compilers derived from it)
 * tells through OMPT, the tool interface of OpenMP.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <stdint.h>
#include <string.h>

#include "internal.h"

static void *next_symbol(const char *name, const char *library) {
    void *found = dlsym(RTLD_NEXT, name);
    /* A linker may have left a library out if nothing but our functions was asked of it. */
    void *handle = found || !library ? NULL : dlopen(library, RTLD_NOW | RTLD_GLOBAL);
    if (handle)
        found = dlsym(handle, name);
    if (!found)
        buran_give_up(name, "not found in any shared library; programs with threads cannot be linked statically");
    return found;
}

#define NEXT(NAME, LIBRARY)                                            \
    static __typeof__(&NAME) next;                                     \
    if (!__atomic_load_n(&next, __ATOMIC_ACQUIRE)) {                   \
        __typeof__(next) found = (__typeof__(next))next_symbol(#NAME, LIBRARY); \
        __atomic_store_n(&next, found, __ATOMIC_RELEASE);              \
    }

/* ---- POSIX threads */

/* Set while libgomp may be starting threads for its pool: these belong to no call path. */
static __thread int fills_pool __attribute__((tls_model("initial-exec")));

static void *begin_thread(void *argument) {
    buran_thread *thread = argument;
    void *(*routine)(void *) = thread->routine;
    void *for_routine = thread->argument;
    buran_attach_thread(thread);
    return routine(for_routine);
}

/* The record is made here and not by the new thread, so that locations are numbered in the order of creation. */
int pthread_create(pthread_t *handle, const pthread_attr_t *attributes, void *(*routine)(void *), void *argument) {
    NEXT(pthread_create, NULL)
    buran_thread *creator = buran_self();
    if (!creator)
        return next(handle, attributes, routine, argument);
    buran_thread *thread = buran_reserve_thread(fills_pool ? NULL : creator->current);
    thread->routine = routine;
    thread->argument = argument;
    int result = next(handle, attributes, begin_thread, thread);
    if (result)
        buran_release_thread(thread);
    return result;
}

/* ---- parallel regions of libgomp */

/* Each thread of a team gets a pointer to this instead of to the region's data. */
typedef struct parallel {
    void *first_word; /* of the data: GOMP_parallel_reductions looks at it */
    void (*function)(void *);
    void *data;
    const buran_node *origin;
} parallel;

static void work_in_parallel(void *argument) {
    const parallel *region = argument;
    int outer = fills_pool;
    fills_pool = 0;
    uint32_t token = buran_enter_path(region->origin, NULL);
    buran_thread *thread = buran_self();
    if (thread)
        thread->is_used = 1;
    region->function(region->data);
    buran_exit(token);
    fills_pool = outer;
}

static parallel parallel_region(void (*function)(void *), void *data) {
    buran_thread *thread = buran_self();
    return (parallel){.function = function, .data = data, .origin = thread ? thread->current : NULL};
}

#define LIBGOMP "libgomp.so.1"
#define UNPACK(...) __VA_ARGS__

/* `PARAMETERS` and `ARGUMENTS` are those behind function and data. */
#define GOMP(RESULT, NAME, KEEP, GIVE, PARAMETERS, ARGUMENTS)                            \
    RESULT NAME(void (*function)(void *), void *data, UNPACK PARAMETERS);                \
    RESULT NAME(void (*function)(void *), void *data, UNPACK PARAMETERS) {               \
        NEXT(NAME, LIBGOMP)                                                              \
        parallel region = parallel_region(function, data);                               \
        int outer = fills_pool;                                                          \
        fills_pool = 1;                                                                  \
        KEEP next(work_in_parallel, &region, UNPACK ARGUMENTS);                          \
        fills_pool = outer;                                                              \
        GIVE;                                                                            \
    }

#define GOMP_LOOP(NAME)                                                                                   \
    GOMP(void, NAME, , , (unsigned threads, long start, long end, long step, long chunk, unsigned flags), \
         (threads, start, end, step, chunk, flags))
#define GOMP_LOOP_WITHOUT_CHUNK(NAME)                                                         \
    GOMP(void, NAME, , , (unsigned threads, long start, long end, long step, unsigned flags), \
         (threads, start, end, step, flags))

GOMP(void, GOMP_parallel, , , (unsigned threads, unsigned flags), (threads, flags))
GOMP(void, GOMP_parallel_sections, , , (unsigned threads, unsigned count, unsigned flags), (threads, count, flags))
GOMP(void, GOMP_teams_reg, , , (unsigned teams, unsigned limit, unsigned flags), (teams, limit, flags))
GOMP_LOOP(GOMP_parallel_loop_static)
GOMP_LOOP(GOMP_parallel_loop_dynamic)
GOMP_LOOP(GOMP_parallel_loop_guided)
GOMP_LOOP(GOMP_parallel_loop_nonmonotonic_dynamic)
GOMP_LOOP(GOMP_parallel_loop_nonmonotonic_guided)
GOMP_LOOP_WITHOUT_CHUNK(GOMP_parallel_loop_runtime)
GOMP_LOOP_WITHOUT_CHUNK(GOMP_parallel_loop_nonmonotonic_runtime)
GOMP_LOOP_WITHOUT_CHUNK(GOMP_parallel_loop_maybe_nonmonotonic_runtime)

unsigned GOMP_parallel_reductions(void (*function)(void *), void *data, unsigned threads, unsigned flags);
unsigned GOMP_parallel_reductions(void (*function)(void *), void *data, unsigned threads, unsigned flags) {
    NEXT(GOMP_parallel_reductions, LIBGOMP)
    parallel region = parallel_region(function, data);
    region.first_word = *(void **)data;
    int outer = fills_pool;
    fills_pool = 1;
    unsigned result = next(work_in_parallel, &region, threads, flags);
    fills_pool = outer;
    return result;
}

/* ---- tasks of libgomp: whoever takes one up works for the call path that made it */

#define TASK_HAS_EVENT (1u << 13) /* libgomp writes into the task's data */

/* Stands before the data of a task, which libgomp copies for it. */
typedef struct task {
    void (*function)(void *);
    void (*copy)(void *, void *);
    void *data;
    const buran_node *origin;
    size_t offset; /* of the data */
} task;

static void work_on_task(void *argument) {
    const task *work = argument;
    uint32_t token = buran_enter_path(work->origin, NULL);
    work->function((char *)argument + work->offset);
    buran_exit(token);
}

static void copy_task(void *to, void *from) {
    const task *work = from;
    memcpy(to, work, sizeof *work);
    work->copy((char *)to + work->offset, work->data);
}

void GOMP_task(void (*function)(void *), void *data, void (*copy)(void *, void *), long size, long alignment,
               _Bool deferred, unsigned flags, void **depends, int priority, void *event);
void GOMP_task(void (*function)(void *), void *data, void (*copy)(void *, void *), long size, long alignment,
               _Bool deferred, unsigned flags, void **depends, int priority, void *event) {
    NEXT(GOMP_task, LIBGOMP)
    buran_thread *thread = buran_self();
    if (!thread || flags & TASK_HAS_EVENT) {
        next(function, data, copy, size, alignment, deferred, flags, depends, priority, event);
        return;
    }
    if (alignment < (long)_Alignof(task))
        alignment = _Alignof(task);
    size_t offset = (sizeof(task) + (size_t)alignment - 1) / (size_t)alignment * (size_t)alignment;
    task work = {.function = function, .copy = copy, .data = data, .origin = thread->current, .offset = offset};
    if (copy) {
        next(work_on_task, &work, copy_task, size + (long)offset, alignment, deferred, flags, depends, priority, event);
        return;
    }
    char *whole = __builtin_alloca_with_align((size_t)size + offset, 8 * 64);
    memcpy(whole, &work, sizeof work);
    memcpy(whole + offset, data, (size_t)size);
    next(work_on_task, whole, NULL, size + (long)offset, alignment, deferred, flags, depends, priority, event);
}

/* ---- OMPT: only what is needed of omp-tools.h, which not every installation has */

typedef union ompt_data {
    uint64_t value;
    void *pointer;
} ompt_data;

typedef struct ompt_start_tool_result {
    int (*initialize)(void *(*lookup)(const char *), int device, ompt_data *tool);
    void (*finalize)(ompt_data *tool);
    ompt_data tool;
} ompt_start_tool_result;

enum {
    OMPT_THREAD_BEGIN = 1,
    OMPT_PARALLEL_BEGIN = 3,
    OMPT_TASK_CREATE = 5,
    OMPT_TASK_SCHEDULE = 6,
    OMPT_IMPLICIT_TASK = 7,
    OMPT_SYNC_REGION = 23,
};
enum { OMPT_THREAD_WORKER = 2 };
enum { OMPT_SCOPE_BEGIN = 1, OMPT_SCOPE_END = 2 };
enum { OMPT_TASK_INITIAL = 1, OMPT_TASK_EXPLICIT = 4 };
enum { OMPT_BARRIER_IMPLICIT = 2, OMPT_BARRIER_OF_PARALLEL_REGION = 9 }; /* the first in LLVM up to 17 */
enum { OMPT_TASK_COMPLETE = 1, OMPT_TASK_CANCEL = 3, OMPT_TASK_SWITCH = 7 };

/* A thread of the pool was created in the middle of a parallel region, but belongs to no call path. */
static void on_thread_begin(int kind, ompt_data *data) {
    (void)data;
    if (kind == OMPT_THREAD_WORKER && buran_self())
        buran_exit(0);
}

static void on_parallel_begin(ompt_data *task, const void *frame, ompt_data *region, unsigned threads, int flags,
                              const void *caller) {
    (void)task, (void)frame, (void)threads, (void)flags, (void)caller;
    buran_thread *thread = buran_self();
    region->pointer = thread ? thread->current : NULL;
}

/* The region is not named any more when its work ends: the token is kept in the task. */
static void on_implicit_task(int endpoint, ompt_data *region, ompt_data *task, unsigned threads, unsigned number,
                             int flags) {
    (void)threads, (void)number;
    if (flags & OMPT_TASK_INITIAL)
        return;
    if (endpoint == OMPT_SCOPE_BEGIN) {
        task->value = buran_enter_path(region ? region->pointer : NULL, NULL);
        buran_thread *thread = buran_self();
        if (thread)
            thread->is_used = 1;
    } else if (endpoint == OMPT_SCOPE_END) {
        buran_exit((uint32_t)task->value);
    }
}

/* The end of a worker's task is told when it gets its next work: until then it would be idle in the region. Barriers
 * within a region differ in that they have a caller. */
static void on_sync_region(int kind, int endpoint, ompt_data *region, ompt_data *task, const void *caller) {
    (void)region;
    int ends_region = kind == OMPT_BARRIER_OF_PARALLEL_REGION || (kind == OMPT_BARRIER_IMPLICIT && !caller);
    if (ends_region && endpoint == OMPT_SCOPE_BEGIN && task)
        buran_exit((uint32_t)task->value);
}

/* Whoever takes up a task works for the call path that made it. */
static void on_task_create(ompt_data *maker, const void *frame, ompt_data *task, int flags, int depends,
                           const void *caller) {
    (void)maker, (void)frame, (void)depends, (void)caller;
    buran_thread *thread = buran_self();
    if (flags & OMPT_TASK_EXPLICIT)
        task->pointer = thread ? thread->current : NULL;
}

static void on_task_schedule(ompt_data *from, int status, ompt_data *to) {
    buran_thread *thread = buran_self();
    if (!thread)
        return;
    if (status == OMPT_TASK_SWITCH && to && to->value > UINT32_MAX) { /* explicit; implicit ones keep a token */
        buran_enter_path(to->pointer, to);
    } else if (status == OMPT_TASK_COMPLETE || status == OMPT_TASK_CANCEL) {
        uint32_t depth = thread->depth;
        while (depth && thread->frames[depth - 1].task != from)
            depth--;
        if (depth)
            buran_exit(depth - 1);
    }
}

static int on_initialize(void *(*lookup)(const char *), int device, ompt_data *tool) {
    (void)device, (void)tool;
    int (*set_callback)(int, void (*)(void)) = (int (*)(int, void (*)(void)))lookup("ompt_set_callback");
    if (!set_callback)
        return 0;
    set_callback(OMPT_THREAD_BEGIN, (void (*)(void))on_thread_begin);
    set_callback(OMPT_PARALLEL_BEGIN, (void (*)(void))on_parallel_begin);
    set_callback(OMPT_IMPLICIT_TASK, (void (*)(void))on_implicit_task);
    set_callback(OMPT_SYNC_REGION, (void (*)(void))on_sync_region);
    set_callback(OMPT_TASK_CREATE, (void (*)(void))on_task_create);
    set_callback(OMPT_TASK_SCHEDULE, (void (*)(void))on_task_schedule);
    return 1;
}

static void on_finalize(ompt_data *tool) { (void)tool; }

ompt_start_tool_result *ompt_start_tool(unsigned version, const char *runtime);
ompt_start_tool_result *ompt_start_tool(unsigned version, const char *runtime) {
    (void)version, (void)runtime;
    static ompt_start_tool_result result = {on_initialize, on_finalize, {0}};
    return &result;
}
