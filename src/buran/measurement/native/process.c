/* Beginning and end of the process: settings, forked children, and when the profile is written. */
#define _GNU_SOURCE
#include <elf.h>
#include <link.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "internal.h"

buran_process buran_this_process = {.rank = 0, .size = 1, .mpi_state = BURAN_MPI_NONE};

buran_settings buran_the_settings = {.depth_limit = 256, .node_limit = 1u << 18, .thread_limit = 1024};

/* The variable by which programs that this one starts know that they are not the ones to be measured. */
#define MEASURED "BURAN_MEASURED_PROCESS"

static pid_t owner; /* a forked child must not write its parent's profile */
static uint32_t forks;
static char build_id[65], executable[NAME_MAX + 1], host[256], cpus[1024];

_Noreturn void buran_give_up(const char *what, const char *why) {
    dprintf(2, "buran: %s: %s\n", what, why);
    _exit(2);
}

/* ---- what is known from the start; the end may come in a signal handler, where less can be asked for */

static char of_this_object;

static int is_this_object(const struct dl_phdr_info *info) {
    for (int i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *segment = &info->dlpi_phdr[i];
        uintptr_t begin = (uintptr_t)(info->dlpi_addr + segment->p_vaddr), address = (uintptr_t)&of_this_object;
        if (segment->p_type == PT_LOAD && address >= begin && address - begin < segment->p_memsz)
            return 1;
    }
    return 0;
}

/* Which binary this is: the linker's build id, so that profiles of two builds are never mixed. The binary is the
 * executable, or what a simulator has loaded. */
static int find_build_id(struct dl_phdr_info *info, size_t size, void *result) {
    (void)size;
    char *text = result;
    if (!is_this_object(info))
        return 0;
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
    return 1;
}

static void find_executable(void) {
    char path[PATH_MAX];
    const char *told = BURAN_IS_SIMULATED ? getenv("BURAN_EXECUTABLE") : NULL; /* what runs is the simulator */
    if (told) {
        snprintf(executable, sizeof executable, "%s", told);
        return;
    }
    ssize_t length = readlink("/proc/self/exe", path, sizeof path - 1);
    path[length > 0 ? length : 0] = '\0';
    const char *slash = strrchr(path, '/');
    snprintf(executable, sizeof executable, "%.*s", (int)sizeof executable - 1, slash ? slash + 1 : path);
}

/* Slurm's name of the node comes first: nodes that are emulated on one host differ in nothing else. */
static void find_place(void) {
    const char *node = getenv("SLURM_JOB_ID") ? getenv("SLURMD_NODENAME") : NULL;
    if (node)
        snprintf(host, sizeof host, "%s", node);
    else if (gethostname(host, sizeof host - 1))
        *host = '\0';
    FILE *status = fopen("/proc/self/status", "re");
    char line[sizeof cpus + 32];
    while (status && fgets(line, sizeof line, status))
        if (sscanf(line, "Cpus_allowed_list: %1023s", cpus) == 1)
            break;
    if (status)
        fclose(status);
}

void buran_set_place(const char *node) {
    snprintf(host, sizeof host, "%s", node);
    *cpus = '\0';
}

static uint32_t number_from(const char *variable, uint32_t otherwise, uint32_t least, uint32_t most) {
    const char *text = getenv(variable);
    if (!text || !*text)
        return otherwise;
    char *end, why[64];
    unsigned long long value = strtoull(text, &end, 10);
    if (*end || *text == '-' || value < least || value > most) {
        snprintf(why, sizeof why, "must be a number from %u to %u", least, most);
        buran_give_up(variable, why);
    }
    return (uint32_t)value;
}

static void read_settings(void) {
    buran_settings *settings = &buran_the_settings;
    settings->depth_limit = number_from("BURAN_DEPTH_LIMIT", settings->depth_limit, 1, 1u << 20);
    settings->node_limit = number_from("BURAN_NODE_LIMIT", settings->node_limit, 1, 1u << 30);
    settings->thread_limit = number_from("BURAN_THREAD_LIMIT", settings->thread_limit, 1, 1u << 20);
    const char *recursion = getenv("BURAN_RECURSION");
    if (recursion && *recursion && strcmp(recursion, "fold") && strcmp(recursion, "unfold"))
        buran_give_up("BURAN_RECURSION", "must be `fold` or `unfold`");
    settings->folds_recursion = recursion && !strcmp(recursion, "fold");

    const char *folder = getenv("BURAN_PROFILE_DIR");
    if (!folder || !*folder)
        return;
    char here[PATH_MAX] = ""; /* the program may go to another folder */
    if (*folder != '/' && !getcwd(here, sizeof here))
        buran_give_up("BURAN_PROFILE_DIR", "the current folder has no name");
    if (snprintf(settings->folder, PATH_MAX, "%s%s%s", here, *here ? "/" : "", folder) >= PATH_MAX - 64)
        buran_give_up("BURAN_PROFILE_DIR", "the path is too long");
}

