/* Makes system calls of a server under test fail on request; preloaded as a library. Not part of the product.
 *
  * HEARTHCAST_FAULTS_UNDER is a folder: only calls on files below it count. HEARTHCAST_FAULTS_CONTROL is a file that contains
  * `struct control`; it is mapped and shared, so the test can change it while the server runs. `faults.rs` contains the other
 * half.
 *
  * Only calls through functions of the C library are intercepted, not direct system calls. For 64-bit Linux with glibc.
  * Nothing here allocates or locks, because it may run in a forked child.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

/* In the order of `CALLS` in faults.rs. */
enum call {
    OPEN, READ, PREAD, WRITE, PWRITE, WRITEV, PWRITEV, FSYNC, FDATASYNC, SYNC_FILE_RANGE, FTRUNCATE, FALLOCATE, RENAME,
    UNLINK, LINK, MKDIR, CALLS
};

struct control {
    /* The first call that fails, counted from 1, and the first one that succeeds again; `end` 0: nothing is counted. */
    uint64_t first, end;
    /* One bit for each `enum call` that is counted and fails. */
    uint64_t mask;
    /* The errno. */
    uint64_t error;
    /* Not 0: if the first call to fail is a write, it writes half of its bytes instead. */
    uint64_t half;
    uint64_t count;
    uint64_t seen[CALLS], injected[CALLS];
};

/* Returned by `fault` when half of a write is to be done. */
#define HALF (-1)

static struct control *control;
static char under[4096];
static size_t under_length;

