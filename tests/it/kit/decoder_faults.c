/* Faults of a video decoder and of reading NFO files on request. Preloaded into workers by decoder_faults_program.c.
 *
 * A packet whose bytes contain `hearthcast-fault-NAME` makes avcodec_send_packet fail as NAME says, and bytes of a file
 * with `hearthcast-nfo-fault-NAME` the read of these bytes. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <link.h>
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

/* The first fields of AVPacket (libavcodec 57 and later). */
struct packet {
    void *buf;
    int64_t pts;
    int64_t dts;
    const uint8_t *data;
    int size;
};

static const char MARKER[] = "hearthcast-fault-";
static const char NFO_MARKER[] = "hearthcast-nfo-fault-";

static volatile int sink;

__attribute__((noinline)) static int recurse(int depth)
{
    volatile char frame[4096];
    frame[depth & 4095] = (char)depth;
    return depth < 0 ? 0 : recurse(depth + 1) + frame[0];
}

static void fail(const char *name, size_t length)
{
#define IS(text) (length >= sizeof text - 1 && memcmp(name, text, sizeof text - 1) == 0)
    if (IS("null-write")) {
        *(volatile int *)(uintptr_t)8 = 1;
    } else if (IS("abort")) {
        abort();
    } else if (IS("recursion")) {
        sink = recurse(0);
    } else if (IS("hog")) {
        for (;;) {
            char *memory = malloc(64 << 20);
            if (!memory)
                abort();
            memset(memory, 1, 64 << 20);
            sink = memory[7];
        }
    } else if (IS("sleep")) {
        for (;;)
            sleep(1); // The sandbox refuses pause.
    }
}

/* GStreamer loads libavcodec for its plugin only, where RTLD_NEXT does not look. */
static int find_libavcodec(struct dl_phdr_info *library, size_t size, void *handle)
{
    (void)size;
    if (strstr(library->dlpi_name, "/libavcodec.so"))
        *(void **)handle = dlopen(library->dlpi_name, RTLD_LAZY | RTLD_NOLOAD);
    return *(void **)handle != NULL;
}

static void *real_function(const char *name)
{
    void *handle = NULL;
    dl_iterate_phdr(find_libavcodec, &handle);
    return handle ? dlsym(handle, name) : NULL;
}

int avcodec_send_packet(void *context, const struct packet *packet)
{
    static int (*real)(void *, const struct packet *);
    if (!real)
        real = (int (*)(void *, const struct packet *))real_function("avcodec_send_packet");
    if (packet && packet->data && packet->size > 0) {
        const char *marker = memmem(packet->data, (size_t)packet->size, MARKER, sizeof MARKER - 1);
        if (marker) {
            const char *name = marker + sizeof MARKER - 1;
            fail(name, (size_t)((const char *)packet->data + packet->size - name));
        }
    }
    return real(context, packet);
}

ssize_t pread64(int descriptor, void *bytes, size_t count, off64_t offset)
{
    ssize_t received = syscall(SYS_pread64, descriptor, bytes, count, offset);
    const char *marker = received > 0 ? memmem(bytes, (size_t)received, NFO_MARKER, sizeof NFO_MARKER - 1) : NULL;
    if (marker) {
        const char *name = marker + sizeof NFO_MARKER - 1;
        fail(name, (size_t)((const char *)bytes + received - name));
    }
    return received;
}
