// Half and full close, the end of a stream, and writing to a dead peer.
#include "common.h"

#include <sched.h>

static char buffer[70000];
static volatile sig_atomic_t pipe_signals;

static void count_pipe(int signal) {
    (void)signal;
    pipe_signals++;
}

static void catch_pipe(void) { signal(SIGPIPE, count_pipe); }

static void say_events(struct peer *p) {
    struct pollfd one = {.fd = p->fd, .events = POLLIN | POLLOUT | POLLRDHUP | POLLPRI};
    MUST(poll(&one, 1, 0));
    say("events %s", poll_names(one.revents));
}

static void say_error(struct peer *p) {
    int error = -1;
    socklen_t length = sizeof error;
    MUST(getsockopt(p->fd, SOL_SOCKET, SO_ERROR, &error, &length));
    say("SO_ERROR %s", error ? strerrorname_np(error) : "none");
}

static void await_end(struct peer *p) { await_events(p->fd, POLLIN | POLLRDHUP, POLLRDHUP); }
static void await_reset(struct peer *p) { await_events(p->fd, POLLIN, POLLHUP); }

// One end finishes sending; the other one continues, and then closes.
static void closes_first(struct peer *p) {
    send_pattern(p->fd, 0, 1000, 1000);
    CALL(shutdown(p->fd, SHUT_WR));
    CALL(send(p->fd, "x", 1, MSG_NOSIGNAL));
    meet(p);
    recv_pattern(p->fd, 0, 300000, 65536);
    meet(p);
    await_end(p);
    say_events(p);
    CALL(recv(p->fd, buffer, 1, 0));
    CALL(close(p->fd));
}

static void goes_on(struct peer *p) {
    meet(p);
    await_end(p);
    say_events(p);
    drain_to_eof(p->fd, 0);
    CALL(recv(p->fd, buffer, 1, 0));
    CALL(read(p->fd, buffer, 1));
    CALL(recv(p->fd, buffer, 1, MSG_PEEK));
    CALL(recv(p->fd, buffer, 1, MSG_DONTWAIT));
    CALL(recv(p->fd, buffer, 10, MSG_WAITALL));
    say_events(p);
    int there = -1;
    CALL(ioctl(p->fd, FIONREAD, &there));
    say("%d there", there);
    send_pattern(p->fd, 0, 300000, 65536);
    meet(p);
    CALL(close(p->fd));
}

static void shut_reading(struct peer *p) {
    CALL(shutdown(p->fd, SHUT_RD));
    CALL(recv(p->fd, buffer, 10, 0));
    say_events(p);
    meet(p);
    meet(p);
    // Later bytes can be read nevertheless.
    await_bytes(p->fd, 5);
    say_text("received", buffer, recv(p->fd, buffer, 10, 0));
    CALL(recv(p->fd, buffer, 10, 0));
    CALL(send(p->fd, "still", 5, 0));
    meet(p);
}

static void sends_to_shut(struct peer *p) {
    meet(p);
    CALL(send(p->fd, "hello", 5, 0));
    meet(p);
    recv_all(p->fd, buffer, 5);
    say_text("received", buffer, 5);
    say_events(p);
    meet(p);
}

static void shut_both(struct peer *p) {
    catch_pipe();
    send_all(p->fd, "last words", 10);
    CALL(shutdown(p->fd, SHUT_RDWR));
    CALL(recv(p->fd, buffer, 10, 0));
    CALL(send(p->fd, "x", 1, 0));
    say("SIGPIPE %d", (int)pipe_signals);
    CALL(shutdown(p->fd, SHUT_WR));
    meet(p);
    meet(p);
}

static void sees_both_shut(struct peer *p) {
    meet(p);
    await_end(p);
    say_text("received", buffer, recv(p->fd, buffer, 100, 0));
    CALL(recv(p->fd, buffer, 10, 0));
    say_events(p);
    meet(p);
}

