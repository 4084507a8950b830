// Peers that die without closing: the errors that the survivor gets, and the call that reports them
// first. The server survives, the client dies.
#include "common.h"
#include <sys/select.h>

static char buffer[1 << 16];
static volatile sig_atomic_t pipe_signals;

static void count_pipe(int signal) {
    (void)signal;
    pipe_signals++;
}

static void catch_pipe(void) { signal(SIGPIPE, count_pipe); }

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

static void say_signals(void) { say("SIGPIPE %d", (int)pipe_signals); }

static void await_reset(struct peer *p) { await_events(p->fd, POLLIN, POLLHUP); }
static void await_end(struct peer *p) { await_events(p->fd, POLLIN | POLLRDHUP, POLLRDHUP); }

static void die_now(void) { kill(getpid(), SIGKILL); }

// --- the peer dies with unread bytes

static void dies_with_unread(struct peer *p) {
    await_bytes(p->fd, 1000);
    meet(p);
    die_now();
}

static void dies_unlooked(struct peer *p) {
    meet(p);
    nap(100);
    die_now();
}

static void dies_in_the_middle(struct peer *p) {
    recv_all(p->fd, buffer, 450);
    meet(p);
    die_now();
}

static void exits_with_unread(struct peer *p) {
    await_bytes(p->fd, 1000);
    meet(p);
    fflush(NULL);
    exit(0);
}

static void becomes_another(struct peer *p) {
    MUST(fcntl(p->fd, F_SETFD, FD_CLOEXEC));
    await_bytes(p->fd, 1000);
    meet(p);
    execl("/bin/sleep", "sleep", "1", (char *)NULL);
    die("no exec");
}

static void sends_and_dies_with_unread(struct peer *p) {
    send_pattern(p->fd, 0, 500, 50);
    await_bytes(p->fd, 1000);
    meet(p);
    die_now();
}

static void is_told_by_recv(struct peer *p) {
    catch_pipe();
    send_pattern(p->fd, 0, 1000, 100);
    meet(p);
    await_reset(p);
    say_events(p);
    CALL(recv(p->fd, buffer, 10, 0));
    say_events(p);
    CALL(recv(p->fd, buffer, 10, 0));
    CALL(send(p->fd, "x", 1, 0));
    say_signals();
    say_error(p);
    CALL(shutdown(p->fd, SHUT_RDWR));
}

// The first look at the connection is this call.
static void blocked_recv_is_told(struct peer *p) {
    send_pattern(p->fd, 0, 1000, 100);
    meet(p);
    CALL(recv(p->fd, buffer, 10, 0));
    CALL(recv(p->fd, buffer, 10, 0));
}

static void first_send_is_told(struct peer *p) {
    catch_pipe();
    send_pattern(p->fd, 0, 1000, 100);
    meet(p);
    await_end(p);
    // The kernel closes a socket step by step.
    nap(50);
    CALL(send(p->fd, "x", 1, 0));
    CALL(send(p->fd, "x", 1, 0));
    say_signals();
}

static void is_told_by_peek(struct peer *p) {
    send_pattern(p->fd, 0, 1000, 100);
    meet(p);
    await_reset(p);
    CALL(recv(p->fd, buffer, 10, MSG_PEEK));
    CALL(recv(p->fd, buffer, 10, MSG_PEEK));
    CALL(recv(p->fd, buffer, 10, 0));
}

static void is_told_by_send(struct peer *p) {
    catch_pipe();
    send_pattern(p->fd, 0, 1000, 100);
    meet(p);
    await_reset(p);
    CALL(send(p->fd, "x", 1, 0));
    say_signals();
    CALL(send(p->fd, "x", 1, 0));
    say_signals();
    CALL(send(p->fd, "x", 1, MSG_NOSIGNAL));
    CALL(write(p->fd, "", 0));
    say_signals();
    CALL(recv(p->fd, buffer, 10, 0));
    say_events(p);
}

static void is_told_by_so_error(struct peer *p) {
    send_pattern(p->fd, 0, 1000, 100);
    meet(p);
    await_reset(p);
    say_error(p);
    say_events(p);
    say_error(p);
    CALL(recv(p->fd, buffer, 10, 0));
    CALL(send(p->fd, "x", 1, MSG_NOSIGNAL));
}

