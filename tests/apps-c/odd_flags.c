// Flags, options and arguments that few programs use.
#include "common.h"
#include <sys/mman.h>
#include <sys/sendfile.h>

// The structure of recent kernels; libc's header has fewer fields.
struct zerocopy {
    uint64_t address;
    uint32_t length, skip, inq;
    int32_t error;
    uint64_t copy_address;
    int32_t copy_length;
    uint32_t flags;
    uint64_t control, control_length;
    uint32_t message_flags, reserved;
};

#ifndef TCP_INQ
#define TCP_INQ 36
#endif
#ifndef TCP_ZEROCOPY_RECEIVE
#define TCP_ZEROCOPY_RECEIVE 35
#endif

static char buffer[1 << 16];

// --- MSG_TRUNC: TCP discards the bytes

static void sends_what_is_discarded(struct peer *p) {
    send_pattern(p->fd, 0, 50000, 10000);
    meet(p);
    nap(50);
    send_pattern(p->fd, 50000, 40000, 1000);
    recv_all(p->fd, buffer, 4);
    say_text("answered", buffer, 4);
}

static void discards(struct peer *p) {
    memset(buffer, 'x', sizeof buffer);
    await_bytes(p->fd, 50000);
    CALL(recv(p->fd, NULL, 30000, MSG_TRUNC));
    CALL(recv(p->fd, buffer, 100, MSG_TRUNC));
    say("%c%c", buffer[0], buffer[99]);
    recv_pattern(p->fd, 30100, 900, 100);
    CALL(recv(p->fd, NULL, 0, MSG_TRUNC));
    CALL(recv(p->fd, NULL, 60000, MSG_TRUNC | MSG_DONTWAIT));
    CALL(recv(p->fd, NULL, 60000, MSG_TRUNC | MSG_DONTWAIT));
    meet(p);
    CALL(recv(p->fd, NULL, 39000, MSG_TRUNC | MSG_WAITALL));
    CALL(recv(p->fd, NULL, 500, MSG_TRUNC | MSG_PEEK));
    recv_pattern(p->fd, 89000, 1000, 500);
    send_all(p->fd, "fine", 4);
}

// --- MSG_PEEK with MSG_WAITALL

static void sends_in_two(struct peer *p) {
    send_pattern(p->fd, 0, 100, 100);
    meet(p);
    nap(100);
    send_pattern(p->fd, 100, 100, 100);
    meet(p);
    recv_all(p->fd, buffer, 4);
    say_text("answered", buffer, 4);
}

static void peeks_for_all(struct peer *p) {
    await_bytes(p->fd, 100);
    CALL(recv(p->fd, buffer, 200, MSG_PEEK | MSG_WAITALL | MSG_DONTWAIT));
    CALL(recv(p->fd, buffer, 60, MSG_PEEK | MSG_WAITALL));
    meet(p);
    CALL(recv(p->fd, buffer, 200, MSG_PEEK | MSG_WAITALL));
    say("%s", matches(buffer, 200, 0) ? "right" : "wrong");
    recv_pattern(p->fd, 0, 200, 150);
    meet(p);
    send_all(p->fd, "fine", 4);
}

static void peeks_for_all_in_time(struct peer *p) {
    struct timeval time = {.tv_usec = 300000};
    MUST(setsockopt(p->fd, SOL_SOCKET, SO_RCVTIMEO, &time, sizeof time));
    await_bytes(p->fd, 100);
    meet(p);
    CALL(recv(p->fd, buffer, 300, MSG_PEEK | MSG_WAITALL));
    CALL(recv(p->fd, buffer, 300, MSG_WAITALL));
    meet(p);
    send_all(p->fd, "fine", 4);
}

static void count_alarm(int signal) { (void)signal; }

static void waits_for_all_interrupted(struct peer *p) {
    struct sigaction action = {.sa_handler = count_alarm};
    MUST(sigaction(SIGALRM, &action, NULL));
    await_bytes(p->fd, 100);
    meet(p);
    await_bytes(p->fd, 200);
    alarm(1);
    CALL(recv(p->fd, buffer, 300, MSG_WAITALL));
    meet(p);
    send_all(p->fd, "fine", 4);
}

static void peeks_for_all_at_the_end(struct peer *p) {
    meet(p);
    CALL(recv(p->fd, buffer, 300, MSG_PEEK | MSG_WAITALL));
    CALL(recv(p->fd, buffer, 300, MSG_WAITALL));
    CALL(recv(p->fd, buffer, 300, MSG_PEEK | MSG_WAITALL));
    meet(p);
}