// Prints the state of a connection after a reset. The reset was caused by bytes that arrived when
// both halves were shut.
static void say_what_is_left(struct peer *p) {
    say_events(p);
    CALL(send(p->fd, "x", 1, 0));
    say("SIGPIPE %d", (int)pipe_signals);
    say_error(p);
    CALL(recv(p->fd, buffer, 10, 0));
    meet(p);
}

// Bytes that arrive after both halves are shut reset the connection, although no process has closed
// it.
static void shuts_both_and_stays(struct peer *p) {
    catch_pipe();
    CALL(shutdown(p->fd, SHUT_RD));
    CALL(shutdown(p->fd, SHUT_WR));
    meet(p);
    meet(p);
    say_what_is_left(p);
}

static void sends_where_both_are_shut(struct peer *p) {
    catch_pipe();
    meet(p);
    await_end(p);
    CALL(send(p->fd, "x", 1, 0));
    await_reset(p);
    meet(p);
    say_what_is_left(p);
}

// A writer that continues until there is no room gets the reset too.
static void sends_on_where_both_are_shut(struct peer *p) {
    meet(p);
    await_end(p);
    ssize_t sent;
    do
        sent = send(p->fd, buffer, sizeof buffer, MSG_NOSIGNAL);
    while (sent >= 0);
    say("%s in the end", strerrorname_np(errno));
    meet(p);
}

static void shuts_both_at_once(struct peer *p) {
    CALL(shutdown(p->fd, SHUT_RDWR));
    meet(p);
    meet(p);
}

// Unread bytes count, even if the program would not have read them.
static void closes_with_unread_after_shutting(struct peer *p) {
    meet(p);
    await_bytes(p->fd, 1000);
    CALL(shutdown(p->fd, SHUT_RD));
    CALL(close(p->fd));
    meet(p);
}

static void is_reset_by_that(struct peer *p) {
    send_pattern(p->fd, 0, 1000, 1000);
    meet(p);
    meet(p);
    await_reset(p);
    say_events(p);
    say_error(p);
    CALL(recv(p->fd, buffer, 10, 0));
    CALL(send(p->fd, "x", 1, MSG_NOSIGNAL));
}

// Writing after this end's own shutdown: EPIPE and a signal for each call.
static void own_shutdown(struct peer *p) {
    catch_pipe();
    CALL(shutdown(p->fd, SHUT_WR));
    CALL(shutdown(p->fd, SHUT_WR));
    CALL(send(p->fd, "x", 1, 0));
    say("SIGPIPE %d", (int)pipe_signals);
    CALL(write(p->fd, "x", 1));
    say("SIGPIPE %d", (int)pipe_signals);
    struct iovec one = {"x", 1};
    CALL(writev(p->fd, &one, 1));
    say("SIGPIPE %d", (int)pipe_signals);
    struct msghdr message = {.msg_iov = &one, .msg_iovlen = 1};
    CALL(sendmsg(p->fd, &message, 0));
    say("SIGPIPE %d", (int)pipe_signals);
    CALL(sendmsg(p->fd, &message, MSG_NOSIGNAL));
    CALL(send(p->fd, "x", 1, MSG_NOSIGNAL | MSG_DONTWAIT));
    CALL(write(p->fd, "x", 0));
    say("SIGPIPE %d", (int)pipe_signals);
    say_events(p);
    signal(SIGPIPE, SIG_DFL);
    fflush(NULL);
    pid_t child = MUST(fork());
    if (child == 0) {
        CALL(write(p->fd, "x", 1));
        _exit(0);
    }
    int status;
    MUST(waitpid(child, &status, 0));
    say_status("child", status);
    meet(p);
}

static void reads_end(struct peer *p) {
    CALL(recv(p->fd, buffer, 10, 0));
    meet(p);
}

// The peer closes with everything read: the first write goes out, the next fail.
static void writes_after_close(struct peer *p) {
    catch_pipe();
    meet(p);
    await_end(p);
    say_events(p);
    CALL(send(p->fd, "x", 1, 0));
    await_reset(p);
    say_events(p);
    CALL(send(p->fd, "x", 1, 0));
    say("SIGPIPE %d", (int)pipe_signals);
    CALL(send(p->fd, "x", 1, 0));
    say("SIGPIPE %d", (int)pipe_signals);
    CALL(recv(p->fd, buffer, 10, 0));
    say_error(p);
    CALL(shutdown(p->fd, SHUT_RDWR));
    CALL(close(p->fd));
}

