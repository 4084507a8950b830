// Descriptor numbers that are used again. A connection's descriptor is closed in a way that Sovia
// cannot see, and the next descriptor of any kind gets the number. Also tests glibc's second names
// for the same calls.
#include "common.h"
#include <dirent.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>

int __close(int);
int __connect(int, const struct sockaddr *, socklen_t);
int __dup2(int, int);
int __fcntl(int, int, ...);
int __open(const char *, int, ...);
int __poll(struct pollfd *, nfds_t, int);
ssize_t __read(int, void *, size_t);
int __select(int, fd_set *, fd_set *, fd_set *, struct timeval *);
ssize_t __send(int, const void *, size_t, int);
ssize_t __write(int, const void *, size_t);

static int dir;

// --- files that can get a number. Each function returns a descriptor to write to, whose bytes can
// be read from another one

static const char *path;
static int other; // descriptor to read from; 0 means the file itself

static int by_open(void) { return open(path, O_RDWR | O_CREAT | O_TRUNC, 0600); }
static int by_alias(void) { return __open(path, O_RDWR | O_CREAT | O_TRUNC, 0600); }
static int by_open64(void) { return open64(path, O_RDWR | O_CREAT | O_TRUNC, 0600); }
static int by_openat(void) { return openat(dir, "file", O_RDWR | O_CREAT | O_TRUNC, 0600); }
static int by_syscall(void) {
    return syscall(SYS_openat, dir, "file", O_RDWR | O_CREAT | O_TRUNC, 0600);
}
static int by_fopen(void) {
    FILE *file = fopen(path, "w+");
    return file ? fileno(file) : -1;
}
static int by_tmpfile(void) {
    FILE *file = tmpfile();
    return file ? fileno(file) : -1;
}
static int by_mkstemp(void) {
    char name[500];
    snprintf(name, sizeof name, "%s.XXXXXX", path);
    return mkstemp(name);
}
static int by_memfd(void) { return memfd_create("numbers", 0); }
static int by_dup(void) { return dup(dir + 1); }
static int by_fcntl(void) { return fcntl(dir + 1, F_DUPFD, 0); }
static int by_dup_syscall(void) { return syscall(SYS_dup, dir + 1); }
static int by_eventfd(void) { return eventfd(0, 0); }

static int by_socketpair(void) {
    int fds[2];
    MUST(socketpair(AF_UNIX, SOCK_STREAM, 0, fds));
    other = fds[1];
    return fds[0];
}
// Files that these two functions need are opened before the number is free.
static int listener, messages;

static int high(int fd) {
    int moved = MUST(fcntl(fd, F_DUPFD, 100));
    close(fd);
    return moved;
}

static void prepare(void) {
    struct sockaddr_un name = {.sun_family = AF_UNIX};
    snprintf(name.sun_path, sizeof name.sun_path, "%s.socket", path);
    listener = high(MUST(socket(AF_UNIX, SOCK_STREAM, 0)));
    MUST(bind(listener, (struct sockaddr *)&name, sizeof name));
    MUST(listen(listener, 1));
    other = high(MUST(socket(AF_UNIX, SOCK_STREAM, 0)));
    MUST(connect(other, (struct sockaddr *)&name, sizeof name));
    int fds[2];
    MUST(socketpair(AF_UNIX, SOCK_DGRAM, 0, fds));
    fds[0] = high(fds[0]);
    messages = high(fds[1]);
    char byte = 0, control[CMSG_SPACE(sizeof(int))] = {0};
    struct iovec iov = {&byte, 1};
    struct msghdr message = {.msg_iov = &iov, .msg_iovlen = 1, .msg_control = control,
                             .msg_controllen = sizeof control};
    struct cmsghdr *header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(sizeof(int));
    int sent = dir + 1;
    memcpy(CMSG_DATA(header), &sent, sizeof sent);
    MUST(sendmsg(fds[0], &message, 0));
}

static int far_end;
static int by_accept(void) {
    other = far_end;
    return accept(listener, NULL, NULL);
}
static int by_message(void) {
    char byte, control[CMSG_SPACE(sizeof(int))];
    struct iovec iov = {&byte, 1};
    struct msghdr message = {.msg_iov = &iov, .msg_iovlen = 1, .msg_control = control,
                             .msg_controllen = sizeof control};
    MUST(recvmsg(messages, &message, 0));
    int got;
    memcpy(&got, CMSG_DATA(CMSG_FIRSTHDR(&message)), sizeof got);
    return got;
}
static int by_pipe(void) {
    int fds[2];
    MUST(pipe(fds));
    other = fds[0];
    return fds[1];
}

struct way {
    const char *name;
    int (*make)(void);
};

