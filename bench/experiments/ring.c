/*
 * What one request of the kernel costs over /dev/fuse and over a ring for each processor (FUSE over io_uring), and what becomes of requests
 * when the server dies that had taken them. A file system of names that only answers stat(2); nothing of Forebay is in it.
 *
 *   ring MOUNTPOINT device|ring CLIENTS STATS       STATS calls of stat(2) by CLIENTS processes side by side, a request each
 *   ring MOUNTPOINT device|ring takeover            kills a server that holds a request, goes on with another one
 *
 * Root; for `ring` /sys/module/fuse/parameters/enable_uring must be Y. Two processors are assumed.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/fuse.h>
#include <linux/io_uring.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* Of the kernel's header, which may be older here than the kernel. */
#define OVER_IO_URING (1ULL << 41)
#define INIT_EXT (1ULL << 30)
#define RESEND 7
enum { REGISTER = 1, COMMIT_AND_FETCH = 2 };
struct entry_state { uint64_t flags, commit_id; uint32_t payload_bytes, padding; uint64_t reserved; };
struct entry_header { char in_out[128], operation[128]; struct entry_state state; };
struct ring_command { uint64_t flags, commit_id; uint16_t queue; uint8_t padding[6]; };
struct init_answer {
    struct fuse_out_header header;
    uint32_t major, minor, readahead, flags;
    uint16_t background, congested;
    uint32_t write_bytes, nanoseconds;
    uint16_t pages, map;
    uint32_t flags_more, unused[7];
};

enum { PROCESSORS = 2, ENTRIES = 4, BUFFER_BYTES = 1 << 20, DAY_S = 86400 };

static int device;
static int holds; /* Takes what comes and never answers. */
static volatile int over;

static void fail(const char *what) {
    perror(what);
    exit(1);
}

/* Puts the body of the answer; gives its length, or an error. Attributes are valid for no time, so each stat(2) is a request. */
static int serve(const struct fuse_in_header *request, char *body) {
    memset(body, 0, sizeof(struct fuse_entry_out));
    if (request->opcode == FUSE_LOOKUP) {
        struct fuse_entry_out *entry = (void *)body;
        entry->nodeid = entry->attr.ino = 2 + request->unique;
        entry->entry_valid = DAY_S;
        entry->attr.mode = S_IFREG | 0644;
        entry->attr.nlink = 1;
        return sizeof *entry;
    }
    if (request->opcode == FUSE_GETATTR) {
        struct fuse_attr_out *answer = (void *)body;
        answer->attr.ino = request->nodeid;
        answer->attr.mode = request->nodeid == FUSE_ROOT_ID ? S_IFDIR | 0755 : S_IFREG | 0644;
        answer->attr.nlink = 1;
        answer->attr_valid = request->nodeid == FUSE_ROOT_ID ? DAY_S : 0;
        return sizeof *answer;
    }
    return -ENOSYS;
}

static int is_held(const struct fuse_in_header *request) {
    if (holds && request->opcode == FUSE_GETATTR && request->nodeid != FUSE_ROOT_ID)
        return fprintf(stderr, "a request is taken and not answered\n");
    return 0;
}

static void *serve_device(void *unused) {
    char *buffer = malloc(BUFFER_BYTES), answer[256];
    struct fuse_in_header *request = (void *)buffer;
    struct fuse_out_header *header = (void *)answer;
    (void)unused;
    for (;;) {
        if (read(device, buffer, BUFFER_BYTES) < 0) {
            if (errno == EINTR || errno == EAGAIN || errno == ENOENT)
                continue;
            return NULL;
        }
        if (request->opcode == FUSE_FORGET || request->opcode == FUSE_BATCH_FORGET || is_held(request))
            continue;
        int bytes = serve(request, answer + sizeof *header);
        *header = (struct fuse_out_header){sizeof *header + (bytes > 0 ? bytes : 0), bytes < 0 ? bytes : 0, request->unique};
        if (write(device, answer, header->len) < 0 && errno != ENOENT)
            return NULL;
    }
}

/* A ring of one processor: what the kernel and this thread share. */
struct ring {
    int fd, pending;
    unsigned *sq_tail, *sq_mask, *sq_array, *cq_head, *cq_tail, *cq_mask;
    char *sqes;
    struct io_uring_cqe *cqes;
    struct entry_header *headers[ENTRIES];
    char *payloads[ENTRIES];
    struct iovec parts[ENTRIES][2];
};

static char *map(int fd, size_t bytes, off_t what) {
    char *at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, fd, what);
    if (at == MAP_FAILED)
        fail("mmap");
    return at;
}

