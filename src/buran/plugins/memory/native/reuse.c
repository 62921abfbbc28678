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
 * is doubled from there on. A bit for each time stamp says that a line was touched last then, and a Fenwick tree over words
 * of these bits tells how many lines were touched after a point in time: small enough to leave the caches to the program.
 *
 * The sample does not tell whether lines compete for few places of a cache: those that do are regularly apart, and the
 * hash takes such lines together or not at all. So all lines are watched from time to time, for a while: how many came in
 * between, and how many of these in the same one of 64 sets. That is what the address within a page of 4 KiB tells, by
 * which caches of level 1 mostly choose the set. Both are of the same accesses, so what they differ by is no chance.
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
#include "reuse.h"

/* Distance 0, then four bins to each doubling up to 2^40 lines, then lines that were never touched before. Behind them,
 * how many of all these are far, and how many of the far ones came after the other line of their pair. Then, of accesses
 * that are watched: how many lines came in between, in 64 each, and how many of their own of 64 sets, up to the most ways
 * of a cache that are told apart; and of those among them that crowd, the sums of lines and of lines of their set. */
#define BURAN_REUSE_WAYS 16u
#define BURAN_REUSE_NEVER 161u
#define BURAN_REUSE_FAR 162u
#define BURAN_REUSE_FOLLOWED 163u
#define BURAN_REUSE_ANY 164u
#define BURAN_REUSE_SET (BURAN_REUSE_ANY + BURAN_REUSE_WAYS + 1)
#define BURAN_REUSE_CROWDED (BURAN_REUSE_SET + BURAN_REUSE_WAYS + 1)
#define BURAN_REUSE_BINS (BURAN_REUSE_CROWDED + 2)

#define FEWEST_SLOTS (1u << 14) /* of the hash table at first: small, so that it leaves the caches to the program */
#define MOST_SLOTS (1u << 17)
#define MOST_LINES (MOST_SLOTS / 2)
#define NOT_HELD ((uint64_t)UINT32_MAX) /* lines in between */
#define MOST_RATE (1u << 20)
#define USUAL_RATE 64
#define SMALL_LINES (1u << 14)
#define ENOUGH_LINES (1u << 13)
#define FEWEST_LINES (1u << 8) /* of 128 pairs, 9 % are seen too many or too few */
#define MOST_TOUCHES (1u << 18) /* with one rate, of lines that are not near: a tenth of a second, with those that are */
#define NEAR_LINES 16          /* so many lines of the sample are touched in between at most */
#define FAR_LINES 64  /* a distance from which on an access may miss a cache, */
#define FAR_SAMPLED 8 /* and which the sample tells */
#define SOON_LINES 64 /* up to so many others are touched between a line of a stream and the next one */
#define SETS 64u
#define SET_DEPTH 32u                         /* lines of a set that are remembered */
#define WATCHED_SLOTS (1u << 13)              /* of their hash table */
#define MOST_WATCHED (1u << 14)               /* accesses: 1 ms */
#define WARM_LINES (SETS * BURAN_REUSE_WAYS)  /* from which on what was not touched is far, or after a part of the time */
#define WARM_WATCHED (MOST_WATCHED / 4)
#define MOST_PAUSE 32 /* times as many accesses: watching adds a thirtieth to what looking at the sample takes */
#define CROWDED_LINES 4 /* of a set: the fewest ways of caches */

/* Read by all threads, and changed by the one whose table is full first. 0: nothing is sampled. The first is what compiled
 * code asks for: all lines while a thread watches them, else those of the sample. */
uint32_t buran_reuse_threshold;
static uint32_t sampled_below;

__thread buran_reuse_again buran_reuse_last __attribute__((tls_model("initial-exec")));

typedef uint64_t histogram[BURAN_REUSE_BINS];

typedef struct entry {
    uint64_t line;  /* number of the line and 1; 0 is empty */
    uint64_t stamp; /* when it was touched last */
} entry;

#define STAMPS_OF_WORD 64u
#define STAMPS_OF_SLOT 8u /* so that the table is rebuilt rarely */