static void sends_and_shuts(struct peer *p) {
    send_pattern(p->fd, 0, 100, 100);
    meet(p);
    nap(100);
    MUST(shutdown(p->fd, SHUT_WR));
    meet(p);
}

// --- options

static void peeks_from_an_offset(struct peer *p) {
    int from = 10;
    await_bytes(p->fd, 100);
    CALL(setsockopt(p->fd, SOL_SOCKET, SO_PEEK_OFF, &from, sizeof from));
    for (int i = 0; i < 3; i++) {
        memset(buffer, 0, 20);
        CALL(recv(p->fd, buffer, 20, MSG_PEEK));
        say("%s", matches(buffer, 20, 10 + 20 * i) ? "goes on" : "does not go on");
    }
    meet(p);
    recv_pattern(p->fd, 0, 200, 150);
    meet(p);
    send_all(p->fd, "fine", 4);
}

static void is_told_how_much_is_left(struct peer *p) {
    int on = 1;
    await_bytes(p->fd, 100);
    CALL(setsockopt(p->fd, IPPROTO_TCP, TCP_INQ, &on, sizeof on));
    char control[256];
    struct iovec part = {buffer, 30};
    struct msghdr message = {
        .msg_iov = &part, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof control};
    CALL(recvmsg(p->fd, &message, 0));
    struct cmsghdr *header = CMSG_FIRSTHDR(&message);
    int left = -1;
    if (header && header->cmsg_level == IPPROTO_TCP && header->cmsg_type == TCP_INQ)
        memcpy(&left, CMSG_DATA(header), sizeof left);
    say("left %d", left);
    meet(p);
    recv_pattern(p->fd, 30, 170, 150);
    meet(p);
    send_all(p->fd, "fine", 4);
}

// Prints how many bytes are left after each message (TCP_INQ), as gRPC reads them. The buffer has room for all of the
// control data, for a part, or for none. The cases include MSG_PEEK and the end.
static void say_what_is_left(struct peer *p, size_t room, int flags) {
    char control[256];
    memset(control, 0x55, sizeof control);
    struct iovec part = {buffer, 7};
    struct msghdr message = {
        .msg_iov = &part, .msg_iovlen = 1, .msg_control = room ? control : NULL, .msg_controllen = room};
    CALL(recvmsg(p->fd, &message, flags));
    say("room %zu: control %zu, flags %x", room, message.msg_controllen, message.msg_flags);
    for (size_t at = 0; at < 32; at += 4) {
        unsigned word;
        memcpy(&word, control + at, sizeof word);
        say("  %x", word);
    }
}

static void is_told_each_time(struct peer *p) {
    static const size_t rooms[] = {0, 8, 15, 16, 18, 19, 20, 21, 23, 24, 25, 100};
    int on = 1, off = 0;
    CALL(setsockopt(p->fd, IPPROTO_TCP, TCP_INQ, &on, sizeof on));
    for (size_t i = 0; i < sizeof rooms / sizeof rooms[0]; i++) {
        meet(p);
        await_bytes(p->fd, 20);
        say_what_is_left(p, rooms[i], MSG_PEEK);
        say_what_is_left(p, rooms[i], 0);
        say_what_is_left(p, rooms[i], MSG_DONTWAIT);
        say_what_is_left(p, rooms[i], MSG_WAITALL | MSG_DONTWAIT);
        say_what_is_left(p, rooms[i], MSG_DONTWAIT);
    }
    CALL(setsockopt(p->fd, IPPROTO_TCP, TCP_INQ, &off, sizeof off));
    meet(p);
    await_bytes(p->fd, 20);
    say_what_is_left(p, 64, 0);
    CALL(setsockopt(p->fd, IPPROTO_TCP, TCP_INQ, &on, sizeof on));
    meet(p);
    meet(p);
    int set = MUST(epoll_create1(0));
    struct epoll_event end = {.events = EPOLLRDHUP | EPOLLET};
    MUST(epoll_ctl(set, EPOLL_CTL_ADD, p->fd, &end));
    CALL(epoll_wait(set, &end, 1, -1));
    for (int i = 0; i < 4; i++)
        say_what_is_left(p, 64, 0);
}