static void is_told_by_writev(struct peer *p) {
    catch_pipe();
    send_pattern(p->fd, 0, 1000, 100);
    meet(p);
    await_reset(p);
    struct iovec two[] = {{"x", 1}, {"y", 1}};
    CALL(writev(p->fd, two, 2));
    say_signals();
    CALL(writev(p->fd, two, 2));
    say_signals();
}

static void reads_the_last_bytes(struct peer *p) {
    send_pattern(p->fd, 0, 1000, 100);
    await_bytes(p->fd, 500);
    meet(p);
    await_reset(p);
    say_events(p);
    recv_pattern(p->fd, 0, 500, 200);
    CALL(recv(p->fd, buffer, 10, 0));
    CALL(recv(p->fd, buffer, 10, 0));
}

static void waits_by_epoll(struct peer *p, uint32_t how) {
    struct epoll_event event = {.events = EPOLLIN | EPOLLOUT | EPOLLRDHUP | how};
    int set = MUST(epoll_create1(0));
    send_pattern(p->fd, 0, 1000, 100);
    MUST(epoll_ctl(set, EPOLL_CTL_ADD, p->fd, &event));
    meet(p);
    // The kernel closes a socket step by step, so a look in between finds only HUP.
    do
        MUST(epoll_wait(set, &event, 1, -1));
    while (~event.events & (EPOLLHUP | EPOLLRDHUP));
    say("%s", epoll_names(event.events));
    CALL(recv(p->fd, buffer, 10, 0));
}

static void waits_by_level(struct peer *p) { waits_by_epoll(p, 0); }
static void waits_by_edge(struct peer *p) { waits_by_epoll(p, EPOLLET); }

// --- the peer dies with no unread bytes, which is a normal end

static void reads_all_and_dies(struct peer *p) {
    recv_pattern(p->fd, 0, 1000, 300);
    meet(p);
    die_now();
}

static void sees_a_quiet_end(struct peer *p) {
    catch_pipe();
    send_pattern(p->fd, 0, 1000, 100);
    meet(p);
    await_end(p);
    say_events(p);
    CALL(recv(p->fd, buffer, 10, 0));
    say_error(p);
    CALL(send(p->fd, "x", 1, 0));
    await_reset(p);
    say_events(p);
    CALL(send(p->fd, "x", 1, 0));
    say_signals();
}

// --- writers that wait for room

static void dies_when_it_is_full(struct peer *p) {
    meet(p);
    nap(200);
    die_now();
}

static void exits_when_it_is_full(struct peer *p) {
    meet(p);
    nap(200);
    exit(0);
}

static void becomes_another_when_it_is_full(struct peer *p) {
    MUST(fcntl(p->fd, F_SETFD, FD_CLOEXEC));
    meet(p);
    nap(200);
    execl("/bin/sleep", "sleep", "1", (char *)NULL);
    die("no exec");
}

static void fill_it(struct peer *p) {
    set_nonblocking(p->fd, true);
    int64_t quiet = now_ms();
    while (now_ms() - quiet < 50)
        if (send(p->fd, buffer, sizeof buffer, MSG_NOSIGNAL) > 0)
            quiet = now_ms();
        else
            nap(1);
}

static void writes_blocked(struct peer *p) {
    catch_pipe();
    fill_it(p);
    set_nonblocking(p->fd, false);
    meet(p);
    // Room for a part may appear while the call waits.
    while (write(p->fd, buffer, sizeof buffer) > 0)
        ;
    say("%s", strerrorname_np(errno));
    say_signals();
    CALL(write(p->fd, buffer, sizeof buffer));
    say_signals();
    CALL(recv(p->fd, buffer, 10, 0));
}

static void writes_much_blocked(struct peer *p) {
    catch_pipe();
    static char much[64 << 20];
    meet(p);
    ssize_t sent = write(p->fd, much, sizeof much);
    say("%s", sent > 0 && sent < (ssize_t)sizeof much ? "a part" : "not a part");
    say_signals();
    CALL(write(p->fd, buffer, 10));
    say_signals();
    CALL(write(p->fd, buffer, 10));
    say_signals();
}

