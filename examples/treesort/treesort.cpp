// Sample sort over all ranks, with merge sort, a search tree and a tournament tree inside a rank.
//
//     treesort n
//
// Every rank starts with n keys of 64 bits (weak scaling) and ends with its part of the sorted sequence.
//
// The order of keys decides which value is moved, never which way is taken: loops are counted by sizes alone and
// comparisons feed selects, not branches. Executed basic blocks therefore follow the formulas beside the kernels
// exactly. One size depends on the keys: how many a rank owns in the end, `received`. Its mean over ranks is n.

#define OMPI_SKIP_MPICXX 1  // the C++ bindings of old MPI headers add functions nobody calls
#define MPICH_SKIP_MPICXX 1
#include <mpi.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <utility>
#include <vector>

// Kernels stay functions of their own in every build, so that each has its own place in a profile.
#define KERNEL static __attribute__((noinline))

using Key = uint64_t;
using Keys = std::vector<Key>;

static const Key LAST = UINT64_MAX;  // greater than every key, see make_keys
static const size_t SAMPLES = 64;    // of each rank
static const int MAX_N = 1 << 26;

static size_t power_of_two(size_t least) {
    return least <= 1 ? 1 : size_t{1} << (64 - __builtin_clzll(least - 1));
}

// ---- kernels -------------------------------------------------------------------------------------------------

// Keys first, first + 1, ... of one global pseudo-random sequence: n
KERNEL void make_keys(uint64_t first, size_t n, Key *keys) {
    for (size_t i = 0; i < n; ++i) {
        uint64_t z = (first + i + 1) * 0x9e3779b97f4a7c15u;
        z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
        z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
        keys[i] = (z ^ (z >> 31)) >> 1;
    }
}

// Merge neighbouring sorted runs of `width` keys until one is left: (count + 2) * ceil(log2(count / width)).
// Both arrays have one slot more than keys, as the look-ahead may stand behind the end. Returns the sorted array.
KERNEL Key *merge_runs(size_t count, size_t width, Key *keys, Key *scratch) {
    for (; width < count; width *= 2) {
        size_t left = 0;
        size_t middle = width;
        size_t right = middle;
        size_t end = 2 * width < count ? 2 * width : count;
        for (size_t k = 0; k < count; ++k) {
            const Key a = keys[left];
            const Key b = keys[right];
            const bool take_left = (right == end) | ((left != middle) & (a <= b));
            scratch[k] = take_left ? a : b;
            left += take_left;
            right += !take_left;
            // after the last key of a pair of runs, go to the next pair
            const bool done = k + 1 == end;
            const size_t next_middle = end + width < count ? end + width : count;
            const size_t next_end = end + 2 * width < count ? end + 2 * width : count;
            left = done ? end : left;
            middle = done ? next_middle : middle;
            right = done ? next_middle : right;
            end = done ? next_end : end;
        }
        Key *const merged = scratch;
        scratch = keys;
        keys = merged;
    }
    return keys;
}

// Search tree over sorted leaves, in heap order: each node holds the smallest key below it. leaves: n to 2 n
KERNEL void build_tree(size_t leaves, Key *tree) {
    for (size_t node = leaves - 1; node >= 1; --node) {
        tree[node] = tree[2 * node];
    }
}

// How many keys lie below each splitter: (p - 1) log2(leaves)
KERNEL void find_splitters(size_t leaves, const Key *tree, size_t count, const Key *splitters, size_t *bounds) {
    for (size_t s = 0; s < count; ++s) {
        size_t node = 1;
        do {
            node = 2 * node + (tree[2 * node + 1] < splitters[s]);
        } while (node < leaves);
        bounds[s] = node - leaves + (tree[node] < splitters[s]);
    }
}

// Every SAMPLES-th of all samples, without the first: p - 1
KERNEL void pick_splitters(size_t count, const Key *samples, Key *splitters) {
    for (size_t s = 0; s < count; ++s) {
        splitters[s] = samples[(s + 1) * SAMPLES];
    }
}

// Sizes between bounds: p
KERNEL void count_buckets(size_t ranks, const size_t *bounds, int *counts) {
    for (size_t r = 0; r < ranks; ++r) {
        counts[r] = static_cast<int>(bounds[r + 1] - bounds[r]);
    }
}

// Running sum: p. Returns the total.
KERNEL int place_buckets(size_t ranks, const int *counts, int *offsets) {
    int total = 0;
    for (size_t r = 0; r < ranks; ++r) {
        offsets[r] = total;
        total += counts[r];
    }
    return total;
}