static void sends_each_time(struct peer *p) {
    for (int i = 0; i < 13; i++) {
        meet(p);
        send_all(p->fd, "twenty bytes, no more", 20);
    }
    meet(p);
    CALL(shutdown(p->fd, SHUT_WR));
    meet(p);
}

// A getsockopt call receives bytes before the ends can have met.
static void receives_by_mapping(struct peer *p) {
    uint64_t total = 0;
    for (int round = 0; round < 40; round++) {
        if (round < 3) {
            await_bytes(p->fd, 64);
            char copy[128] = {0};
            struct zerocopy request = {
                .copy_address = (uint64_t)(uintptr_t)copy, .copy_length = sizeof copy};
            void *window = mmap(NULL, 4096, PROT_READ, MAP_SHARED, p->fd, 0);
            if (window == MAP_FAILED)
                die("mmap: %s", strerrorname_np(errno));
            request.address = (uint64_t)(uintptr_t)window;
            request.length = 4096;
            socklen_t length = sizeof request;
            MUST(getsockopt(p->fd, IPPROTO_TCP, TCP_ZEROCOPY_RECEIVE, &request, &length));
            if (request.copy_length == 64 && !matches(copy, 64, total))
                die("wrong bytes in round %d", round);
            say("%d copied", request.copy_length);
            total += request.copy_length > 0 ? request.copy_length : 0;
            munmap(window, 4096);
        } else {
            recv_pattern(p->fd, total, 64, 64);
            total += 64;
        }
        send_all(p->fd, buffer, 64);
    }
    say("%llu bytes", (unsigned long long)total);
}

static void sends_and_hears(struct peer *p) {
    for (int round = 0; round < 40; round++) {
        send_pattern(p->fd, 64 * round, 64, 64);
        recv_all(p->fd, buffer, 64);
    }
    say("all answered");
}

// --- arguments

static void addresses(struct peer *p) {
    struct sockaddr_in from;
    socklen_t length = 77;
    CALL(recvfrom(p->fd, buffer, 10, MSG_DONTWAIT, (void *)&from, &length));
    say("length %d", (int)length);
    meet(p);
    await_bytes(p->fd, 200);
    length = -1;
    CALL(recvfrom(p->fd, buffer, 10, 0, (void *)&from, &length));
    say("length %d", (int)length);
    length = 5;
    CALL(recvfrom(p->fd, buffer, 10, 0, NULL, &length));
    say("length %d", (int)length);
    CALL(recvfrom(p->fd, buffer, 10, 0, (void *)&from, &length));
    say("length %d", (int)length);
    CALL(recvfrom(p->fd, buffer, 10, 0, (void *)&from, NULL));
    CALL(recvfrom(p->fd, buffer, 10, MSG_PEEK, (void *)&from, &length));
    recv_pattern(p->fd, 40, 160, 160);
    length = 9;
    CALL(recvfrom(p->fd, buffer, 0, MSG_DONTWAIT, (void *)&from, &length));
    say("length %d", (int)length);
    meet(p);
}

static void headers(struct peer *p) {
    char name[32], control[64];
    struct iovec part = {buffer, 10};
    struct msghdr message = {.msg_name = name,
                             .msg_namelen = sizeof name,
                             .msg_iov = &part,
                             .msg_iovlen = 1,
                             .msg_control = control,
                             .msg_controllen = sizeof control,
                             .msg_flags = 12345};
    CALL(recvmsg(p->fd, &message, MSG_DONTWAIT));
    say("%u %zu %d", message.msg_namelen, message.msg_controllen, message.msg_flags);
    meet(p);
    await_bytes(p->fd, 200);
    CALL(recvmsg(p->fd, &message, 0));
    say("%u %zu %d", message.msg_namelen, message.msg_controllen, message.msg_flags);
    message.msg_name = NULL;
    message.msg_namelen = 17;
    CALL(recvmsg(p->fd, &message, 0));
    say("%u %zu %d", message.msg_namelen, message.msg_controllen, message.msg_flags);
    message.msg_name = name;
    message.msg_namelen = -1;
    CALL(recvmsg(p->fd, &message, 0));
    recv_pattern(p->fd, 20, 180, 180);
    meet(p);
}

static void sends_200(struct peer *p) {
    meet(p);
    send_pattern(p->fd, 0, 200, 200);
    meet(p);
}

