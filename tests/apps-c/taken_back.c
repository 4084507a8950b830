// Connections that fall back to TCP while other threads are in calls on them. Threads and children cause the
// fallback, and some children do not live until its end.
#include "common.h"
#include <sys/ioctl.h>

#include <linux/filter.h>
#include <linux/seccomp.h>
#include <setjmp.h>
#include <signal.h>
#include <sys/prctl.h>

#define CONNECTIONS 8
#define PIECE 65536

static uint64_t total = 12 << 20;

// Uses of a descriptor that only the kernel can serve.
enum act { STANDARD_INPUT, PASSED, INHERITED, ACTS };

static void act(enum act act, int fd) {
    if (act == STANDARD_INPUT) {
        MUST(dup2(fd, 0));
    } else if (act == PASSED) {
        int pair[2];
        MUST(socketpair(AF_UNIX, SOCK_STREAM, 0, pair));
        hand_over(pair[0], fd);
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

// The number stays in use, so that the next connection does not get it.
static void give_back_standard_input(void) {
    int null = MUST(open("/dev/null", O_RDONLY));
    MUST(dup2(null, 0));
    close(null);
}

static void *sends(void *argument) {
    int fd = *(int *)argument;
    static __thread char piece[PIECE];
    for (uint64_t sent = 0; sent < total; sent += PIECE) {
        fill(piece, PIECE, sent);
        send_all(fd, piece, PIECE);
    }
    MUST(shutdown(fd, SHUT_WR));
    return NULL;
}

static void *reads(void *argument) {
    int fd = *(int *)argument;
    char byte;
    recv_pattern(fd, 0, total, PIECE);
    if (recv(fd, &byte, 1, 0) != 0)
        die("more than was sent");
    return NULL;
}

// Waits as `next` says, and reads the bytes.
static void reads_when(int fd, int (*next)(int, int), int set) {
    static __thread char piece[PIECE];
    uint64_t read = 0;
    for (;;) {
        if (next(fd, set) < 0)
            die("the wait failed: %s", strerrorname_np(errno));
        ssize_t got = recv(fd, piece, sizeof piece, MSG_DONTWAIT);
        if (got > 0 && !matches(piece, got, read))
            die_of_wrong_bytes(piece, got, read);
        if (got > 0)
            read += got;
        else if (got == 0)
            break;
        else if (errno != EAGAIN)
            die("recv: %s", strerrorname_np(errno));
    }
    if (read != total)
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

// For each connection: this end's threads, and the action of the main thread meanwhile.
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
        give_back_standard_input();
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

// Causes of a fallback at an end that both sends and receives; they may end before the fallback is
// complete.
enum taker { NOTHING, CHILD, KILLED_CHILD, CANCELLED_THREAD, JUMPING_HANDLER };

// Number of connections; the moment at which a taker is stopped moves from one to the next.
enum { TAKEN = 24 };

static sigjmp_buf landing;
static volatile sig_atomic_t may_jump;

static void jumps(int signal) {
    (void)signal;
    if (may_jump)
        siglongjmp(landing, 1);
}

static void *acts(void *argument) {
    int fd = *(int *)argument;
    if (sigsetjmp(landing, 1) == 0) {
        may_jump = 1;
        act(STANDARD_INPUT, fd);
    }
    may_jump = 0;
    return NULL;
}

static void take(enum taker taker, int i, int fd) {
    int moment = i * 53 % 400;
    if (taker == CHILD || taker == KILLED_CHILD) {
        pid_t child = MUST(fork());
        if (child == 0) {
            act(i % ACTS, fd);
            _exit(0);
        }
        if (taker == KILLED_CHILD) {
            usleep(moment);
            MUST(kill(child, SIGKILL));
        }
        MUST(waitpid(child, NULL, 0));
        return;
    }
    pthread_t thread;
    signal(SIGUSR1, jumps);
    pthread_create(&thread, NULL, acts, &fd);
    usleep(moment);
    if (taker == CANCELLED_THREAD)
        pthread_cancel(thread);
    else
        pthread_kill(thread, SIGUSR1);
    pthread_join(thread, NULL);
}

// Sends and receives at the same time, and waits only for edges.
static void *moves_by_edges(void *argument) {
    int fd = *(int *)argument, set = MUST(epoll_create1(0));
    struct epoll_event event = {.events = EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET};
    static __thread char piece[PIECE];
    uint64_t sent = 0, read = 0;
    bool ended = false;
    MUST(epoll_ctl(set, EPOLL_CTL_ADD, fd, &event));
    while (sent < total || !ended) {
        MUST(epoll_wait(set, &event, 1, -1));
        ssize_t n;
        while (sent < total) {
            fill(piece, PIECE, sent);
            n = send(fd, piece, PIECE - sent % PIECE, MSG_DONTWAIT | MSG_NOSIGNAL);
            if (n < 0 && errno != EAGAIN)
                die("send: %s", strerrorname_np(errno));
            if (n < 0)
                break;
            sent += n;
            if (sent == total)
                MUST(shutdown(fd, SHUT_WR));
        }
        while (!ended && (n = recv(fd, piece, sizeof piece, MSG_DONTWAIT)) >= 0) {
            if (n > 0 && !matches(piece, n, read))
                die("other bytes than those from %llu on", (unsigned long long)read);
            read += n;
            ended = n == 0;
        }
        if (!ended && errno != EAGAIN)
            die("recv: %s", strerrorname_np(errno));
    }
    if (read != total)
        die("the end after %llu", (unsigned long long)read);
    close(set);
    return NULL;
}

static void *moves(void *argument) {
    pthread_t writer;
    pthread_create(&writer, NULL, sends, argument);
    reads(argument);
    pthread_join(writer, NULL);
    return NULL;
}

// One end of the connections. A taker moves each of them to TCP, or none does.
static void taken_at_one_end(struct peer *p, bool listens, enum taker taker, void *(*mover)(void *)) {
    int listener = listens ? listen_on(p, AF_INET, "both") : -1;
    total = 2 << 20;
    for (int i = 0; i < TAKEN; i++) {
        int fd = listens ? accept_one(listener) : connect_to(p, AF_INET, "both");
        warm(fd, listens);
        pthread_t thread;
        pthread_create(&thread, NULL, mover, &fd);
        usleep(i * 131 % 1500);
        if (taker != NOTHING)
            take(taker, i, fd);
        pthread_join(thread, NULL);
        if (listens)
            tell(p, 0);
        else
            hear(p);
        close(fd);
        give_back_standard_input();
    }
    say("%d connections", TAKEN);
}

#define TAKEN_BY(name, by, mover) \
    static void name##_here(struct peer *p) { taken_at_one_end(p, false, by, mover); } \
    static void name##_there(struct peer *p) { taken_at_one_end(p, true, by, mover); }
TAKEN_BY(child, CHILD, moves)
TAKEN_BY(killed, KILLED_CHILD, moves)
TAKEN_BY(cancelled, CANCELLED_THREAD, moves)
TAKEN_BY(jump, JUMPING_HANDLER, moves)
TAKEN_BY(edges, CHILD, moves_by_edges)

static void killed_edges_here(struct peer *p) { taken_at_one_end(p, false, KILLED_CHILD, moves_by_edges); }
static void only_moves(struct peer *p) { taken_at_one_end(p, true, NOTHING, moves); }
static void only_moves_by_edges(struct peer *p) { taken_at_one_end(p, true, NOTHING, moves_by_edges); }

// Both ends start the fallback at the same moment, with unread bytes at both.
static void at_once(struct peer *p, bool listens) {
    int listener = listens ? listen_on(p, AF_INET, "at-once") : -1;
    for (int i = 0; i < TAKEN; i++) {
        int fd = listens ? accept_one(listener) : connect_to(p, AF_INET, "at-once");
        int before = i % 2 ? 50 : PIECE;
        warm(fd, listens);
        send_pattern(fd, 0, before, i % 2 ? 1 : before);
        await_bytes(fd, before);
        meet(p);
        // One end starts a little later than the other, by more each time, and in turn.
        struct timespec begin, now;
        clock_gettime(CLOCK_MONOTONIC, &begin);
        do
            clock_gettime(CLOCK_MONOTONIC, &now);
        while (listens == i / 2 % 2 && (now.tv_sec - begin.tv_sec) * 1000000000 + now.tv_nsec - begin.tv_nsec < i * 20000);
        act(STANDARD_INPUT, fd);
        send_pattern(fd, before, PIECE, PIECE / 4);
        recv_pattern(fd, 0, before + PIECE, PIECE);
        meet(p);
        close(fd);
        give_back_standard_input();
    }
    say("%d connections", TAKEN);
}

static void at_once_here(struct peer *p) { at_once(p, false); }
static void at_once_there(struct peer *p) { at_once(p, true); }

// A child moves a connection to TCP once its parent allows it.
struct waiting {
    pid_t id;
    int ends[2];
};

static struct waiting fork_a_taker(int fd) {
    struct waiting child;
    char byte;
    MUST(pipe(child.ends));
    child.id = MUST(fork());
    if (child.id == 0) {
        close(child.ends[1]);
        (void)!read(child.ends[0], &byte, 1);
        act(STANDARD_INPUT, fd);
        _exit(0);
    }
    return child;
}

static void let_take(struct waiting child) {
    close(child.ends[0]);
    close(child.ends[1]);
    MUST(waitpid(child.id, NULL, 0));
}

// The entry is newer than the child that moves the connection to TCP.
static void a_newer_entry(struct peer *p) {
    int fd = connect_to(p, AF_INET, "newer");
    warm(fd, false);
    struct waiting child = fork_a_taker(fd);
    int set = MUST(epoll_create1(0));
    struct epoll_event event = {.events = EPOLLIN | EPOLLET, .data.u32 = 7};
    MUST(epoll_ctl(set, EPOLL_CTL_ADD, fd, &event));
    let_take(child);
    hear(p);
    MUST(epoll_wait(set, &event, 1, -1));
    say("told of %u", event.data.u32);
    event.events = EPOLLIN;
    MUST(epoll_ctl(set, EPOLL_CTL_MOD, fd, &event));
    recv_pattern(fd, 0, PIECE, PIECE);
    MUST(epoll_ctl(set, EPOLL_CTL_DEL, fd, NULL));
}

// The parent closes everything before it uses its epoll instance again.
static void before_its_parent_leaves(struct peer *p) {
    int fd = connect_to(p, AF_INET, "newer");
    warm(fd, false);
    int set = MUST(epoll_create1(0));
    struct epoll_event event = {.events = EPOLLIN | EPOLLET, .data.u32 = 7};
    MUST(epoll_ctl(set, EPOLL_CTL_ADD, fd, &event));
    let_take(fork_a_taker(fd));
    MUST(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0));
    hear(p);
    MUST(epoll_wait(set, &event, 1, -1));
    say("told of %u", event.data.u32);
    recv_pattern(fd, 0, PIECE, PIECE);
}

static void sends_to_it(struct peer *p) {
    int fd = accept_one(listen_on(p, AF_INET, "newer"));
    warm(fd, true);
    send_pattern(fd, 0, PIECE, PIECE);
    tell(p, 0);
    char byte;
    if (recv(fd, &byte, 1, 0) != 0)
        die("more than an end");
}

// The entry was disabled at the fork, and is enabled again.
static void an_older_copy(struct peer *p) {
    int fd = connect_to(p, AF_INET, "newer");
    int set = MUST(epoll_create1(0));
    struct epoll_event event = {.events = EPOLLOUT | EPOLLONESHOT, .data.u32 = 7};
    warm(fd, false);
    MUST(epoll_ctl(set, EPOLL_CTL_ADD, fd, &event));
    MUST(epoll_wait(set, &event, 1, -1));
    struct waiting child = fork_a_taker(fd);
    event = (struct epoll_event){.events = EPOLLIN | EPOLLONESHOT, .data.u32 = 8};
    MUST(epoll_ctl(set, EPOLL_CTL_MOD, fd, &event));
    let_take(child);
    hear(p);
    MUST(epoll_wait(set, &event, 1, -1));
    say("told of %u: %x", event.data.u32, event.events);
    recv_pattern(fd, 0, PIECE, PIECE);
}

// The peer has sent and half-closed, so it puts nothing on TCP. All unread bytes arrive nevertheless.
static void ends_and_reads(struct peer *p) {
    int fd = accept_one(listen_on(p, AF_INET, "ended"));
    warm(fd, true);
    send_pattern(fd, 0, 3000, 3000);
    MUST(shutdown(fd, SHUT_WR));
    tell(p, 0);
    drain_to_eof(fd, 0);
}

static void a_filter(struct peer *p) {
    int fd = connect_to(p, AF_INET, "ended");
    warm(fd, false);
    hear(p);
    struct sock_filter allow = {BPF_RET | BPF_K, 0, 0, SECCOMP_RET_ALLOW};
    struct sock_fprog program = {1, &allow};
    MUST(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0));
    MUST(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program));
    send_pattern(fd, 0, 100000, 5000);
    MUST(shutdown(fd, SHUT_WR));
    drain_to_eof(fd, 0);
}

