/* Calling-context trees: one per thread, filled by the hooks.
 *
 * Time and blocks are booked on the current call path whenever it changes, so that at any moment nothing but the stretch
 * since the last hook is open: what a throw, a longjmp or the end of the process has skipped needs no repair.
 *
 * Hooks take no locks and touch nothing of other threads, except when they meet a region for the first time. A hook may
 * be interrupted by a signal handler that is instrumented itself: `busy` keeps its entries out.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#include "filter.h"
#include "internal.h"

__thread uint64_t buran_blocks __attribute__((tls_model("initial-exec")));
__thread uint64_t buran_requirements[BURAN_REQUIREMENTS] __attribute__((tls_model("initial-exec")));
static __thread buran_thread *self __attribute__((tls_model("initial-exec")));
static __thread int attaching __attribute__((tls_model("initial-exec")));

#define LIKELY(condition) __builtin_expect(!!(condition), 1)
#define UNLIKELY(condition) __builtin_expect(!!(condition), 0)

/* Frames above the depth limit: MPI operations are always recorded, and so is work for other threads' call paths. */
#define SPARE_FRAMES 64

static pthread_mutex_t registry_lock = PTHREAD_MUTEX_INITIALIZER;
static buran_thread *threads, **end_of_threads = &threads;
static uint32_t thread_count;
static uint32_t node_capacity; /* of all chunks */
static pthread_key_t thread_end;

#define BUCKETS 4096u
static buran_known_region *regions; /* number 0 is the root */
static uint32_t region_count, region_capacity;
static uint32_t buckets[BUCKETS]; /* 0 is empty: the root is never looked for */

/* ---- memory */

static uint64_t memory_bytes;

void *buran_memory(size_t size) {
    void *memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED)
        return NULL;
    __atomic_fetch_add(&memory_bytes, size, __ATOMIC_RELAXED);
    return memory;
}

static void *must(void *memory) {
    if (!memory)
        buran_give_up("out of memory", "while recording the profile");
    return memory;
}

/* A signal handler that is instrumented must not wait for what it has interrupted. */
static void lock_registry(sigset_t *before) {
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, before);
    pthread_mutex_lock(&registry_lock);
}

static void unlock_registry(const sigset_t *before) {
    pthread_mutex_unlock(&registry_lock);
    pthread_sigmask(SIG_SETMASK, before, NULL);
}

/* ---- regions */

static const char *copy_locked(const char *text) {
    static char *free_bytes;
    static size_t left;
    size_t size = strlen(text) + 1;
    if (size > left) {
        left = size > 65536 ? size : 65536;
        free_bytes = must(buran_memory(left));
    }
    char *copy = memcpy(free_bytes, text, size);
    free_bytes += size;
    left -= size;
    return copy;
}

static uint32_t hash_of(const buran_region *region) {
    uint32_t hash = 2166136261u ^ region->line;
    for (const char *at = region->mangled; *at; at++)
        hash = (hash ^ (unsigned char)*at) * 16777619u;
    return (hash ^ (hash >> 15)) % BUCKETS;
}

static int is_same(const buran_known_region *known, const buran_region *region) {
    return known->line == region->line && known->kind == region->kind && !strcmp(known->mangled, region->mangled) &&
           !strcmp(known->name, region->name) && !strcmp(known->file, region->file);
}

/* A library that is loaded again, perhaps at another place, brings the regions that are known already. */
static uint32_t number_of_locked(const buran_region *region) {
    uint32_t *bucket = &buckets[hash_of(region)];
    for (uint32_t number = *bucket; number; number = regions[number].next)
        if (is_same(&regions[number], region))
            return number;
    if (region_count == region_capacity) {
        uint32_t capacity = region_capacity ? 2 * region_capacity : 1024;
        buran_known_region *larger = must(buran_memory(capacity * sizeof *larger));
        if (region_count)
            memcpy(larger, regions, region_count * sizeof *larger);
        if (regions)
            munmap(regions, region_capacity * sizeof *larger);
        regions = larger;
        region_capacity = capacity;
    }
    if (!region_count) /* the root */
        regions[region_count++] = (buran_known_region){.name = "", .mangled = "", .file = "", .kind = BURAN_KIND_ROOT};
    if (region->kind == BURAN_KIND_ROOT)
        return 0;
    uint32_t number = region_count++;
    regions[number] = (buran_known_region){
        .name = copy_locked(region->name),
        .mangled = copy_locked(region->mangled),
        .file = copy_locked(region->file),
        .line = region->line,
        .kind = region->kind,
        .next = *bucket,
    };
    *bucket = number;
    return number;
}