static void lengths(struct mmsghdr *list, int count) {
    char text[64] = "";
    for (int i = 0; i < count; i++)
        sprintf(text + strlen(text), " %d", (int)list[i].msg_len);
    say("lengths%s", text);
}

static void several(struct peer *p) {
    struct iovec parts[4];
    struct mmsghdr list[4] = {0};
    for (int i = 0; i < 4; i++) {
        parts[i] = (struct iovec){buffer + 100 * i, 60};
        list[i].msg_hdr = (struct msghdr){.msg_iov = &parts[i], .msg_iovlen = 1};
        list[i].msg_len = 99;
    }
    CALL(recvmmsg(p->fd, list, 4, MSG_DONTWAIT, NULL));
    struct timespec bad = {.tv_nsec = -1}, none = {0}, some = {.tv_sec = 100};
    CALL(recvmmsg(p->fd, list, 4, 0, &bad));
    meet(p);
    await_bytes(p->fd, 200);
    CALL(recvmmsg(p->fd, list, 4, 0, &none));
    lengths(list, 4);
    CALL(recvmmsg(p->fd, list, 2, 0, &some));
    say("%s left", some.tv_sec >= 90 && some.tv_sec < 100 ? "some time" : "NO time");
    lengths(list, 4);
    CALL(recvmmsg(p->fd, list, 4, MSG_WAITFORONE, NULL));
    lengths(list, 4);
    CALL(recvmmsg(p->fd, list, 0, 0, NULL));
    meet(p);
    await_events(p->fd, POLLIN | POLLRDHUP, POLLRDHUP);
    // The end arrives as many messages of zero bytes, as many as there is room for.
    CALL(recvmmsg(p->fd, list, 3, 0, NULL));
    lengths(list, 4);
    CALL(recvmmsg(p->fd, list, 3, MSG_WAITFORONE, NULL));
    meet(p);
}

static void sends_for_several(struct peer *p) {
    meet(p);
    send_pattern(p->fd, 0, 200, 200);
    meet(p);
    MUST(shutdown(p->fd, SHUT_WR));
    meet(p);
}

// The end arrives as messages of zero bytes, as many as there is room for, even if no bytes came
// before.
static void several_at_the_end(struct peer *p) {
    struct iovec parts[3];
    struct mmsghdr list[3] = {0};
    for (int i = 0; i < 3; i++) {
        parts[i] = (struct iovec){buffer + 100 * i, 60};
        list[i].msg_hdr = (struct msghdr){.msg_iov = &parts[i], .msg_iovlen = 1};
        list[i].msg_len = 99;
    }
    meet(p);
    await_events(p->fd, POLLIN | POLLRDHUP, POLLRDHUP);
    CALL(recvmmsg(p->fd, list, 3, 0, NULL));
    lengths(list, 3);
    CALL(recvmmsg(p->fd, list, 3, 0, NULL));
    lengths(list, 3);
    CALL(recvmmsg(p->fd, list, 3, MSG_WAITFORONE, NULL));
    meet(p);
}

static void sends_100_and_shuts(struct peer *p) {
    send_pattern(p->fd, 0, 100, 100);
    MUST(shutdown(p->fd, SHUT_WR));
    meet(p);
    meet(p);
}

// --- sendfile from unusual files

static void send_from(struct peer *p, const char *path, size_t count) {
    int from = MUST(open(path, O_RDONLY));
    say("%s", path);
    long sent = CALL(sendfile(p->fd, from, NULL, count));
    close(from);
    tell(p, sent > 0 ? sent : 0);
    hear(p);
}

static void sends_zeros(struct peer *p) { send_from(p, "/dev/zero", 300000); }
static void sends_proc(struct peer *p) { send_from(p, "/proc/sys/kernel/ostype", 100); }
static void sends_status(struct peer *p) { send_from(p, "/proc/version", 4096); }

