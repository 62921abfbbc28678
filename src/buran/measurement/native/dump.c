/* Writing the profile of one process to one file. The reader is buran/measurement/dump.py: keep both in step.
 *
 * All numbers are little-endian; a string is its length (u32) and its bytes.
 *
 *     magic "BURANDMP", u32 version, u32 flags (1: complete, 2: counts blocks), i32 rank, i32 size,
 *     f64 ticks per second, u32 number of info strings, u32 regions, u32 threads, u32 counters
 *     info      key, value, key, value, ...
 *     counters  name
 *     regions   name, mangled, file, u32 line, u32 kind
 *     threads   u32 id, u32 nodes, then node_record each; node 0 is the root, parents come first;
 *               then u64 for each node and counter, node by node;
 *               all numbers of a node are its own, without its children's
 *     end       magic "BURANEND", u32 CRC-32 of everything before the end
 *
 * Neither malloc nor stdio's buffers: the process may end in a signal handler.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "internal.h"

#define DUMP_VERSION 3u

/* So many files lie in one folder; programs with more ranks use a folder for each so many. */
#define RANKS_PER_FOLDER 1024

typedef struct node_record {
    uint32_t parent, region;
    uint64_t visits, ticks, cpu, waited, idle, imbalance, blocks, bytes_sent, bytes_received, comm_sum;
    uint32_t comm_min, comm_max;
} node_record;

_Static_assert(sizeof(node_record) == 96, "the reader expects 96 bytes");

typedef struct writer {
    int file, error; /* the first error's errno */
    uint32_t crc, used;
    uint32_t table[256];
    unsigned char bytes[1 << 16];
} writer;

static void prepare(writer *out, int file) {
    for (uint32_t i = 0; i < 256; i++) {
        uint32_t value = i;
        for (int bit = 0; bit < 8; bit++)
            value = value & 1 ? 0xEDB88320u ^ (value >> 1) : value >> 1;
        out->table[i] = value;
    }
    out->crc = 0xFFFFFFFFu;
    out->file = file;
    out->error = 0;
    out->used = 0;
}

static void flush(writer *out) {
    for (uint32_t done = 0; done < out->used && !out->error;) {
        ssize_t written = write(out->file, out->bytes + done, out->used - done);
        if (written >= 0)
            done += (uint32_t)written;
        else if (errno != EINTR)
            out->error = errno;
    }
    out->used = 0;
}

static void put(writer *out, const void *data, size_t size) {
    const unsigned char *bytes = data;
    for (size_t i = 0; i < size; i++) {
        if (out->used == sizeof out->bytes)
            flush(out);
        out->crc = out->table[(out->crc ^ bytes[i]) & 0xFF] ^ (out->crc >> 8);
        out->bytes[out->used++] = bytes[i];
    }
}

static void put_u32(writer *out, uint32_t value) { put(out, &value, sizeof value); }
static void put_i32(writer *out, int32_t value) { put(out, &value, sizeof value); }
static void put_f64(writer *out, double value) { put(out, &value, sizeof value); }

static void put_text(writer *out, const char *text) {
    size_t length = strlen(text);
    put_u32(out, (uint32_t)length);
    put(out, text, length);
}

static void put_number(writer *out, const char *key, uint64_t value) {
    char text[32];
    snprintf(text, sizeof text, "%llu", (unsigned long long)value);
    put_text(out, key);
    put_text(out, text);
}

/* ---- sections */

/* MPI libraries start threads that have nothing to do with the program: they are no locations. */
static int has_worked(const buran_thread *thread) {
    if (thread->number == 0 || thread->is_used || thread->below_limit || thread->interrupting || thread->without_node)
        return 1;
    if (thread->state == BURAN_THREAD_RUNNING && *thread->blocks)
        return 1;
    for (const buran_chunk *chunk = thread->first_chunk; chunk; chunk = chunk->next)
        for (uint32_t i = 0; i < chunk->used; i++)
            if (chunk->nodes[i].blocks || (chunk->nodes[i].parent && chunk->nodes[i].visits))
                return 1;
    return 0;
}

typedef struct totals {
    uint64_t nodes, below_limit, interrupting, running, shared;
    uint32_t threads;
} totals;

