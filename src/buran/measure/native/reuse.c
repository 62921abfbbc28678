/* Reuse distances: how many other cache lines a thread has touched since it touched this one the last time.
 *
 * A cache that holds C lines and drops the one that was unused for the longest time misses where the distance is C or
 * more, whatever C is. So one run tells the misses of all caches.
 *
 * Only a sample of the lines is looked at (Waldspurger et al., Efficient MRC construction with SHARDS, FAST 2015, which
 * samples by hashed address): compiled code multiplies the number of a pair of lines with BURAN_LINE_FACTOR and calls
 * `buran_reuse_access` where the product is below `buran_reuse_threshold`. With one line in R, each access stands for R
 * accesses, and each line in between for R lines.
 *
 * Without a rate that is asked for, R is 1 at first and doubles up to USUAL_RATE, always when ENOUGH_LINES are held: what
 * is small is seen whole, and what is large costs little. Of 2048 pairs, 2.2 % are seen too many or too few.
 *
 * Lines are looked at in pairs of neighbours, so that it is seen whether a line comes after the one beside it. Processors
 * foresee what passes memory in its order, and such a miss costs little. Half of these lines are the second of their pair.
 *
 * Memory is bounded: a thread has room for MOST_LINES lines. When these are full, half of them leave the sample, and R
 * is doubled from there on. A Fenwick tree over time stamps tells how many lines were touched after a point in time.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "internal.h"

#define MOST_LINES (1u << 16)
#define SLOTS (2 * MOST_LINES)
#define STAMPS (4 * MOST_LINES)
#define MOST_RATE (1u << 20)
#define USUAL_RATE 64
#define ENOUGH_LINES (1u << 13)
#define FAR_LINES 64  /* a distance from which on an access may miss a cache, */
#define FAR_SAMPLED 8 /* and which the sample tells */
#define SOON_LINES 64 /* up to so many others are touched between a line of a stream and the next one */

/* Read by all threads, and changed by the one whose table is full first. 0: nothing is sampled. */
uint64_t buran_reuse_threshold;

typedef uint64_t histogram[BURAN_REUSE_BINS];

typedef struct table {
    uint64_t threshold, rate; /* of the lines that it holds */
    uint32_t held, now;       /* lines; the next time stamp */
    uint64_t lines[SLOTS];    /* number of the line and 1; 0 is empty */
    uint32_t stamps[SLOTS];   /* when it was touched last */
    uint32_t tree[STAMPS + 1]; /* Fenwick: how many lines were touched last at a time */
} table;

struct buran_reuse {
    table *table; /* NULL when its thread has ended */
    histogram **histograms; /* by the call path's index; NULL for those that touch nothing */
    uint32_t capacity;
    histogram *spare;
    uint32_t spares;
};

/* ---- the rate */

static uint64_t first_rate, used_rate;
static uint64_t adapted_below; /* rates that double when ENOUGH_LINES are held */

static uint64_t hash_of(uint64_t line) { return line / BURAN_LINES_OF_PAIR * BURAN_LINE_FACTOR; }

static uint64_t threshold_of(uint64_t rate) { return rate == 1 ? UINT64_MAX : (UINT64_MAX / rate) + 1; }

const char *buran_reuse_start(const char *rate) {
    char *end = NULL;
    adapted_below = rate && *rate ? 0 : USUAL_RATE;
    first_rate = rate && *rate ? strtoull(rate, &end, 10) : 1;
    if ((end && *end) || !first_rate || first_rate > MOST_RATE || first_rate & (first_rate - 1))
        return "must be a power of 2, at most 1048576: one cache line in so many is looked at";
    used_rate = first_rate;
    if (buran_samples_reuse)
        __atomic_store_n(&buran_reuse_threshold, threshold_of(first_rate), __ATOMIC_RELAXED);
    return NULL;
}

uint64_t buran_reuse_first_rate(void) { return buran_samples_reuse ? first_rate : 0; }

uint64_t buran_reuse_last_rate(void) { return buran_samples_reuse ? used_rate : 0; }

/* ---- which bin: 0 is distance 0, then four to each doubling */

static uint32_t bin_of(uint64_t distance) {
    if (!distance)
        return 0;
    static const uint32_t quarters[3] = {0x9837F051u, 0xB504F333u, 0xD744FCCAu}; /* 2^(1/4), 2^(1/2), 2^(3/4) */
    uint32_t octave = 63u - (uint32_t)__builtin_clzll(distance);
    uint32_t mantissa = (uint32_t)((distance << (63u - octave)) >> 32);
    uint32_t quarter = (mantissa > quarters[0]) + (mantissa > quarters[1]) + (mantissa > quarters[2]);
    uint32_t bin = 1 + 4 * octave + quarter;
    return bin < BURAN_REUSE_NEVER ? bin : BURAN_REUSE_NEVER - 1;
}

/* ---- lines and times */