// A child that has the connection already receives another descriptor of it in a message.
static void passed_to_a_child(struct peer *p) {
    int fd = connect_to(p, AF_INET, "ended"), pair[2];
    warm(fd, false);
    MUST(socketpair(AF_UNIX, SOCK_STREAM, 0, pair));
    hear(p);
    pid_t child = MUST(fork());
    if (child == 0) {
        int passed = take_over(pair[1], 0);
        char byte;
        recv_pattern(passed, 0, 3000, 3000);
        if (recv(passed, &byte, 1, 0) != 0)
            die("more than was sent");
        _exit(7);
    }
    hand_over(pair[0], fd);
    int status;
    MUST(waitpid(child, &status, 0));
    say("the child ended with %d", WEXITSTATUS(status));
}

// The peer continues on TCP, and this end counts the readable bytes and makes no other call.
static void counts_bytes(struct peer *p) {
    int fd = connect_to(p, AF_INET, "counted"), there = 0;
    warm(fd, false);
    pid_t child = MUST(fork());
    if (child > 0) {
        close(fd);
        MUST(waitpid(child, NULL, 0));
        return;
    }
    tell(p, 0);
    while (there < 5)
        MUST(ioctl(fd, FIONREAD, &there));
    say("%d there", there);
    recv_pattern(fd, 0, 5, 5);
    say_alive(fd, false, "afterwards");
    _exit(0);
}