static totals add_up(const buran_dump_source *source) {
    totals sum = {0};
    for (buran_thread *thread = source->threads; thread; thread = thread->next) {
        thread->is_in_dump = has_worked(thread); /* asked once: others still run */
        if (!thread->is_in_dump)
            continue;
        buran_count_unbooked(thread);
        sum.threads++;
        sum.nodes += thread->node_count;
        sum.below_limit += thread->below_limit;
        sum.interrupting += thread->interrupting;
        sum.shared += thread->shared_by - 1;
        sum.running += thread->state == BURAN_THREAD_RUNNING && thread->depth > 0 && thread->number > 0;
    }
    return sum;
}

/* The most memory that was resident; getrusage would also tell of the process that became this program. 0 if unknown. */
static uint64_t resident_bytes(void) {
    char text[4096];
    int file = BURAN_IS_SIMULATED ? -1 : open("/proc/self/status", O_RDONLY | O_CLOEXEC);
    ssize_t length = file < 0 ? 0 : read(file, text, sizeof text - 1);
    if (file >= 0)
        close(file);
    text[length > 0 ? length : 0] = '\0';
    const char *at = strstr(text, "VmHWM:");
    return at ? 1024 * strtoull(at + strlen("VmHWM:"), NULL, 10) : 0;
}

#define NUMBERS 13
#define TEXTS 9

static int heap_is_in_dump;

static uint32_t count_texts(const char *const *texts) {
    uint32_t count = 0;
    while (texts[count])
        count++;
    return count;
}

static void put_texts(writer *out, const char *const *texts) {
    for (uint32_t i = 0; texts[i]; i++)
        put_text(out, texts[i]);
}

static void put_info(writer *out, const buran_dump_source *source, const totals *sum) {
    char missing[2048];
    buran_missing_counters(missing, sizeof missing);
    const char *texts[TEXTS][2] = {
        {"executable", source->executable},
        {"build_id", source->build_id},
        {"clock", source->clock},
        {"host", source->host},
        {"cpus", source->cpus},
        {"cpu_clock_missing", source->no_cpu_clock},
        {"recursion", source->settings->folds_recursion ? "fold" : "unfold"},
        {"incomplete", source->incomplete ? source->incomplete : ""},
        {"counters_unavailable", missing},
    };
    for (int i = 0; i < TEXTS; i++) {
        put_text(out, texts[i][0]);
        put_text(out, texts[i][1]);
    }
    put_number(out, "clock_hz", (uint64_t)(source->ticks_per_second + 0.5));
    put_number(out, "depth_limit", source->settings->depth_limit);
    put_number(out, "visits_below_depth_limit", sum->below_limit);
    put_number(out, "visits_in_interrupted_hooks", sum->interrupting);
    put_number(out, "call_path_limit", source->settings->node_limit);
    put_number(out, "call_paths", sum->nodes);
    put_number(out, "memory_bytes", source->memory_bytes);
    put_number(out, "threads", sum->threads);
    put_number(out, "threads_sharing_a_location", sum->shared);
    put_number(out, "threads_running_at_exit", sum->running);
    put_number(out, "forks", source->forks);
    put_number(out, "resident_bytes", resident_bytes());
    put_number(out, "heap_peak", heap_is_in_dump ? buran_heap_peak() : 0);
    put_texts(out, buran_build_info);
    if (buran_sampler_info)
        put_texts(out, buran_sampler_info());
}

static uint32_t count_info(void) {
    uint32_t count = 2 * (TEXTS + NUMBERS) + count_texts(buran_build_info);
    return count + (buran_sampler_info ? count_texts(buran_sampler_info()) : 0);
}

static const char *const requirement_names[BURAN_REQUIREMENTS + 1] = {BURAN_REQUIREMENT_NAMES};

static uint32_t sampled_in_dump;

static uint32_t counters_in_dump(void) {
    uint32_t count = buran_requirements_counted() + sampled_in_dump + (heap_is_in_dump ? 2 : 0);
    for (uint32_t event = 0; event < BURAN_EVENTS; event++)
        count += buran_counter_name(event) != NULL;
    return count;
}

