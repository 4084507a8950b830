// One stream under several descriptors, which are opened and closed.
#include "common.h"

static char buffer[70000];

static void echo(struct peer *p) {
    char text[1000];
    ssize_t got;
    while ((got = recv(p->fd, text, sizeof text, 0)) > 0)
        send_all(p->fd, text, got);
    say(got ? "%s" : "end of stream", got ? strerrorname_np(errno) : "");
    close(p->fd);
    meet(p);
}

static void through(const char *how, int out, int in) {
    send_all(out, "through", 7);
    recv_all(in, buffer, 7);
    say("%s: %.7s", how, buffer);
}

static void kinds(struct peer *p) {
    int a = MUST(dup(p->fd));
    int b = dup2(p->fd, 50), c = dup3(p->fd, 51, O_CLOEXEC);
    int d = fcntl(p->fd, F_DUPFD, 60), e = fcntl(p->fd, F_DUPFD_CLOEXEC, 60);
    say("%d %d %d %d", b, c, d, e);
    say("close on exec %ld %ld %ld %ld", MUST(fcntl(b, F_GETFD)), MUST(fcntl(c, F_GETFD)),
        MUST(fcntl(d, F_GETFD)), MUST(fcntl(e, F_GETFD)));
    int all[] = {a, b, c, d, e};
    for (int i = 0; i < 5; i++) {
        through("out", all[i], p->fd);
        through("in", p->fd, all[i]);
        through("both", all[i], all[(i + 1) % 5]);
    }
    CALL(close(p->fd));
    through("without the first", b, c);
    for (int i = 0; i < 4; i++)
        CALL(close(all[i]));
    through("with one alone", e, e);
    meet(p);
    CALL(close(e));
}

static void echo_then_told(struct peer *p) {
    char text[7];
    for (int i = 0; i < 17; i++) {
        recv_all(p->fd, text, 7);
        send_all(p->fd, text, 7);
    }
    struct pollfd one = {.fd = p->fd, .events = POLLIN | POLLRDHUP};
    nap(50);
    say("end of stream: %d", poll(&one, 1, 0));
    meet(p);
    CALL(recv(p->fd, text, 1, 0));
}

static void last_leaves(struct peer *p) {
    int twin = MUST(dup(p->fd));
    close(p->fd);
    meet(p);
    meet(p);
    close(twin);
    meet(p);
}

static void sees_last_leave(struct peer *p) {
    struct pollfd one = {.fd = p->fd, .events = POLLIN | POLLRDHUP};
    meet(p);
    nap(50);
    CALL(poll(&one, 1, 0));
    meet(p);
    meet(p);
    await_events(p->fd, POLLRDHUP, POLLRDHUP);
    CALL(recv(p->fd, buffer, 1, 0));
}

static void shared_flags(struct peer *p) {
    int twin = MUST(dup(p->fd));
    set_nonblocking(p->fd, true);
    say("twin is non-blocking: %d", !!(MUST(fcntl(twin, F_GETFL)) & O_NONBLOCK));
    CALL(recv(twin, buffer, 1, 0));
    int off = 0, error = 0;
    CALL(ioctl(twin, FIONBIO, &off));
    say("the first is non-blocking: %d", !!(MUST(fcntl(p->fd, F_GETFL)) & O_NONBLOCK));
    MUST(fcntl(twin, F_SETFD, FD_CLOEXEC));
    say("close on exec %ld %ld", MUST(fcntl(p->fd, F_GETFD)), MUST(fcntl(twin, F_GETFD)));
    through("both", p->fd, twin);
    socklen_t length = sizeof error;
    CALL(getsockopt(twin, SOL_SOCKET, SO_ERROR, &error, &length));
    CALL(shutdown(twin, SHUT_WR));
    CALL(send(p->fd, "x", 1, MSG_NOSIGNAL));
    CALL(recv(p->fd, buffer, 1, 0));
    meet(p);
}

static void wrong_numbers(struct peer *p) {
    CALL(dup2(p->fd, p->fd) == p->fd);
    CALL(dup3(p->fd, p->fd, 0));
    CALL(dup2(p->fd, -1));
    CALL(dup2(150, p->fd));
    CALL(dup3(p->fd, 50, 12345));
    CALL(fcntl(p->fd, F_DUPFD, -1));
    CALL(fcntl(p->fd, F_DUPFD, 1 << 30));
    through("afterwards", p->fd, p->fd);
    close(p->fd);
    meet(p);
}

// dup2 over a stream closes it; the descriptor becomes a copy of its source.
static void onto_stream(struct peer *p) {
    int null = MUST(open("/dev/zero", O_RDWR));
    CALL(dup2(null, p->fd) == p->fd);
    CALL(read(p->fd, buffer, 10));
    CALL(write(p->fd, buffer, 10));
    CALL(recv(p->fd, buffer, 10, 0));
    meet(p);
}

static void second_stream(struct peer *p) {
    if (p->server) {
        int listener = listen_on(p, AF_INET, "second"), other = accept_one(listener);
        warm(other, true);
        CALL(recv(p->fd, buffer, 10, 0)); // closed by the dup2
        recv_all(other, buffer, 3);
        send_all(other, "two", 3);
        CALL(recv(other, buffer, 10, 0));
        return;
    }
    int other = connect_to(p, AF_INET, "second");
    warm(other, false);
    CALL(dup2(other, p->fd) == p->fd);
    CALL(close(other));
    send_all(p->fd, "one", 3);
    say_text("received", buffer, recv(p->fd, buffer, 10, 0));
    CALL(close(p->fd));
}