static const struct way ways[] = {
    {"open", by_open},         {"__open", by_alias},     {"open64", by_open64},
    {"openat", by_openat},     {"syscall", by_syscall},  {"fopen", by_fopen},
    {"tmpfile", by_tmpfile},   {"mkstemp", by_mkstemp},  {"memfd_create", by_memfd},
    {"dup", by_dup},           {"fcntl", by_fcntl},      {"syscall dup", by_dup_syscall},
    {"eventfd", by_eventfd},   {"socketpair", by_socketpair},
    {"accept", by_accept},     {"recvmsg", by_message},  {"pipe", by_pipe},
};
enum { WAYS = sizeof ways / sizeof ways[0] };

// Echoes, and prints how many bytes came beyond those that warm the connection up.
static void server_reuse(struct peer *p) {
    int listener = listen_on(p, AF_INET, "port");
    for (int i = 0; i < WAYS; i++) {
        int fd = accept_one(listener);
        warm(fd, true);
        char text[64];
        ssize_t got = recv(fd, text, sizeof text, 0);
        say("%s: %s", ways[i].name, got == 0 ? "end of stream" : got > 0 ? "BYTES" : strerrorname_np(errno));
        close(fd);
    }
}

static void client_reuse(struct peer *p) {
    char name[400];
    snprintf(name, sizeof name, "%s/file", p->dir);
    path = name;
    // Uses two high numbers in a row: for the folder, and for a file to duplicate.
    dir = fcntl(MUST(open(p->dir, O_RDONLY | O_DIRECTORY)), F_DUPFD, 110);
    MUST(dup2(MUST(memfd_create("a", 0)), dir + 1));
    prepare();
    far_end = other;
    port_of(p, "port");
    for (int i = 0; i < WAYS; i++) {
        int fd = connect_to(p, AF_INET, "port");
        warm(fd, false);
        other = 0;
        MUST(lseek(dir + 1, 0, SEEK_SET));
        // A pipe is written at its second number.
        int spare = ways[i].make == by_pipe ? MUST(dup(0)) : -1;
        close_inline(fd);
        int made = MUST(ways[i].make());
        uint64_t word = 0x656c6966, seen = 0; // "file"
        ssize_t put = write(made, &word, sizeof word);
        if (!other && ways[i].make != by_eventfd)
            lseek(made, 0, SEEK_SET);
        ssize_t got = put < 0 ? -1 : read(other ? other : made, &seen, sizeof seen);
        say("%s: %s number, %zd written, %zd read back, %s", ways[i].name,
            made == fd || other == fd ? "the same" : "ANOTHER", put, got,
            seen == word ? "right" : "WRONG");
        close(made);
        if (spare >= 0)
            close(spare);
        if (other)
            close(other);
    }
}

// --- second names

static void server_names(struct peer *p) {
    char text[8];
    for (int i = 0; i < 6; i++) {
        recv_all(p->fd, text, 8);
        send_all(p->fd, text, 8);
    }
    CALL(recv(p->fd, text, 8, 0));
}

static void client_names(struct peer *p) {
    char text[8];
    CALL(__write(p->fd, "written.", 8));
    struct pollfd one = {.fd = p->fd, .events = POLLIN};
    CALL(__poll(&one, 1, -1));
    say("%s", poll_names(one.revents));
    CALL(__read(p->fd, text, 8));
    say("%.8s", text);
    CALL(__send(p->fd, "sent....", 8, 0));
    fd_set set;
    FD_ZERO(&set);
    FD_SET(p->fd, &set);
    CALL(__select(p->fd + 1, &set, NULL, NULL, NULL));
    CALL(__read(p->fd, text, 8));
    say("%.8s", text);
    int twin = CALL(__dup2(p->fd, 60)), third = MUST(__fcntl(twin, F_DUPFD, 70));
    int all[] = {p->fd, twin, third};
    for (int i = 0; i < 3; i++) {
        send_all(all[i], "by each.", 8);
        recv_all(all[(i + 1) % 3], text, 8);
    }
    CALL(__close(p->fd));
    CALL(__close(third));
    send_all(twin, "the last", 8);
    recv_all(twin, text, 8);
    say("%.8s", text);
    CALL(__close(twin));
}

// --- each second name alone, among calls by first names

static void echo_eights(struct peer *p) {
    char text[8];
    while (recv(p->fd, text, 8, MSG_WAITALL) == 8)
        send_all(p->fd, text, 8);
    say("the end");
}

static void ask(int fd, const char *text) {
    char answer[8];
    send_all(fd, text, 8);
    recv_all(fd, answer, 8);
    say_text("answer", answer, 8);
}

static void name_of_read(struct peer *p) {
    char text[8];
    send_all(p->fd, "to read.", 8);
    CALL(__read(p->fd, text, 8));
    say_text("answer", text, 8);
    ask(p->fd, "the last");
    close(p->fd);
}

static void name_of_write(struct peer *p) {
    char text[8];
    CALL(__write(p->fd, "written.", 8));
    recv_all(p->fd, text, 8);
    ask(p->fd, "the last");
    close(p->fd);
}

static void name_of_send(struct peer *p) {
    char text[8];
    CALL(__send(p->fd, "sent....", 8, 0));
    recv_all(p->fd, text, 8);
    ask(p->fd, "the last");
    close(p->fd);
}