static void put_counts(writer *out, const buran_thread *thread, uint32_t count) {
    uint32_t done = 0;
    if (!counters_in_dump())
        return;
    const buran_node *open = thread->state == BURAN_THREAD_RUNNING ? thread->current : NULL;
    for (const buran_chunk *chunk = thread->first_chunk; chunk && done < count; chunk = chunk->next)
        for (uint32_t i = 0; i < chunk->used && done < count; i++, done++) {
            const buran_node *node = &chunk->nodes[i];
            for (uint32_t kind = 0; kind < buran_requirements_counted(); kind++) {
                uint64_t unbooked = node == open ? thread->requirements[kind] - thread->last_requirements[kind] : 0;
                uint64_t value = node->requirements[kind] + unbooked;
                put(out, &value, sizeof value);
            }
            if (heap_is_in_dump) {
                put(out, &node->heap_bytes, sizeof node->heap_bytes);
                put(out, &node->heap_peak, sizeof node->heap_peak);
            }
            for (uint32_t event = 0; event < BURAN_EVENTS; event++) {
                uint64_t value = buran_count_of(thread, node, event);
                if (buran_counter_name(event))
                    put(out, &value, sizeof value);
            }
            for (uint32_t number = 0; number < sampled_in_dump; number++) {
                uint64_t value = buran_sampler_value(thread, node, number);
                put(out, &value, sizeof value);
            }
        }
}

/* Of ticks in a call path, those in which the thread had a core and did not wait. */
static uint64_t cpu_ticks(uint64_t ticks, uint64_t switched_ticks, uint64_t switched_ns, double rate) {
    double cpu = (double)ticks - (double)switched_ticks + 1e-9 * rate * (double)switched_ns;
    return cpu < 0 ? 0 : cpu > (double)ticks ? ticks : (uint64_t)(cpu + 0.5);
}

static void put_thread(writer *out, const buran_thread *thread, uint32_t number, const buran_dump_source *source) {
    uint64_t now = source->now;
    /* What a living thread has done since its last hook belongs to where it is. */
    const buran_node *open = thread->state == BURAN_THREAD_RUNNING ? thread->current : NULL;
    uint64_t ticks = open && now > thread->last_ticks ? now - thread->last_ticks : 0;
    uint64_t blocks = open ? *thread->blocks - thread->last_blocks : 0;
    uint64_t cpu_ns = open ? buran_cpu_time_of(&thread->cpu_clock) : 0;
    uint64_t open_ns = cpu_ns ? cpu_ns - thread->cpu_clock.base_ns : 0;
    uint64_t open_ticks = cpu_ns ? now - thread->cpu_clock.base_ticks : 0;
    uint32_t count = __atomic_load_n(&thread->node_count, __ATOMIC_ACQUIRE), done = 0;
    put_u32(out, number);
    put_u32(out, count);
    for (const buran_chunk *chunk = thread->first_chunk; chunk && done < count; chunk = chunk->next)
        for (uint32_t i = 0; i < chunk->used && done < count; i++, done++) {
            const buran_node *node = &chunk->nodes[i];
            const buran_pauses *pauses = buran_pauses_in(chunk, i);
            node_record record = {
                .parent = node->parent ? node->parent->index : 0,
                .region = node->region,
                .visits = node->visits,
                .ticks = node->ticks + (node == open ? ticks : 0),
                .cpu = node == open ? cpu_ticks(node->ticks + ticks, pauses->switched_ticks + open_ticks,
                                                pauses->switched_ns + open_ns, source->ticks_per_second)
                                    : cpu_ticks(node->ticks, pauses->switched_ticks, pauses->switched_ns,
                                                source->ticks_per_second),
                .waited = pauses->waited,
                .idle = pauses->idle,
                .imbalance = pauses->imbalance,
                .blocks = node->blocks + (node == open ? blocks : 0),
                .bytes_sent = node->bytes_sent,
                .bytes_received = node->bytes_received,
                .comm_sum = node->comm_sum,
                .comm_min = node->comm_min,
                .comm_max = node->comm_max,
            };
            put(out, &record, sizeof record);
        }
    put_counts(out, thread, count);
}

static void put_threads(writer *out, const buran_dump_source *source) {
    uint32_t number = 0;
    for (const buran_thread *thread = source->threads; thread; thread = thread->next)
        if (thread->is_in_dump)
            put_thread(out, thread, number++, source);
}

