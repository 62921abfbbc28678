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

/* ---- teams: what their threads do for a parallel region, and how long they are idle in it */

typedef struct buran_team {
    const buran_node *origin; /* the region's call path in the thread that opened it */
    uint64_t begin;           /* ticks */
    uint64_t worked, longest; /* ticks: of all members together, of the one that worked longest */
    uint64_t members;
    struct buran_team *next;
} buran_team;

static void open_team(buran_team *team) {
    buran_thread *thread = buran_self();
    *team = (buran_team){.origin = NULL};
    if (!thread || thread->busy)
        return;
    buran_book(thread);
    team->begin = thread->last_ticks;
    team->origin = thread->current;
}

static uint32_t join_team(buran_team *team) {
    uint32_t token = buran_enter_path(team ? team->origin : NULL, team);
    buran_thread *thread = buran_self();
    if (thread)
        thread->is_used = 1;
    if (token & BURAN_TOKEN_RECORDED)
        thread->frames[token & BURAN_TOKEN_DEPTH].begin = thread->last_ticks - thread->waited;
    return token;
}

static void leave_team(uint32_t token) {
    buran_thread *thread = buran_self();
    uint32_t depth = token & BURAN_TOKEN_DEPTH;
    if (!thread || !(token & BURAN_TOKEN_RECORDED) || thread->depth <= depth)
        return;
    const buran_frame *frame = &thread->frames[depth];
    buran_team *team = (buran_team *)frame->task;
    buran_exit(token);
    uint64_t worked = thread->last_ticks - thread->waited - frame->begin;
    if (!team || (int64_t)worked < 0)
        return;
    __atomic_fetch_add(&team->worked, worked, __ATOMIC_ACQ_REL);
    __atomic_fetch_add(&team->members, 1, __ATOMIC_ACQ_REL);
    uint64_t longest = __atomic_load_n(&team->longest, __ATOMIC_ACQUIRE);
    while (longest < worked &&
           !__atomic_compare_exchange_n(&team->longest, &longest, worked, 0, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE)) {
    }
}

/* All have left. The thread that opened the team has waited since it left. */
static void close_team(const buran_team *team) {
    buran_thread *thread = buran_self();
    if (!thread || thread->busy || !team->origin || thread->current != team->origin)
        return;
    buran_book_wait(thread);
    uint64_t all = team->members * (thread->last_ticks - team->begin);
    buran_pauses *pauses = buran_pauses_of(thread, thread->current);
    pauses->idle += all > team->worked ? all - team->worked : 0;
    pauses->imbalance += team->members ? team->longest - team->worked / team->members : 0;
}

/* ---- parallel regions of libgomp */

/* Each thread of a team gets a pointer to this instead of to the region's data. */
typedef struct parallel {
    void *first_word; /* of the data: GOMP_parallel_reductions looks at it */
    void (*function)(void *);
    void *data;
    buran_team team;
} parallel;

static void work_in_parallel(void *argument) {
    parallel *region = argument;
    int outer = fills_pool;
    fills_pool = 0;
    uint32_t token = join_team(&region->team);
    region->function(region->data);
    leave_team(token);
    fills_pool = outer;
}

static parallel parallel_region(void (*function)(void *), void *data) {
    parallel region = {.function = function, .data = data};
    open_team(&region.team);
    return region;
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
        close_team(&region.team);                                                        \
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
    close_team(&region.team);
    return result;
}

/* Where threads of a team wait for each other; tasks that they take up meanwhile are booked as such. */
#define GOMP_WAIT(NAME)                            \
    void NAME(void);                               \
    void NAME(void) {                              \
        NEXT(NAME, LIBGOMP)                        \
        buran_thread *thread = buran_self();       \
        if (thread && !thread->busy)               \
            buran_book(thread);                    \
        next();                                    \
        if (thread && !thread->busy)               \
            buran_book_wait(thread);               \
    }
GOMP_WAIT(GOMP_barrier)
GOMP_WAIT(GOMP_loop_end)
GOMP_WAIT(GOMP_sections_end)

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
    OMPT_PARALLEL_END = 4,
    OMPT_TASK_CREATE = 5,
    OMPT_TASK_SCHEDULE = 6,
    OMPT_IMPLICIT_TASK = 7,
    OMPT_SYNC_REGION = 23,
};
enum { OMPT_THREAD_WORKER = 2 };
enum { OMPT_SCOPE_BEGIN = 1, OMPT_SCOPE_END = 2 };
enum { OMPT_TASK_INITIAL = 1, OMPT_TASK_EXPLICIT = 4 };
enum {
    OMPT_BARRIER_IMPLICIT = 2, /* also that of parallel regions in LLVM up to 17 */
    OMPT_BARRIER_EXPLICIT = 3,
    OMPT_BARRIER_OF_LOOP = 8,
    OMPT_BARRIER_OF_PARALLEL_REGION = 9,
};
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
    buran_team *team = thread ? thread->free_teams : NULL;
    if (team)
        thread->free_teams = team->next;
    else if (thread)
        team = buran_memory(sizeof *team);
    if (team)
        open_team(team);
    region->pointer = team;
}

static void on_parallel_end(ompt_data *region, ompt_data *task, int flags, const void *caller) {
    (void)task, (void)flags, (void)caller;
    buran_thread *thread = buran_self();
    buran_team *team = region->pointer;
    if (!thread || !team)
        return;
    close_team(team);
    team->next = thread->free_teams;
    thread->free_teams = team;
}

/* The region is not named any more when its work ends: the token is kept in the task. */
static void on_implicit_task(int endpoint, ompt_data *region, ompt_data *task, unsigned threads, unsigned number,
                             int flags) {
    (void)threads, (void)number;
    if (flags & OMPT_TASK_INITIAL)
        return;
    if (endpoint == OMPT_SCOPE_BEGIN) {
        task->value = join_team(region ? region->pointer : NULL);
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
        leave_team((uint32_t)task->value);
    int is_barrier = kind == OMPT_BARRIER_IMPLICIT || kind == OMPT_BARRIER_EXPLICIT || kind == OMPT_BARRIER_OF_LOOP;
    buran_thread *thread = is_barrier && !ends_region ? buran_self() : NULL;
    if (thread && !thread->busy)
        (endpoint == OMPT_SCOPE_BEGIN ? buran_book : buran_book_wait)(thread);
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
    set_callback(OMPT_PARALLEL_END, (void (*)(void))on_parallel_end);
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