/* ---- the filter of a run: for programs that are built once and measured with several filters */

static buran_filter run_filter;

const char *buran_filter_start(const char *path) {
    if (!path || !*path)
        return NULL;
    FILE *file = fopen(path, "r");
    if (!file)
        return "the filter file cannot be read";
    const char *wrong = buran_filter_read(&run_filter, file);
    fclose(file);
    return wrong;
}

static int is_filtered_out(const buran_region *region) {
    return run_filter.count && region->kind == BURAN_KIND_FUNCTION &&
           buran_filter_decide(&run_filter, region->mangled, region->name, region->file) == BURAN_EXCLUDE;
}

static void register_region(buran_region *region) {
    sigset_t signals;
    lock_registry(&signals);
    if (region->state == BURAN_STATE_UNSEEN && is_filtered_out(region))
        __atomic_store_n(&region->state, BURAN_STATE_SKIPPED, __ATOMIC_RELEASE);
    if (region->state == BURAN_STATE_UNSEEN) {
        region->id = number_of_locked(region);
        __atomic_store_n(&region->state, BURAN_STATE_RECORDED, __ATOMIC_RELEASE);
    }
    unlock_registry(&signals);
}

/* ---- nodes */

/* A thread's first chunk is small, since many threads have little to tell. It is granted in any case. */
static buran_chunk *new_chunk(const buran_thread *thread) {
    uint32_t capacity = !thread->last_chunk ? 31 : thread->last_chunk->capacity < 500 ? 511 : 1023;
    size_t size = sizeof(buran_chunk) + capacity * (sizeof(buran_node) + sizeof(buran_pauses));
    sigset_t signals;
    lock_registry(&signals);
    buran_chunk *chunk = NULL;
    if (!thread->last_chunk || node_capacity < buran_the_settings.node_limit) {
        chunk = buran_memory(size);
        if (chunk)
            node_capacity += capacity;
    }
    unlock_registry(&signals);
    if (chunk)
        chunk->capacity = capacity;
    return chunk;
}

static void complain_about_memory(void) {
    static int said;
    if (!__atomic_exchange_n(&said, 1, __ATOMIC_RELAXED))
        dprintf(2, "buran: too many call paths; the limit is BURAN_NODE_LIMIT=%u. This profile will not be valid.\n",
                buran_the_settings.node_limit);
}

