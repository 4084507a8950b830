// epoll with other files: kernel descriptors, epoll instances inside others, a stream in two
// instances or under two descriptors, and instances that a child inherits.
#include "common.h"
#include <sys/eventfd.h>
#include <sys/select.h>
#include <sys/timerfd.h>

static char buffer[70000];

static void feeds(struct peer *p) {
    for (;;) {
        switch (hear(p)) {
        case 's': send_all(p->fd, "some", 4); break;
        case 'l': nap(120); send_all(p->fd, "late", 4); break;
        case 'h': MUST(shutdown(p->fd, SHUT_WR)); break;
        case 'b': {
            // An option that only the kernel can serve.
            int low = 50;
            MUST(setsockopt(p->fd, SOL_SOCKET, SO_RCVLOWAT, &low, sizeof low));
            break;
        }
        case 'c': await_bytes(p->fd, 10001); MUST(close(p->fd)); return;
        case 'q': return;
        }
        tell(p, 0);
    }
}

static void have(struct peer *p, int what, int unread) {
    tell(p, what);
    hear(p);
    await_bytes(p->fd, unread);
}

static void add(int set, int fd, uint32_t events, int tag) {
    struct epoll_event event = {.events = events, .data.u32 = tag};
    MUST(epoll_ctl(set, EPOLL_CTL_ADD, fd, &event));
}

// Prints the events of one wait, in the order of their tags.
static int say_wait(const char *who, int set, int timeout) {
    struct epoll_event events[16];
    int count = epoll_wait(set, events, 16, timeout);
    say("%s = %d", who, count);
    for (uint32_t tag = 0; tag < 20; tag++)
        for (int i = 0; i < count; i++)
            if (events[i].data.u32 == tag)
                say("  %u: %s", tag, epoll_names(events[i].events));
    return count;
}

static int new_set(void) { return MUST(epoll_create1(EPOLL_CLOEXEC)); }

// A pipe, an eventfd, a timer and a listener beside the stream; each becomes ready in turn.
static void kinds(struct peer *p) {
    int set = new_set(), pipes[2], event = MUST(eventfd(0, EFD_NONBLOCK));
    int timer = MUST(timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK));
    int listener = listen_on(p, AF_INET, "other");
    uint64_t one = 1, count;
    MUST(pipe(pipes));
    add(set, p->fd, EPOLLIN, 1);
    add(set, pipes[0], EPOLLIN, 2);
    add(set, event, EPOLLIN, 3);
    add(set, timer, EPOLLIN, 4);
    add(set, listener, EPOLLIN, 5);
    say_wait("nothing", set, 0);
    MUST(write(pipes[1], "x", 1));
    say_wait("pipe", set, -1);
    MUST(read(pipes[0], buffer, 1));
    MUST(write(event, &one, 8));
    say_wait("event", set, -1);
    MUST(read(event, &count, 8));
    timerfd_settime(timer, 0, &(struct itimerspec){.it_value = {0, 40000000}}, NULL);
    say_wait("timer", set, -1);
    MUST(read(timer, &count, 8));
    int other = connect_to(p, AF_INET, "other");
    say_wait("listener", set, -1);
    close(accept_one(listener));
    close(other);
    tell(p, 'l');
    say_wait("stream", set, -1);
    hear(p);
    MUST(write(event, &one, 8));
    MUST(write(pipes[1], "x", 1));
    say_wait("all at once", set, -1);
    recv_all(p->fd, buffer, 4);
    say_wait("without the stream", set, -1);
    tell(p, 'q');
}

// A busy stream does not hide a kernel descriptor, nor the other way round.
static void fairness(struct peer *p) {
    int set = new_set(), pipes[2], seen[2] = {0, 0};
    MUST(pipe(pipes));
    MUST(write(pipes[1], "x", 1));
    add(set, p->fd, EPOLLIN, 0);
    add(set, pipes[0], EPOLLIN, 1);
    have(p, 's', 4);
    for (int i = 0; i < 100; i++) {
        struct epoll_event event;
        MUST(epoll_wait(set, &event, 1, -1));
        seen[event.data.u32]++;
    }
    say("stream %s, pipe %s", seen[0] > 10 ? "seen" : "STARVED", seen[1] > 10 ? "seen" : "STARVED");
    tell(p, 'q');
}