// Who wins below each inner node: leaves - 1, that is 2 p - 1
KERNEL void start_tournament(size_t leaves, const Key *head, size_t *winner) {
    for (size_t node = leaves - 1; node >= 1; --node) {
        const size_t a = winner[2 * node];
        const size_t b = winner[2 * node + 1];
        winner[node] = head[b] < head[a] ? b : a;
    }
}

// Take the smallest head of all runs, replay its way up the tree: received * (log2(leaves) + 2), log2(leaves) being
// ceil(log2 p) + 1
KERNEL void play_tournament(size_t received, size_t leaves, const Key *keys, size_t *next, const size_t *end, Key *head,
                            size_t *winner, Key *merged) {
    for (size_t k = 0; k < received; ++k) {
        const size_t run = winner[1];
        merged[k] = head[run];
        const size_t at = ++next[run];
        const Key following = keys[at];
        head[run] = at < end[run] ? following : LAST;
        size_t node = leaves + run;
        do {
            node /= 2;
            const size_t a = winner[2 * node];
            const size_t b = winner[2 * node + 1];
            winner[node] = head[b] < head[a] ? b : a;
        } while (node > 1);
    }
}

// ---- the sort ------------------------------------------------------------------------------------------------

// n keys of this rank: n log2 n
KERNEL Keys sort_keys(Keys keys, size_t n) {
    Keys scratch(n + 1);
    return merge_runs(n, 1, keys.data(), scratch.data()) == keys.data() ? keys : scratch;
}

// Splitters between the ranks, the same everywhere; each rank's samples are sorted already: p log2 p
KERNEL Keys find_common_splitters(const Keys &keys, size_t n, size_t ranks) {
    Key own[SAMPLES];
    for (size_t s = 0; s < SAMPLES; ++s) {
        own[s] = keys[s * n / SAMPLES];
    }
    const size_t count = SAMPLES * ranks;
    Keys samples(count + 1);
    Keys scratch(count + 1);
    MPI_Allgather(own, SAMPLES, MPI_UINT64_T, samples.data(), SAMPLES, MPI_UINT64_T, MPI_COMM_WORLD);
    Keys splitters(ranks - 1);
    pick_splitters(ranks - 1, merge_runs(count, SAMPLES, samples.data(), scratch.data()), splitters.data());
    return splitters;
}

// How many of the sorted keys go to each rank: n for the tree, p log2 n for the search
KERNEL std::vector<int> fill_buckets(const Keys &keys, size_t n, const Keys &splitters) {
    const size_t ranks = splitters.size() + 1;
    const size_t leaves = power_of_two(std::max<size_t>(n, 2));
    Keys tree(2 * leaves, LAST);
    std::copy_n(keys.begin(), n, tree.begin() + static_cast<std::ptrdiff_t>(leaves));
    build_tree(leaves, tree.data());
    std::vector<size_t> bounds(ranks + 1, 0);
    find_splitters(leaves, tree.data(), ranks - 1, splitters.data(), bounds.data() + 1);
    bounds[ranks] = n;
    std::vector<int> counts(ranks);
    count_buckets(ranks, bounds.data(), counts.data());
    return counts;
}

// Send every bucket to its rank; one sorted run from each rank comes back, of the lengths `received_counts`
KERNEL Keys exchange_buckets(const Keys &keys, const std::vector<int> &counts, std::vector<int> &received_counts) {
    const size_t ranks = counts.size();
    std::vector<int> offsets(ranks);
    std::vector<int> received_offsets(ranks);
    MPI_Alltoall(counts.data(), 1, MPI_INT, received_counts.data(), 1, MPI_INT, MPI_COMM_WORLD);
    place_buckets(ranks, counts.data(), offsets.data());
    const int total = place_buckets(ranks, received_counts.data(), received_offsets.data());
    Keys received(static_cast<size_t>(total) + 1);
    MPI_Alltoallv(keys.data(), counts.data(), offsets.data(), MPI_UINT64_T, received.data(), received_counts.data(),
                  received_offsets.data(), MPI_UINT64_T, MPI_COMM_WORLD);
    return received;
}