// Only the kernel knows whether it can send these files: they are generated at each read, in several ways.
static void sends_procs(struct peer *p) {
    static const char *const paths[] = {
        "/proc/self/cmdline",         "/proc/self/comm",     "/proc/self/auxv", "/proc/self/limits",
        "/proc/sys/kernel/ostype",    "/proc/self/cgroup",   "/proc/devices",   "/proc/self/mem",
        "/proc/sys/kernel/random/boot_id", "/proc/self/oom_score_adj", "/proc/self/clear_refs", "/proc/config.gz", "/sys/kernel/mm/transparent_hugepage/enabled",
    };
    for (size_t i = 0; i < sizeof paths / sizeof paths[0]; i++) {
        int from = open(paths[i], O_RDONLY);
        if (from < 0)
            continue;
        say("%s", paths[i]);
        long sent = CALL(sendfile(p->fd, from, NULL, 100));
        off_t place = 1;
        long rest = CALL(sendfile(p->fd, from, &place, 100));
        say("at %ld", (long)place);
        close(from);
        tell(p, (sent > 0 ? sent : 0) + (rest > 0 ? rest : 0));
        hear(p);
    }
    tell(p, -1);
}

static void takes_files(struct peer *p) {
    for (uint64_t left; (left = hear(p)) != (uint64_t)-1; tell(p, 0))
        for (ssize_t got; left > 0; left -= got)
            if ((got = MUST(recv(p->fd, buffer, left, 0))) == 0)
                die("the end");
    say("all came");
}

static void sends_pipe(struct peer *p) {
    int ends[2];
    MUST(pipe(ends));
    MUST(write(ends[1], "from a pipe", 11));
    long sent = CALL(sendfile(p->fd, ends[0], NULL, 11));
    tell(p, sent > 0 ? sent : 0);
    hear(p);
}

static void sends_directory(struct peer *p) { send_from(p, "/", 100); }

static void takes_file(struct peer *p) {
    uint64_t left = hear(p);
    uint32_t sum = CHECKSUM_START;
    while (left > 0) {
        ssize_t got = MUST(recv(p->fd, buffer, sizeof buffer, 0));
        if (got == 0)
            die("the end with %llu left", (unsigned long long)left);
        sum = checksum(sum, buffer, got);
        left -= got;
    }
    say("checksum %08x", sum);
    tell(p, 0);
}

// --- flags of a send that the kernel ignores

static void sends_with_odd_flags(struct peer *p) {
    const int flags[] = {MSG_WAITALL, MSG_CONFIRM, MSG_DONTROUTE, MSG_WAITALL | MSG_NOSIGNAL};
    for (int i = 0; i < 4; i++) {
        fill(buffer, 100, 200 * i);
        CALL(send(p->fd, buffer, 100, flags[i]));
        fill(buffer, 100, 200 * i + 100);
        struct iovec part = {buffer, 100};
        struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1};
        CALL(sendmsg(p->fd, &message, flags[i]));
    }
    meet(p);
}

static void takes_800(struct peer *p) {
    recv_pattern(p->fd, 0, 800, 800);
    meet(p);
}

static const struct scenario scenarios[] = {
    {"bytes_are_discarded", sends_what_is_discarded, discards},
    {"sends_with_flags_that_do_nothing", sends_with_odd_flags, takes_800},
    {"peek_with_waitall_waits", peeks_for_all, sends_in_two},
    {"peek_with_waitall_and_a_timeout", peeks_for_all_in_time, sends_in_two},
    {"peek_with_waitall_at_the_end", peeks_for_all_at_the_end, sends_and_shuts},
    {"waitall_is_interrupted", waits_for_all_interrupted, sends_in_two},
    {"peek_off_is_kept_to", peeks_from_an_offset, sends_in_two},
    {"inq_is_told", is_told_how_much_is_left, sends_in_two},
    {"inq_is_told_each_time", is_told_each_time, sends_each_time},
    {"inq_is_told_before_the_switch", is_told_each_time, sends_each_time, COLD},
    {"zerocopy_receive_before_the_switch", receives_by_mapping, sends_and_hears, COLD},
    {"zerocopy_receive_after_the_switch", receives_by_mapping, sends_and_hears},
    {"recvfrom_and_its_length", addresses, sends_200},
    {"recvmsg_and_its_header", headers, sends_200},
    {"recvmmsg_and_its_timeout", several, sends_for_several},
    {"recvmmsg_at_the_end", several_at_the_end, sends_100_and_shuts},
    {"sendfile_of_many_procs", sends_procs, takes_files},
    {"sendfile_of_zeros", sends_zeros, takes_file},
    {"sendfile_of_proc", sends_proc, takes_file},
    {"sendfile_of_a_long_proc", sends_status, takes_file},
    {"sendfile_of_a_pipe", sends_pipe, takes_file},
    {"sendfile_of_a_directory", sends_directory, takes_file},
};
SCENARIO_MAIN(scenarios)
