/* Writing the profile of one process to one file. The reader is buran/measure/dump.py: keep both in step.
 *
 * All numbers are little-endian; a string is its length (u32) and its bytes.
 *
 *     magic "BURANDMP", u32 version, u32 flags (1: complete, 2: counts blocks), i32 rank, i32 size,
 *     f64 ticks per second, u32 number of info strings, u32 regions, u32 threads, u32 reserved
 *     info      key, value, key, value, ...
 *     regions   name, mangled, file, u32 line, u32 kind
 *     threads   u32 id, u32 nodes, then node_record each; node 0 is the root, parents come first
 *     end       magic "BURANEND", u32 CRC-32 of everything before the end
 */
#define _GNU_SOURCE
#include <elf.h>
#include <errno.h>
#include <limits.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "internal.h"

#define DUMP_VERSION 1u

typedef struct node_record {
    uint32_t parent, region;
    uint64_t visits, ticks, blocks, bytes_sent, bytes_received, comm_sum;
    uint32_t comm_min, comm_max;
} node_record;

_Static_assert(sizeof(node_record) == 64, "the reader expects 64 bytes");

typedef struct writer {
    FILE *file;
    uint32_t crc;
    uint32_t table[256];
} writer;

static void prepare_crc(writer *out) {
    for (uint32_t i = 0; i < 256; i++) {
        uint32_t value = i;
        for (int bit = 0; bit < 8; bit++)
            value = value & 1 ? 0xEDB88320u ^ (value >> 1) : value >> 1;
        out->table[i] = value;
    }
    out->crc = 0xFFFFFFFFu;
}

static void put(writer *out, const void *data, size_t size) {
    const unsigned char *bytes = data;
    for (size_t i = 0; i < size; i++)
        out->crc = out->table[(out->crc ^ bytes[i]) & 0xFF] ^ (out->crc >> 8);
    fwrite(data, 1, size, out->file);
}

static void put_u32(writer *out, uint32_t value) { put(out, &value, sizeof value); }
static void put_i32(writer *out, int32_t value) { put(out, &value, sizeof value); }
static void put_f64(writer *out, double value) { put(out, &value, sizeof value); }

static void put_text(writer *out, const char *text) {
    size_t length = text ? strlen(text) : 0;
    put_u32(out, (uint32_t)length);
    put(out, text, length);
}

/* ---- which binary this is: the linker's build id, so that profiles of two builds are never mixed */

static int find_build_id(struct dl_phdr_info *info, size_t size, void *result) {
    (void)size;
    char *text = result;
    for (int i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *segment = &info->dlpi_phdr[i];
        if (segment->p_type != PT_NOTE)
            continue;
        const char *at = (const char *)(info->dlpi_addr + segment->p_vaddr), *end = at + segment->p_memsz;
        while (at + sizeof(ElfW(Nhdr)) <= end) {
            const ElfW(Nhdr) *note = (const ElfW(Nhdr) *)at;
            const char *name = at + sizeof *note;
            const unsigned char *id = (const unsigned char *)name + ((note->n_namesz + 3u) & ~3u);
            if (note->n_type == NT_GNU_BUILD_ID && note->n_namesz == 4 && !memcmp(name, "GNU", 4)) {
                for (uint32_t k = 0; k < note->n_descsz && k < 32; k++)
                    sprintf(text + 2 * k, "%02x", id[k]);
                return 1;
            }
            at = (const char *)id + ((note->n_descsz + 3u) & ~3u);
        }
    }
    return 1; /* the first object is the executable: look no further */
}

static void executable_name(char *name, size_t size) {
    char path[PATH_MAX];
    ssize_t length = readlink("/proc/self/exe", path, sizeof path - 1);
    path[length > 0 ? length : 0] = '\0';
    const char *slash = strrchr(path, '/');
    snprintf(name, size, "%.*s", (int)size - 1, slash ? slash + 1 : path);
}

/* ---- sections */

static void put_info(writer *out, const buran_dump_source *source, uint32_t build_strings, uint64_t skipped) {
    char build_id[65] = "", name[NAME_MAX + 1], number[32];
    dl_iterate_phdr(find_build_id, build_id);
    executable_name(name, sizeof name);
    snprintf(number, sizeof number, "%llu", (unsigned long long)skipped);
    const char *own[] = {"executable", name, "build_id", build_id, "clock", source->clock, "visits_below_depth_limit",
                         number};
    for (size_t i = 0; i < sizeof own / sizeof *own; i++)
        put_text(out, own[i]);
    for (uint32_t i = 0; i < build_strings; i++)
        put_text(out, buran_build_info[i]);
}

