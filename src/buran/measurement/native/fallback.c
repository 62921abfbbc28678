/* The backend without a compiler plugin: gcc -finstrument-functions, and -fsanitize-coverage=trace-pc to count.
 *
 * Every function calls its hooks, and the filter is applied here, once per function: slower than the plugin, and a
 * function that is inlined everywhere still pays for its hooks. Names come from the symbol table; file and line stay
 * unknown.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <elf.h>
#include <fcntl.h>
#include <link.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "filter.h"
#include "internal.h"

/* There if the program is C++. */
extern char *__cxa_demangle(const char *, char *, size_t *, int *) __attribute__((weak));

/* ---- names: the executable's own symbol table also knows static functions, which dladdr does not */

typedef struct symbols {
    const ElfW(Sym) *table;
    size_t count;
    const char *names;
    uintptr_t base;
} symbols;

static int first_object(struct dl_phdr_info *info, size_t size, void *base) {
    (void)size;
    *(uintptr_t *)base = info->dlpi_addr;
    return 1;
}

static symbols read_symbols(void) {
    symbols found = {0};
    struct stat status;
    int file = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
    if (file < 0)
        return found;
    if (fstat(file, &status) || status.st_size < (off_t)sizeof(ElfW(Ehdr))) {
        close(file);
        return found;
    }
    const char *image = mmap(NULL, (size_t)status.st_size, PROT_READ, MAP_PRIVATE, file, 0);
    close(file);
    if (image == MAP_FAILED)
        return found;
    const ElfW(Ehdr) *header = (const ElfW(Ehdr) *)image;
    const ElfW(Shdr) *sections = (const ElfW(Shdr) *)(image + header->e_shoff);
    for (int i = 0; header->e_shoff && i < header->e_shnum; i++) {
        if (sections[i].sh_type != SHT_SYMTAB)
            continue;
        found.table = (const ElfW(Sym) *)(image + sections[i].sh_offset);
        found.count = sections[i].sh_size / sizeof(ElfW(Sym));
        found.names = image + sections[sections[i].sh_link].sh_offset;
    }
    dl_iterate_phdr(first_object, &found.base);
    return found;
}

/* `own` says whether the function is the program's, not a library's that may be unloaded. */
static const char *name_of(const void *address, char *buffer, size_t size, int *own_function) {
    static symbols own;
    static int have_read;
    if (!have_read) {
        own = read_symbols();
        have_read = 1;
    }
    for (size_t i = 0; i < own.count; i++)
        if ((own.table[i].st_info & 0xf) == STT_FUNC && own.table[i].st_value == (uintptr_t)address - own.base) {
            *own_function = 1;
            return own.names + own.table[i].st_name;
        }
    Dl_info info;
    if (dladdr(address, &info) && info.dli_sname && info.dli_saddr == address)
        return info.dli_sname;
    snprintf(buffer, size, "%p", address);
    return buffer;
}

/* ---- function address -> region; open addressing, read without a lock */

#define TABLE_SIZE (1u << 16)

static struct {
    const void *address;
    buran_region *region;
    uint32_t generation;
} table[TABLE_SIZE];
static uint32_t table_used;
static pthread_mutex_t table_lock = PTHREAD_MUTEX_INITIALIZER;

/* Another library may come to lie where one was unloaded: what is known of libraries' functions is good for one
 * generation. */
#define FOR_EVER UINT32_MAX
static uint32_t generation;

int dlclose(void *library) {
    static int (*next)(void *);
    if (!next && !(next = (int (*)(void *))dlsym(RTLD_NEXT, "dlclose")))
        return -1;
    int result = next(library);
    __atomic_fetch_add(&generation, 1, __ATOMIC_RELEASE);
    return result;
}

static int is_current(uint32_t of) { return of == FOR_EVER || of == __atomic_load_n(&generation, __ATOMIC_ACQUIRE); }

static uint32_t slot_of(const void *address) { return (uint32_t)(((uintptr_t)address >> 4) * 2654435761u) >> 16; }

/* The filter file, as the linker has put it into the program; without one the symbols are not there. */
extern const char buran_embedded_filter[] __attribute__((weak));
extern const char buran_embedded_filter_end[] __attribute__((weak));

