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

// The urgent byte is beside the stream.
static void beside(struct peer *p) {
    // All has been sent by now, and what is beyond the byte may have arrived with it.
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

// The urgent byte is in the stream, where it was sent.
static void in_line(struct peer *p) {
    int on = 1;
    signal(SIGURG, on_urgent);
    MUST(fcntl(p->fd, F_SETOWN, getpid()));
    MUST(setsockopt(p->fd, SOL_SOCKET, SO_OOBINLINE, &on, sizeof on));
    meet(p);
    meet(p);
    await_events(p->fd, POLLPRI | POLLIN, POLLPRI);
    // "before", the byte in its place, "after".
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

static const struct scenario scenarios[] = {
    {"the_urgent_byte_beside_the_stream", sends_urgent, beside},
    {"the_urgent_byte_in_line", sends_in_line, in_line},
    {"the_urgent_byte_from_the_client", beside, sends_urgent},
};
SCENARIO_MAIN(scenarios)
