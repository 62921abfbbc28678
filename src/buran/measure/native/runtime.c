/* Calling-context trees: one per thread, filled by the hooks, written once when the process ends. */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#if defined(__x86_64__)
#include <cpuid.h>
#endif

#include "internal.h"

__thread uint64_t buran_blocks __attribute__((tls_model("initial-exec")));
static __thread buran_thread *self __attribute__((tls_model("initial-exec")));

buran_process buran_this_process = {.rank = 0, .size = 1, .mpi_state = BURAN_MPI_NONE};

static buran_region root_region = {
    .name = "", .mangled = "", .file = "", .kind = BURAN_KIND_ROOT, .state = BURAN_STATE_UNSEEN};

static pthread_mutex_t registry_lock = PTHREAD_MUTEX_INITIALIZER;
static buran_thread *threads;
static buran_region **regions;
static uint32_t region_count, region_capacity;

static pid_t owner; /* a forked child must not write its parent's profile */
static pthread_key_t thread_end;
static int use_tsc;
static uint64_t start_ticks;
static double start_s;

/* ---- clock */

static uint64_t monotonic_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* The time-stamp counter is a clock only where it runs at one rate in all power states. */
static int has_invariant_counter(void) {
#if defined(__x86_64__)
    unsigned a, b, c, d;
    return __get_cpuid(0x80000007u, &a, &b, &c, &d) && (d & (1u << 8));
#elif defined(__aarch64__)
    return 1;
#else
    return 0;
#endif
}

uint64_t buran_ticks(void) {
#if defined(__x86_64__)
    if (__builtin_expect(use_tsc, 1))
        return __builtin_ia32_rdtsc();
#elif defined(__aarch64__)
    if (__builtin_expect(use_tsc, 1)) {
        uint64_t value;
        __asm__ volatile("mrs %0, cntvct_el0" : "=r"(value));
        return value;
    }
#endif
    return monotonic_ns();
}

/* ---- memory: running out of it ends the program, since a profile with holes would be a wrong one */

static void *must(void *memory) {
    if (!memory) {
        fputs("buran: out of memory while recording the profile\n", stderr);
        abort();
    }
    return memory;
}

static buran_node *new_node(buran_thread *thread, buran_node *parent, buran_region *region) {
    buran_chunk *chunk = thread->last_chunk;
    if (!chunk || chunk->used == BURAN_CHUNK_NODES) {
        buran_chunk *fresh = must(calloc(1, sizeof *fresh));
        if (chunk)
            chunk->next = fresh;
        else
            thread->first_chunk = fresh;
        thread->last_chunk = chunk = fresh;
    }
    buran_node *node = &chunk->nodes[chunk->used];
    node->region = region;
    node->parent = parent;
    node->index = thread->node_count;
    if (parent) {
        node->sibling = parent->child;
        parent->child = node;
    }
    chunk->used++;
    thread->node_count++;
    return node;
}

static void grow_frames(buran_thread *thread) {
    uint32_t capacity = thread->capacity ? 2 * thread->capacity : 256;
    buran_frame *frames = must(malloc(capacity * sizeof *frames));
    if (thread->depth)
        memcpy(frames, thread->frames, thread->depth * sizeof *frames);
    /* The old array is left alone on purpose: the dump may be reading it. */
    thread->frames = frames;
    thread->capacity = capacity;
}

/* ---- registries */

static void register_region_locked(buran_region *region) {
    if (region->state != BURAN_STATE_UNSEEN)
        return;
    if (region_count == region_capacity) {
        region_capacity = region_capacity ? 2 * region_capacity : 256;
        regions = must(realloc(regions, region_capacity * sizeof *regions));
    }
    region->id = region_count;
    regions[region_count++] = region;
    __atomic_store_n(&region->state, BURAN_STATE_RECORDED, __ATOMIC_RELEASE);
}

static void register_region(buran_region *region) {
    pthread_mutex_lock(&registry_lock);
    register_region_locked(region);
    pthread_mutex_unlock(&registry_lock);
}

static void on_exit_of_process(void) { buran_write_dump(0); }

static void on_end_of_thread(void *argument) {
    buran_thread *thread = argument;
    thread->final_blocks = buran_blocks;
    thread->final_ticks = buran_ticks();
    __atomic_store_n(&thread->blocks, &thread->final_blocks, __ATOMIC_RELEASE);
}