__attribute__((constructor)) static void map_control(void) {
    const char *folder = getenv("HEARTHCAST_FAULTS_UNDER"), *path = getenv("HEARTHCAST_FAULTS_CONTROL");
    int file = path ? (int)syscall(SYS_openat, AT_FDCWD, path, O_RDWR | O_CLOEXEC, 0) : -1;
    void *map = file < 0 ? MAP_FAILED : mmap(NULL, sizeof *control, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    if (!folder || strlen(folder) >= sizeof under || map == MAP_FAILED) {
        fputs("faults: HEARTHCAST_FAULTS_UNDER or HEARTHCAST_FAULTS_CONTROL cannot be used\n", stderr);
        _exit(97);
    }
    syscall(SYS_close, file);
    under_length = strlen(folder);
    memcpy(under, folder, under_length);
    __atomic_store_n(&control, map, __ATOMIC_RELEASE);
}

static uint64_t load(uint64_t *from) { return __atomic_load_n(from, __ATOMIC_SEQ_CST); }

static uint64_t increment(uint64_t *at) { return __atomic_add_fetch(at, 1, __ATOMIC_SEQ_CST); }

static int is_armed(void) { return control && load(&control->end) != 0; }

/* The errno of a call on a path; 0: the call is made. */
static int fault(enum call call, const char *path, size_t length) {
    if (length < under_length || memcmp(path, under, under_length) != 0) return 0;
    if (length > under_length && path[under_length] != '/') return 0;
    increment(&control->seen[call]);
    if (!(load(&control->mask) >> call & 1)) return 0;
    uint64_t at = increment(&control->count), first = load(&control->first), end = load(&control->end);
    if (at < first || at >= end) return 0;
    increment(&control->injected[call]);
    return at == first && load(&control->half) && (call == WRITE || call == PWRITE) ? HALF : (int)load(&control->error);
}

static int on_file(enum call call, int file) {
    if (!is_armed() || file < 0) return 0;
    char link[32] = "/proc/self/fd/", digits[12], path[4096];
    size_t end = strlen(link), count = 0;
    for (int rest = file; rest > 0 || count == 0; rest /= 10) digits[count++] = (char)('0' + rest % 10);
    while (count > 0) link[end++] = digits[--count];
    int before = errno;
    long length = syscall(SYS_readlinkat, AT_FDCWD, link, path, sizeof path);
    errno = before;
    return length > 0 ? fault(call, path, (size_t)length) : 0;
}

/* For a relative path, the folder it is relative to decides. */
static int on_path(enum call call, int folder, const char *path) {
    if (!is_armed() || !path) return 0;
    return path[0] == '/' ? fault(call, path, strlen(path)) : on_file(call, folder);
}

static long failed(int error) {
    errno = error;
    return -1;
}

#define OR_FAIL(error, ...) int why = error; return why ? failed(why) : syscall(__VA_ARGS__)
#define OR_FAIL_OR_HALF(error, number, file, from, length, ...) \
    int why = error; \
    return why > 0 ? failed(why) : syscall(number, file, from, why == HALF ? (length + 1) / 2 : length, __VA_ARGS__)
#define ALIAS(of) __attribute__((alias(#of)))
#define MODE_AFTER(last) \
    va_list rest; va_start(rest, last); mode_t mode = flags & (O_CREAT | O_TMPFILE) ? va_arg(rest, mode_t) : 0; va_end(rest)

int open64(const char *path, int flags, ...) {
    MODE_AFTER(flags);
    OR_FAIL(on_path(OPEN, AT_FDCWD, path), SYS_openat, AT_FDCWD, path, flags, mode);
}
int open(const char *path, int flags, ...) ALIAS(open64);
int openat64(int folder, const char *path, int flags, ...) {
    MODE_AFTER(flags);
    OR_FAIL(on_path(OPEN, folder, path), SYS_openat, folder, path, flags, mode);
}
int openat(int folder, const char *path, int flags, ...) ALIAS(openat64);

ssize_t read(int file, void *to, size_t length) { OR_FAIL(on_file(READ, file), SYS_read, file, to, length); }
ssize_t pread64(int file, void *to, size_t length, off64_t at) {
    OR_FAIL(on_file(PREAD, file), SYS_pread64, file, to, length, at);
}
ssize_t pread(int file, void *to, size_t length, off_t at) ALIAS(pread64);

ssize_t write(int file, const void *from, size_t length) {
    OR_FAIL_OR_HALF(on_file(WRITE, file), SYS_write, file, from, length, 0);
}
ssize_t pwrite64(int file, const void *from, size_t length, off64_t at) {
    OR_FAIL_OR_HALF(on_file(PWRITE, file), SYS_pwrite64, file, from, length, at);
}
ssize_t pwrite(int file, const void *from, size_t length, off_t at) ALIAS(pwrite64);
ssize_t writev(int file, const struct iovec *from, int count) {
    OR_FAIL(on_file(WRITEV, file), SYS_writev, file, from, count);
}
ssize_t pwritev64(int file, const struct iovec *from, int count, off64_t at) {
    OR_FAIL(on_file(PWRITEV, file), SYS_pwritev, file, from, count, at, 0);
}
ssize_t pwritev(int file, const struct iovec *from, int count, off_t at) ALIAS(pwritev64);

int fsync(int file) { OR_FAIL(on_file(FSYNC, file), SYS_fsync, file); }
int fdatasync(int file) { OR_FAIL(on_file(FDATASYNC, file), SYS_fdatasync, file); }
int sync_file_range(int file, off64_t at, off64_t length, unsigned flags) {
    OR_FAIL(on_file(SYNC_FILE_RANGE, file), SYS_sync_file_range, file, at, length, flags);
}
int ftruncate64(int file, off64_t length) { OR_FAIL(on_file(FTRUNCATE, file), SYS_ftruncate, file, length); }
int ftruncate(int file, off_t length) ALIAS(ftruncate64);
int fallocate64(int file, int mode, off64_t at, off64_t length) {
    OR_FAIL(on_file(FALLOCATE, file), SYS_fallocate, file, mode, at, length);
}
int fallocate(int file, int mode, off_t at, off_t length) ALIAS(fallocate64);

int renameat2(int from_folder, const char *from, int to_folder, const char *to, unsigned flags) {
    OR_FAIL(on_path(RENAME, from_folder, from), SYS_renameat2, from_folder, from, to_folder, to, flags);
}
int renameat(int from_folder, const char *from, int to_folder, const char *to) {
    return renameat2(from_folder, from, to_folder, to, 0);
}
int rename(const char *from, const char *to) { return renameat2(AT_FDCWD, from, AT_FDCWD, to, 0); }
int unlinkat(int folder, const char *path, int flags) {
    OR_FAIL(on_path(UNLINK, folder, path), SYS_unlinkat, folder, path, flags);
}
int unlink(const char *path) { return unlinkat(AT_FDCWD, path, 0); }
int linkat(int from_folder, const char *from, int to_folder, const char *to, int flags) {
    OR_FAIL(on_path(LINK, from_folder, from), SYS_linkat, from_folder, from, to_folder, to, flags);
}
int link(const char *from, const char *to) { return linkat(AT_FDCWD, from, AT_FDCWD, to, 0); }
int mkdirat(int folder, const char *path, mode_t mode) {
    OR_FAIL(on_path(MKDIR, folder, path), SYS_mkdirat, folder, path, mode);
}
int mkdir(const char *path, mode_t mode) { return mkdirat(AT_FDCWD, path, mode); }