static void nested(struct peer *p) {
    int inner = new_set(), outer = new_set();
    add(inner, p->fd, EPOLLIN, 1);
    add(outer, inner, EPOLLIN, 7);
    say_wait("outer", outer, 0);
    have(p, 's', 4);
    say_wait("outer", outer, -1);
    say_wait("inner", inner, -1);
    struct pollfd both[2] = {{inner, POLLIN, 0}, {outer, POLLIN | POLLOUT, 0}};
    CALL(poll(both, 2, -1));
    say("inner %s", poll_names(both[0].revents));
    say("outer %s", poll_names(both[1].revents));
    fd_set in;
    FD_ZERO(&in);
    FD_SET(inner, &in);
    CALL(select(inner + 1, &in, NULL, NULL, NULL));
    recv_all(p->fd, buffer, 4);
    say_wait("outer", outer, 0);
    CALL(poll(both, 2, 0));
    // The wait of the outer instance begins before there is an event.
    tell(p, 'l');
    say_wait("outer", outer, -1);
    hear(p);
    recv_all(p->fd, buffer, 4);
    tell(p, 'l');
    CALL(poll(both, 2, -1));
    hear(p);
    recv_all(p->fd, buffer, 4);
    tell(p, 'l');
    // Alone, because the kernel may report one of two events of one arrival before the other exists.
    FD_ZERO(&in);
    FD_SET(outer, &in);
    CALL(select(outer + 1, &in, NULL, NULL, NULL));
    hear(p);
    tell(p, 'q');
}

static void two_sets(struct peer *p) {
    int one = new_set(), other = new_set(), edge = new_set();
    add(one, p->fd, EPOLLIN, 1);
    add(other, p->fd, EPOLLIN | EPOLLOUT, 2);
    add(edge, p->fd, EPOLLIN | EPOLLET, 3);
    say_wait("edge", edge, 0);
    have(p, 's', 4);
    say_wait("one", one, -1);
    say_wait("other", other, -1);
    say_wait("edge", edge, -1);
    say_wait("edge", edge, 30);
    close(one);
    say_wait("other", other, -1);
    have(p, 's', 8);
    say_wait("edge", edge, -1);
    MUST(epoll_ctl(other, EPOLL_CTL_DEL, p->fd, NULL));
    say_wait("other", other, 30);
    have(p, 's', 12);
    say_wait("edge", edge, -1);
    tell(p, 'q');
}

// One stream under two descriptors: each is an entry of its own.
static void duplicates(struct peer *p) {
    int set = new_set(), twin = MUST(dup(p->fd));
    add(set, p->fd, EPOLLIN, 1);
    add(set, twin, EPOLLIN | EPOLLOUT, 2);
    have(p, 's', 4);
    say_wait("both", set, -1);
    MUST(epoll_ctl(set, EPOLL_CTL_DEL, p->fd, NULL));
    say_wait("twin", set, -1);
    recv_all(twin, buffer, 4);
    say_wait("twin", set, 0);
    close(p->fd);
    have(&(struct peer){.fd = twin, .tell = p->tell, .hear = p->hear}, 's', 4);
    say_wait("twin", set, -1);
    tell(p, 'q');
}

// An entry lives as long as the stream, even if its number is closed first.
static void outlived(struct peer *p) {
    int set = new_set(), twin = MUST(dup(p->fd));
    add(set, p->fd, EPOLLIN, 1);
    close(p->fd);
    p->fd = twin;
    have(p, 's', 4);
    say_wait("the closed number", set, 100);
    close(twin);
    say_wait("nothing", set, 60);
    tell(p, 'q');
}