static void closes(struct peer *p) {
    CALL(close(p->fd));
    meet(p);
}

// The peer closes with unread bytes: a reset, after what it had sent.
static void closes_with_unread(struct peer *p) {
    send_all(p->fd, "goodbye", 7);
    meet(p);
    await_bytes(p->fd, 1000);
    CALL(recv(p->fd, buffer, 400, 0));
    CALL(close(p->fd));
    meet(p);
}

static void is_reset(struct peer *p) {
    send_pattern(p->fd, 0, 1000, 1000);
    await_bytes(p->fd, 7);
    meet(p);
    meet(p);
    await_reset(p);
    say_events(p);
    say_text("received", buffer, recv(p->fd, buffer, 100, 0));
    CALL(recv(p->fd, buffer, 100, 0));
    CALL(recv(p->fd, buffer, 100, 0));
    CALL(send(p->fd, "x", 1, MSG_NOSIGNAL));
    say_error(p);
    say_events(p);
}

// The peer closes with unread bytes. The reset is reported once all of its own bytes have been
// read.
static void is_reset_having_read(struct peer *p) {
    send_pattern(p->fd, 0, 1000, 1000);
    await_bytes(p->fd, 7);
    recv_all(p->fd, buffer, 7);
    meet(p);
    meet(p);
    await_reset(p);
}

static void is_reset_asks(struct peer *p) {
    is_reset_having_read(p);
    say_error(p);
    say_error(p);
    CALL(recv(p->fd, buffer, 100, 0));
    CALL(send(p->fd, "x", 1, MSG_NOSIGNAL));
    CALL(shutdown(p->fd, SHUT_WR));
}

static void is_reset_shuts(struct peer *p) {
    is_reset_having_read(p);
    CALL(shutdown(p->fd, SHUT_WR));
    CALL(shutdown(p->fd, SHUT_RD));
    say_events(p);
    say_error(p);
}

// The error comes before the end caused by this end's own shutdown.
static void is_reset_after_shutting(struct peer *p) {
    send_pattern(p->fd, 0, 1000, 1000);
    await_bytes(p->fd, 7);
    recv_all(p->fd, buffer, 7);
    CALL(shutdown(p->fd, SHUT_RD));
    CALL(recv(p->fd, buffer, 10, 0));
    meet(p);
    meet(p);
    await_reset(p);
    CALL(recv(p->fd, buffer, 10, 0));
    say_events(p);
    CALL(recv(p->fd, buffer, 10, 0));
    say_error(p);
}

// Both ends have finished sending before one of them closes with unread bytes: no reset.
static void closes_with_unread_after_both_ended(struct peer *p) {
    CALL(shutdown(p->fd, SHUT_WR));
    meet(p);
    meet(p);
    await_bytes(p->fd, 20000);
    await_end(p);
    CALL(close(p->fd));
    meet(p);
}

static void ends_after_the_other(struct peer *p) {
    meet(p);
    await_end(p);
    send_pattern(p->fd, 0, 20000, 20000);
    CALL(shutdown(p->fd, SHUT_WR));
    meet(p);
    meet(p);
    await_reset(p);
    say_events(p);
    say_error(p);
    CALL(recv(p->fd, buffer, 10, 0));
}

// A write of zero bytes leaves the error pending if the kernel does.
static void is_reset_writes_nothing(struct peer *p) {
    is_reset_having_read(p);
    struct iovec none[2] = {{buffer, 0}, {buffer, 0}};
    CALL(writev(p->fd, none, 2));
    CALL(readv(p->fd, none, 2));
    CALL(read(p->fd, buffer, 0));
    say_events(p);
    CALL(write(p->fd, buffer, 0));
    say_error(p);
}

