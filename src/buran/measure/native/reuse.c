/* Reuse distances: how many other cache lines a thread has touched since it touched this one the last time.
 *
 * A cache that holds C lines and drops the one that was unused for the longest time misses where the distance is C or
 * more, whatever C is. So one run tells the misses of all caches.
 *
 * Only a sample of the lines is looked at (Waldspurger et al., Efficient MRC construction with SHARDS, FAST 2015, which
 * samples by hashed address): compiled code multiplies the number of a pair of lines with BURAN_LINE_FACTOR and calls
 * `buran_reuse_accesses` where the product is below `buran_reuse_threshold`. With one line in R, each access stands for R
 * accesses, and each line in between for R lines.
 *
 * Without a rate that is asked for, R is 1 until SMALL_LINES are held, and then doubles up to USUAL_RATE, always when
 * ENOUGH_LINES are: what is small is seen whole, and what is large costs little. Of 2048 pairs, 2.2 % are seen too many
 * or too few. It doubles, too, where lines of the sample were touched again and again, as long as FEWEST_LINES remain:
 * what is small, and done for a long time, costs little as well.
 *
 * Lines are looked at in pairs of neighbours, so that it is seen whether a line comes after the one beside it. Processors
 * foresee what passes memory in its order, and such a miss costs little. Half of these lines are the second of their pair.
 *
 * Memory is bounded: a thread has room for MOST_LINES lines. When these are full, half of them leave the sample, and R
 * is doubled from there on. A Fenwick tree over time stamps tells how many lines were touched after a point in time. The
 * lines that were touched last have no stamp and stand in a list: most accesses of the sample are to one of these.
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

#define FEWEST_SLOTS (1u << 14) /* of the hash table at first: small, so that it leaves the caches to the program */
#define MOST_SLOTS (1u << 17)
#define MOST_LINES (MOST_SLOTS / 2)
#define RECENT 16u
#define NOT_HELD ((uint64_t)UINT32_MAX) /* lines in between */
#define MOST_RATE (1u << 20)
#define USUAL_RATE 64
#define SMALL_LINES (1u << 14)
#define ENOUGH_LINES (1u << 13)
#define FEWEST_LINES (1u << 8) /* of 128 pairs, 9 % are seen too many or too few */
#define MOST_TOUCHES (1u << 18) /* with one rate: a tenth of a second, with those that are in the list */
#define FAR_LINES 64  /* a distance from which on an access may miss a cache, */
#define FAR_SAMPLED 8 /* and which the sample tells */
#define SOON_LINES 64 /* up to so many others are touched between a line of a stream and the next one */

/* Read by all threads, and changed by the one whose table is full first. 0: nothing is sampled. */
uint32_t buran_reuse_threshold;

__thread buran_reuse_again buran_reuse_last __attribute__((tls_model("initial-exec")));

typedef uint64_t histogram[BURAN_REUSE_BINS];

typedef struct table {
    uint32_t threshold, rate; /* of the lines that it holds */
    uint32_t held, now;       /* lines; the next time stamp */
    uint32_t touches;         /* with this rate, of lines that were not in the list, until the last rebuilding */
    uint32_t slots;           /* of the hash table, a power of 2; there are twice as many time stamps */
    uint32_t recent;          /* how many lines stand in the list */
    uint32_t recent_slots[RECENT];
    uint64_t recent_lines[RECENT]; /* as `lines`; the last one first */
    uint64_t lines[MOST_SLOTS];    /* number of the line and 1; 0 is empty */
    uint32_t stamps[MOST_SLOTS];   /* when it was touched last, unless that is in the list */
    uint32_t tree[2 * MOST_SLOTS + 1]; /* Fenwick: how many lines were touched last at a time */
    uint64_t order[MOST_LINES];    /* all lines while the table is rebuilt */
} table;

struct buran_reuse {
    table *table; /* NULL when its thread has ended */
    histogram **histograms; /* by the call path's index; NULL for those that touch nothing */
    uint32_t capacity;
    histogram *spare;
    uint32_t spares;
};

/* ---- the rate */

static uint32_t first_rate, used_rate;
static uint32_t adapted_below; /* rates that double when enough lines are held */

static uint32_t threshold_of(uint32_t rate) { return rate == 1 ? UINT32_MAX : UINT32_MAX / rate + 1; }

static bool is_sampled(uint64_t line, uint32_t threshold) {
    return (uint32_t)(line / BURAN_LINES_OF_PAIR) * BURAN_LINE_FACTOR < threshold;
}

