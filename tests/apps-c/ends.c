// Reports of the end of a stream before, at and after its last bytes: hang-ups, resets, one-shot
// errors.
#include "common.h"
#include <sys/select.h>

static char buffer[1 << 16];
static volatile sig_atomic_t pipe_signals;

static void count_pipe(int signal) {
    (void)signal;
    pipe_signals++;
}

static void say_signals(void) { say("SIGPIPE %d", (int)pipe_signals); }

static void say_events(struct peer *p) {
    struct pollfd one = {.fd = p->fd, .events = POLLIN | POLLOUT | POLLRDHUP};
    MUST(poll(&one, 1, 0));
    say("events %s", poll_names(one.revents));
}

static void say_error(struct peer *p) {
    int error = -1;
    socklen_t length = sizeof error;
    MUST(getsockopt(p->fd, SOL_SOCKET, SO_ERROR, &error, &length));
    say("SO_ERROR %s", error ? strerrorname_np(error) : "none");
}

static int unread(struct peer *p) {
    int there = 0;
    MUST(ioctl(p->fd, FIONREAD, &there));
    return there;
}

static void reset_at_close(struct peer *p) {
    struct linger none = {.l_onoff = 1, .l_linger = 0};
    MUST(setsockopt(p->fd, SOL_SOCKET, SO_LINGER, &none, sizeof none));
    MUST(close(p->fd));
}

// --- a writer that is blocked when its peer resets

static void resets_when_full(struct peer *p) {
    meet(p);
    nap(200);
    reset_at_close(p);
    meet(p);
}

static void closes_when_full(struct peer *p) {
    meet(p);
    nap(200);
    MUST(close(p->fd));
    meet(p);
}

static void fill_it(struct peer *p) {
    set_nonblocking(p->fd, true);
    int64_t quiet = now_ms();
    while (now_ms() - quiet < 50)
        if (send(p->fd, buffer, sizeof buffer, MSG_NOSIGNAL) > 0)
            quiet = now_ms();
        else
            nap(1);
    set_nonblocking(p->fd, false);
}

static void writes(struct peer *p) {
    signal(SIGPIPE, count_pipe);
    fill_it(p);
    meet(p);
    // Room for a part may appear while the call waits.
    while (write(p->fd, buffer, sizeof buffer) > 0)
        ;
    say("%s", strerrorname_np(errno));
    say_signals();
    CALL(write(p->fd, buffer, sizeof buffer));
    say_signals();
    CALL(recv(p->fd, buffer, 10, 0));
    say_events(p);
    meet(p);
}

static void writes_much(struct peer *p) {
    signal(SIGPIPE, count_pipe);
    static char much[64 << 20];
    meet(p);
    ssize_t sent = write(p->fd, much, sizeof much);
    say("%s", sent > 0 && sent < (ssize_t)sizeof much ? "a part" : "not a part");
    say_signals();
    say_events(p);
    CALL(write(p->fd, buffer, 10));
    say_signals();
    CALL(write(p->fd, buffer, 10));
    say_signals();
    meet(p);
}

static void writes_pieces(struct peer *p) {
    signal(SIGPIPE, count_pipe);
    fill_it(p);
    meet(p);
    struct iovec pieces[2] = {{buffer, 30000}, {buffer, 30000}};
    while (writev(p->fd, pieces, 2) > 0)
        ;
    say("%s", strerrorname_np(errno));
    say_signals();
    struct msghdr message = {.msg_iov = pieces, .msg_iovlen = 2};
    CALL(sendmsg(p->fd, &message, 0));
    say_signals();
    meet(p);
}

// --- data, and then a reset

static void sends_and_resets(struct peer *p) {
    send_pattern(p->fd, 0, 5000, 500);
    hear(p);
    reset_at_close(p);
    tell(p, 0);
}

static void sends_and_closes_unread(struct peer *p) {
    send_pattern(p->fd, 0, 5000, 500);
    await_bytes(p->fd, 10);
    hear(p);
    MUST(close(p->fd));
    tell(p, 0);
}

static void awaits_reset(struct peer *p) {
    await_bytes(p->fd, 5000);
    tell(p, 0);
    hear(p);
    await_events(p->fd, POLLIN, POLLHUP);
    say_events(p);
}

static void reads_after_reset(struct peer *p) {
    send_all(p->fd, "unread by it", 12);
    awaits_reset(p);
    recv_pattern(p->fd, 0, 5000, 700);
    say_events(p);
    CALL(recv(p->fd, buffer, 10, 0));
    CALL(recv(p->fd, buffer, 10, 0));
    CALL(send(p->fd, buffer, 10, MSG_NOSIGNAL));
}