static uint32_t slot_of(const table *held, uint64_t line) {
    uint32_t at = (uint32_t)((line * 0xFF51AFD7ED558CCDu) >> 32) % SLOTS;
    while (held->lines[at] && held->lines[at] != line + 1)
        at = (at + 1) % SLOTS;
    return at;
}

static void add(table *held, uint32_t stamp, uint32_t by) {
    for (uint32_t at = stamp + 1; at <= STAMPS; at += at & -at)
        held->tree[at] += by;
}

static uint32_t touched_until(const table *held, uint32_t stamp) {
    uint32_t sum = 0;
    for (uint32_t at = stamp + 1; at; at -= at & -at)
        sum += held->tree[at];
    return sum;
}

/* Give new stamps, 0, 1, ..., in the order of the old ones. The tree's memory holds the order meanwhile. */
static void renumber(table *held) {
    memset(held->tree, 0, sizeof held->tree);
    for (uint32_t at = 0; at < SLOTS; at++)
        if (held->lines[at])
            held->tree[held->stamps[at]] = at + 1;
    uint32_t next = 0;
    for (uint32_t stamp = 0; stamp < STAMPS; stamp++)
        if (held->tree[stamp])
            held->stamps[held->tree[stamp] - 1] = next++;
    for (uint32_t at = 1; at <= STAMPS; at++)
        held->tree[at] = at <= next;
    for (uint32_t at = 1; at <= STAMPS; at++)
        if (at + (at & -at) <= STAMPS)
            held->tree[at + (at & -at)] += held->tree[at];
    held->held = held->now = next;
}

/* Keep the lines of a lower threshold only. Entries are moved one by one to where they are found now. */
static void lower_rate(table *held, uint64_t threshold) {
    while (held->threshold > threshold) {
        held->rate *= 2;
        held->threshold = threshold_of(held->rate);
    }
    for (uint32_t at = 0; at < SLOTS; at++)
        if (held->lines[at] && hash_of(held->lines[at] - 1) >= held->threshold)
            held->lines[at] = 0;
    /* Gaps end searches: begin behind one, so that no entry is looked at before those that it was put behind. */
    uint32_t gap = 0;
    while (held->lines[gap])
        gap++;
    for (uint32_t i = 1; i <= SLOTS; i++) {
        uint32_t from = (gap + i) % SLOTS;
        uint64_t line = held->lines[from];
        if (!line)
            continue;
        held->lines[from] = 0;
        uint32_t to = slot_of(held, line - 1);
        held->lines[to] = line;
        held->stamps[to] = held->stamps[from];
    }
    renumber(held);
    if (used_rate < held->rate)
        used_rate = held->rate;
}

static bool is_full(const table *held) {
    return held->held >= (held->rate < adapted_below ? ENOUGH_LINES : MOST_LINES);
}

static void make_room(table *held) {
    if (is_full(held)) {
        uint64_t lower = threshold_of(2 * held->rate);
        if (__atomic_load_n(&buran_reuse_threshold, __ATOMIC_RELAXED) > lower)
            __atomic_store_n(&buran_reuse_threshold, lower, __ATOMIC_RELAXED);
        lower_rate(held, lower);
    } else if (held->now == STAMPS) {
        renumber(held);
    }
}

/* ---- call paths */

static histogram *histogram_of(buran_reuse *reuse, uint32_t index) {
    if (index >= reuse->capacity) {
        uint32_t capacity = reuse->capacity ? reuse->capacity : 512;
        while (capacity <= index)
            capacity *= 2;
        histogram **larger = buran_memory(capacity * sizeof *larger);
        if (!larger)
            return NULL;
        if (reuse->histograms) {
            memcpy(larger, reuse->histograms, reuse->capacity * sizeof *larger);
            munmap(reuse->histograms, reuse->capacity * sizeof *larger);
        }
        reuse->histograms = larger;
        reuse->capacity = capacity;
    }
    if (!reuse->histograms[index]) {
        if (!reuse->spares && (reuse->spare = buran_memory(32 * sizeof *reuse->spare)))
            reuse->spares = 32;
        if (!reuse->spares)
            return NULL;
        reuse->histograms[index] = reuse->spare++;
        reuse->spares--;
    }
    return reuse->histograms[index];
}

static buran_reuse *opened(buran_thread *thread) {
    if (!thread->reuse)
        thread->reuse = buran_memory(sizeof *thread->reuse);
    if (thread->reuse && !thread->reuse->table) {
        table *fresh = thread->reuse->table = buran_memory(sizeof *fresh);
        if (fresh) {
            fresh->rate = first_rate;
            fresh->threshold = threshold_of(first_rate);
        }
    }
    if (!thread->reuse || !thread->reuse->table)
        buran_give_up("out of memory", "while sampling accesses to memory");
    return thread->reuse;
}

void buran_close_reuse(buran_thread *thread) {
    if (!thread->reuse || !thread->reuse->table)
        return;
    munmap(thread->reuse->table, sizeof *thread->reuse->table);
    thread->reuse->table = NULL;
}

/* ---- what compiled code calls */