// A child still has the stream, so its entry stays.
static void outlived_by_a_child(struct peer *p, bool becomes_another) {
    int set = new_set(), gate[2];
    char end;
    MUST(pipe2(gate, becomes_another ? 0 : O_CLOEXEC));
    add(set, p->fd, EPOLLIN, 1);
    pid_t child = MUST(fork());
    if (child == 0) {
        MUST(dup2(gate[0], 0));
        close(gate[1]);
        if (becomes_another)
            execlp("cat", "cat", NULL);
        _exit(read(0, &end, 1) != 0);
    }
    close(gate[0]);
    nap(becomes_another ? 300 : 0);
    close(p->fd);
    say_wait("nothing", set, 60);
    tell(p, 's');
    hear(p);
    say_wait("the closed number", set, -1);
    say_wait("again", set, -1);
    close(gate[1]);
    reap("child", child);
    say_wait("nothing", set, 60);
    tell(p, 'q');
}

static void outlived_in_a_child(struct peer *p) { outlived_by_a_child(p, false); }

static void outlived_in_a_program(struct peer *p) { outlived_by_a_child(p, true); }

// The number is used again for another file.
static void number_again(struct peer *p) {
    int set = new_set(), number = p->fd, pipes[2];
    add(set, number, EPOLLIN, 1);
    have(p, 's', 4);
    close(number);
    MUST(pipe(pipes));
    MUST(dup2(pipes[0], number));
    say_wait("nothing", set, 60);
    add(set, number, EPOLLIN, 2);
    MUST(write(pipes[1], "pipe", 4));
    say_wait("pipe", set, -1);
    say_text("read", buffer, read(number, buffer, 10));
    say_wait("nothing", set, 60);
    tell(p, 'q');
}

static void inherited_set(struct peer *p) {
    int set = MUST(epoll_create1(0)), status;
    add(set, p->fd, EPOLLIN, 1);
    have(p, 's', 4);
    pid_t child = MUST(fork());
    if (child == 0) {
        say_wait("child", set, 2000);
        recv_all(p->fd, buffer, 4);
        say_wait("child", set, 0);
        tell(p, 'l');
        say_wait("child", set, 5000);
        hear(p);
        _exit(0);
    }
    MUST(waitpid(child, &status, 0));
    say_status("child", status);
    say_wait("parent", set, 2000);
    recv_all(p->fd, buffer, 4);
    tell(p, 'l');
    say_wait("parent", set, 5000);
    hear(p);
    tell(p, 'q');
}

// A set made before the fork, filled by the child alone
static void childs_own_entries(struct peer *p) {
    pid_t child = MUST(fork());
    int status;
    if (child == 0) {
        int set = new_set();
        add(set, p->fd, EPOLLIN, 1);
        tell(p, 'l');
        say_wait("child", set, -1);
        hear(p);
        recv_all(p->fd, buffer, 4);
        say_wait("child", set, 0);
        _exit(0);
    }
    MUST(waitpid(child, &status, 0));
    int set = new_set();
    add(set, p->fd, EPOLLIN | EPOLLET, 1);
    tell(p, 'l');
    say_wait("parent", set, -1);
    hear(p);
    tell(p, 'q');
}

// A stream joins an instance before it is connected.
static void early_entry(struct peer *p) {
    if (p->server) {
        int listener = listen_on(p, AF_INET, "early");
        int fd = accept_one(listener);
        warm(fd, true);
        meet(p);
        send_all(fd, "some", 4);
        meet(p);
        return;
    }
    int set = new_set(), fd = MUST(socket(AF_INET, SOCK_STREAM, 0));
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    to.sin_port = htons(port_of(p, "early"));
    add(set, fd, EPOLLIN, 1);
    say_wait("unconnected", set, 0);
    MUST(connect(fd, (struct sockaddr *)&to, sizeof to));
    say_wait("connected", set, 0);
    warm(fd, false);
    say_wait("after the warm-up", set, 0);
    meet(p);
    say_wait("stream", set, -1);
    recv_all(fd, buffer, 4);
    say_wait("stream", set, 0);
    meet(p);
}

