/* Preloaded: calls of the system fail on files below a folder, all of them or one of a chosen number.
 *
 *     cc -shared -fPIC -o failing_calls.so failing_calls.c -ldl
 *     FAILING_CALLS=flock,link FAILING_BELOW=/folder FAILING_ERRNO=38 LD_PRELOAD=./failing_calls.so PROGRAM
 *
 * FAILING_NUMBER, or failing_calls_set() from inside, lets only the call of that number fail, from 0; -1 is all.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <unistd.h>

static int is_ready, number = -1, code, made;
static char calls[200], below[PATH_MAX];

static void prepare(void) {
    if (is_ready)
        return;
    is_ready = 1;
    const char *names = getenv("FAILING_CALLS"), *folder = getenv("FAILING_BELOW"), *error = getenv("FAILING_ERRNO");
    const char *which = getenv("FAILING_NUMBER");
    snprintf(calls, sizeof calls, ",%s,", names ? names : "");
    snprintf(below, sizeof below, "%s", folder ? folder : "");
    code = error ? atoi(error) : 0;
    number = which ? atoi(which) : -1;
}

void failing_calls_set(int new_number, int new_code) {
    prepare();
    number = new_number;
    code = new_code;
    made = 0;
}

int failing_calls_made(void) { return made; }

static int is_below(const char *path) { return *below && strncmp(path, below, strlen(below)) == 0; }

static int path_of(int handle, char *path) {
    char link_name[64];
    snprintf(link_name, sizeof link_name, "/proc/self/fd/%d", handle);
    ssize_t length = readlink(link_name, path, PATH_MAX - 1);
    if (length < 0)
        return 0;
    path[length] = 0;
    return 1;
}

static int fails(const char *name, const char *path) {
    char pattern[40];
    prepare();
    snprintf(pattern, sizeof pattern, ",%s,", name);
    if (!code || !strstr(calls, pattern) || !is_below(path))
        return 0;
    if (number >= 0 && made++ != number)
        return 0;
    errno = code;
    return 1;
}

static int fails_on(const char *name, int handle) {
    char path[PATH_MAX];
    int before = errno, is_failure = path_of(handle, path) && fails(name, path);
    if (!is_failure)
        errno = before;
    return is_failure;
}

#define REAL(name) (*(__typeof__(&name))dlsym(RTLD_NEXT, #name))

ssize_t write(int handle, const void *data, size_t size) {
    return fails_on("write", handle) ? -1 : REAL(write)(handle, data, size);
}

int flock(int handle, int operation);
int flock(int handle, int operation) { return fails_on("flock", handle) ? -1 : REAL(flock)(handle, operation); }

int link(const char *from, const char *to) {
    char path[PATH_MAX];
    return realpath(from, path) && fails("link", path) ? -1 : REAL(link)(from, to);
}

int linkat(int from_folder, const char *from, int to_folder, const char *to, int flags) {
    char path[PATH_MAX];
    if (from[0] == '/' && realpath(from, path) && fails("link", path))
        return -1;
    return REAL(linkat)(from_folder, from, to_folder, to, flags);
}