static void is_reset_sends(struct peer *p) {
    catch_pipe();
    is_reset_having_read(p);
    CALL(send(p->fd, "x", 1, 0));
    say("SIGPIPE %d", (int)pipe_signals);
    CALL(send(p->fd, "x", 1, 0));
    say("SIGPIPE %d", (int)pipe_signals);
    CALL(recv(p->fd, buffer, 100, 0));
}

static void lingers_zero(struct peer *p) {
    struct linger none = {.l_onoff = 1, .l_linger = 0};
    CALL(setsockopt(p->fd, SOL_SOCKET, SO_LINGER, &none, sizeof none));
    meet(p);
    CALL(close(p->fd));
    meet(p);
}

static void lingered_at(struct peer *p) {
    meet(p);
    meet(p);
    await_reset(p);
    say_events(p);
    CALL(recv(p->fd, buffer, 10, 0));
    CALL(recv(p->fd, buffer, 10, 0));
    CALL(send(p->fd, "x", 1, MSG_NOSIGNAL));
}

// A close that waits returns once the bytes have arrived.
static void lingers(struct peer *p) {
    struct linger some = {.l_onoff = 1, .l_linger = 10};
    CALL(setsockopt(p->fd, SOL_SOCKET, SO_LINGER, &some, sizeof some));
    send_pattern(p->fd, 0, 50000, 50000);
    int64_t start = now_ms();
    CALL(close(p->fd));
    say_elapsed(start, 0, 5000);
    meet(p);
}

static void lingered_for(struct peer *p) {
    drain_to_eof(p->fd, 0);
    meet(p);
}

static void reads_blocked(struct peer *p) {
    meet(p);
    CALL(recv(p->fd, buffer, 10, 0));
    CALL(recv(p->fd, buffer, 10, 0));
    meet(p);
}

static void ends_blocked_reader(struct peer *p) {
    meet(p);
    nap(100);
    CALL(close(p->fd));
    meet(p);
}

static void resets_blocked_reader(struct peer *p) {
    struct linger none = {.l_onoff = 1, .l_linger = 0};
    MUST(setsockopt(p->fd, SOL_SOCKET, SO_LINGER, &none, sizeof none));
    ends_blocked_reader(p);
}

static void sends_much_and_exits(struct peer *p) {
    send_pattern(p->fd, 0, 3000000, 100000);
    say("sent");
}

static void reads_it_slowly(struct peer *p) {
    nap(200);
    drain_to_eof(p->fd, 0);
}

static void both_say_goodbye(struct peer *p) {
    send_pattern(p->fd, 0, 2000, 2000);
    meet(p);
    CALL(shutdown(p->fd, SHUT_WR));
    drain_to_eof(p->fd, 0);
    meet(p);
    say_events(p);
    CALL(send(p->fd, "x", 1, MSG_NOSIGNAL));
    CALL(recv(p->fd, buffer, 10, 0));
    CALL(close(p->fd));
}

// One half is shut before the ends can have met, and the other half continues.
enum { AFTER_IT = 40, LENGTH = 100 };

static void shuts_early(struct peer *p) {
    MUST(shutdown(p->fd, SHUT_WR));
    recv_pattern(p->fd, 0, AFTER_IT * LENGTH, LENGTH);
    for (int i = 0; i < 3; i++)
        CALL(send(p->fd, "late", 4, MSG_NOSIGNAL));
    meet(p);
}

static void goes_on_after_an_early_end(struct peer *p) {
    char late[8];
    CALL(recv(p->fd, late, sizeof late, 0));
    for (int i = 0; i < AFTER_IT; i++) {
        send_pattern(p->fd, i * LENGTH, LENGTH, LENGTH);
        // Each transfer allows the other end a step of the rendezvous.
        nap(5);
        if (MUST(recv(p->fd, late, sizeof late, 0)) != 0)
            die("more than an end");
    }
    meet(p);
    CALL(recv(p->fd, late, sizeof late, MSG_DONTWAIT));
}

static void wrong_how(struct peer *p) {
    CALL(shutdown(p->fd, 3));
    CALL(shutdown(p->fd, -1));
    say_alive(p->fd, p->server, "after it");
}