static void writes_after_reset(struct peer *p) {
    send_all(p->fd, "unread by it", 12);
    awaits_reset(p);
    CALL(send(p->fd, buffer, 10, MSG_NOSIGNAL));
    recv_pattern(p->fd, 0, 5000, 700);
    CALL(recv(p->fd, buffer, 10, 0));
    CALL(send(p->fd, buffer, 10, MSG_NOSIGNAL));
}

static void waits_for_all_after_reset(struct peer *p) {
    send_all(p->fd, "unread by it", 12);
    awaits_reset(p);
    CALL(recv(p->fd, buffer, 10000, MSG_WAITALL));
    CALL(recv(p->fd, buffer, 10000, MSG_WAITALL));
    CALL(recv(p->fd, buffer, 10000, MSG_WAITALL));
}

static void scatters_after_reset(struct peer *p) {
    send_all(p->fd, "unread by it", 12);
    awaits_reset(p);
    struct iovec two[] = {{buffer, 5000}, {buffer + 5000, 5000}};
    CALL(readv(p->fd, two, 2));
    say_error(p);
    CALL(readv(p->fd, two, 2));
}

static void takes_several_after_reset(struct peer *p) {
    send_all(p->fd, "unread by it", 12);
    awaits_reset(p);
    struct iovec parts[3] = {{buffer, 2500}, {buffer + 2500, 2500}, {buffer + 5000, 2500}};
    struct mmsghdr list[3] = {0};
    for (int i = 0; i < 3; i++)
        list[i].msg_hdr = (struct msghdr){.msg_iov = &parts[i], .msg_iovlen = 1};
    CALL(recvmmsg(p->fd, list, 3, 0, NULL));
    CALL(recvmmsg(p->fd, list, 3, 0, NULL));
    say("%u %u %u", list[0].msg_len, list[1].msg_len, list[2].msg_len);
}

static void peeks_after_reset(struct peer *p) {
    send_all(p->fd, "unread by it", 12);
    awaits_reset(p);
    CALL(recv(p->fd, buffer, sizeof buffer, MSG_PEEK));
    CALL(recv(p->fd, buffer, sizeof buffer, 0));
    CALL(recv(p->fd, buffer, sizeof buffer, MSG_PEEK));
    CALL(recv(p->fd, buffer, sizeof buffer, MSG_PEEK));
}

// Receives of zero bytes report nothing while there are bytes. After the last byte they report the reset, like
// others.
static void takes_nothing_after_reset(struct peer *p, bool by_read) {
    send_all(p->fd, "unread by it", 12);
    awaits_reset(p);
    struct msghdr none = {0};
    CALL(by_read ? read(p->fd, buffer, 0) : recv(p->fd, buffer, 0, 0));
    CALL(recvmsg(p->fd, &none, MSG_PEEK));
    CALL(recv(p->fd, buffer, sizeof buffer, 0));
    CALL(by_read ? read(p->fd, buffer, 0) : recv(p->fd, buffer, 0, MSG_DONTWAIT));
    CALL(recvmsg(p->fd, &none, 0));
    CALL(recv(p->fd, buffer, 0, 0));
    CALL(recv(p->fd, buffer, sizeof buffer, 0));
}

// A receive of zero bytes that has waited does not report what ended its wait.
static void waits_for_nothing(struct peer *p) {
    meet(p);
    CALL(recv(p->fd, buffer, 0, 0));
    await_events(p->fd, POLLERR, POLLERR);
    CALL(recv(p->fd, buffer, 0, 0));
    CALL(recv(p->fd, buffer, sizeof buffer, 0));
}

static void resets_soon(struct peer *p) {
    meet(p);
    nap(100);
    reset_at_close(p);
}

static void receives_nothing_after_reset(struct peer *p) { takes_nothing_after_reset(p, false); }
static void reads_nothing_after_reset(struct peer *p) { takes_nothing_after_reset(p, true); }

// --- hang-ups are reported after all earlier bytes

#define MUCH 5000000

static void sends_much_and_closes(struct peer *p) {
    meet(p);
    send_pattern(p->fd, 0, MUCH, 50000);
    MUST(close(p->fd));
    meet(p);
}