const char *buran_reuse_start(const char *rate) {
    char *end = NULL;
    adapted_below = rate && *rate ? 0 : USUAL_RATE;
    unsigned long long asked = rate && *rate ? strtoull(rate, &end, 10) : 1;
    if ((end && *end) || !asked || asked > MOST_RATE || asked & (asked - 1))
        return "must be a power of 2, at most 1048576: one cache line in so many is looked at";
    first_rate = used_rate = (uint32_t)asked;
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
    uint32_t mask = held->slots - 1, at = (uint32_t)((line * 0xFF51AFD7ED558CCDu) >> 32) & mask;
    while (held->lines[at] && held->lines[at] != line + 1)
        at = (at + 1) & mask;
    return at;
}

static void add(table *held, uint32_t stamp, uint32_t by) {
    for (uint32_t at = stamp + 1; at <= 2 * held->slots; at += at & -at)
        held->tree[at] += by;
}

static uint32_t touched_until(const table *held, uint32_t stamp) {
    uint32_t sum = 0;
    for (uint32_t at = stamp + 1; at; at -= at & -at)
        sum += held->tree[at];
    return sum;
}

/* Gives the line in the list that was touched least recently a stamp. */
static void settle(table *held) {
    held->stamps[held->recent_slots[--held->recent]] = held->now;
    add(held, held->now++, 1);
}

/* Keep the lines below the threshold only, with new stamps, 0, 1, ..., in the order of the old ones. */
static void rebuild(table *held, uint32_t slots) {
    while (held->recent)
        settle(held);
    uint32_t *slot_at = held->tree, count = 0; /* the tree's memory, by stamp */
    memset(slot_at, 0, sizeof *slot_at * held->now);
    for (uint32_t at = 0; at < held->slots; at++)
        if (held->lines[at])
            slot_at[held->stamps[at]] = at + 1;
    for (uint32_t stamp = 0; stamp < held->now; stamp++)
        if (slot_at[stamp] && is_sampled(held->lines[slot_at[stamp] - 1] - 1, held->threshold))
            held->order[count++] = held->lines[slot_at[stamp] - 1];
    memset(held->lines, 0, sizeof *held->lines * held->slots);
    held->held = held->now = count;
    held->slots = slots;
    for (uint32_t stamp = 0; stamp < count; stamp++) {
        uint32_t at = slot_of(held, held->order[stamp] - 1);
        held->lines[at] = held->order[stamp];
        held->stamps[at] = stamp;
    }
    for (uint32_t at = 1; at <= 2 * slots; at++)
        held->tree[at] = at <= count;
    for (uint32_t at = 1; at <= 2 * slots; at++)
        if (at + (at & -at) <= 2 * slots)
            held->tree[at + (at & -at)] += held->tree[at];
}

static void lower_rate(table *held, uint32_t threshold) {
    while (held->threshold > threshold) {
        held->rate *= 2;
        held->threshold = threshold_of(held->rate);
    }
    held->touches = 0;
    rebuild(held, held->slots);
    if (used_rate < held->rate)
        used_rate = held->rate;
}

static bool is_full(const table *held) {
    if (held->rate >= adapted_below)
        return held->held >= MOST_LINES;
    return held->held >= (held->rate == 1 ? SMALL_LINES : ENOUGH_LINES);
}

/* For a line, and for stamps of all that are in the list. */
static bool has_room(const table *held) {
    return !is_full(held) && 2 * held->held < held->slots && held->now + RECENT < 2 * held->slots;
}

static bool is_well_known(const table *held) {
    return held->rate < adapted_below && held->held >= 2 * FEWEST_LINES && held->touches >= MOST_TOUCHES;
}

static void make_room(table *held) {
    held->touches += held->now;
    if (is_full(held) || is_well_known(held)) {
        uint32_t lower = threshold_of(2 * held->rate);
        if (__atomic_load_n(&buran_reuse_threshold, __ATOMIC_RELAXED) > lower)
            __atomic_store_n(&buran_reuse_threshold, lower, __ATOMIC_RELAXED);
        lower_rate(held, lower);
    } else {
        rebuild(held, 2 * held->held < held->slots ? held->slots : 2 * held->slots);
    }
}

/* ---- call paths */