static void push(struct ring *ring, int entry, uint32_t operation, uint64_t commit_id, uint16_t queue) {
    unsigned tail = *ring->sq_tail, index = tail & *ring->sq_mask;
    struct io_uring_sqe *sqe = (void *)(ring->sqes + index * 128);
    struct ring_command *command = (void *)sqe->cmd;
    memset(sqe, 0, 128);
    sqe->opcode = IORING_OP_URING_CMD;
    sqe->fd = device;
    sqe->cmd_op = operation;
    sqe->user_data = entry;
    if (operation == REGISTER) {
        sqe->addr = (uint64_t)ring->parts[entry];
        sqe->len = 2;
    }
    command->commit_id = commit_id;
    command->queue = queue;
    ring->sq_array[index] = index;
    __atomic_store_n(ring->sq_tail, tail + 1, __ATOMIC_RELEASE);
    ring->pending++;
}

static void set_up(struct ring *ring) {
    struct io_uring_params p = {.flags = IORING_SETUP_SQE128};
    ring->fd = syscall(__NR_io_uring_setup, 2 * ENTRIES, &p);
    if (ring->fd < 0)
        fail("io_uring_setup");
    char *sq = map(ring->fd, p.sq_off.array + p.sq_entries * sizeof(unsigned), IORING_OFF_SQ_RING);
    char *cq = map(ring->fd, p.cq_off.cqes + p.cq_entries * sizeof(struct io_uring_cqe), IORING_OFF_CQ_RING);
    ring->sqes = map(ring->fd, p.sq_entries * 128, IORING_OFF_SQES);
    ring->sq_tail = (void *)(sq + p.sq_off.tail), ring->sq_mask = (void *)(sq + p.sq_off.ring_mask);
    ring->sq_array = (void *)(sq + p.sq_off.array), ring->cq_head = (void *)(cq + p.cq_off.head);
    ring->cq_tail = (void *)(cq + p.cq_off.tail), ring->cq_mask = (void *)(cq + p.cq_off.ring_mask);
    ring->cqes = (void *)(cq + p.cq_off.cqes);
    for (int i = 0; i < ENTRIES; i++) {
        ring->headers[i] = aligned_alloc(4096, 4096);
        ring->payloads[i] = aligned_alloc(4096, BUFFER_BYTES);
        memset(ring->headers[i], 0, 4096);
        memset(ring->payloads[i], 0, BUFFER_BYTES);
        ring->parts[i][0] = (struct iovec){ring->headers[i], sizeof(struct entry_header)};
        ring->parts[i][1] = (struct iovec){ring->payloads[i], BUFFER_BYTES};
    }
}

static void answer_entry(struct ring *ring, int entry, uint16_t queue) {
    struct entry_header *header = ring->headers[entry];
    struct fuse_in_header request;
    memcpy(&request, header->in_out, sizeof request);
    if (is_held(&request))
        return;
    uint64_t commit_id = header->state.commit_id;
    int bytes = serve(&request, ring->payloads[entry]), body = bytes > 0 ? bytes : 0;
    struct fuse_out_header answer = {sizeof answer + body, bytes < 0 ? bytes : 0, request.unique};
    memcpy(header->in_out, &answer, sizeof answer);
    header->state.payload_bytes = body;
    push(ring, entry, COMMIT_AND_FETCH, commit_id, queue);
}

static void *serve_ring(void *number) {
    long processor = (long)number;
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(processor, &one);
    sched_setaffinity(0, sizeof one, &one);
    struct ring *ring = calloc(1, sizeof *ring);
    set_up(ring);
    for (int i = 0; i < ENTRIES; i++)
        push(ring, i, REGISTER, 0, processor);
    while (!over) {
        int taken = syscall(__NR_io_uring_enter, ring->fd, ring->pending, 1, IORING_ENTER_GETEVENTS, NULL, 0);
        if (taken < 0 && errno != EINTR)
            fail("io_uring_enter");
        ring->pending -= taken > 0 ? taken : 0;
        unsigned head = *ring->cq_head;
        for (; head != __atomic_load_n(ring->cq_tail, __ATOMIC_ACQUIRE); head++) {
            struct io_uring_cqe *done = &ring->cqes[head & *ring->cq_mask];
            if (done->res != 0)
                return NULL;
            answer_entry(ring, done->user_data, processor);
        }
        __atomic_store_n(ring->cq_head, head, __ATOMIC_RELEASE);
    }
    return NULL;
}

/* Forgets come over the device in both ways. */
static void start_server(int with_rings) {
    pthread_t thread;
    for (long i = 0; with_rings && i < PROCESSORS; i++)
        pthread_create(&thread, NULL, serve_ring, (void *)i);
    pthread_create(&thread, NULL, serve_device, NULL);
}