static void start_process_locked(void) {
    owner = getpid();
    use_tsc = has_invariant_counter();
    start_s = 1e-9 * (double)monotonic_ns();
    start_ticks = buran_ticks();
    pthread_key_create(&thread_end, on_end_of_thread);
    register_region_locked(&root_region);
    atexit(on_exit_of_process);
}

static buran_thread *new_thread(void) {
    buran_thread *thread = must(calloc(1, sizeof *thread));
    thread->blocks = &buran_blocks;
    grow_frames(thread);
    thread->root = thread->current = new_node(thread, NULL, &root_region);
    thread->root->visits = 1;

    pthread_mutex_lock(&registry_lock);
    if (!threads)
        start_process_locked();
    thread->id = threads ? threads->id + 1 : 0;
    thread->next = threads;
    threads = thread;
    pthread_mutex_unlock(&registry_lock);

    thread->started = buran_ticks();
    self = thread;
    pthread_setspecific(thread_end, thread);
    return thread;
}

buran_thread *buran_self(void) { return self ? self : new_thread(); }

/* Hooks may run before any constructor (static initialisers of libraries), so this only covers the usual case. */
__attribute__((constructor)) static void start(void) { buran_self(); }

/* ---- hooks */

static inline buran_node *child_of(buran_thread *thread, buran_node *parent, buran_region *region) {
    buran_node *previous = NULL;
    for (buran_node *node = parent->child; node; previous = node, node = node->sibling) {
        if (node->region != region)
            continue;
        if (previous) { /* to the front: the next visit is likely the same */
            previous->sibling = node->sibling;
            node->sibling = parent->child;
            parent->child = node;
        }
        return node;
    }
    return new_node(thread, parent, region);
}

uint32_t buran_enter(buran_region *region) {
    buran_thread *thread = self;
    if (__builtin_expect(!thread, 0))
        thread = new_thread();
    uint32_t depth = thread->depth;
    if (__builtin_expect(region->state <= 0, 0)) {
        if (region->state == BURAN_STATE_UNSEEN)
            register_region(region);
        if (region->state == BURAN_STATE_SKIPPED)
            return depth;
    }
    if (__builtin_expect(depth >= BURAN_MAX_DEPTH, 0) && region->kind == BURAN_KIND_FUNCTION) {
        thread->skipped_visits++;
        return depth;
    }
    if (__builtin_expect(depth == thread->capacity, 0))
        grow_frames(thread);
    buran_node *node = child_of(thread, thread->current, region);
    buran_frame *frame = &thread->frames[depth];
    frame->node = node;
    frame->blocks = buran_blocks;
    frame->address = NULL;
    thread->depth = depth + 1;
    thread->current = node;
    frame->ticks = buran_ticks();
    return depth | BURAN_TOKEN_RECORDED;
}

static void pop_to(uint32_t depth) {
    buran_thread *thread = self;
    if (!thread || thread->depth <= depth)
        return;
    uint64_t now = buran_ticks(), blocks = buran_blocks;
    do {
        buran_frame *frame = &thread->frames[--thread->depth];
        buran_node *node = frame->node;
        node->visits++;
        node->ticks += now - frame->ticks;
        node->blocks += blocks - frame->blocks;
        thread->current = node->parent;
    } while (thread->depth > depth);
}

void buran_exit(uint32_t token) { pop_to(token & BURAN_TOKEN_DEPTH); }

void buran_unwind(uint32_t token) {
    /* Keep the own frame, if there is one. */
    pop_to((token & BURAN_TOKEN_DEPTH) + (token & BURAN_TOKEN_RECORDED ? 1u : 0u));
}

/* ---- end of the process */

void buran_write_dump(int aborted) {
    static int written;
    if (getpid() != owner || __atomic_exchange_n(&written, 1, __ATOMIC_SEQ_CST))
        return;
    uint64_t now = buran_ticks();
    double elapsed_s = 1e-9 * (double)monotonic_ns() - start_s;
    const char *folder = getenv("BURAN_PROFILE_DIR");
    if (!folder || !*folder)
        return;
    pthread_mutex_lock(&registry_lock);
    buran_dump_source source = {
        .process = &buran_this_process,
        .threads = threads,
        .regions = regions,
        .region_count = region_count,
        .ticks_per_second = use_tsc ? (double)(now - start_ticks) / elapsed_s : 1e9,
        .now = now,
        .clock = use_tsc ? "time-stamp counter" : "CLOCK_MONOTONIC",
        .complete = !aborted && buran_this_process.mpi_state != BURAN_MPI_RUNNING,
    };
    buran_dump_to_folder(&source, folder);
    pthread_mutex_unlock(&registry_lock);
}