static __attribute__((noinline)) histogram *histogram_of(buran_reuse *reuse, uint32_t index) {
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

static __attribute__((noinline)) buran_reuse *opened(buran_thread *thread) {
    if (!thread->reuse)
        thread->reuse = buran_memory(sizeof *thread->reuse);
    if (thread->reuse && !thread->reuse->table) {
        table *fresh = thread->reuse->table = buran_memory(sizeof *fresh);
        if (fresh) {
            fresh->rate = first_rate;
            fresh->threshold = threshold_of(first_rate);
            fresh->slots = FEWEST_SLOTS;
        }
    }
    if (!thread->reuse || !thread->reuse->table)
        buran_give_up("out of memory", "while sampling accesses to memory");
    return thread->reuse;
}

void buran_close_reuse(buran_thread *thread) {
    if (!thread->reuse || !thread->reuse->table)
        return;
    buran_reuse_last.line = 0;
    munmap(thread->reuse->table, sizeof *thread->reuse->table);
    thread->reuse->table = NULL;
}

/* ---- what compiled code calls */

/* Make a line the first of the list, in which it was at a place; those before move on by one. */
static inline void move_to_front(table *held, uint64_t line, uint32_t slot, uint32_t place) {
    for (; place; place--) {
        held->recent_lines[place] = held->recent_lines[place - 1];
        held->recent_slots[place] = held->recent_slots[place - 1];
    }
    held->recent_lines[0] = line + 1;
    held->recent_slots[0] = slot;
}

static inline uint32_t place_of(const table *held, uint64_t line) {
    uint32_t place = 0;
    while (place < held->recent && held->recent_lines[place] != line + 1)
        place++;
    return place;
}

/* How many lines were touched since a line that is not in the list. */
static uint64_t touched_since(const table *held, uint32_t slot) {
    return held->lines[slot] ? held->held - touched_until(held, held->stamps[slot]) : NOT_HELD;
}

/* Count an access that is far away, and whether the other line of the pair was touched a moment ago. */
static void count_far(const table *held, uint64_t line, histogram *counts) {
    uint32_t place = place_of(held, line ^ 1);
    uint64_t between = place < held->recent ? place : touched_since(held, slot_of(held, line ^ 1));
    (*counts)[BURAN_REUSE_FAR] += held->rate;
    if (between * held->rate <= SOON_LINES)
        (*counts)[BURAN_REUSE_FOLLOWED] += held->rate;
}

/* Put a line that is not in the list into it. */
static void remember(table *held, uint64_t line, uint32_t slot) {
    if (held->lines[slot]) {
        add(held, held->stamps[slot], -1u);
    } else {
        held->lines[slot] = line + 1;
        held->held++;
    }
    if (held->recent == RECENT)
        settle(held);
    move_to_front(held, line, slot, held->recent++);
}

/* One access, and others to the same line right behind it. */
static void touch(buran_thread *thread, uint64_t line, uint32_t accesses) {
    buran_reuse *reuse = thread->reuse && thread->reuse->table ? thread->reuse : opened(thread);
    table *held = reuse->table;
    uint32_t threshold = __atomic_load_n(&buran_reuse_threshold, __ATOMIC_RELAXED);
    if (held->threshold > threshold)
        lower_rate(held, threshold);
    uint32_t place = place_of(held, line), index = thread->current->index;
    if (place == held->recent && !has_room(held)) {
        make_room(held);
        place = held->recent;
    }
    if (!is_sampled(line, held->threshold))
        return;
    histogram *counts = index < reuse->capacity ? reuse->histograms[index] : NULL;
    if (!counts && !(counts = histogram_of(reuse, index)))
        buran_give_up("out of memory", "while sampling accesses to memory");
    bool is_listed = place < held->recent;
    uint32_t slot = is_listed ? held->recent_slots[place] : slot_of(held, line);
    uint64_t between = is_listed ? place : touched_since(held, slot);
    (*counts)[between == NOT_HELD ? BURAN_REUSE_NEVER : bin_of(between * held->rate)] += held->rate;
    (*counts)[0] += (uint64_t)(accesses - 1) * held->rate;
    if (between >= FAR_SAMPLED && between * held->rate >= FAR_LINES)
        count_far(held, line, counts);
    if (is_listed)
        move_to_front(held, line, slot, place);
    else
        remember(held, line, slot);
    buran_reuse_last =
        (buran_reuse_again){line + 1, (const void *const *)&thread->current, thread->current, *counts, held->rate};
}

/* A signal handler that has interrupted a hook or this very function finds the thread busy. */
static buran_thread *begin(void) {
    buran_thread *thread = buran_self();
    if (!thread || thread->busy)
        return NULL;
    thread->busy = 1;
    __atomic_signal_fence(__ATOMIC_SEQ_CST);
    return thread;
}

static void end(buran_thread *thread) {
    __atomic_signal_fence(__ATOMIC_SEQ_CST);
    thread->busy = 0;
}

void buran_reuse_accesses(uint64_t first, uint64_t last, uint32_t accesses) {
    buran_thread *thread = begin();
    if (!thread)
        return;
    uint64_t line = first / BURAN_LINE, other = last / BURAN_LINE;
    uint32_t of_other = line == other ? 0 : accesses / 2;
    touch(thread, line, accesses - of_other);
    if (of_other)
        touch(thread, other, of_other);
    end(thread);
}

void buran_reuse_range(uint64_t address, uint64_t length) {
    buran_thread *thread = NULL;
    for (uint64_t line = address / BURAN_LINE; length && line <= (address + length - 1) / BURAN_LINE; line++)
        if (is_sampled(line, buran_reuse_threshold) && (thread || (thread = begin())))
            touch(thread, line, 1);
    if (thread)
        end(thread);
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