static void polls_for_room(struct peer *p) {
    fill_it(p);
    meet(p);
    struct pollfd one = {.fd = p->fd, .events = POLLOUT};
    CALL(poll(&one, 1, -1));
    say("%s", poll_names(one.revents));
    CALL(send(p->fd, "x", 1, MSG_NOSIGNAL));
}

static void selects_for_room(struct peer *p) {
    fill_it(p);
    meet(p);
    fd_set room;
    FD_ZERO(&room);
    FD_SET(p->fd, &room);
    CALL(select(p->fd + 1, NULL, &room, NULL, NULL));
    CALL(send(p->fd, "x", 1, MSG_NOSIGNAL));
}

static void epolls_for_room(struct peer *p, uint32_t how) {
    struct epoll_event event = {.events = EPOLLOUT | how};
    int set = MUST(epoll_create1(0));
    fill_it(p);
    MUST(epoll_ctl(set, EPOLL_CTL_ADD, p->fd, &event));
    CALL(epoll_wait(set, &event, 1, 0));
    meet(p);
    CALL(epoll_wait(set, &event, 1, -1));
    say("%s", epoll_names(event.events));
    CALL(send(p->fd, "x", 1, MSG_NOSIGNAL));
}

static void epolls_level(struct peer *p) { epolls_for_room(p, 0); }
static void epolls_edge(struct peer *p) { epolls_for_room(p, EPOLLET); }
static void epolls_once(struct peer *p) { epolls_for_room(p, EPOLLONESHOT); }

// The other direction is still on TCP, and full: a FIN would come after bytes that are never read.
static void fills_tcp_and_dies(struct peer *p) {
    fill_it(p);
    set_nonblocking(p->fd, false);
    meet(p);
    for (int i = 0; i < 50; i++)
        recv_all(p->fd, buffer, 64);
    meet(p);
    nap(200);
    die_now();
}

static void writes_to_the_full(struct peer *p) {
    meet(p);
    for (int i = 0; i < 50; i++) {
        send_all(p->fd, buffer, 64);
        nap(1);
    }
    fill_it(p);
    meet(p);
    struct pollfd one = {.fd = p->fd, .events = POLLOUT};
    CALL(poll(&one, 1, -1));
    say("%s", poll_names(one.revents & ~POLLIN));
    CALL(send(p->fd, "x", 1, MSG_NOSIGNAL));
    CALL(send(p->fd, "x", 1, MSG_NOSIGNAL));
}

// The dead end had closed its sending half, so the kernel sends no second FIN.
static void closes_half_and_dies(struct peer *p) {
    MUST(shutdown(p->fd, SHUT_WR));
    dies_when_it_is_full(p);
}

static void writes_to_the_half_closed(struct peer *p) {
    catch_pipe();
    await_end(p);
    fill_it(p);
    meet(p);
    struct pollfd one = {.fd = p->fd, .events = POLLOUT};
    CALL(poll(&one, 1, -1));
    say("%s", poll_names(one.revents));
    CALL(recv(p->fd, buffer, 10, 0));
    say_error(p);
    CALL(send(p->fd, "x", 1, 0));
    say_signals();
}

// A child is the last to hold the stream, while the program lives. Only its death ends the stream, long after the
// other half.
static void child_closes_half_and_dies(struct peer *p) {
    pid_t child = MUST(fork());
    if (child == 0) {
        MUST(shutdown(p->fd, SHUT_WR));
        nap(1500);
        dies_when_it_is_full(p);
    }
    MUST(close(p->fd));
    int status;
    MUST(waitpid(child, &status, 0));
    say_status("child", status);
    hear(p);
}

static void writes_to_the_half_closed_child(struct peer *p) {
    writes_to_the_half_closed(p);
    tell(p, 0);
}

// --- two processes share the dying end

static void two_die(struct peer *p) {
    pid_t parent = getpid();
    await_bytes(p->fd, 1000);
    if (MUST(fork()) == 0) {
        nap(100);
        MUST(kill(parent, SIGKILL));
        nap(100);
        tell(p, 1);
        hear(p);
        die_now();
    }
    pause();
}

