// Out-of-band data: one urgent byte, its mark, its signal and its event.
#include "common.h"

static char buffer[1000];
static volatile sig_atomic_t urgent_signals;
static void on_urgent(int signal) {
    (void)signal;
    urgent_signals++;
}

static void sends_urgent(struct peer *p) {
    send_all(p->fd, "before", 6);
    CALL(send(p->fd, "!", 1, MSG_OOB));
    send_all(p->fd, "after", 5);
    meet(p);
    meet(p);
    CALL(send(p->fd, "more?", 5, MSG_OOB));
    meet(p);
    meet(p);
    say_alive(p->fd, p->server, "afterwards");
}

static int at_mark(int fd) {
    int mark = -1;
    MUST(ioctl(fd, SIOCATMARK, &mark));
    return mark;
}

// The urgent byte is outside of the stream.
static void beside(struct peer *p) {
    // All bytes have been sent by now, and bytes after the urgent one may have arrived with it.
    meet(p);
    await_events(p->fd, POLLPRI | POLLIN, POLLPRI);
    CALL(recv(p->fd, buffer, 10, MSG_OOB));
    say_text("urgent", buffer, 1);
    CALL(recv(p->fd, buffer, 10, MSG_OOB));
    // A read stops at the mark.
    say("at mark %d", at_mark(p->fd));
    say_text("received", buffer, recv(p->fd, buffer, 100, 0));
    say("at mark %d", at_mark(p->fd));
    say_text("received", buffer, recv(p->fd, buffer, 100, 0));
    say("at mark %d", at_mark(p->fd));
    meet(p);
    meet(p);
    await_events(p->fd, POLLPRI | POLLIN, POLLPRI);
    CALL(recv(p->fd, buffer, 10, MSG_OOB));
    say_text("received", buffer, recv(p->fd, buffer, 100, 0));
    meet(p);
    say_alive(p->fd, p->server, "afterwards");
}

// The urgent byte is in the stream, at its place.
static void in_line(struct peer *p) {
    int on = 1;
    signal(SIGURG, on_urgent);
    MUST(fcntl(p->fd, F_SETOWN, getpid()));
    MUST(setsockopt(p->fd, SOL_SOCKET, SO_OOBINLINE, &on, sizeof on));
    meet(p);
    meet(p);
    await_events(p->fd, POLLPRI | POLLIN, POLLPRI);
    // "before", the byte at its place, "after".
    await_bytes(p->fd, 12);
    CALL(recv(p->fd, buffer, 10, MSG_OOB));
    say_text("received", buffer, recv(p->fd, buffer, 100, 0));
    say("at mark %d", at_mark(p->fd));
    say_text("received", buffer, recv(p->fd, buffer, 100, 0));
    say("signal: %s", urgent_signals ? "came" : "MISSING");
    meet(p);
    say_alive(p->fd, p->server, "afterwards");
}

static void sends_in_line(struct peer *p) {
    meet(p);
    send_all(p->fd, "before", 6);
    CALL(send(p->fd, "!", 1, MSG_OOB));
    send_all(p->fd, "after", 5);
    meet(p);
    meet(p);
    say_alive(p->fd, p->server, "afterwards");
}

// The sender of an urgent byte has unread bytes itself; later bytes arrive as usual. Both ends move several
// connections to TCP at once.
enum { UNREAD = 1000, FOLLOWS = 5000, CONNECTIONS = 10 };
static char more[FOLLOWS];

static void sends_with_unread(struct peer *p) {
    int listener = listen_on(p, AF_INET, "urgent");
    for (int i = 0; i < CONNECTIONS; i++) {
        int fd = accept_one(listener);
        warm(fd, true);
        meet(p);
        await_bytes(fd, UNREAD);
        CALL(send(fd, "!", 1, MSG_OOB));
        recv_all(fd, more, UNREAD);
        send_all(fd, more, FOLLOWS);
        meet(p);
        recv_all(fd, buffer, 5);
        say_text("received", buffer, 5);
        say_alive(fd, true, "afterwards");
        meet(p);
        MUST(close(fd));
    }
}

static void hears_of_it(struct peer *p) {
    for (int i = 0; i < CONNECTIONS; i++) {
        int fd = connect_to(p, AF_INET, "urgent");
        warm(fd, false);
        send_all(fd, more, UNREAD);
        meet(p);
        meet(p);
        await_events(fd, POLLPRI | POLLIN, POLLPRI);
        CALL(recv(fd, buffer, 10, MSG_OOB));
        recv_all(fd, more, FOLLOWS);
        send_all(fd, "heard", 5);
        say_alive(fd, false, "afterwards");
        meet(p);
        MUST(close(fd));
    }
}

static void hears_urgent(struct peer *p, size_t length) {
    await_events(p->fd, POLLPRI | POLLIN, POLLPRI);
    CALL(recv(p->fd, buffer, 10, MSG_OOB));
    recv_all(p->fd, buffer, length);
    say_text("received", buffer, length);
}

// The peer has half-closed, and its end is unread.
static void sends_behind_the_end(struct peer *p) {
    meet(p);
    await_bytes(p->fd, UNREAD);
    await_events(p->fd, POLLRDHUP, POLLRDHUP);
    CALL(send(p->fd, "one!", 4, MSG_OOB));
    CALL(send(p->fd, "after", 5, 0));
    meet(p);
    meet(p);
    CALL(send(p->fd, "two!", 4, MSG_OOB));
    CALL(send(p->fd, "at last", 7, 0));
    drain_to_eof(p->fd, 0);
    meet(p);
}

static void ends_and_hears(struct peer *p) {
    send_pattern(p->fd, 0, UNREAD, UNREAD);
    MUST(shutdown(p->fd, SHUT_WR));
    meet(p);
    meet(p);
    hears_urgent(p, 8);
    meet(p);
    hears_urgent(p, 10);
    meet(p);
}

// The peer is stopped, and its bytes are unread.
static void sends_to_the_stopped(struct peer *p) {
    pid_t peer = hear(p);
    await_stopped(peer);
    await_bytes(p->fd, UNREAD);
    CALL(send(p->fd, "one!", 4, MSG_OOB));
    CALL(send(p->fd, "after", 5, 0));
    MUST(kill(peer, SIGCONT));
    meet(p);
    CALL(send(p->fd, "!", 1, MSG_OOB));
    CALL(send(p->fd, "at last", 7, 0));
    MUST(shutdown(p->fd, SHUT_WR));
    drain_to_eof(p->fd, 0);
    meet(p);
}

static void stops_and_hears(struct peer *p) {
    send_pattern(p->fd, 0, UNREAD, UNREAD);
    tell(p, getpid());
    MUST(raise(SIGSTOP));
    hears_urgent(p, 8);
    meet(p);
    hears_urgent(p, 7);
    CALL(recv(p->fd, buffer, 10, 0));
    MUST(shutdown(p->fd, SHUT_WR));
    meet(p);
}

static const struct scenario scenarios[] = {
    {"the_urgent_byte_beside_the_stream", sends_urgent, beside},
    {"the_urgent_byte_in_line", sends_in_line, in_line},
    {"the_urgent_byte_from_the_client", beside, sends_urgent},
    {"an_urgent_byte_of_an_end_that_has_bytes_unread", sends_with_unread, hears_of_it, RAW},
    {"an_urgent_byte_behind_the_end_of_the_peer", sends_behind_the_end, ends_and_hears},
    {"an_urgent_byte_to_a_stopped_peer", sends_to_the_stopped, stops_and_hears},
};
SCENARIO_MAIN(scenarios)
