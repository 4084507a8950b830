// Connections that are taken back to TCP while other threads are in calls on them.
#include "common.h"

#define CONNECTIONS 8
#define TOTAL (12 << 20)
#define PIECE 65536

// What the kernel alone can do with a descriptor.
enum act { STANDARD_INPUT, PASSED, INHERITED, ACTS };

static void act(enum act act, int fd) {
    if (act == STANDARD_INPUT) {
        MUST(dup2(fd, 0));
    } else if (act == PASSED) {
        int pair[2];
        char byte = 'x';
        union {
            char room[CMSG_SPACE(sizeof(int))];
            struct cmsghdr align;
        } control = {{0}};
        struct iovec one = {&byte, 1};
        struct msghdr message = {
            .msg_iov = &one, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof control};
        struct cmsghdr *header = CMSG_FIRSTHDR(&message);
        MUST(socketpair(AF_UNIX, SOCK_STREAM, 0, pair));
        *header = (struct cmsghdr){
            .cmsg_len = CMSG_LEN(sizeof fd), .cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS};
        memcpy(CMSG_DATA(header), &fd, sizeof fd);
        MUST(sendmsg(pair[0], &message, 0));
        close(pair[0]);
        close(pair[1]);
    } else {
        MUST(fcntl(fd, F_SETFD, 0));
        pid_t child = MUST(fork());
        if (child == 0) {
            execl("/bin/true", "true", NULL);
            _exit(1);
        }
        int status;
        MUST(waitpid(child, &status, 0));
    }
}

static void *sends(void *argument) {
    int fd = *(int *)argument;
    static __thread char piece[PIECE];
    for (uint64_t sent = 0; sent < TOTAL; sent += PIECE) {
        fill(piece, PIECE, sent);
        send_all(fd, piece, PIECE);
    }
    MUST(shutdown(fd, SHUT_WR));
    return NULL;
}

static void *reads(void *argument) {
    int fd = *(int *)argument;
    char byte;
    recv_pattern(fd, 0, TOTAL, PIECE);
    if (recv(fd, &byte, 1, 0) != 0)
        die("more than was sent");
    return NULL;
}

// Waits as `next` says, and reads what is there.
static void reads_when(int fd, int (*next)(int, int), int set) {
    static __thread char piece[PIECE];
    uint64_t read = 0;
    for (;;) {
        if (next(fd, set) < 0)
            die("the wait failed: %s", strerrorname_np(errno));
        ssize_t got = recv(fd, piece, sizeof piece, MSG_DONTWAIT);
        if (got > 0 && !matches(piece, got, read))
            die("other bytes than those from %llu on", (unsigned long long)read);
        if (got > 0)
            read += got;
        else if (got == 0)
            break;
        else if (errno != EAGAIN)
            die("recv: %s", strerrorname_np(errno));
    }
    if (read != TOTAL)
        die("the end after %llu", (unsigned long long)read);
}

static int by_poll(int fd, int set) {
    (void)set;
    struct pollfd one = {.fd = fd, .events = POLLIN};
    return poll(&one, 1, -1);
}

static int by_epoll(int fd, int set) {
    (void)fd;
    struct epoll_event event;
    return epoll_wait(set, &event, 1, -1);
}

static void *polls(void *argument) {
    reads_when(*(int *)argument, by_poll, -1);
    return NULL;
}

static void *waits(void *argument) {
    int fd = *(int *)argument, set = MUST(epoll_create1(0));
    struct epoll_event event = {.events = EPOLLIN};
    MUST(epoll_ctl(set, EPOLL_CTL_ADD, fd, &event));
    reads_when(fd, by_epoll, set);
    close(set);
    return NULL;
}

// For each connection: this end's threads, and what the main thread does under them.
static void under(struct peer *p, void *(*reader)(void *), void *(*writer)(void *)) {
    for (int i = 0; i < CONNECTIONS; i++) {
        int fd = connect_to(p, AF_INET, "taken");
        warm(fd, false);
        pthread_t threads[2];
        if (reader)
            pthread_create(&threads[0], NULL, reader, &fd);
        if (writer)
            pthread_create(&threads[1], NULL, writer, &fd);
        usleep(i * 700);
        act(i % ACTS, fd);
        if (reader)
            pthread_join(threads[0], NULL);
        if (writer)
            pthread_join(threads[1], NULL);
        hear(p);
        close(fd);
        close(0);
    }
    say("%d connections", CONNECTIONS);
}

static void peer_of(struct peer *p, void *(*reader)(void *), void *(*writer)(void *)) {
    int listener = listen_on(p, AF_INET, "taken");
    for (int i = 0; i < CONNECTIONS; i++) {
        int fd = accept_one(listener);
        warm(fd, true);
        pthread_t thread;
        if (reader && writer)
            pthread_create(&thread, NULL, reader, &fd);
        (writer ? writer : reader)(&fd);
        if (reader && writer)
            pthread_join(thread, NULL);
        tell(p, 0);
        close(fd);
    }
}

static void peer_sends(struct peer *p) { peer_of(p, NULL, sends); }
static void peer_reads(struct peer *p) { peer_of(p, reads, NULL); }
static void peer_does_both(struct peer *p) { peer_of(p, reads, sends); }

static void under_a_reader(struct peer *p) { under(p, reads, NULL); }
static void under_a_poller(struct peer *p) { under(p, polls, NULL); }
static void under_a_waiter(struct peer *p) { under(p, waits, NULL); }
static void under_a_writer(struct peer *p) { under(p, NULL, sends); }
static void under_both(struct peer *p) { under(p, reads, sends); }

static const struct scenario scenarios[] = {
    {"under_a_thread_that_receives", peer_sends, under_a_reader},
    {"under_a_thread_that_polls", peer_sends, under_a_poller},
    {"under_a_thread_that_waits_by_epoll", peer_sends, under_a_waiter},
    {"under_a_thread_that_sends", peer_reads, under_a_writer},
    {"under_threads_that_do_both", peer_does_both, under_both},
};
SCENARIO_MAIN(scenarios)