static void one_of_two_dies(struct peer *p) {
    await_bytes(p->fd, 1000);
    pid_t child = MUST(fork());
    if (child == 0)
        pause();
    nap(100);
    MUST(kill(child, SIGKILL));
    MUST(waitpid(child, NULL, 0));
    tell(p, 1);
    hear(p);
    die_now();
}

static void outlives_two(struct peer *p) {
    send_pattern(p->fd, 0, 1000, 100);
    hear(p);
    // The other process still holds the stream.
    struct pollfd one = {.fd = p->fd, .events = POLLIN | POLLRDHUP};
    CALL(poll(&one, 1, 200));
    tell(p, 1);
    await_reset(p);
    say_events(p);
    CALL(recv(p->fd, buffer, 10, 0));
    CALL(recv(p->fd, buffer, 10, 0));
}

static void two_die_full(struct peer *p) {
    pid_t parent = getpid();
    meet(p);
    if (MUST(fork()) == 0) {
        nap(100);
        MUST(kill(parent, SIGKILL));
        nap(300);
        die_now();
    }
    pause();
}

static const struct scenario scenarios[] = {
    {"unread_bytes_are_told_by_recv", is_told_by_recv, dies_with_unread},
    {"unread_bytes_that_nothing_looked_at", is_told_by_recv, dies_unlooked},
    {"bytes_read_in_part", is_told_by_recv, dies_in_the_middle},
    {"unread_bytes_are_told_by_peek", is_told_by_peek, dies_with_unread},
    {"unread_bytes_are_told_by_send", is_told_by_send, dies_with_unread},
    {"unread_bytes_are_told_by_so_error", is_told_by_so_error, dies_with_unread},
    {"unread_bytes_are_told_by_writev", is_told_by_writev, dies_with_unread},
    {"unread_bytes_end_a_blocked_recv", blocked_recv_is_told, dies_with_unread},
    {"unread_bytes_are_told_by_the_first_send", first_send_is_told, dies_with_unread},
    {"unread_bytes_at_exit", is_told_by_recv, exits_with_unread},
    {"unread_bytes_at_exec", is_told_by_recv, becomes_another},
    {"last_bytes_come_before_the_reset", reads_the_last_bytes, sends_and_dies_with_unread},
    {"a_level_is_told_of_a_reset", waits_by_level, dies_with_unread},
    {"an_edge_is_told_of_a_reset", waits_by_edge, dies_with_unread},
    {"a_death_with_all_read_is_a_quiet_end", sees_a_quiet_end, reads_all_and_dies},
    {"a_death_ends_a_blocked_write", writes_blocked, dies_when_it_is_full},
    {"a_death_ends_a_long_write", writes_much_blocked, dies_when_it_is_full},
    {"a_death_shows_in_poll_for_room", polls_for_room, dies_when_it_is_full},
    {"a_death_shows_in_select_for_room", selects_for_room, dies_when_it_is_full},
    {"a_death_shows_in_epoll_for_room", epolls_level, dies_when_it_is_full},
    {"a_death_shows_as_an_edge_for_room", epolls_edge, dies_when_it_is_full},
    {"a_death_shows_in_a_oneshot_for_room", epolls_once, dies_when_it_is_full},
    {"an_exit_shows_in_poll_for_room", polls_for_room, exits_when_it_is_full},
    {"an_exec_shows_in_poll_for_room", polls_for_room, becomes_another_when_it_is_full},
    {"an_exit_shows_in_epoll_for_room", epolls_level, exits_when_it_is_full},
    {"an_exec_shows_in_epoll_for_room", epolls_level, becomes_another_when_it_is_full},
    {"a_death_behind_full_tcp", writes_to_the_full, fills_tcp_and_dies},
    {"a_death_of_the_half_closed", writes_to_the_half_closed, closes_half_and_dies},
    {"a_child_of_the_half_closed_dies", writes_to_the_half_closed_child, child_closes_half_and_dies},
    {"both_of_two_die", outlives_two, two_die},
    {"a_child_dies_and_then_its_parent", outlives_two, one_of_two_dies},
    {"both_of_two_die_with_a_writer_waiting", polls_for_room, two_die_full},
};
SCENARIO_MAIN(scenarios)