static void sends_much_and_shuts(struct peer *p) {
    meet(p);
    send_pattern(p->fd, 0, MUCH, 50000);
    MUST(shutdown(p->fd, SHUT_WR));
    CALL(recv(p->fd, buffer, 10, 0));
    meet(p);
}

static int limit;

// A hang-up must not come while more bytes are unread than the buffer can hold.
static void begin_slowly(struct peer *p) {
    int size = 50000;
    socklen_t length = sizeof limit;
    MUST(setsockopt(p->fd, SOL_SOCKET, SO_RCVBUF, &size, sizeof size));
    MUST(getsockopt(p->fd, SOL_SOCKET, SO_RCVBUF, &limit, &length));
    meet(p);
    nap(300);
}

struct seen {
    uint64_t total;
    int early;
    bool hung, ended;
};

static void look(struct peer *p, struct seen *seen, uint32_t events) {
    if (events & (EPOLLRDHUP | EPOLLHUP)) {
        seen->hung = true;
        seen->early += unread(p) > limit;
    }
}

static void take(struct peer *p, struct seen *seen) {
    ssize_t got = recv(p->fd, buffer, 30000, MSG_DONTWAIT);
    if (got < 0 && errno != EAGAIN)
        die("recv: %s", strerrorname_np(errno));
    if (got > 0 && !matches(buffer, got, seen->total))
        die("wrong bytes at %llu", (unsigned long long)seen->total);
    seen->ended |= got == 0;
    seen->total += got > 0 ? got : 0;
}

static void say_seen(struct peer *p, struct seen *seen) {
    say("%llu bytes, %d hang-ups too early, %s", (unsigned long long)seen->total, seen->early,
        seen->hung ? "told of it" : "not told of it");
    close(p->fd);
    meet(p);
}

static void polls_for_hangup(struct peer *p) {
    struct seen seen = {0};
    begin_slowly(p);
    while (!seen.ended || !seen.hung) {
        struct pollfd one = {.fd = p->fd, .events = POLLIN | POLLRDHUP};
        MUST(poll(&one, 1, -1));
        look(p, &seen, one.revents);
        take(p, &seen);
    }
    say_seen(p, &seen);
}

static void epolls_for_hangup(struct peer *p, uint32_t how) {
    struct seen seen = {0};
    begin_slowly(p);
    struct epoll_event event = {.events = EPOLLIN | EPOLLRDHUP | how};
    int set = MUST(epoll_create1(0));
    MUST(epoll_ctl(set, EPOLL_CTL_ADD, p->fd, &event));
    while (!seen.ended || !seen.hung) {
        struct epoll_event one;
        MUST(epoll_wait(set, &one, 1, -1));
        look(p, &seen, one.events);
        uint64_t before;
        do {
            before = seen.total;
            take(p, &seen);
        } while ((how & EPOLLET) && seen.total != before);
        if (how & EPOLLONESHOT)
            MUST(epoll_ctl(set, EPOLL_CTL_MOD, p->fd, &event));
    }
    say_seen(p, &seen);
}

static void waits_for_hangup_by_level(struct peer *p) { epolls_for_hangup(p, 0); }
static void waits_for_hangup_by_edge(struct peer *p) { epolls_for_hangup(p, EPOLLET); }
static void waits_for_hangup_once(struct peer *p) { epolls_for_hangup(p, EPOLLONESHOT); }

// One thread waits only for the hang-up, and another one reads.
static void *reads_all(void *argument) {
    struct peer *p = argument;
    drain_to_eof(p->fd, 0);
    return NULL;
}

static void waits_for_the_hangup_alone(struct peer *p) {
    pthread_t reader;
    begin_slowly(p);
    struct epoll_event event = {.events = EPOLLRDHUP | EPOLLET};
    int set = MUST(epoll_create1(0));
    MUST(epoll_ctl(set, EPOLL_CTL_ADD, p->fd, &event));
    CALL(epoll_wait(set, &event, 1, 0));
    pthread_create(&reader, NULL, reads_all, p);
    int told = MUST(epoll_wait(set, &event, 1, -1));
    pthread_join(reader, NULL);
    say("%d: %s", told, epoll_names(event.events));
    meet(p);
}

// This end has shut its own sending half too. Both halves are shut then, which is a hang-up.
static void shuts_and_polls_for_hangup(struct peer *p) {
    MUST(shutdown(p->fd, SHUT_WR));
    polls_for_hangup(p);
}