typedef struct table {
    uint32_t threshold, rate; /* of the lines that it holds */
    uint32_t held, now;       /* lines; the next time stamp */
    uint32_t touches;         /* with this rate, of lines that are not near */
    uint32_t slots;           /* of the hash table, a power of 2 */
    entry *entries;
    uint64_t *is_last; /* bits by stamp: whether a line was touched last then */
    uint64_t *order;   /* all lines while the table is rebuilt */
    uint32_t *tree;    /* Fenwick: how many bits of a word are set */
} table;

/* What is watched, from time to time. */
typedef struct watched {
    table *lines;
    uint32_t left, pause;            /* accesses of this time, 0 in between; those until the next time */
    uint32_t times;                  /* that it was done */
    uint32_t beside;                 /* accesses that were asked for by others who watch */
    uint64_t sets[SETS][SET_DEPTH]; /* their lines and 1, newest first */
} watched;

typedef struct buran_sampler {
    table *table; /* NULL when its thread has ended, as is the next */
    watched *watched;
    histogram **histograms; /* by the call path's index; NULL for those that touch nothing */
    uint32_t capacity;
    histogram *spare;
    uint32_t spares;
} buran_reuse;

/* ---- the rate */

static uint32_t first_rate, used_rate;
static uint32_t adapted_below; /* rates that double when enough lines are held */

static uint32_t threshold_of(uint32_t rate) { return rate == 1 ? UINT32_MAX : UINT32_MAX / rate + 1; }

static bool is_sampled(uint64_t line, uint32_t threshold) {
    return (uint32_t)(line / BURAN_LINES_OF_PAIR) * BURAN_LINE_FACTOR < threshold;
}

static void sample_below(uint32_t threshold) {
    __atomic_store_n(&sampled_below, threshold, __ATOMIC_RELAXED);
    __atomic_store_n(&buran_reuse_threshold, threshold, __ATOMIC_RELAXED);
}

void buran_sampler_start(void) {
    const char *rate = getenv("BURAN_REUSE_RATE");
    char *end = NULL;
    adapted_below = rate && *rate ? 0 : USUAL_RATE;
    unsigned long long asked = rate && *rate ? strtoull(rate, &end, 10) : 1;
    if ((end && *end) || !asked || asked > MOST_RATE || asked & (asked - 1))
        buran_give_up("BURAN_REUSE_RATE", "must be a power of 2, at most 1048576: one cache line in so many is looked at");
    first_rate = used_rate = (uint32_t)asked;
    sample_below(threshold_of(first_rate));
}

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
    while (held->entries[at].line && held->entries[at].line != line + 1)
        at = (at + 1) & mask;
    return at;
}

static uint32_t words_of(uint32_t slots) { return STAMPS_OF_SLOT * slots / STAMPS_OF_WORD; }

static void add(table *held, uint32_t word, uint32_t by) {
    for (uint32_t at = word + 1; at <= words_of(held->slots); at += at & -at)
        held->tree[at] += by;
}

/* Give a line the next stamp instead of the one that it may have. */
static void restamp(table *held, entry *line, bool has_one) {
    uint32_t to = held->now / STAMPS_OF_WORD, from = has_one ? (uint32_t)line->stamp / STAMPS_OF_WORD : UINT32_MAX;
    if (has_one)
        held->is_last[from] ^= 1ull << line->stamp % STAMPS_OF_WORD;
    held->is_last[to] |= 1ull << held->now % STAMPS_OF_WORD;
    line->stamp = held->now++;
    if (from == to)
        return;
    add(held, to, 1);
    if (has_one)
        add(held, from, -1u);
}

/* How many bits are set: without a processor's own instruction, gcc would look into a table. */
static uint32_t bits_of(uint64_t word) {
    word -= word >> 1 & 0x5555555555555555u;
    word = (word & 0x3333333333333333u) + (word >> 2 & 0x3333333333333333u);
    return (uint32_t)(((word + (word >> 4)) & 0x0F0F0F0F0F0F0F0Fu) * 0x0101010101010101u >> 56);
}