static const buran_filter *filter(void) {
    static buran_filter rules;
    static int have_read;
    if (have_read)
        return &rules;
    have_read = 1;
    size_t size = buran_embedded_filter ? (size_t)(buran_embedded_filter_end - buran_embedded_filter) : 0;
    if (!size)
        return &rules;
    FILE *file = fmemopen((void *)buran_embedded_filter, size, "r");
    const char *problem = file ? buran_filter_read(&rules, file) : "cannot be read";
    if (problem) {
        fprintf(stderr, "buran: the filter file this program was linked with %s\n", problem);
        _exit(2);
    }
    fclose(file);
    return &rules;
}

static buran_region *make_region(const void *address, int *own_function) {
    char buffer[32];
    const char *mangled = name_of(address, buffer, sizeof buffer, own_function);
    char *demangled = NULL;
    if (__cxa_demangle && mangled[0] == '_' && mangled[1] == 'Z')
        demangled = __cxa_demangle(mangled, NULL, NULL, NULL);
    buran_region *region = calloc(1, sizeof *region);
    if (!region)
        abort();
    region->mangled = strdup(mangled);
    region->name = demangled ? demangled : region->mangled;
    region->file = "";
    region->kind = BURAN_KIND_FUNCTION;
    if (buran_filter_decide(filter(), region->mangled, region->name, "") == BURAN_EXCLUDE)
        region->state = BURAN_STATE_SKIPPED;
    return region;
}

static buran_region *region_of(const void *address) {
    uint32_t i = slot_of(address);
    for (;; i = (i + 1) & (TABLE_SIZE - 1)) {
        const void *known = __atomic_load_n(&table[i].address, __ATOMIC_ACQUIRE);
        if (known == address && is_current(__atomic_load_n(&table[i].generation, __ATOMIC_ACQUIRE)))
            return table[i].region;
        if (!known || known == address)
            break;
    }
    pthread_mutex_lock(&table_lock);
    while (table[i].address && table[i].address != address)
        i = (i + 1) & (TABLE_SIZE - 1);
    if (!table[i].address || !is_current(table[i].generation)) {
        table_used += !table[i].address;
        if (table_used > TABLE_SIZE / 2) {
            fputs("buran: more functions than the measurement without a compiler plugin can hold\n", stderr);
            abort();
        }
        int own_function = 0;
        uint32_t now = __atomic_load_n(&generation, __ATOMIC_ACQUIRE);
        table[i].region = make_region(address, &own_function);
        __atomic_store_n(&table[i].generation, own_function ? FOR_EVER : now, __ATOMIC_RELEASE);
        __atomic_store_n(&table[i].address, address, __ATOMIC_RELEASE);
    }
    pthread_mutex_unlock(&table_lock);
    return table[i].region;
}

/* ---- the compiler's hooks */

void __cyg_profile_func_enter(void *function, void *caller);
void __cyg_profile_func_exit(void *function, void *caller);
void __sanitizer_cov_trace_pc(void);

/* Entries below the depth limit that are still open: their exits must not be taken for those of their callers. */
static __thread uint32_t open_below_limit __attribute__((tls_model("initial-exec")));

/* Needs -fno-omit-frame-pointer, in this file and in the program. The pointer is the same for all functions that are
 * inlined into one, and lower for every function that these call. */
#pragma GCC diagnostic ignored "-Wframe-address"
#define FRAME_OF_CALLER() __builtin_frame_address(1)

void __cyg_profile_func_enter(void *function, void *caller) {
    (void)caller;
    buran_region *region = region_of(function);
    if (region->state == BURAN_STATE_SKIPPED)
        return;
    buran_thread *thread = buran_self();
    const void *frame = FRAME_OF_CALLER();
    uint32_t depth = thread->depth;
    while (depth && thread->frames[depth - 1].address && thread->frames[depth - 1].address < frame)
        depth--; /* skipped by a longjmp */
    if (depth < thread->depth) {
        open_below_limit = 0;
        buran_exit(depth);
    }
    uint32_t token = buran_enter(region);
    if (token & BURAN_TOKEN_RECORDED)
        thread->frames[token & BURAN_TOKEN_DEPTH].address = frame;
    else
        open_below_limit++;
}

void __cyg_profile_func_exit(void *function, void *caller) {
    (void)caller;
    const buran_region *region = region_of(function);
    if (region->state == BURAN_STATE_SKIPPED)
        return;
    if (open_below_limit) {
        open_below_limit--;
        return;
    }
    buran_thread *thread = buran_self();
    uint32_t depth = thread->depth;
    while (depth && thread->frames[depth - 1].node->region != region->id)
        depth--;
    if (depth)
        buran_exit(depth - 1);
}

void __sanitizer_cov_trace_pc(void) { buran_blocks++; }