/* A program that this one starts would write a second profile of the same rank. One that replaces this one in the same
 * process may. */
static int was_started_by_measured_process(void) {
    const char *other = getenv(MEASURED);
    return other && *other && strtol(other, NULL, 10) != (long)getpid();
}

/* ---- forked children: hooks go on in their copy of the memory, which nobody will look at */

static sigset_t before_fork_signals; /* used by whoever has the lock */

static void before_fork(void) {
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    buran_lock_registry();
    before_fork_signals = before;
    forks++;
}

static void after_fork(void) {
    sigset_t before = before_fork_signals;
    buran_unlock_registry();
    pthread_sigmask(SIG_SETMASK, &before, NULL);
}

static void in_child(void) {
    buran_thread *thread = buran_self_if_known();
    if (thread)
        buran_cpu_clock_forget(&thread->cpu_clock);
    owner = 0;
    after_fork();
}

/* ---- beginning */

static void on_quick_exit(void) { buran_write_dump(0); }

void buran_start_process(void) {
    const char *wrong = buran_clock_start(getenv("BURAN_CLOCK"));
    if (wrong)
        buran_give_up("BURAN_CLOCK", wrong);
    wrong = buran_cpu_clock_choose(getenv("BURAN_CPU_CLOCK"));
    if (wrong)
        buran_give_up("BURAN_CPU_CLOCK", wrong);
    wrong = buran_counters_start(getenv("BURAN_COUNTERS"));
    if (wrong)
        buran_give_up("BURAN_COUNTERS", wrong);
    if (buran_sampler_start)
        buran_sampler_start();
    wrong = buran_filter_start(getenv("BURAN_RUN_FILTER"));
    if (wrong)
        buran_give_up("BURAN_RUN_FILTER", wrong);
    read_settings();
    dl_iterate_phdr(find_build_id, build_id);
    find_executable();
    find_place();
    if (!was_started_by_measured_process()) {
        char pid[32];
        owner = getpid();
        snprintf(pid, sizeof pid, "%ld", (long)owner);
        setenv(MEASURED, pid, 1);
    }
    pthread_atfork(before_fork, after_fork, in_child);
    at_quick_exit(on_quick_exit);
}

/* Before all initialisers of the program; those of its libraries may have called hooks already. */
__attribute__((constructor(101))) static void start(void) { buran_self(); }

/* ---- end */

/* After all destructors of the program and everything it has registered with atexit(). */
__attribute__((destructor(101))) static void on_exit_of_process(void) { buran_write_dump(0); }

/* Leaves without any of these. The C library's own exit() does not come along here. */
_Noreturn void _exit(int status) {
    buran_write_dump(0);
    for (;;)
        syscall(SYS_exit_group, status);
}

_Noreturn void _Exit(int status) { _exit(status); }

static const char *why_incomplete(const buran_dump_source *source, int aborted) {
    if (aborted)
        return "it called MPI_Abort";
    if (buran_this_process.mpi_state == BURAN_MPI_RUNNING)
        return "it left without MPI_Finalize";
    for (const buran_thread *thread = source->threads; thread; thread = thread->next)
        if (thread->without_node)
            return "it has more call paths than BURAN_NODE_LIMIT allows";
    return NULL;
}

void buran_write_dump(int aborted) {
    static int written;
    if (getpid() != owner || !*buran_the_settings.folder || __atomic_exchange_n(&written, 1, __ATOMIC_SEQ_CST))
        return;
    buran_thread *thread = buran_self_if_known();
    if (thread && !thread->busy)
        buran_book(thread); /* the clock of CPU time is its own */
    uint64_t now = buran_ticks();
    sigset_t all, before;
    sigfillset(&all);
    sigdelset(&all, SIGXFSZ); /* the dump ignores it, which has no effect on what is blocked */
    pthread_sigmask(SIG_SETMASK, &all, &before);
    buran_dump_source source = {
        .process = &buran_this_process,
        .settings = &buran_the_settings,
        .ticks_per_second = buran_clock_rate(),
        .now = now,
        .forks = forks,
        .clock = buran_the_clock.name,
        .build_id = build_id,
        .executable = executable,
        .host = host,
        .cpus = cpus,
        .no_cpu_clock = buran_cpu_clock_missing(thread ? &thread->cpu_clock : NULL),
    };
    buran_lock_registry();
    buran_describe_registry(&source);
    source.incomplete = why_incomplete(&source, aborted);
    buran_dump_to_folder(&source, buran_the_settings.folder);
    buran_unlock_registry();
    pthread_sigmask(SIG_SETMASK, &before, NULL);
}