// A peer's last bytes come before its end. This holds also for calls that only peek, and if a thread
// that handles messages runs late because all threads share one processor.
#define LAST "last words"
#define FAREWELLS 40

static void looks_at_last_words(struct peer *p) {
    cpu_set_t here;
    CPU_ZERO(&here);
    CPU_SET(sched_getcpu(), &here);
    MUST(sched_setaffinity(0, sizeof here, &here));
    p->listener = listen_on(p, AF_INET, "farewells");
    int whole = 0;
    for (int i = 0; i < FAREWELLS; i++) {
        int fd = accept_one(p->listener);
        warm(fd, true);
        char last[sizeof LAST] = "";
        ssize_t got;
        do
            got = recv(fd, last, sizeof last, MSG_PEEK | MSG_DONTWAIT);
        while (got < 0 && errno == EAGAIN);
        whole += got == (ssize_t)strlen(LAST) && !strcmp(last, LAST);
        recv_all(fd, last, strlen(LAST));
        struct pollfd end = {.fd = fd, .events = POLLIN};
        MUST(poll(&end, 1, -1));
        if (MUST(recv(fd, last, 1, MSG_PEEK | MSG_DONTWAIT)) != 0)
            die("something comes after the last words");
        close(fd);
    }
    say("%d of %d seen whole", whole, FAREWELLS);
}

static void says_last_words(struct peer *p) {
    for (int i = 0; i < FAREWELLS; i++) {
        int fd = connect_to(p, AF_INET, "farewells");
        warm(fd, false);
        send_all(fd, LAST, strlen(LAST));
        close(fd);
    }
}

static const struct scenario scenarios[] = {
    {"the_client_closes_half", goes_on, closes_first},
    {"the_server_closes_half", closes_first, goes_on},
    {"half_close_over_ipv6", closes_first, goes_on, V6},
    {"half_close_of_a_fresh_connection", closes_first, goes_on, COLD},
    {"shut_before_the_ends_meet", shuts_early, goes_on_after_an_early_end, COLD},
    {"shutting_the_reading_half", sends_to_shut, shut_reading},
    {"shutting_both_halves", shut_both, sees_both_shut},
    {"bytes_where_both_halves_are_shut", shuts_both_and_stays, sends_where_both_are_shut},
    {"many_bytes_where_both_halves_are_shut", shuts_both_at_once, sends_on_where_both_are_shut},
    {"closing_with_unread_bytes_and_the_reading_half_shut", closes_with_unread_after_shutting,
     is_reset_by_that},
    {"writing_after_ones_own_shutdown", own_shutdown, reads_end},
    {"writing_after_the_peer_closed", writes_after_close, closes},
    {"closing_with_unread_bytes_resets", closes_with_unread, is_reset},
    {"a_reset_is_told_once_by_so_error", closes_with_unread, is_reset_asks},
    {"a_reset_connection_cannot_be_shut", closes_with_unread, is_reset_shuts},
    {"a_reset_is_told_after_shutting_the_reading_half", closes_with_unread, is_reset_after_shutting},
    {"unread_bytes_where_both_have_ended", closes_with_unread_after_both_ended, ends_after_the_other},
    {"a_write_of_nothing_leaves_the_reset", closes_with_unread, is_reset_writes_nothing},
    {"a_reset_is_told_once_by_send", closes_with_unread, is_reset_sends},
    {"lingering_zero_resets", lingered_at, lingers_zero},
    {"lingering_waits_no_longer_than_needed", lingered_for, lingers},
    {"a_close_ends_a_blocked_read", reads_blocked, ends_blocked_reader},
    {"a_reset_ends_a_blocked_read", reads_blocked, resets_blocked_reader},
    {"what_was_sent_before_exit_arrives", sends_much_and_exits, reads_it_slowly},
    {"both_close_half_at_once", both_say_goodbye, both_say_goodbye},
    {"last_words_are_seen_before_the_end", looks_at_last_words, says_last_words, RAW},
    {"a_wrong_half_is_refused", wrong_how, wrong_how},
};
SCENARIO_MAIN(scenarios)