static void name_of_poll(struct peer *p) {
    char text[8];
    struct pollfd one = {.fd = p->fd, .events = POLLIN};
    send_all(p->fd, "to poll.", 8);
    CALL(__poll(&one, 1, -1));
    recv_all(p->fd, text, 8);
    ask(p->fd, "the last");
    close(p->fd);
}

static void name_of_select(struct peer *p) {
    char text[8];
    fd_set set;
    FD_ZERO(&set);
    FD_SET(p->fd, &set);
    send_all(p->fd, "for this", 8);
    CALL(__select(p->fd + 1, &set, NULL, NULL, NULL));
    recv_all(p->fd, text, 8);
    ask(p->fd, "the last");
    close(p->fd);
}

static void name_of_dup2(struct peer *p) {
    CALL(__dup2(p->fd, 60));
    ask(60, "at sixty");
    close(60);
    ask(p->fd, "the last");
    close(p->fd);
}

static void name_of_fcntl(struct peer *p) {
    int twin = MUST(__fcntl(p->fd, F_DUPFD, 70));
    ask(twin, "at more.");
    close(twin);
    ask(p->fd, "the last");
    close(p->fd);
}

// The number of the closed connection becomes a file's number.
static void name_of_close(struct peer *p) {
    char name[400], text[20];
    snprintf(name, sizeof name, "%s/file", p->dir);
    int fd = p->fd;
    CALL(__close(fd));
    int file = MUST(open(name, O_RDWR | O_CREAT, 0600));
    say("%s", file == fd ? "the same number" : "ANOTHER");
    CALL(write(file, "the file", 8));
    CALL(pread(file, text, sizeof text, 0));
}

static void connects_by_second_name(struct peer *p) {
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    address.sin_port = htons(port_of(p, "port"));
    int fd = MUST(socket(AF_INET, SOCK_STREAM, 0));
    CALL(__connect(fd, (struct sockaddr *)&address, sizeof address));
    warm(fd, false);
    p->fd = fd;
    ask(fd, "the last");
    close(fd);
}

static void accepts_and_echoes(struct peer *p) {
    int listener = listen_on(p, AF_INET, "port");
    p->fd = accept_one(listener);
    warm(p->fd, true);
    echo_eights(p);
}

// --- the library takes no descriptor from the program's limit

enum { PEERS = 12 };
static volatile int over;

static void *changes_its_limit(void *unused) {
    (void)unused;
    struct rlimit limits, seen;
    MUST(getrlimit(RLIMIT_NOFILE, &limits));
    long lost = 0, rounds = 0;
    for (int i = 0; !over; i = (i + 1) % 100, rounds++) {
        limits.rlim_cur = 1024 + i;
        MUST(setrlimit(RLIMIT_NOFILE, &limits));
        for (int j = 0; j < 20; j++) {
            MUST(getrlimit(RLIMIT_NOFILE, &seen));
            if (seen.rlim_cur != limits.rlim_cur)
                lost++;
        }
    }
    note("%ld rounds, %ld lost", rounds, lost);
    say("limits %s", lost ? "LOST" : "kept");
    return NULL;
}

// Each is another process, and shares memory with this one for the first time.
static void server_limit(struct peer *p) {
    int listener = listen_on(p, AF_INET, "port");
    for (int i = 0; i < PEERS; i++) {
        pid_t child = MUST(fork());
        if (child == 0) {
            int fd = accept_one(listener);
            close(listener);
            warm(fd, true);
            close(fd);
            _exit(0);
        }
        int status;
        MUST(waitpid(child, &status, 0));
        say_status("server", status);
    }
}

static void client_limit(struct peer *p) {
    pthread_t thread;
    port_of(p, "port");
    MUST(pthread_create(&thread, NULL, changes_its_limit, NULL));
    for (int i = 0; i < PEERS; i++) {
        int fd = connect_to(p, AF_INET, "port");
        warm(fd, false);
        close(fd);
    }
    over = 1;
    pthread_join(thread, NULL);
}

static const struct scenario scenarios[] = {
    {"a_number_comes_back", server_reuse, client_reuse, RAW},
    {"second_names", server_names, client_names, 0},
    {"the_second_name_of_read", echo_eights, name_of_read},
    {"the_second_name_of_write", echo_eights, name_of_write},
    {"the_second_name_of_send", echo_eights, name_of_send},
    {"the_second_name_of_poll", echo_eights, name_of_poll},
    {"the_second_name_of_select", echo_eights, name_of_select},
    {"the_second_name_of_dup2", echo_eights, name_of_dup2},
    {"the_second_name_of_fcntl", echo_eights, name_of_fcntl},
    {"the_second_name_of_close", echo_eights, name_of_close},
    {"the_second_name_of_connect", accepts_and_echoes, connects_by_second_name, RAW},
    {"the_limit_is_changed_meanwhile", server_limit, client_limit, RAW},
};
SCENARIO_MAIN(scenarios)