static void sends_from_tcp(struct peer *p) {
    int fd = accept_one(listen_on(p, AF_INET, "counted")), low = 2;
    warm(fd, true);
    hear(p);
    MUST(setsockopt(fd, SOL_SOCKET, SO_RCVLOWAT, &low, sizeof low));
    send_pattern(fd, 0, 5, 5);
    say_alive(fd, true, "afterwards");
}

static const struct scenario scenarios[] = {
    {"under_a_thread_that_receives", peer_sends, under_a_reader},
    {"under_a_thread_that_polls", peer_sends, under_a_poller},
    {"under_a_thread_that_waits_by_epoll", peer_sends, under_a_waiter},
    {"under_a_thread_that_sends", peer_reads, under_a_writer},
    {"under_threads_that_do_both", peer_does_both, under_both},
    {"at_both_ends_at_once", at_once_there, at_once_here},
    {"by_children", only_moves, child_here},
    {"by_children_that_are_killed", only_moves, killed_here},
    {"by_children_of_both_ends", child_there, child_here},
    {"by_children_of_both_ends_that_are_killed", killed_there, killed_here},
    {"by_threads_that_are_cancelled", only_moves, cancelled_here},
    {"by_threads_of_both_ends_that_are_cancelled", cancelled_there, cancelled_here},
    {"left_by_jumps_out_of_a_handler", only_moves, jump_here},
    {"left_by_jumps_at_both_ends", jump_there, jump_here},
    {"by_children_under_edges", only_moves_by_edges, edges_here},
    {"by_children_of_both_ends_under_edges", edges_there, edges_here},
    {"by_children_that_are_killed_under_edges", only_moves_by_edges, killed_edges_here},
    {"by_a_child_that_is_older_than_an_entry", sends_to_it, a_newer_entry},
    {"by_a_child_with_an_older_copy_of_an_entry", sends_to_it, an_older_copy},
    {"by_a_child_before_its_parent_leaves_everything", sends_to_it, before_its_parent_leaves},
    {"by_a_filter_where_the_peer_has_ended", ends_and_reads, a_filter},
    {"by_a_peer_of_one_that_only_counts", sends_from_tcp, counts_bytes},
    {"passed_to_a_child_that_has_it_already", ends_and_reads, passed_to_a_child},
};
SCENARIO_MAIN(scenarios)