// Merge one run from each rank: n log2 p
KERNEL Keys merge_buckets(const Keys &keys, const std::vector<int> &counts) {
    const size_t ranks = counts.size();
    // Twice as many leaves as needed: the tree then has log2(p) + 1 levels, never none, for one rank too.
    const size_t leaves = 2 * power_of_two(ranks);
    const size_t received = keys.size() - 1;
    std::vector<size_t> next(leaves, received);
    std::vector<size_t> end(leaves, received);
    std::vector<size_t> winner(2 * leaves);
    Keys head(leaves, LAST);
    size_t offset = 0;
    for (size_t r = 0; r < ranks; ++r) {
        next[r] = offset;
        offset += static_cast<size_t>(counts[r]);
        end[r] = offset;
        head[r] = next[r] < end[r] ? keys[next[r]] : LAST;
    }
    for (size_t leaf = 0; leaf < leaves; ++leaf) {
        winner[leaves + leaf] = leaf;
    }
    Keys merged(received);
    start_tournament(leaves, head.data(), winner.data());
    play_tournament(received, leaves, keys.data(), next.data(), end.data(), head.data(), winner.data(), merged.data());
    return merged;
}

// ---- check ---------------------------------------------------------------------------------------------------

// Sum of all keys of all ranks, modulo 2^64; with weights: each times its place in the global sequence. n
KERNEL uint64_t checksum(const Key *keys, size_t n, uint64_t first, bool weighted) {
    uint64_t local = 0;
    uint64_t global = 0;
    for (size_t i = 0; i < n; ++i) {
        local += keys[i] * (weighted ? first + i : 1);
    }
    MPI_Allreduce(&local, &global, 1, MPI_UINT64_T, MPI_SUM, MPI_COMM_WORLD);
    return global;
}

// Sorted on this rank, and nothing below what earlier ranks own; the answer is the same on all ranks. n
KERNEL bool is_sorted_everywhere(const Keys &sorted, int rank) {
    const Key smallest = sorted.empty() ? LAST : sorted.front();
    const Key largest = sorted.empty() ? 0 : sorted.back();
    Key largest_before = 0;
    MPI_Exscan(&largest, &largest_before, 1, MPI_UINT64_T, MPI_MAX, MPI_COMM_WORLD);
    largest_before = rank == 0 ? 0 : largest_before;  // MPI leaves it undefined there
    int local = std::is_sorted(sorted.begin(), sorted.end());
    local &= largest_before <= smallest;
    int global = 0;
    MPI_Allreduce(&local, &global, 1, MPI_INT, MPI_LAND, MPI_COMM_WORLD);
    return global != 0;
}

int main(int argc, char **argv) {
    MPI_Init(&argc, &argv);
    int rank = 0;
    int ranks = 0;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    char *rest = nullptr;
    const long argument = argc == 2 ? std::strtol(argv[1], &rest, 10) : 0;
    if (argc != 2 || *rest != '\0' || argument < 1 || argument > MAX_N) {
        if (rank == 0) {
            std::fprintf(stderr, "usage: treesort n\n  n  keys of each rank, 1 to %d\n", MAX_N);
        }
        MPI_Finalize();
        return 2;
    }

    const size_t n = static_cast<size_t>(argument);
    Keys keys(n + 1);
    make_keys(static_cast<uint64_t>(rank) * n, n, keys.data());
    const uint64_t sum_before = checksum(keys.data(), n, 0, false);

    keys = sort_keys(std::move(keys), n);
    const Keys splitters = find_common_splitters(keys, n, static_cast<size_t>(ranks));
    const std::vector<int> counts = fill_buckets(keys, n, splitters);
    std::vector<int> received_counts(static_cast<size_t>(ranks));
    const Keys received = exchange_buckets(keys, counts, received_counts);
    const Keys sorted = merge_buckets(received, received_counts);

    uint64_t own = sorted.size();
    uint64_t up_to_own = 0;
    MPI_Scan(&own, &up_to_own, 1, MPI_UINT64_T, MPI_SUM, MPI_COMM_WORLD);
    uint64_t most = 0;
    MPI_Reduce(&own, &most, 1, MPI_UINT64_T, MPI_MAX, 0, MPI_COMM_WORLD);
    const uint64_t sum_after = checksum(sorted.data(), sorted.size(), 0, false);
    const uint64_t order = checksum(sorted.data(), sorted.size(), up_to_own - own, true);
    const bool correct = is_sorted_everywhere(sorted, rank) && sum_before == sum_after;
    if (rank == 0) {
        std::printf("treesort: %d ranks, n = %zu, most keys on one rank %llu\n", ranks, n,
                    static_cast<unsigned long long>(most));
        std::printf("checksum: %016llx\n", static_cast<unsigned long long>(order));
        std::printf("verification: %s\n", correct ? "passed" : "FAILED");
    }
    MPI_Finalize();
    return correct ? 0 : 1;
}