static void put_all(writer *out, const buran_dump_source *source) {
    totals sum = add_up(source);
    buran_settle_counters();
    heap_is_in_dump = buran_heap_is_counted && buran_heap_is_counted();
    sampled_in_dump = buran_sampler_settle ? buran_sampler_settle(source->threads) : 0;
    put(out, "BURANDMP", 8);
    put_u32(out, DUMP_VERSION);
    put_u32(out, (source->incomplete ? 0u : 1u) | (buran_counts_blocks ? 2u : 0u));
    put_i32(out, source->process->rank);
    put_i32(out, source->process->size);
    put_f64(out, source->ticks_per_second);
    put_u32(out, count_info());
    put_u32(out, source->region_count);
    put_u32(out, sum.threads);
    put_u32(out, counters_in_dump());
    put_info(out, source, &sum);
    for (uint32_t kind = 0; kind < buran_requirements_counted(); kind++)
        put_text(out, requirement_names[kind]);
    if (heap_is_in_dump) {
        put_text(out, "heap_bytes");
        put_text(out, "heap_peak");
    }
    for (uint32_t event = 0; event < BURAN_EVENTS; event++)
        if (buran_counter_name(event))
            put_text(out, buran_counter_name(event));
    for (uint32_t number = 0; number < sampled_in_dump; number++)
        put_text(out, buran_sampler_name(number));
    for (uint32_t i = 0; i < source->region_count; i++) {
        const buran_known_region *region = &source->regions[i];
        put_text(out, region->name);
        put_text(out, region->mangled);
        put_text(out, region->file);
        put_u32(out, region->line);
        put_u32(out, region->kind);
    }
    put_threads(out, source);
    uint32_t crc = out->crc ^ 0xFFFFFFFFu;
    put(out, "BURANEND", 8);
    put_u32(out, crc);
    flush(out);
}

static int complain(const char *doing, const char *path, int error) {
    dprintf(2, "buran: cannot %s %s: %s\n", doing, path, strerror(error));
    return -1;
}

/* A name that is taken is not overwritten, so that two processes that believe to be the same rank are noticed. */
static int give_name(const char *temporary, const char *final, const char *otherwise) {
    if (link(temporary, final) == 0) {
        unlink(temporary);
        return 0;
    }
    /* Some file systems know no links. */
    int is_taken = errno == EEXIST || access(final, F_OK) == 0;
    if (rename(temporary, is_taken ? otherwise : final)) {
        int error = errno;
        unlink(temporary);
        return complain("name", final, error);
    }
    return 0;
}

/* A reader never sees half a file: write beside it, then give it its name. */
int buran_dump_to_folder(const buran_dump_source *source, const char *folder) {
    char place[PATH_MAX], temporary[PATH_MAX + 64], final[PATH_MAX + 64], otherwise[PATH_MAX + 64];
    int rank = source->process->rank;
    long pid = (long)getpid();
    mkdir(folder, 0777);
    if (source->process->size > RANKS_PER_FOLDER)
        snprintf(place, sizeof place, "%s/ranks-%06d", folder, rank / RANKS_PER_FOLDER * RANKS_PER_FOLDER);
    else
        snprintf(place, sizeof place, "%s", folder);
    mkdir(place, 0777);
    snprintf(temporary, sizeof temporary, "%s/.rank-%06d.%ld.tmp", place, rank, pid);
    snprintf(final, sizeof final, "%s/rank-%06d.buran", place, rank);
    snprintf(otherwise, sizeof otherwise, "%s/rank-%06d.%ld.buran", place, rank, pid);

    int file = open(temporary, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    if (file < 0)
        return complain("create", temporary, errno);
    /* A limit of the file's size shall give an error, as a full disk does, instead of killing the program. */
    struct sigaction ignored = {.sa_handler = SIG_IGN}, before;
    sigaction(SIGXFSZ, &ignored, &before);
    static writer out;
    prepare(&out, file);
    put_all(&out, source);
    if (close(file) && !out.error)
        out.error = errno; /* NFS reports a full disk here */
    sigaction(SIGXFSZ, &before, NULL);
    if (out.error) {
        unlink(temporary);
        return complain("write", final, out.error);
    }
    return give_name(temporary, final, otherwise);
}