static uint32_t touched_until(const table *held, uint64_t stamp) {
    uint32_t word = (uint32_t)(stamp / STAMPS_OF_WORD);
    uint32_t sum = bits_of(held->is_last[word] << (STAMPS_OF_WORD - 1 - stamp % STAMPS_OF_WORD));
    for (uint32_t at = word; at; at -= at & -at)
        sum += held->tree[at];
    return sum;
}

static void clear(table *held, uint32_t slots) {
    memset(held->entries, 0, sizeof *held->entries * held->slots);
    memset(held->is_last, 0, sizeof *held->is_last * words_of(held->slots));
    memset(held->tree, 0, sizeof *held->tree * (words_of(held->slots) + 1));
    held->slots = slots;
    held->held = 0;
    held->now = 0;
}

/* Keep the lines below the threshold only, with new stamps, 0, 1, ..., in the order of the old ones. */
static void rebuild(table *held, uint32_t slots) {
    uint32_t before = held->held, count = 0;
    for (uint32_t at = 0; at < held->slots; at++)
        if (held->entries[at].line)
            held->order[touched_until(held, held->entries[at].stamp) - 1] = held->entries[at].line;
    for (uint32_t rank = 0; rank < before; rank++)
        if (is_sampled(held->order[rank] - 1, held->threshold))
            held->order[count++] = held->order[rank];
    clear(held, slots);
    held->held = count;
    for (uint32_t rank = 0; rank < count; rank++) {
        entry *place = &held->entries[slot_of(held, held->order[rank] - 1)];
        place->line = held->order[rank];
        restamp(held, place, false);
    }
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

/* For a line and a stamp. */
static bool has_room(const table *held) {
    return !is_full(held) && 2 * held->held < held->slots && held->now < STAMPS_OF_SLOT * held->slots;
}

static bool is_well_known(const table *held) {
    return held->rate < adapted_below && held->held >= 2 * FEWEST_LINES && held->touches >= MOST_TOUCHES;
}

static void make_room(table *held) {
    if (is_full(held) || is_well_known(held)) {
        uint32_t lower = threshold_of(2 * held->rate);
        if (__atomic_load_n(&sampled_below, __ATOMIC_RELAXED) > lower)
            sample_below(lower);
        lower_rate(held, lower);
    } else {
        rebuild(held, 2 * held->held < held->slots ? held->slots : 2 * held->slots);
    }
}

/* ---- call paths */

static __attribute__((noinline)) histogram *histogram_of(buran_thread *thread, uint32_t index) {
    buran_reuse *reuse = thread->sampler;
    if (index >= reuse->capacity) {
        uint32_t capacity = reuse->capacity ? reuse->capacity : 512;
        while (capacity <= index)
            capacity *= 2;
        histogram **larger = buran_touched_memory(thread, capacity * sizeof *larger);
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
        if (!reuse->spares && (reuse->spare = buran_touched_memory(thread, 32 * sizeof *reuse->spare)))
            reuse->spares = 32;
        if (!reuse->spares)
            return NULL;
        reuse->histograms[index] = reuse->spare++;
        reuse->spares--;
    }
    return reuse->histograms[index];
}

static size_t bytes_of_table(uint32_t most_slots) {
    size_t words = words_of(most_slots), lines = most_slots / 2;
    return sizeof(table) + most_slots * sizeof(entry) + (words + lines) * sizeof(uint64_t) +
           (words + 1) * sizeof(uint32_t);
}

static table *new_table(buran_thread *thread, uint32_t slots, uint32_t most_slots) {
    table *fresh = buran_touched_memory(thread, bytes_of_table(most_slots));
    if (!fresh)
        return NULL;
    fresh->rate = first_rate;
    fresh->threshold = threshold_of(first_rate);
    fresh->slots = slots;
    fresh->entries = (entry *)(fresh + 1);
    fresh->is_last = (uint64_t *)(fresh->entries + most_slots);
    fresh->order = fresh->is_last + words_of(most_slots);
    fresh->tree = (uint32_t *)(fresh->order + most_slots / 2);
    return fresh;
}

static __attribute__((noinline)) buran_reuse *opened(buran_thread *thread) {
    if (!thread->sampler)
        thread->sampler = buran_touched_memory(thread, sizeof *thread->sampler);
    buran_reuse *reuse = thread->sampler;
    if (reuse && !reuse->table) {
        reuse->table = new_table(thread, FEWEST_SLOTS, MOST_SLOTS);
        reuse->watched = buran_touched_memory(thread, sizeof *reuse->watched);
        if (reuse->watched) {
            reuse->watched->lines = new_table(thread, WATCHED_SLOTS, WATCHED_SLOTS);
            reuse->watched->pause = 1;
        }
    }
    if (!reuse || !reuse->table || !reuse->watched || !reuse->watched->lines)
        buran_give_up("out of memory", "while sampling accesses to memory");
    return reuse;
}

void buran_sampler_close(buran_thread *thread) {
    buran_reuse *reuse = thread->sampler;
    if (!reuse || !reuse->table)
        return;
    buran_reuse_last.line = 0;
    if (reuse->watched->left)
        sample_below(sampled_below);
    munmap(reuse->table, bytes_of_table(MOST_SLOTS));
    munmap(reuse->watched->lines, bytes_of_table(WATCHED_SLOTS));
    munmap(reuse->watched, sizeof *reuse->watched);
    reuse->table = NULL;
    reuse->watched = NULL;
}

/* ---- what compiled code calls */

/* How many lines were touched since this one. */
static uint64_t touched_since(const table *held, const entry *line) {
    return line->line ? held->held - touched_until(held, line->stamp) : NOT_HELD;
}

/* Count accesses that are far away, and whether the other line of the pair was touched a moment ago. */
static void count_far(const table *held, uint64_t line, histogram *counts, uint64_t times) {
    uint64_t between = touched_since(held, &held->entries[slot_of(held, line ^ 1)]);
    (*counts)[BURAN_REUSE_FAR] += held->rate * times;
    if (between * held->rate <= SOON_LINES)
        (*counts)[BURAN_REUSE_FOLLOWED] += held->rate * times;
}

/* Whether this access is watched; a thread that waits while others work on is not waited for. */
static bool is_watched(watched *own) {
    if (!own->left && --own->pause)
        return false;
    if (!own->left) {
        clear(own->lines, WATCHED_SLOTS);
        memset(own->sets, 0, sizeof own->sets);
        own->left = MOST_WATCHED;
        own->times++;
        __atomic_store_n(&buran_reuse_threshold, UINT32_MAX, __ATOMIC_RELAXED);
        return true;
    }
    bool is_over = --own->left == 0 || 2 * own->lines->held >= WATCHED_SLOTS;
    if (!is_over && __atomic_load_n(&buran_reuse_threshold, __ATOMIC_RELAXED) == UINT32_MAX)
        return true;
    if (is_over)
        sample_below(sampled_below);
    uint32_t ratio = 2 + own->times / 4;
    own->pause = 1 + (MOST_WATCHED - own->left) * (ratio < MOST_PAUSE ? ratio : MOST_PAUSE);
    own->left = 0;
    return false;
}

static void watch(watched *own, histogram *counts, uint64_t line, uint64_t accesses, uint64_t times) {
    table *lines = own->lines;
    entry *place = &lines->entries[slot_of(lines, line)];
    uint64_t *set = own->sets[line % SETS], between = touched_since(lines, place), of_set = 0;
    while (of_set < SET_DEPTH && set[of_set] != line + 1)
        of_set++;
    memmove(set + 1, set, (of_set < SET_DEPTH ? of_set : SET_DEPTH - 1) * sizeof *set);
    set[0] = line + 1;
    if (between || !place->line) {
        bool has_stamp = place->line;
        lines->held += !has_stamp;
        place->line = line + 1;
        restamp(lines, place, has_stamp);
    }
    if (lines->held < WARM_LINES && own->left > MOST_WATCHED - WARM_WATCHED)
        return;
    uint64_t any = between / SETS < BURAN_REUSE_WAYS ? between / SETS : BURAN_REUSE_WAYS;
    (*counts)[BURAN_REUSE_ANY + any] += times;
    (*counts)[BURAN_REUSE_ANY] += (accesses - 1) * times;
    (*counts)[BURAN_REUSE_SET + (of_set < BURAN_REUSE_WAYS ? of_set : BURAN_REUSE_WAYS)] += times;
    (*counts)[BURAN_REUSE_SET] += (accesses - 1) * times;
    if (any < BURAN_REUSE_WAYS && of_set >= CROWDED_LINES) {
        (*counts)[BURAN_REUSE_CROWDED] += (between + 1) * times;
        (*counts)[BURAN_REUSE_CROWDED + 1] += (of_set + 1) * times;
    }
}

/* One access, and others to the same line right behind it; all of them so many times, each as far as the first time. */
static void touch(buran_thread *thread, uint64_t line, uint64_t accesses, uint64_t times) {
    buran_reuse *reuse = thread->sampler && thread->sampler->table ? thread->sampler : opened(thread);
    table *held = reuse->table;
    uint32_t threshold = __atomic_load_n(&sampled_below, __ATOMIC_RELAXED);
    if (held->threshold > threshold)
        lower_rate(held, threshold);
    uint32_t index = thread->current->index;
    histogram *counts = index < reuse->capacity ? reuse->histograms[index] : NULL;
    if (!counts && !(counts = histogram_of(thread, index)))
        buran_give_up("out of memory", "while sampling accesses to memory");
    bool watches = is_watched(reuse->watched);
    if (watches) {
        watch(reuse->watched, counts, line, accesses, times);
        buran_reuse_last.line = 0; /* what is watched comes here each time */
    }
    if (!is_sampled(line, held->threshold)) {
        if (!watches && ++reuse->watched->beside % MOST_WATCHED == 0)
            sample_below(sampled_below);
        return;
    }
    entry *own = &held->entries[slot_of(held, line)];
    bool is_newest = own->line && own->stamp + 1 == held->now;
    if (!is_newest && !has_room(held)) {
        make_room(held);
        if (!is_sampled(line, held->threshold))
            return;
        own = &held->entries[slot_of(held, line)];
    }
    uint64_t between = is_newest ? 0 : touched_since(held, own);
    (*counts)[between == NOT_HELD ? BURAN_REUSE_NEVER : bin_of(between * held->rate)] += held->rate * times;
    (*counts)[0] += (accesses - 1) * held->rate * times;
    held->touches += between >= NEAR_LINES;
    if (between >= FAR_SAMPLED && between * held->rate >= FAR_LINES)
        count_far(held, line, counts, times);
    if (!is_newest) {
        bool has_stamp = own->line;
        held->held += !has_stamp;
        own->line = line + 1;
        restamp(held, own, has_stamp);
    }
    if (!watches)
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

static void touch_both(buran_thread *thread, uint64_t first, uint64_t span, uint64_t accesses, uint64_t times) {
    uint64_t line = first / BURAN_LINE, other = (first + span) / BURAN_LINE;
    uint64_t of_other = line == other ? 0 : accesses / 2;
    touch(thread, line, accesses - of_other, times);
    if (of_other)
        touch(thread, other, of_other, times);
}

void buran_reuse_accesses(uint64_t first, uint64_t last, uint32_t accesses) {
    buran_thread *thread = begin();
    if (!thread)
        return;
    touch_both(thread, first, last - first, accesses, 1);
    end(thread);
}

/* After how many iterations a stream is first at or beyond an address that it moves towards, in either direction. */
static uint64_t iterations_to(uint64_t from, uint64_t to, int64_t step) {
    uint64_t distance = step < 0 ? from - to : to - from, speed = step < 0 ? 0 - (uint64_t)step : (uint64_t)step;
    if (distance <= speed)
        return 1;
    if (!(speed & (speed - 1))) /* a shift is faster than a division */
        return ((distance - 1) >> __builtin_ctzll(speed)) + 1;
    return (distance - 1) / speed + 1;
}

/* After how many iterations an address is in another piece of memory of a size that is a power of 2. */
static uint64_t iterations_in(uint64_t address, uint64_t size, int64_t step) {
    uint64_t begins = address & ~(size - 1);
    return iterations_to(address, step < 0 ? begins - 1 : begins + size, step);
}

/* After how many iterations, at most so many, a stream that is outside of the sample may be in it. */
static uint64_t iterations_outside(uint64_t first, const buran_reuse_stream *stream, uint64_t most, uint32_t threshold) {
    const uint64_t size = BURAN_LINE * BURAN_LINES_OF_PAIR;
    int64_t step = (int64_t)stream->step;
    if (!step)
        return most;
    uint64_t front = step < 0 ? first : first + stream->span, done = 1, end = front + most * stream->step;
    uint64_t pairs = step < 0 ? front / size - end / size : end / size - front / size;
    uint32_t hash = (uint32_t)(front / size) * BURAN_LINE_FACTOR;
    for (; done <= pairs; done++)
        if ((hash += step < 0 ? 0 - BURAN_LINE_FACTOR : BURAN_LINE_FACTOR) < threshold)
            break;
    uint64_t there = step < 0 ? (front / size - done + 1) * size - 1 : (front / size + done) * size;
    return done > pairs ? most : iterations_to(front, there, step);
}

/* What a stream does from an iteration on: for how many its lines stay what they are, or stay outside of the sample. */
static uint64_t phase_of(const buran_reuse_stream *stream, uint64_t first, uint64_t most, bool *is_seen) {
    uint32_t threshold = __atomic_load_n(&buran_reuse_threshold, __ATOMIC_RELAXED);
    uint64_t last = first + stream->span;
    *is_seen = is_sampled(first / BURAN_LINE, threshold) || is_sampled(last / BURAN_LINE, threshold);
    if (!*is_seen)
        return iterations_outside(first, stream, most, threshold);
    if (!stream->step)
        return most;
    uint64_t one = iterations_in(first, BURAN_LINE, (int64_t)stream->step);
    uint64_t other = iterations_in(last, BURAN_LINE, (int64_t)stream->step);
    return one < other ? one : other;
}

void buran_reuse_loop(uint64_t at, uint64_t iterations, uint32_t count) {
    const buran_reuse_stream *streams = (const buran_reuse_stream *)(uintptr_t)at;
    uint64_t until[BURAN_REUSE_STREAMS]; /* an iteration, in which the stream has to be looked at again */
    bool is_seen[BURAN_REUSE_STREAMS];
    buran_thread *thread = begin();
    if (!thread)
        return;
    uint32_t threshold = 0;
    for (uint64_t now = 0, next; now < iterations; now = next) {
        uint32_t seen = 0, last = 0, before = threshold;
        threshold = __atomic_load_n(&buran_reuse_threshold, __ATOMIC_RELAXED);
        if (!now || threshold != before) /* where all lines are watched, or no longer */
            memset(until, 0, sizeof *until * count);
        next = iterations;
        for (uint32_t i = 0; i < count; i++) {
            uint64_t first = streams[i].first + now * streams[i].step;
            if (until[i] <= now)
                until[i] = now + phase_of(&streams[i], first, iterations - now, &is_seen[i]);
            next = until[i] < next ? until[i] : next;
            seen += is_seen[i];
            last = is_seen[i] ? i : last;
        }
        uint64_t times = next - now, where = streams[last].first + now * streams[last].step;
        if (seen == 1 && where / BURAN_LINE == (where + streams[last].span) / BURAN_LINE) {
            touch(thread, where / BURAN_LINE, streams[last].accesses * times, 1);
            continue;
        }
        /* The first iteration of a phase finds lines where they were left, and all others find them alike. */
        for (uint64_t done = 0, part = 1; seen && done < times; done += part, part = times - done)
            for (uint32_t i = 0; i < count; i++)
                if (is_seen[i]) {
                    uint64_t first = streams[i].first + now * streams[i].step;
                    touch_both(thread, first, streams[i].span, streams[i].accesses, part);
                }
    }
    end(thread);
}

void buran_reuse_range(uint64_t address, uint64_t length) {
    buran_thread *thread = NULL;
    for (uint64_t line = address / BURAN_LINE; length && line <= (address + length - 1) / BURAN_LINE; line++)
        if (is_sampled(line, buran_reuse_threshold) && (thread || (thread = begin())))
            touch(thread, line, 1, 1);
    if (thread)
        end(thread);
}

/* ---- for the dump */

static uint32_t bins_in_dump[BURAN_REUSE_BINS];

uint32_t buran_sampler_settle(const buran_thread *threads) {
    bool is_used[BURAN_REUSE_BINS] = {false};
    for (const buran_thread *thread = threads; thread; thread = thread->next)
        for (uint32_t i = 0; thread->sampler && i < thread->sampler->capacity; i++)
            for (uint32_t bin = 0; thread->sampler->histograms[i] && bin < BURAN_REUSE_BINS; bin++)
                is_used[bin] |= (*thread->sampler->histograms[i])[bin] != 0;
    uint32_t bins = 0;
    for (uint32_t bin = 0; bin < BURAN_REUSE_BINS; bin++)
        if (is_used[bin])
            bins_in_dump[bins++] = bin;
    return bins;
}

const char *buran_sampler_name(uint32_t number) {
    uint32_t bin = bins_in_dump[number];
    static char name[32];
    if (bin == BURAN_REUSE_FAR || bin == BURAN_REUSE_FOLLOWED)
        return bin == BURAN_REUSE_FAR ? "reuse_far" : "reuse_followed";
    if (bin >= BURAN_REUSE_CROWDED)
        return bin == BURAN_REUSE_CROWDED ? "reuse_crowded_any" : "reuse_crowded_set";
    if (bin >= BURAN_REUSE_ANY) {
        int is_of_set = bin >= BURAN_REUSE_SET;
        snprintf(name, sizeof name, "reuse_%s_%02u", is_of_set ? "set" : "any",
                 bin - (is_of_set ? BURAN_REUSE_SET : BURAN_REUSE_ANY));
        return name;
    }
    snprintf(name, sizeof name, "reuse_bin_%03u", bin);
    return name;
}

uint64_t buran_sampler_value(const buran_thread *thread, const buran_node *node, uint32_t number) {
    const buran_reuse *reuse = thread->sampler;
    histogram *counts = reuse && node->index < reuse->capacity ? reuse->histograms[node->index] : NULL;
    return counts ? (*counts)[bins_in_dump[number]] : 0;
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

/* Their sizes in bytes, and their ways if it tells them, as in "1:32768/8 2:1048576/16"; empty if it does not tell. */
static void describe_caches(char *text, size_t size) {
    *text = '\0';
    for (int index = 0; index < 16; index++) {
        char kind[32], level[32], bytes[32], ways[32];
        read_line(kind, sizeof kind, index, "type");
        read_line(level, sizeof level, index, "level");
        read_line(bytes, sizeof bytes, index, "size");
        read_line(ways, sizeof ways, index, "ways_of_associativity");
        char *unit;
        unsigned long long number = strtoull(bytes, &unit, 10);
        number *= *unit == 'K' ? 1024 : *unit == 'M' ? 1024 * 1024 : 1;
        size_t used = strlen(text);
        if (number && *level && (!strcmp(kind, "Data") || !strcmp(kind, "Unified")))
            snprintf(text + used, size - used, "%s%s:%llu%s%s", used ? " " : "", level, number, *ways ? "/" : "", ways);
    }
}

/* One line in so many was looked at, in the beginning and in the end of the run; and the caches. */
const char *const *buran_sampler_info(void) {
    static char first[16], last[16], caches[256];
    static const char *const info[] = {
        "sampled_lines_first", first, "sampled_lines_last", last, "caches", caches, NULL,
    };
    snprintf(first, sizeof first, "%u", first_rate);
    snprintf(last, sizeof last, "%u", used_rate);
    describe_caches(caches, sizeof caches);
    return info;
}
