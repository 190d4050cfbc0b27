/*
 * A disk that fails at a chosen call, for a process that loads this first (LD_PRELOAD).
 *
 * $DISK_FAULTS names a file of one `struct plan`, shared with the test, which sets a fault between two
 * saves; $DISK_FAULTS_UNDER the directory that the disk is. Python goes through these entries.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <unistd.h>

enum kind { READS = 1, CHANGES = 2, RENAMES = 4 };
enum how { ONCE = 0, FROM_NOW_ON = 1, HALF = 2, DONE_YET_REFUSED = 3 };

struct plan {
    int64_t calls_left; /* the call that brings it to 0 fails; negative: none will */
    int64_t fired;
    int32_t error, how, kinds, unused;
};

static struct plan *plan;
static const char *under;
static size_t under_length;

__attribute__((constructor)) static void begin(void) {
    const char *name = getenv("DISK_FAULTS");
    under = getenv("DISK_FAULTS_UNDER");
    if (!name || !under) return;
    int file = (int)syscall(SYS_openat, AT_FDCWD, name, O_RDWR | O_CLOEXEC);
    if (file < 0) return;
    void *room = mmap(NULL, sizeof *plan, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    close(file);
    under_length = strlen(under);
    if (room != MAP_FAILED) plan = room;
}

static int fails(enum kind kind, const char *path) {
    if (!plan || !(plan->kinds & kind) || strncmp(path, under, under_length)) return 0;
    int64_t left = __atomic_sub_fetch(&plan->calls_left, 1, __ATOMIC_SEQ_CST);
    if (left == 0 || (left < 0 && plan->fired && plan->how == FROM_NOW_ON)) {
        __atomic_add_fetch(&plan->fired, 1, __ATOMIC_SEQ_CST);
        return 1;
    }
    return 0;
}

static int fails_at(enum kind kind, int file) {
    if (!plan || !(plan->kinds & kind)) return 0;
    char link[64], path[PATH_MAX];
    snprintf(link, sizeof link, "/proc/self/fd/%d", file);
    ssize_t length = readlink(link, path, sizeof path - 1);
    if (length < 0) return 0;
    path[length] = 0;
    return fails(kind, path);
}

static int fails_in(enum kind kind, int directory, const char *path) {
    return path[0] == '/' || directory == AT_FDCWD ? fails(kind, path) : fails_at(kind, directory);
}

#define NEXT(name) static __typeof__(name) *next; if (!next) next = dlsym(RTLD_NEXT, #name)
#define REFUSE return errno = plan->error, -1
#define TRANSFER(kind, file, whole, half) \
    if (fails_at(kind, file)) { if (plan->how == HALF && size > 1) return half; REFUSE; } \
    return whole

ssize_t write(int file, const void *data, size_t size) {
    NEXT(write);
    TRANSFER(CHANGES, file, next(file, data, size), next(file, data, size / 2));
}
ssize_t pwrite64(int file, const void *data, size_t size, off64_t at) {
    NEXT(pwrite64);
    TRANSFER(CHANGES, file, next(file, data, size, at), next(file, data, size / 2, at));
}
ssize_t read(int file, void *data, size_t size) {
    NEXT(read);
    TRANSFER(READS, file, next(file, data, size), next(file, data, size / 2));
}
ssize_t preadv64(int file, const struct iovec *rooms, int count, off64_t at) {
    NEXT(preadv64);
    if (fails_at(READS, file)) REFUSE;
    return next(file, rooms, count, at);
}
ssize_t preadv64v2(int file, const struct iovec *rooms, int count, off64_t at, int flags) {
    NEXT(preadv64v2);
    if (fails_at(READS, file)) REFUSE;
    return next(file, rooms, count, at, flags);
}
int fsync(int file) {
    NEXT(fsync);
    if (fails_at(CHANGES, file)) REFUSE;
    return next(file);
}
int ftruncate64(int file, off64_t size) {
    NEXT(ftruncate64);
    if (fails_at(CHANGES, file)) REFUSE;
    return next(file, size);
}
int open64(const char *path, int flags, ...) {
    NEXT(open64);
    va_list rest;
    va_start(rest, flags);
    mode_t mode = flags & O_CREAT ? va_arg(rest, mode_t) : 0;
    va_end(rest);
    if (fails(flags & O_CREAT ? CHANGES : READS, path)) REFUSE;
    return next(path, flags, mode);
}
int mkdir(const char *path, mode_t mode) {
    NEXT(mkdir);
    if (fails(CHANGES, path)) REFUSE;
    return next(path, mode);
}
int unlink(const char *path) {
    NEXT(unlink);
    if (fails(CHANGES, path)) REFUSE;
    return next(path);
}
int unlinkat(int directory, const char *path, int flags) {
    NEXT(unlinkat);
    if (fails_in(CHANGES, directory, path)) REFUSE;
    return next(directory, path, flags);
}
int rmdir(const char *path) {
    NEXT(rmdir);
    if (fails(CHANGES, path)) REFUSE;
    return next(path);
}
int rename(const char *old, const char *new) {
    NEXT(rename);
    if (fails(CHANGES, old) || fails(RENAMES, old)) {
        /* What a network file system says when its answer was lost and it asked once more. */
        if (plan->how == DONE_YET_REFUSED) next(old, new);
        REFUSE;
    }
    return next(old, new);
}