static uint32_t touched_since(const table *held, uint32_t at) {
    return held->held - touched_until(held, held->stamps[at]);
}

/* Count an access that is far away, and whether the other line of the pair was touched a moment ago. */
static void count_far(const table *held, uint64_t line, histogram *counts) {
    uint32_t at = slot_of(held, line ^ 1);
    (*counts)[BURAN_REUSE_FAR] += held->rate;
    if (held->lines[at] && touched_since(held, at) * held->rate <= SOON_LINES)
        (*counts)[BURAN_REUSE_FOLLOWED] += held->rate;
}

static void touch(buran_thread *thread, uint64_t line) {
    buran_reuse *reuse = opened(thread);
    table *held = reuse->table;
    uint64_t threshold = __atomic_load_n(&buran_reuse_threshold, __ATOMIC_RELAXED);
    if (held->threshold > threshold)
        lower_rate(held, threshold);
    if (hash_of(line) >= held->threshold)
        return;
    if (is_full(held) || held->now == STAMPS)
        make_room(held);
    histogram *counts = histogram_of(reuse, thread->current->index);
    if (!counts)
        buran_give_up("out of memory", "while sampling accesses to memory");
    uint64_t rate = held->rate;
    uint32_t at = slot_of(held, line);
    if (!held->lines[at]) {
        if (hash_of(line) >= held->threshold) /* the rate was lowered just now */
            return;
        count_far(held, line, counts);
        held->lines[at] = line + 1;
        held->held++;
        (*counts)[BURAN_REUSE_NEVER] += rate;
    } else if (held->stamps[at] + 1 == held->now) {
        (*counts)[0] += rate;
        return;
    } else {
        uint64_t between = touched_since(held, at);
        (*counts)[bin_of(between * rate)] += rate;
        if (between >= FAR_SAMPLED && between * rate >= FAR_LINES)
            count_far(held, line, counts);
        add(held, held->stamps[at], -1u);
    }
    held->stamps[at] = held->now;
    add(held, held->now++, 1);
}

/* A signal handler that has interrupted a hook or this very function finds the thread busy. */
void buran_reuse_access(uint64_t line) {
    buran_thread *thread = buran_self();
    if (!thread || thread->busy)
        return;
    thread->busy = 1;
    __atomic_signal_fence(__ATOMIC_SEQ_CST);
    touch(thread, line);
    __atomic_signal_fence(__ATOMIC_SEQ_CST);
    thread->busy = 0;
}

void buran_reuse_range(uint64_t address, uint64_t length) {
    for (uint64_t line = address / BURAN_LINE; length && line <= (address + length - 1) / BURAN_LINE; line++)
        if (hash_of(line) < buran_reuse_threshold)
            buran_reuse_access(line);
}

/* ---- for the dump */

uint64_t buran_reuse_count(const buran_thread *thread, const buran_node *node, uint32_t bin) {
    const buran_reuse *reuse = thread->reuse;
    histogram *counts = reuse && node->index < reuse->capacity ? reuse->histograms[node->index] : NULL;
    return counts ? (*counts)[bin] : 0;
}

uint32_t buran_settle_reuse(const buran_thread *threads, uint8_t *is_used) {
    uint32_t bins = 0;
    memset(is_used, 0, BURAN_REUSE_BINS);
    for (const buran_thread *thread = threads; thread; thread = thread->next)
        for (uint32_t i = 0; thread->reuse && i < thread->reuse->capacity; i++)
            for (uint32_t bin = 0; thread->reuse->histograms[i] && bin < BURAN_REUSE_BINS; bin++)
                is_used[bin] |= (*thread->reuse->histograms[i])[bin] != 0;
    for (uint32_t bin = 0; bin < BURAN_REUSE_BINS; bin++)
        bins += is_used[bin];
    return bins;
}

/* ---- the machine's caches */

static const char *read_line(char *text, int size, int index, const char *name) {
    char path[128];
    snprintf(path, sizeof path, "/sys/devices/system/cpu/cpu0/cache/index%d/%s", index, name);
    int file = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t length = file < 0 ? -1 : read(file, text, (size_t)size - 1);
    if (file >= 0)
        close(file);
    text[length > 0 ? length : 0] = '\0';
    text[strcspn(text, "\n")] = '\0';
    return text;
}

void buran_describe_caches(char *text, size_t size) {
    *text = '\0';
    for (int index = 0; index < 16; index++) {
        char kind[32], level[32], bytes[32];
        read_line(kind, sizeof kind, index, "type");
        read_line(level, sizeof level, index, "level");
        read_line(bytes, sizeof bytes, index, "size");
        char *unit;
        unsigned long long number = strtoull(bytes, &unit, 10);
        number *= *unit == 'K' ? 1024 : *unit == 'M' ? 1024 * 1024 : 1;
        size_t used = strlen(text);
        if (number && *level && (!strcmp(kind, "Data") || !strcmp(kind, "Unified")))
            snprintf(text + used, size - used, "%s%s:%llu", used ? " " : "", level, number);
    }
}
