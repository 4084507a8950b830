/* Sockets of both kinds and other descriptors side by side, and their options. */
#include "check.h"
#include <netinet/tcp.h>

static void types(void) {
    int via = sov_socket(AF_INET, SOCK_VIA | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    int plain = sov_socket(AF_INET6, SOCK_STREAM, 0);
    int datagram = sov_socket(AF_INET, SOCK_DGRAM, 0);
    CHECK(via >= 0 && plain >= 0 && datagram >= 0);
    CHECK(option(via, SOL_SOCKET, SO_TYPE) == SOCK_VIA);
    CHECK(option(plain, SOL_SOCKET, SO_TYPE) == SOCK_STREAM);
    CHECK(option(datagram, SOL_SOCKET, SO_TYPE) == SOCK_DGRAM);
    CHECK(sov_fcntl(via, F_GETFL) & O_NONBLOCK);
    CHECK(sov_fcntl(via, F_GETFD) & FD_CLOEXEC);
    FAILS(socket(AF_INET, SOCK_VIA, 0), EINVAL);
    FAILS(sov_socket(AF_UNIX, SOCK_VIA, 0), EAFNOSUPPORT);
    CHECK(option(via, SOL_SOVIA, SOV_ACCELERATE) == 1);
    CHECK(option(plain, SOL_SOVIA, SOV_ACCELERATE) == 0);
    int on = 1;
    CHECK(sov_setsockopt(plain, SOL_SOVIA, SOV_ACCELERATE, &on, sizeof on) == 0);
    CHECK(option(plain, SOL_SOCKET, SO_TYPE) == SOCK_VIA);
    int copy = sov_dup(via);
    CHECK(option(copy, SOL_SOCKET, SO_TYPE) == SOCK_VIA);
    CHECK(sov_close(via) == 0 && sov_close(plain) == 0 && sov_close(datagram) == 0);
    FAILS(sov_close(via), EBADF);
    CHECK(sov_close(copy) == 0);
}

static void options(void) {
    struct pair pair = connected(SOCK_VIA);
    struct sov_info info;
    socklen_t length = sizeof info;
    int value = 0, pipes[2];
    CHECK(sov_getsockopt(pair.one, SOL_SOVIA, SOV_INFO, &info, &length) == 0);
    CHECK(length == sizeof info && info.state == SOV_MEETING);
    warm(pair);
    length = sizeof info;
    CHECK(sov_getsockopt(pair.one, SOL_SOVIA, SOV_INFO, &info, &length) == 0);
    CHECK(info.state == SOV_VIA && info.reason == 0 && info.sends && info.receives);
    CHECK(info.bytes_sent > 10 && info.bytes_received > 10 && info.messages_sent > 10);
    length = sizeof value;
    FAILS(sov_getsockopt(pair.one, SOL_SOVIA, 99, &value, &length), ENOPROTOOPT);
    FAILS(sov_setsockopt(pair.one, SOL_SOVIA, 99, &value, sizeof value), ENOPROTOOPT);
    FAILS(sov_setsockopt(pair.one, SOL_SOVIA, SOV_INFO, &value, sizeof value), EINVAL);
    FAILS(sov_setsockopt(pair.one, SOL_SOVIA, SOV_ACCELERATE, &value, 1), EINVAL);
    FAILS(sov_setsockopt(pair.one, SOL_SOVIA, SOV_ACCELERATE, NULL, sizeof value), EFAULT);
    FAILS(sov_getsockopt(pair.one, SOL_SOVIA, SOV_INFO, NULL, &length), EFAULT);
    CHECK(pipe(pipes) == 0);
    FAILS(sov_getsockopt(pipes[0], SOL_SOVIA, SOV_ON_VIA, &value, &length), ENOTSOCK);
    FAILS(sov_getsockopt(-1, SOL_SOVIA, SOV_ON_VIA, &value, &length), EBADF);
    close(pipes[0]);
    close(pipes[1]);
    CHECK(sov_strreason(0) == NULL && sov_strreason(1000) == NULL && sov_strreason(-1) == NULL);
    CHECK(strcmp(sov_strreason(1), "the peer is on another machine, or in another network namespace") == 0);
    end(pair);
}

/* SOV_PROTOCOL chooses the variant of the papers' protocol, until the stream has its VI. */
static void protocols(void) {
    static const char *const good[] = {"SOVIA_BASE", "w=3,t=2,chunk=64", "combine=64,delay=1ms", "handler,copy", "SOVIA_NOTIFY"};
    static const char *const bad[] = {"", "SOVIA_FAST", "w=0", "w=2,t=3", "w=33", "w", "\xff", "3way"};
    int via = sov_socket(AF_INET, SOCK_VIA, 0);
    FAILS(sov_setsockopt(via, SOL_SOVIA, SOV_PROTOCOL, "w=1,t=1", 7), ENOTCONN);
    CHECK(sov_close(via) == 0);
    for (int i = 0; i < 5; i++) {
        struct pair pair = connected(SOCK_VIA);
        char buffer[300], sent[300];
        for (int k = 0; k < 7; k++)
            FAILS(sov_setsockopt(pair.one, SOL_SOVIA, SOV_PROTOCOL, bad[k], strlen(bad[k])), EINVAL);
        FAILS(sov_setsockopt(pair.one, SOL_SOVIA, SOV_PROTOCOL, NULL, 4), EFAULT);
        /* Set the option on one end, with and without the text's final zero byte. */
        CHECK(sov_setsockopt(pair.one, SOL_SOVIA, SOV_PROTOCOL, good[i], strlen(good[i]) + i % 2) == 0);
        warm(pair);
        CHECK(option(pair.one, SOL_SOVIA, SOV_ON_VIA) == 1);
        FAILS(sov_setsockopt(pair.one, SOL_SOVIA, SOV_PROTOCOL, good[i], strlen(good[i])), EISCONN);
        for (int k = 0; k < 200; k++) {
            int on = k / 7 % 2;
            CHECK(sov_setsockopt(pair.one, IPPROTO_TCP, k % 3 ? TCP_NODELAY : TCP_CORK, &on, sizeof on) == 0);
            memset(sent, k, sizeof sent);
            CHECK(sov_send(pair.one, sent, 1 + k, 0) == 1 + k);
            CHECK(sov_recv(pair.other, buffer, 1 + k, MSG_WAITALL) == 1 + k);
            CHECK(memcmp(buffer, sent, 1 + k) == 0);
            CHECK(sov_send(pair.other, sent, 1 + k, 0) == 1 + k);
            CHECK(sov_recv(pair.one, buffer, 1 + k, MSG_WAITALL) == 1 + k);
        }
        end(pair);
    }
}

/* Returns the number of this process's threads. */
static int threads(void) {
    char line[256];
    int count = 0;
    FILE *status = fopen("/proc/self/status", "r");
    CHECK(status != NULL);
    while (fgets(line, sizeof line, status) && sscanf(line, "Threads: %d", &count) != 1)
        ;
    fclose(status);
    return count;
}

/* Waits for this number, because other threads of the library start and end. */
static void await_threads(int count) {
    for (int tries = 0; threads() != count; tries++) {
        CHECK(tries < 10000);
        usleep(1000);
    }
}

/* With the option `handler`, a thread handles a stream's messages; otherwise the calls do. */
static void handlers(void) {
    struct pair single = warmed();
    /* The main thread, and the thread that watches the kernel sockets. */
    await_threads(2);
    for (int i = 0; i < 4; i++) {
        const char *text = i < 2 ? "handler" : "notify";
        struct pair pair = connected(SOCK_VIA);
        char byte;
        CHECK(sov_setsockopt(pair.one, SOL_SOVIA, SOV_PROTOCOL, text, strlen(text)) == 0);
        warm(pair);
        CHECK(option(pair.one, SOL_SOVIA, SOV_ON_VIA) == 1);
        /* One thread handles all streams; callbacks add one more. */
        await_threads(3 + i / 2);
        CHECK(sov_send(pair.other, "m", 1, 0) == 1 && sov_recv(pair.one, &byte, 1, 0) == 1);
        CHECK(sov_send(pair.one, "n", 1, 0) == 1 && sov_recv(pair.other, &byte, 1, 0) == 1 && byte == 'n');
        struct pollfd fd = {pair.one, POLLIN, 0};
        CHECK(sov_poll(&fd, 1, 0) == 0);
        CHECK(sov_send(pair.other, "o", 1, 0) == 1);
        CHECK(sov_poll(&fd, 1, -1) == 1 && fd.revents == POLLIN);
        end(pair);
    }
    end(single);
}

/* A stream with a small window works with one that has a large window. This holds even if the large
 * one sends more than the small window before it has received anything from the VI. */
static void windows_that_differ(void) {
    static const char *const small[] = {"SOVIA_BASE", "w=4,t=2", "w=1,t=1,chunk=64"};
    char bytes[2000];
    memset(bytes, 'w', sizeof bytes);
    for (int i = 0; i < 3 * 8; i++) {
        struct pair pair = connected(SOCK_VIA);
        const char *text = small[i % 3];
        CHECK(sov_setsockopt(pair.one, SOL_SOVIA, SOV_PROTOCOL, text, strlen(text)) == 0);
        for (int k = 0; k < i / 3 + 1; k++) {
            CHECK(sov_send(pair.one, bytes, 1, 0) == 1);
            CHECK(sov_recv(pair.other, bytes, 1, 0) == 1);
            usleep(2000);
            CHECK(sov_send(pair.other, bytes, 1, 0) == 1);
            CHECK(sov_recv(pair.one, bytes, 1, 0) == 1);
        }
        CHECK(sov_send(pair.one, bytes, 1, 0) == 1);
        CHECK(sov_recv(pair.other, bytes, 1, 0) == 1);
        for (int k = 0; k < 5; k++)
            CHECK(sov_send(pair.other, bytes, 100, 0) == 100);
        for (int k = 0; k < 5; k++)
            CHECK(sov_send(pair.one, bytes, 200, 0) == 200);
        CHECK(sov_recv(pair.one, bytes, 500, MSG_WAITALL) == 500);
        CHECK(sov_recv(pair.other, bytes, 1000, MSG_WAITALL) == 1000);
        end(pair);
    }
}

/* A stream that leaves its VI becomes an ordinary one, with every byte in its place. */
static void to_tcp(void) {
    struct pair pair = warmed();
    char buffer[16];
    int off = 0;
    CHECK(sov_send(pair.one, "unread", 6, 0) == 6);
    CHECK(sov_setsockopt(pair.other, SOL_SOVIA, SOV_ACCELERATE, &off, sizeof off) == 0);
    CHECK(recv(pair.other, buffer, sizeof buffer, 0) == 6 && memcmp(buffer, "unread", 6) == 0);
    CHECK(send(pair.other, "answer", 6, 0) == 6);
    CHECK(sov_recv(pair.one, buffer, sizeof buffer, 0) == 6);
    CHECK(option(pair.other, SOL_SOVIA, SOV_ON_VIA) == 0);
    CHECK(sov_strreason(option(pair.other, SOL_SOVIA, SOV_REASON)) != NULL);
    CHECK(option(pair.other, SOL_SOCKET, SO_TYPE) == SOCK_STREAM);
    end(pair);
}

/* Pipes, both kinds of streams, a file: in one poll, one select and one epoll. */
static void waiting(void) {
    struct pair via = warmed(), plain = connected(SOCK_STREAM);
    int pipes[2], epoll = sov_epoll_create1(EPOLL_CLOEXEC);
    CHECK(pipe(pipes) == 0 && epoll >= 0);
    warm(plain);
    CHECK(option(plain.one, SOL_SOVIA, SOV_ON_VIA) == 0);
    int all[3] = {via.other, plain.other, pipes[0]};
    for (int i = 0; i < 3; i++) {
        struct epoll_event event = {.events = EPOLLIN, .data = {.u32 = (uint32_t)i}};
        CHECK(sov_epoll_ctl(epoll, EPOLL_CTL_ADD, all[i], &event) == 0);
    }
    for (int ready = 0; ready < 3; ready++) {
        struct pollfd list[3];
        struct epoll_event events[3];
        fd_set set;
        char byte;
        FD_ZERO(&set);
        for (int i = 0; i < 3; i++) {
            list[i].fd = all[i];
            list[i].events = POLLIN;
            FD_SET(all[i], &set);
        }
        CHECK(sov_poll(list, 3, 0) == 0);
        CHECK(sov_epoll_wait(epoll, events, 3, 0) == 0);
        if (ready == 2)
            CHECK(sov_write(pipes[1], "x", 1) == 1);
        else
            CHECK(sov_send(ready ? plain.one : via.one, "x", 1, 0) == 1);
        CHECK(sov_poll(list, 3, 1000) == 1 && list[ready].revents == POLLIN);
        CHECK(sov_select(256, &set, NULL, NULL, NULL) == 1 && FD_ISSET(all[ready], &set));
        CHECK(sov_epoll_wait(epoll, events, 3, 1000) == 1);
        CHECK(events[0].data.u32 == (uint32_t)ready && events[0].events == EPOLLIN);
        CHECK(sov_read(all[ready], &byte, 1) == 1 && byte == 'x');
    }
    close(pipes[0]);
    close(pipes[1]);
    CHECK(sov_close(epoll) == 0);
    end(via);
    end(plain);
}

/* libc's epoll instances do not see bytes in shared memory, so their streams move to TCP. */
static void foreign_epoll(void) {
    struct pair pair = warmed();
    int epoll = epoll_create1(0);
    struct epoll_event event = {.events = EPOLLIN, .data = {.fd = pair.other}};
    CHECK(sov_epoll_ctl(epoll, EPOLL_CTL_ADD, pair.other, &event) == 0);
    CHECK(option(pair.other, SOL_SOVIA, SOV_ON_VIA) == 0);
    CHECK(sov_send(pair.one, "x", 1, 0) == 1);
    CHECK(sov_epoll_wait(epoll, &event, 1, 1000) == 1);
    close(epoll);
    end(pair);
}

int main(void) {
    types();
    options();
    /* Run first, because the threads that it counts stay. */
    handlers();
    protocols();
    windows_that_differ();
    to_tcp();
    waiting();
    foreign_epoll();
    puts("as it should be");
    return 0;
}