static void mount_and_agree(const char *mountpoint, int with_rings) {
    char options[100], *buffer = malloc(BUFFER_BYTES);
    device = open("/dev/fuse", O_RDWR | O_CLOEXEC);
    snprintf(options, sizeof options, "fd=%d,rootmode=40000,user_id=0,group_id=0", device);
    if (mount("ring", mountpoint, "fuse.ring", 0, options) || read(device, buffer, BUFFER_BYTES) < 0)
        fail("mount");
    struct fuse_in_header *request = (void *)buffer;
    uint32_t *in = (void *)(buffer + sizeof *request);
    uint64_t flags = (in[3] | (uint64_t)in[4] << 32) & (INIT_EXT | (with_rings ? OVER_IO_URING : 0));
    if (with_rings && !(flags & OVER_IO_URING)) {
        umount2(mountpoint, MNT_DETACH);
        fprintf(stderr, "this kernel does not offer FUSE over io_uring\n");
        exit(1);
    }
    struct init_answer answer = {.header = {sizeof answer, 0, request->unique}, .major = 7, .minor = in[1], .flags = flags,
        .background = 48, .congested = 36, .write_bytes = 512 << 10, .nanoseconds = 1, .pages = 128, .flags_more = flags >> 32};
    if (write(device, &answer, sizeof answer) < 0)
        fail("INIT");
}

static pid_t stat_in_child(const char *mountpoint, int file, int times, int begin) {
    pid_t child = fork();
    if (child)
        return child;
    char path[4200], byte;
    struct stat found;
    close(device);
    snprintf(path, sizeof path, "%s/file-%d", mountpoint, file);
    if (begin >= 0 && (stat(path, &found) || read(begin, &byte, 1) != 1))
        _exit(1);
    while (times-- > 0)
        if (stat(path, &found))
            _exit(1);
    _exit(0);
}

static double cpu_us(int who) {
    struct rusage usage;
    getrusage(who, &usage);
    return (usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) * 1e6 + usage.ru_utime.tv_usec + usage.ru_stime.tv_usec;
}

static double clock_us(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1e6 + now.tv_nsec / 1e3;
}

static void measure(const char *mountpoint, const char *way, int clients, int stats) {
    int begin[2];
    char bytes[256] = {0};
    if (clients > 256 || pipe(begin))
        fail("pipe");
    for (int i = 0; i < clients; i++)
        stat_in_child(mountpoint, i, stats / clients, begin[0]);
    usleep(300000); /* All of them stand ready. */
    double clock = clock_us(), cpu = cpu_us(RUSAGE_SELF), count = stats / clients * clients;
    if (write(begin[1], bytes, clients) < 0)
        fail("write");
    while (wait(NULL) > 0) {}
    clock = clock_us() - clock, cpu = cpu_us(RUSAGE_SELF) - cpu;
    printf("%-6s %d clients: %.0f requests a second, %.2f us of the server and %.2f us of a client for each\n", way, clients,
        count / clock * 1e6, cpu / count, cpu_us(RUSAGE_CHILDREN) / count);
}

static void take_over(const char *mountpoint, int with_rings) {
    pid_t server = fork();
    if (!server) {
        holds = 1;
        start_server(with_rings);
        pause();
    }
    usleep(300000);
    pid_t first = stat_in_child(mountpoint, 0, 1, -1);
    usleep(500000);
    kill(server, SIGKILL);
    waitpid(server, NULL, 0);
    start_server(with_rings);
    usleep(300000);
    struct fuse_out_header resend = {sizeof resend, RESEND, 0};
    if (write(device, &resend, sizeof resend) < 0)
        fail("FUSE_NOTIFY_RESEND");
    pid_t second = stat_in_child(mountpoint, 1, 1, -1);
    sleep(3);
    const char *said[] = {"still waits", "was answered"};
    printf("who asked before the server died %s, who asked after %s\n", said[waitpid(first, NULL, WNOHANG) > 0],
        said[waitpid(second, NULL, WNOHANG) > 0]);
}

int main(int count, char **arguments) {
    if (count < 4)
        return 2;
    int with_rings = !strcmp(arguments[2], "ring");
    mount_and_agree(arguments[1], with_rings);
    if (!strcmp(arguments[3], "takeover")) {
        take_over(arguments[1], with_rings);
    } else {
        start_server(with_rings);
        measure(arguments[1], arguments[2], atoi(arguments[3]), count > 4 ? atoi(arguments[4]) : 40000);
    }
    fflush(stdout);
    over = 1;
    umount2(arguments[1], MNT_FORCE);
    umount2(arguments[1], MNT_DETACH);
    _exit(0);
}