/* Entries that were never left, as after exit() in a function, last until now. */
static void close_open_frames(buran_thread *thread, uint64_t now) {
    uint64_t blocks = *thread->blocks;
    for (uint32_t depth = thread->depth; depth-- > 0;) {
        buran_frame *frame = &thread->frames[depth];
        frame->node->visits++;
        frame->node->ticks += now - frame->ticks;
        frame->node->blocks += blocks - frame->blocks;
    }
    thread->depth = 0;
    thread->root->ticks = now - thread->started;
    thread->root->blocks = blocks;
}

static void put_thread(writer *out, buran_thread *thread, uint64_t now) {
    close_open_frames(thread, thread->final_ticks ? thread->final_ticks : now);
    uint32_t count = thread->node_count, done = 0;
    put_u32(out, thread->id);
    put_u32(out, count);
    for (buran_chunk *chunk = thread->first_chunk; chunk && done < count; chunk = chunk->next)
        for (uint32_t i = 0; i < chunk->used && done < count; i++, done++) {
            const buran_node *node = &chunk->nodes[i];
            node_record record = {
                .parent = node->parent ? node->parent->index : 0,
                .region = node->region->id,
                .visits = node->visits,
                .ticks = node->ticks,
                .blocks = node->blocks,
                .bytes_sent = node->bytes_sent,
                .bytes_received = node->bytes_received,
                .comm_sum = node->comm_sum,
                .comm_min = node->comm_min,
                .comm_max = node->comm_max,
            };
            put(out, &record, sizeof record);
        }
}

static void put_all(writer *out, const buran_dump_source *source) {
    uint32_t thread_count = 0, build_strings = 0;
    uint64_t skipped = 0;
    for (buran_thread *thread = source->threads; thread; thread = thread->next) {
        thread_count++;
        skipped += thread->skipped_visits;
    }
    while (buran_build_info[build_strings])
        build_strings++;

    put(out, "BURANDMP", 8);
    put_u32(out, DUMP_VERSION);
    put_u32(out, (source->complete ? 1u : 0u) | (buran_counts_blocks ? 2u : 0u));
    put_i32(out, source->process->rank);
    put_i32(out, source->process->size);
    put_f64(out, source->ticks_per_second);
    put_u32(out, 8 + build_strings);
    put_u32(out, source->region_count);
    put_u32(out, thread_count);
    put_u32(out, 0);
    put_info(out, source, build_strings, skipped);
    for (uint32_t i = 0; i < source->region_count; i++) {
        const buran_region *region = source->regions[i];
        put_text(out, region->name);
        put_text(out, region->mangled);
        put_text(out, region->file);
        put_u32(out, region->line);
        put_u32(out, region->kind);
    }
    for (buran_thread *thread = source->threads; thread; thread = thread->next)
        put_thread(out, thread, source->now);
    uint32_t crc = out->crc ^ 0xFFFFFFFFu;
    fwrite("BURANEND", 1, 8, out->file);
    fwrite(&crc, sizeof crc, 1, out->file);
}

static int complain(const char *doing, const char *path) {
    fprintf(stderr, "buran: cannot %s %s: %s\n", doing, path, strerror(errno));
    return -1;
}

/* A reader never sees half a file: write beside it, then give it its name. A name that is taken is not overwritten,
 * so that two processes that believe to be the same rank are noticed. */
int buran_dump_to_folder(const buran_dump_source *source, const char *folder) {
    char temporary[PATH_MAX], final[PATH_MAX];
    int rank = source->process->rank;
    long pid = (long)getpid();
    if (snprintf(temporary, sizeof temporary, "%s/.rank-%06d.%ld.tmp", folder, rank, pid) >= (int)sizeof temporary)
        return complain("use the folder", folder);
    snprintf(final, sizeof final, "%s/rank-%06d.buran", folder, rank);
    mkdir(folder, 0777);

    writer *out = malloc(sizeof *out);
    if (!out)
        return complain("write", temporary);
    out->file = fopen(temporary, "wb");
    if (!out->file) {
        free(out);
        return complain("create", temporary);
    }
    prepare_crc(out);
    put_all(out, source);
    int failed = ferror(out->file) || fflush(out->file);
    failed |= fclose(out->file);
    free(out);
    if (failed) {
        complain("write", temporary);
        unlink(temporary);
        return -1;
    }
    if (link(temporary, final) == 0) {
        unlink(temporary);
        return 0;
    }
    if (errno == EEXIST)
        snprintf(final, sizeof final, "%s/rank-%06d.%ld.buran", folder, rank, pid);
    if (rename(temporary, final)) /* also where a file system knows no hard links */
        return complain("name", final);
    return 0;
}