// Entries made before the switch and while bytes are under way
static void fifty(struct peer *p) {
    int set = new_set(), fds[50];
    int listener = p->server ? listen_on(p, AF_INET, "fifty") : -1;
    for (int i = 0; i < 50; i++) {
        fds[i] = p->server ? accept_one(listener) : connect_to(p, AF_INET, "fifty");
        add(set, fds[i], EPOLLIN | (i % 2 ? EPOLLET : 0), i);
    }
    // Every stream carries a counter back and forth; the client starts them all.
    uint32_t value = 0, turns = 0, ended = 0, wrong = 0, sum = 0;
    for (int i = 0; i < 50 && !p->server; i++)
        send_all(fds[i], &value, 4);
    while (ended < 50) {
        struct epoll_event events[8];
        int count = MUST(epoll_wait(set, events, 8, -1));
        for (int i = 0; i < count; i++) {
            int fd = fds[events[i].data.u32];
            ssize_t got = recv(fd, &value, 4, MSG_DONTWAIT);
            if (got < 0)
                continue;
            if (got == 0) {
                ended++;
                MUST(epoll_ctl(set, EPOLL_CTL_DEL, fd, NULL));
                if (p->server)
                    MUST(shutdown(fd, SHUT_WR));
                continue;
            }
            wrong += got != 4;
            turns++;
            sum += value;
            value++;
            if (!p->server && value > 200) {
                MUST(shutdown(fd, SHUT_WR));
                continue;
            }
            send_all(fd, &value, 4);
        }
    }
    say("%u turns, sum %u, %u short, %u ended", turns, sum, wrong, ended);
}

// An instance stays usable by its other descriptor, whatever the first one has become.
static void another_number(struct peer *p) {
    int set = MUST(epoll_create1(0));
    struct epoll_event event = {.events = EPOLLIN, .data.u32 = 1};
    CALL(epoll_ctl(set, EPOLL_CTL_ADD, p->fd, &event));
    for (int round = 0; round < 4; round++) {
        int other = MUST(dup(set));
        CALL(close(set));
        // Nothing, a file, another set.
        int there = round == 1 ? MUST(dup(0)) : round >= 2 ? MUST(epoll_create1(0)) : -1;
        say("%s", there == set || there < 0 ? "its number is used again" : "ANOTHER NUMBER");
        have(p, 's', 4);
        CALL(epoll_wait(other, &event, 1, -1));
        say("of %u", event.data.u32);
        recv_all(p->fd, buffer, 4);
        CALL(epoll_wait(other, &event, 1, 0));
        event = (struct epoll_event){.events = EPOLLIN, .data.u32 = round + 2};
        CALL(epoll_ctl(other, EPOLL_CTL_MOD, p->fd, &event));
        if (there >= 0)
            MUST(close(there));
        set = other;
    }
    MUST(close(set));
    tell(p, 'q');
}

// One wait reports a descriptor once, even if its connection falls back to TCP during the wait.
static void told_once(struct peer *p) {
    int set = new_set();
    set_nonblocking(p->fd, true);
    add(set, p->fd, EPOLLIN | EPOLLOUT | EPOLLRDHUP, 1);
    tell(p, 'b');
    hear(p);
    send_pattern(p->fd, 0, 10001, 10001);
    tell(p, 'c');
    await_events(p->fd, 0, POLLHUP);
    say_wait("at the end", set, 0);
}

static const struct scenario scenarios[] = {
    {"epoll_mixes_kinds_of_descriptors", feeds, kinds},
    {"neither_kind_starves_the_other", feeds, fairness},
    {"sets_within_sets_and_under_poll", feeds, nested},
    {"a_stream_in_several_sets", feeds, two_sets},
    {"a_stream_under_two_numbers", feeds, duplicates},
    {"an_entry_outlives_its_number", feeds, outlived},
    {"an_entry_outlives_its_number_by_a_child", feeds, outlived_in_a_child},
    {"an_entry_outlives_its_number_by_a_childs_program", feeds, outlived_in_a_program},
    {"a_number_that_is_used_again", feeds, number_again},
    {"a_set_under_another_number", feeds, another_number},
    {"a_descriptor_is_told_of_once", feeds, told_once},
    {"a_set_inherited_by_a_child", feeds, inherited_set},
    {"a_childs_own_set", feeds, childs_own_entries},
    {"joining_before_connecting", early_entry, early_entry},
    {"fifty_streams_in_a_set", fifty, fifty},
};
SCENARIO_MAIN(scenarios)