// stunnel does this: a hang-up with nothing to read ends the connection.
static void trusts_hangups(struct peer *p) {
    struct seen seen = {0};
    begin_slowly(p);
    for (;;) {
        struct pollfd one = {.fd = p->fd, .events = POLLIN | POLLRDHUP};
        MUST(poll(&one, 1, -1));
        if (one.revents & POLLIN)
            take(p, &seen);
        if (seen.ended || ((one.revents & POLLRDHUP) && unread(p) == 0))
            break;
    }
    say("%llu bytes", (unsigned long long)seen.total);
    meet(p);
}

// --- the other end makes no more calls

static void sends_nothing_to_the_reset(struct peer *p) {
    signal(SIGPIPE, count_pipe);
    send_all(p->fd, "unread", 6);
    hear(p);
    await_events(p->fd, POLLIN, POLLHUP);
    CALL(send(p->fd, "", 0, 0));
    say_signals();
    CALL(send(p->fd, "", 0, 0));
    say_signals();
    CALL(recv(p->fd, buffer, 0, 0));
    CALL(read(p->fd, buffer, 0));
}

static void closes_unread(struct peer *p) {
    await_bytes(p->fd, 6);
    MUST(close(p->fd));
    tell(p, 0);
}

// The end of the stream and its half hang-up are reported together to a call that waits for both.
static void waits_for_the_end(struct peer *p) {
    struct pollfd one = {.fd = p->fd, .events = POLLIN | POLLRDHUP};
    struct epoll_event event = {.events = EPOLLIN | EPOLLRDHUP};
    int set = MUST(epoll_create1(0));
    MUST(epoll_ctl(set, EPOLL_CTL_ADD, p->fd, &event));
    meet(p);
    if (p->server)
        MUST(poll(&one, 1, -1));
    MUST(epoll_wait(set, &event, 1, -1));
    MUST(poll(&one, 1, 0));
    say("poll: %s, epoll: %s", poll_names(one.revents), epoll_names(event.events));
    close(set);
}

static void shuts(struct peer *p) {
    meet(p);
    nap(50);
    MUST(shutdown(p->fd, SHUT_WR));
}

static const struct scenario scenarios[] = {
    {"a_reset_ends_a_blocked_write", writes, resets_when_full},
    {"a_close_with_unread_ends_a_blocked_write", writes, closes_when_full},
    {"a_reset_ends_a_long_write", writes_much, resets_when_full},
    {"a_close_with_unread_ends_a_long_write", writes_much, closes_when_full},
    {"a_reset_ends_a_blocked_writev", writes_pieces, resets_when_full},
    {"data_then_reset_is_read", reads_after_reset, sends_and_resets},
    {"data_then_reset_is_written_to", writes_after_reset, sends_and_resets},
    {"data_then_reset_by_unread_bytes", reads_after_reset, sends_and_closes_unread},
    {"waitall_at_a_reset", waits_for_all_after_reset, sends_and_resets},
    {"readv_at_a_reset", scatters_after_reset, sends_and_resets},
    {"recvmmsg_at_a_reset", takes_several_after_reset, sends_and_resets},
    {"peek_at_a_reset", peeks_after_reset, sends_and_resets},
    {"receiving_nothing_at_a_reset", receives_nothing_after_reset, sends_and_resets},
    {"waiting_for_nothing_until_a_reset", waits_for_nothing, resets_soon},
    {"reading_nothing_at_a_reset", reads_nothing_after_reset, sends_and_resets},
    {"hangups_wait_in_poll", polls_for_hangup, sends_much_and_closes},
    {"hangups_wait_in_epoll", waits_for_hangup_by_level, sends_much_and_closes},
    {"hangups_wait_as_edges", waits_for_hangup_by_edge, sends_much_and_closes},
    {"hangups_wait_in_a_oneshot", waits_for_hangup_once, sends_much_and_closes},
    {"half_hangups_wait_in_poll", polls_for_hangup, sends_much_and_shuts},
    {"half_hangups_wait_as_edges", waits_for_hangup_by_edge, sends_much_and_shuts},
    {"a_hangup_alone_is_told_to_another_thread", waits_for_the_hangup_alone, sends_much_and_closes},
    {"full_hangups_wait_in_poll", shuts_and_polls_for_hangup, sends_much_and_closes},
    {"a_program_that_trusts_hangups_loses_nothing", trusts_hangups, sends_much_and_closes},
    {"the_end_is_told_with_its_half_hangup", waits_for_the_end, shuts},
    {"nothing_is_sent_to_a_reset_peer", sends_nothing_to_the_reset, closes_unread},
};
SCENARIO_MAIN(scenarios)