static buran_node *new_node(buran_thread *thread, buran_node *parent, uint32_t region) {
    buran_chunk *chunk = thread->last_chunk;
    if (!chunk || chunk->used == chunk->capacity) {
        buran_chunk *fresh = new_chunk(thread);
        if (!fresh) {
            complain_about_memory();
            return NULL;
        }
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
    node->sibling = node;
    chunk->used++;
    __atomic_store_n(&thread->node_count, node->index + 1, __ATOMIC_RELEASE); /* the dump may be looking */
    if (parent) {
        if (parent->child) {
            node->sibling = parent->child->sibling;
            parent->child->sibling = node;
        }
        parent->child = node;
    }
    return node;
}

/* Children are looked for in the ring of siblings; those that are far away in it go to a table. */
#define PROBES 12

static buran_node **place_in_table(const buran_thread *thread, const buran_node *parent, uint32_t region) {
    uint32_t mask = thread->table_size - 1;
    uint64_t key = ((uint64_t)parent->index << 32 | region) * 0x9E3779B97F4A7C15u;
    uint32_t at = (uint32_t)(key >> 40) & mask;
    while (thread->table[at] && (thread->table[at]->parent != parent || thread->table[at]->region != region))
        at = (at + 1) & mask;
    return &thread->table[at];
}

static void put_into_table(buran_thread *thread, buran_node *node) {
    if (2 * (thread->table_used + 1) > thread->table_size) {
        uint32_t old_size = thread->table_size;
        buran_node **old = thread->table, **larger = buran_memory((old_size ? 4 * old_size : 1024) * sizeof *larger);
        if (!larger)
            return; /* slower, not wrong */
        thread->table = larger;
        thread->table_size = old_size ? 4 * old_size : 1024;
        for (uint32_t i = 0; i < old_size; i++)
            if (old[i])
                *place_in_table(thread, old[i]->parent, old[i]->region) = old[i];
        if (old)
            munmap(old, old_size * sizeof *old);
    }
    buran_node **place = place_in_table(thread, node->parent, node->region);
    thread->table_used += !*place;
    *place = node;
}

static __attribute__((noinline)) buran_node *search_child(buran_thread *thread, buran_node *parent, uint32_t region) {
    buran_node *first = parent->child, *node = first, *known = NULL;
    uint32_t probes = 0;
    if (first)
        do {
            if (node->region == region) {
                known = node;
                if (probes > PROBES)
                    put_into_table(thread, node);
            } else if (++probes == PROBES && thread->table) {
                known = *place_in_table(thread, parent, region);
            }
            node = node->sibling;
        } while (!known && node != first);
    if (known)
        return parent->child = known;
    if (buran_the_settings.folds_recursion)
        for (buran_node *above = parent; above->parent; above = above->parent)
            if (above->region == region)
                return above;
    return new_node(thread, parent, region);
}

static inline buran_node *child_of(buran_thread *thread, buran_node *parent, uint32_t region) {
    buran_node *last = parent->child;
    if (LIKELY(last)) {
        if (last->region == region)
            return last;
        buran_node *next = last->sibling;
        if (next->region == region) {
            parent->child = next;
            return next;
        }
    }
    return search_child(thread, parent, region);
}

const char *buran_symbol_of(const buran_node *node) { return regions[node->region].mangled; }

/* ---- booking */

buran_pauses *buran_pauses_of(const buran_thread *thread, const buran_node *node) {
    const buran_chunk *chunk = thread->first_chunk;
    while (node < chunk->nodes || node >= chunk->nodes + chunk->capacity)
        chunk = chunk->next;
    return buran_pauses_in(chunk, (uint32_t)(node - chunk->nodes));
}

/* What passed since the base is known exactly now, of which all but the last stretch was booked as elapsed ticks. */
static __attribute__((noinline, cold)) uint64_t book_switch(buran_thread *thread, buran_node *node) {
    uint64_t ticks = thread->cpu_clock.base_ticks, ns = thread->cpu_clock.base_ns;
    uint64_t now = buran_cpu_clock_rebase(&thread->cpu_clock);
    buran_pauses *pauses = buran_pauses_of(thread, node);
    pauses->switched_ticks += now - ticks;
    pauses->switched_ns += thread->cpu_clock.base_ns - ns;
    return now;
}

static inline __attribute__((always_inline)) void book_more(buran_thread *thread, buran_node *node, uint64_t passed) {
    for (uint32_t kind = 0, counted = buran_requirements_counted(); kind < counted; kind++) {
        uint64_t now = buran_requirements[kind];
        node->requirements[kind] += now - thread->last_requirements[kind];
        thread->last_requirements[kind] = now;
    }
    if (thread->counts && buran_count(thread->counts, node, passed)) {
        uint64_t now = buran_ticks();
        node->ticks += now - thread->last_ticks;
        thread->last_ticks = now;
    }
}

static inline __attribute__((always_inline)) void book(buran_thread *thread) {
    uint64_t now = buran_ticks(), blocks = buran_blocks;
    buran_node *node = thread->current;
    if (UNLIKELY(buran_was_switched(&thread->cpu_clock)))
        now = book_switch(thread, node);
    uint64_t passed = now - thread->last_ticks;
    node->ticks += (int64_t)passed < 0 ? 0 : passed; /* counters of two cores may differ by some ticks */
    node->blocks += blocks - thread->last_blocks;
    thread->last_ticks = now;
    thread->last_blocks = blocks;
    if (UNLIKELY(thread->counts_more))
        book_more(thread, node, passed);
}

static inline void begin_hook(buran_thread *thread) {
    thread->busy = 1;
    __atomic_signal_fence(__ATOMIC_SEQ_CST);
}

static inline void end_hook(buran_thread *thread) {
    __atomic_signal_fence(__ATOMIC_SEQ_CST);
    thread->busy = 0;
}

void buran_book(buran_thread *thread) {
    begin_hook(thread);
    book(thread);
    end_hook(thread);
}

/* The wall clock counts, whether the thread spins, sleeps or has lost its core. */
void buran_book_wait(buran_thread *thread) {
    begin_hook(thread);
    buran_pauses *pauses = buran_pauses_of(thread, thread->current);
    uint64_t before = thread->last_ticks, ticks = pauses->switched_ticks, ns = pauses->switched_ns;
    book(thread);
    uint64_t passed = thread->last_ticks - before;
    passed = (int64_t)passed < 0 ? 0 : passed;
    pauses->switched_ticks = ticks + passed; /* none of it is CPU time */
    pauses->switched_ns = ns;
    pauses->waited += passed;
    thread->waited += passed;
    end_hook(thread);
}

/* ---- threads */

static void on_end_of_thread(void *argument) {
    buran_thread *thread = argument;
    buran_book(thread);
    /* Destructors of the program's own keys may still run instrumented code: be the last. */
    if (++thread->endings < PTHREAD_DESTRUCTOR_ITERATIONS && !pthread_setspecific(thread_end, thread))
        return;
    sigset_t signals;
    lock_registry(&signals);
    thread->blocks = thread->requirements = NULL; /* go with the thread */
    buran_close_counters(thread);
    if (buran_sampler_close)
        buran_sampler_close(thread);
    buran_cpu_clock_stop(&thread->cpu_clock);
    thread->state = BURAN_THREAD_ENDED;
    thread->depth = 0;
    thread->current = thread->root;
    unlock_registry(&signals);
    self = NULL;
    attaching = 1; /* what still comes in this thread has no place any more */
}

static buran_thread *ended_thread_locked(void) {
    for (buran_thread *thread = threads; thread; thread = thread->next)
        if (thread->state == BURAN_THREAD_ENDED)
            return thread;
    return NULL;
}

buran_thread *buran_reserve_thread(const buran_node *origin) {
    sigset_t signals;
    lock_registry(&signals);
    buran_thread *thread = thread_count < buran_the_settings.thread_limit ? NULL : ended_thread_locked();
    if (thread) {
        thread->state = BURAN_THREAD_RESERVED;
        thread->shared_by++;
    }
    unlock_registry(&signals);
    if (!thread) {
        uint32_t limit = buran_the_settings.depth_limit;
        thread = must(buran_memory(sizeof *thread + (limit + SPARE_FRAMES) * sizeof *thread->frames));
        thread->frames = (buran_frame *)(thread + 1);
        thread->depth_limit = limit;
        thread->capacity = limit + SPARE_FRAMES;
        thread->shared_by = 1;
        thread->root = thread->current = must(new_node(thread, NULL, 0));
        lock_registry(&signals);
        thread->number = thread_count++;
        *end_of_threads = thread;
        end_of_threads = &thread->next;
        unlock_registry(&signals);
    }
    thread->origin = origin;
    thread->endings = 0;
    return thread;
}

void buran_release_thread(buran_thread *thread) {
    sigset_t signals;
    lock_registry(&signals);
    thread->state = BURAN_THREAD_ENDED;
    unlock_registry(&signals);
}

void buran_attach_thread(buran_thread *thread) {
    thread->root->visits++;
    buran_open_counters(thread);
    thread->counts_more = buran_counts_requirements || thread->counts;
    thread->last_blocks = 0; /* a thread's counters begin at 0, also where it counts before its first hook */
    memset(thread->last_requirements, 0, sizeof thread->last_requirements);
    buran_cpu_clock_start(&thread->cpu_clock);
    thread->last_ticks = buran_ticks();
    sigset_t signals;
    lock_registry(&signals);
    thread->blocks = &buran_blocks;
    thread->requirements = buran_requirements;
    thread->state = BURAN_THREAD_RUNNING;
    unlock_registry(&signals);
    self = thread;
    if (!BURAN_IS_SIMULATED)
        pthread_setspecific(thread_end, thread);
    else if (thread->number)
        buran_give_up("threads", "ranks of a simulated machine have one thread; run the program with one thread a rank");
    if (thread->origin)
        buran_enter_path(thread->origin, NULL);
}

static __attribute__((noinline)) buran_thread *new_thread(void) {
    static int is_started;
    if (attaching)
        return NULL;
    attaching = 1;
    if (!is_started) { /* the first hook: there is only this thread yet */
        is_started = 1;
        buran_start_process();
        if (!BURAN_IS_SIMULATED) /* where all ranks share a process, and a process has 1024 keys */
            pthread_key_create(&thread_end, on_end_of_thread);
        buran_region first = {.name = "", .mangled = "", .file = "", .kind = BURAN_KIND_ROOT};
        register_region(&first);
    }
    buran_attach_thread(buran_reserve_thread(NULL));
    attaching = 0;
    return self;
}

buran_thread *buran_self(void) { return self ? self : new_thread(); }

buran_thread *buran_self_if_known(void) { return self; }

/* ---- work for other threads' call paths */

/* The own call path with the same regions. The other thread's nodes do not move, nor do their regions change. */
static buran_node *replica_of(buran_thread *thread, const buran_node *origin) {
    uint32_t slot = (uint32_t)((uintptr_t)origin / sizeof *origin % BURAN_REPLICAS);
    if (thread->replicas[slot].origin == origin)
        return thread->replicas[slot].local;
    uint32_t path[1024], length = 0;
    for (const buran_node *node = origin; node->parent && length < 1024; node = node->parent)
        path[length++] = node->region;
    buran_node *node = thread->root;
    while (length && node)
        node = child_of(thread, node, path[--length]);
    if (!node) {
        thread->without_node++;
        return thread->root;
    }
    thread->replicas[slot].origin = origin;
    thread->replicas[slot].local = node;
    return node;
}

uint32_t buran_enter_path(const buran_node *origin, const void *task) {
    buran_thread *thread = buran_self();
    if (!thread || thread->busy || thread->depth >= thread->capacity)
        return BURAN_TOKEN_INTERRUPTED;
    begin_hook(thread);
    uint32_t depth = thread->depth;
    buran_node *node = origin ? replica_of(thread, origin) : thread->root;
    buran_frame *frame = &thread->frames[depth];
    frame->node = node;
    frame->address = NULL;
    frame->task = task;
    book(thread);
    thread->depth = depth + 1;
    thread->current = node;
    end_hook(thread);
    return depth | BURAN_TOKEN_RECORDED;
}

/* ---- hooks */

static inline __attribute__((always_inline)) uint32_t push(buran_thread *thread, uint32_t depth, uint32_t region) {
    begin_hook(thread);
    buran_node *node = child_of(thread, thread->current, region);
    if (UNLIKELY(!node)) {
        thread->without_node++;
        end_hook(thread);
        return depth;
    }
    buran_frame *frame = &thread->frames[depth];
    frame->node = node;
    frame->address = NULL;
    frame->task = NULL;
    node->visits++;
    book(thread);
    thread->depth = depth + 1;
    thread->current = node;
    end_hook(thread);
    return depth | BURAN_TOKEN_RECORDED;
}

static __attribute__((noinline)) uint32_t enter_slowly(buran_thread *thread, buran_region *region) {
    if (!thread && !(thread = new_thread()))
        return BURAN_TOKEN_INTERRUPTED;
    if (thread->busy) {
        thread->interrupting++;
        return BURAN_TOKEN_INTERRUPTED;
    }
    uint32_t depth = thread->depth;
    if (region->state == BURAN_STATE_UNSEEN)
        register_region(region);
    if (region->state == BURAN_STATE_SKIPPED)
        return depth;
    if (depth >= (region->kind == BURAN_KIND_FUNCTION ? thread->depth_limit : thread->capacity)) {
        thread->below_limit++;
        return depth;
    }
    return push(thread, depth, region->id);
}

uint32_t buran_enter(buran_region *region) {
    buran_thread *thread = self;
    if (UNLIKELY(!thread || thread->busy || region->state <= 0 || thread->depth >= thread->depth_limit))
        return enter_slowly(thread, region);
    return push(thread, thread->depth, region->id);
}

static inline __attribute__((always_inline)) void pop_to(buran_thread *thread, uint32_t depth) {
    begin_hook(thread);
    book(thread);
    thread->depth = depth;
    thread->current = depth ? thread->frames[depth - 1].node : thread->root;
    end_hook(thread);
}

void buran_exit(uint32_t token) {
    buran_thread *thread = self;
    uint32_t depth = token & BURAN_TOKEN_DEPTH;
    if (UNLIKELY(!thread || thread->depth <= depth || token & BURAN_TOKEN_INTERRUPTED))
        return;
    pop_to(thread, depth); /* even if busy: then a signal handler has jumped out of a hook */
}

void buran_unwind(uint32_t token) {
    buran_thread *thread = self;
    if (!thread || token & BURAN_TOKEN_INTERRUPTED)
        return;
    thread->busy = 0; /* a signal handler may have jumped out of a hook */
    /* Keep the own frame, if there is one. */
    uint32_t depth = (token & BURAN_TOKEN_DEPTH) + (token & BURAN_TOKEN_RECORDED ? 1u : 0u);
    if (thread->depth > depth)
        pop_to(thread, depth);
}

/* ---- for the dump, and around fork() */

void buran_lock_registry(void) { pthread_mutex_lock(&registry_lock); }

void buran_unlock_registry(void) { pthread_mutex_unlock(&registry_lock); }

void buran_describe_registry(buran_dump_source *source) {
    source->threads = threads;
    source->regions = regions;
    source->region_count = region_count;
    source->memory_bytes = memory_bytes;
}