// Descriptor numbers are given out lowest first, as if the library held none.
static void lowest(struct peer *p) {
    int number = p->fd, null;
    close(p->fd);
    null = MUST(open("/dev/zero", O_RDONLY));
    say("the number is used again: %d", null == number);
    CALL(read(null, buffer, 5));
    CALL(lseek(null, 0, SEEK_SET));
    int next = MUST(dup(null));
    say("the next is the next free: %d", next - null);
    CALL(recv(null, buffer, 1, 0));
    meet(p);
}

static void ranges(struct peer *p) {
    int a = MUST(dup2(p->fd, 70)), b = MUST(dup2(p->fd, 71)), c = MUST(dup2(p->fd, 75));
    CALL(close_range(71, 80, CLOSE_RANGE_CLOEXEC));
    say("close on exec %ld %ld %ld", MUST(fcntl(a, F_GETFD)), MUST(fcntl(b, F_GETFD)), MUST(fcntl(c, F_GETFD)));
    CALL(close_range(71, 80, 0));
    CALL(write(b, "x", 1));
    CALL(write(c, "x", 1));
    through("left over", a, p->fd);
    // Close nearly all, as daemons do. The side channel has higher numbers.
    CALL(close_range(3, 199, 0));
    CALL(recv(a, buffer, 1, 0));
    CALL(send(p->fd, "x", 1, MSG_NOSIGNAL));
    meet(p);
}

static void everything(struct peer *p) {
    // Except for the harness's own
    for (int fd = 3; fd < 20000; fd++)
        if (fd < 200 || fd > 230)
            close(fd);
    CALL(send(p->fd, "x", 1, MSG_NOSIGNAL));
    int null = MUST(open("/dev/null", O_RDONLY));
    say("lowest free %d", null);
    meet(p);
}

// A daemon that has closed its standard descriptors gets streams in their place.
static void number_zero(struct peer *p) {
    close(0);
    int fd = connect_to(p, AF_INET, "zero");
    say("number %d", fd);
    warm(fd, false);
    say_alive(fd, false, "as 0");
    CALL(read(0, buffer, 10));
    CALL(close(0));
    p->fd = MUST(open("/dev/null", O_RDONLY));
    say("number %d", p->fd);
}

static void serves_zero(struct peer *p) {
    int listener = listen_on(p, AF_INET, "zero");
    close(1);
    int fd = accept_one(listener);
    say("number %d", fd);
    warm(fd, true);
    say_alive(fd, true, "as 1");
    CALL(write(1, "by number", 9));
    CALL(close(1));
}

// The writer's descriptor changes again and again while the reader moves the stream to TCP, with many bytes unread.
// Counters show lost or reordered bytes.
enum { WRITES = 8000 };

static void reads_after_a_move(struct peer *p) {
    uint64_t expected = 0, got;
    nap(200);
    MUST(setsockopt(p->fd, SOL_SOCKET, SO_RCVLOWAT, &(int){2}, sizeof(int)));
    MUST(setsockopt(p->fd, SOL_SOCKET, SO_RCVLOWAT, &(int){1}, sizeof(int)));
    nap(100);
    while (recv(p->fd, &got, sizeof got, MSG_WAITALL) == sizeof got)
        if (got != expected++)
            die("counter %lu in the place of %lu", (unsigned long)got, (unsigned long)expected - 1);
    say("all in order");
    note("%lu counters", (unsigned long)expected);
}

static void writes_by_many_numbers(struct peer *p) {
    uint64_t next = 0;
    set_nonblocking(p->fd, true);
    while (next < 100000 && write(p->fd, &next, sizeof next) == sizeof next)
        next++;
    for (int i = 0; i < WRITES; i++) {
        usleep(20);
        int other = MUST(dup(p->fd));
        MUST(close(p->fd));
        p->fd = other;
        ssize_t put = write(p->fd, &next, sizeof next);
        if (put == sizeof next)
            next++;
        else if (put >= 0 || errno != EAGAIN)
            die("a write returned %zd: %s", put, strerrorname_np(errno));
    }
    say("written by %d numbers", WRITES);
    CALL(close(p->fd));
}

static const struct scenario scenarios[] = {
    {"every_kind_of_duplicate_works", echo_then_told, kinds},
    {"the_last_number_ends_the_stream", sees_last_leave, last_leaves},
    {"duplicates_share_their_flags", echo, shared_flags},
    {"wrong_numbers_are_refused", echo, wrong_numbers},
    {"a_file_takes_a_streams_number", echo, onto_stream},
    {"a_stream_takes_anothers_number", second_stream, second_stream},
    {"a_closed_number_is_used_again", echo, lowest},
    {"ranges_of_numbers_are_closed", echo, ranges},
    {"streams_numbered_0_and_1", serves_zero, number_zero, RAW},
    {"a_number_changes_while_the_peer_falls_back", reads_after_a_move, writes_by_many_numbers},
    {"closing_everything_in_a_loop", echo, everything},
};
SCENARIO_MAIN(scenarios)
