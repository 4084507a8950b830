// An epoll instance that parent and child share: each sees entries that the other adds or removes.
#include "common.h"

static char buffer[100];

static void add(int set, int fd, uint32_t data) {
    struct epoll_event event = {.events = EPOLLIN, .data.u32 = data};
    CALL(epoll_ctl(set, EPOLL_CTL_ADD, fd, &event));
}

// Waits for a while for an event, and prints its entry.
static void say_event(int set, int timeout) {
    struct epoll_event event = {0};
    int n = MUST(epoll_wait(set, &event, 1, timeout));
    say("%d event, of %u", n, n ? event.data.u32 : 0);
}

static void let_the_other_go(int *pipe) { MUST(write(pipe[1], "x", 1)); }
static void await_the_other(int *pipe) { MUST(read(pipe[0], buffer, 1)); }

static void await_end_of(pid_t child) {
    int status;
    MUST(waitpid(child, &status, 0));
    say_status("child", status);
}

static void converse(struct peer *p, int other) {
    meet(p);
    say_alive(p->fd, true, "first");
    say_alive(other, true, "second");
    meet(p);
}

// Makes an instance before the fork, a pipe between the two, and a second connection, which it returns.
static int begin(struct peer *p, int go[2], int *set) {
    *set = MUST(epoll_create1(0));
    MUST(pipe(go));
    int other = accept_one(p->listener);
    warm(other, true);
    return other;
}

// Like this, with both connections in the instance.
static int begin_with_both(struct peer *p, int go[2], int *set) {
    int other = begin(p, go, set);
    add(*set, p->fd, 1);
    add(*set, other, 2);
    return other;
}

// The child waits for an entry that the parent adds.
static void hears_of(int set, int other) {
    say_event(set, -1);
    recv_all(other, buffer, 5);
    say("%.5s", buffer);
    _exit(0);
}

// The child adds a connection that both have.
static void child_adds(struct peer *p) {
    int go[2], set, other = begin(p, go, &set);
    add(set, p->fd, 1);
    pid_t child = MUST(fork());
    if (child == 0) {
        add(set, other, 2);
        let_the_other_go(go);
        fflush(NULL);
        _exit(0);
    }
    await_the_other(go);
    await_end_of(child);
    meet(p);
    say_event(set, -1);
    recv_all(other, buffer, 5);
    say_event(set, 0);
    converse(p, other);
}

// The child removes a connection for which the parent waits.
static void child_removes(struct peer *p) {
    int go[2], set, other = begin_with_both(p, go, &set);
    say_event(set, 0);
    pid_t child = MUST(fork());
    if (child == 0) {
        CALL(epoll_ctl(set, EPOLL_CTL_DEL, other, NULL));
        let_the_other_go(go);
        _exit(0);
    }
    await_the_other(go);
    await_end_of(child);
    meet(p);
    await_bytes(other, 5);
    await_rest();
    say_event(set, 100);
    recv_all(other, buffer, 5);
    converse(p, other);
}

// The child waits, and the parent adds.
static void parent_adds(struct peer *p) {
    int go[2], set, other = begin(p, go, &set);
    add(set, p->fd, 1);
    pid_t child = MUST(fork());
    if (child == 0) {
        say_event(set, 0);
        let_the_other_go(go);
        hears_of(set, other);
    }
    await_the_other(go);
    add(set, other, 2);
    meet(p);
    await_end_of(child);
    converse(p, other);
}

// Like this, and the child has not used the instance before.
static void parent_adds_first(struct peer *p) {
    int go[2], set, other = begin(p, go, &set);
    pid_t child = MUST(fork());
    if (child == 0) {
        await_the_other(go);
        hears_of(set, other);
    }
    add(set, other, 2);
    let_the_other_go(go);
    meet(p);
    await_end_of(child);
    converse(p, other);
}

// The parent changes or removes an entry that it had added before the fork. Then the child uses the instance for the
// first time. A parent that ends has closed the instance by then.
static void parent_changes_first(struct peer *p, int operation, uint32_t events, bool leaves) {
    int go[2], set, other = begin_with_both(p, go, &set);
    pid_t child = MUST(fork());
    if (child == 0) {
        await_the_other(go);
        meet(p);
        await_bytes(other, 5);
        say_event(set, 100);
        say_event(set, 0);
        recv_all(other, buffer, 5);
        fflush(NULL);
        _exit(0);
    }
    struct epoll_event event = {.events = EPOLLIN, .data.u32 = 5};
    CALL(epoll_ctl(set, EPOLL_CTL_MOD, other, &event));
    event = (struct epoll_event){.events = events, .data.u32 = 3};
    CALL(epoll_ctl(set, operation, other, &event));
    if (leaves)
        MUST(close(set));
    let_the_other_go(go);
    await_end_of(child);
    if (!leaves)
        say_event(set, 0);
    converse(p, other);
}

static void parent_changes(struct peer *p) { parent_changes_first(p, EPOLL_CTL_MOD, EPOLLIN, false); }
static void parent_asks_for_less(struct peer *p) { parent_changes_first(p, EPOLL_CTL_MOD, EPOLLRDHUP, false); }
static void parent_removes(struct peer *p) { parent_changes_first(p, EPOLL_CTL_DEL, 0, false); }
static void parent_changes_and_leaves(struct peer *p) { parent_changes_first(p, EPOLL_CTL_MOD, EPOLLIN, true); }
static void parent_removes_and_leaves(struct peer *p) { parent_changes_first(p, EPOLL_CTL_DEL, 0, true); }

// The parent gets an event, leaves the bytes unread and closes the instance. Its child gets an event
// too.
static void parent_has_an_event_and_leaves(struct peer *p) {
    int go[2], set, other = begin_with_both(p, go, &set);
    pid_t child = MUST(fork());
    if (child == 0) {
        await_the_other(go);
        hears_of(set, other);
    }
    meet(p);
    say_event(set, -1);
    MUST(close(set));
    let_the_other_go(go);
    await_end_of(child);
    converse(p, other);
}

// A message brings the instance to this process again, under a descriptor that the library does not know.
static void set_is_passed(struct peer *p) {
    int go[2], channel[2], set, other = begin(p, go, &set);
    add(set, other, 2);
    MUST(socketpair(AF_UNIX, SOCK_STREAM, 0, channel));
    hand_over(channel[0], set);
    int passed = take_over(channel[1], 0);
    meet(p);
    await_bytes(other, 5);
    say_event(passed, 1000);
    say_event(set, 0);
    recv_all(other, buffer, 5);
    converse(p, other);
}

// The parent takes the event of a one-shot entry, which is then disabled for its child too.
static void parent_takes_the_shot(struct peer *p) {
    int go[2], set, other = begin(p, go, &set);
    struct epoll_event event = {.events = EPOLLIN | EPOLLONESHOT, .data.u32 = 2};
    CALL(epoll_ctl(set, EPOLL_CTL_ADD, other, &event));
    pid_t child = MUST(fork());
    if (child == 0) {
        await_the_other(go);
        say_event(set, 100);
        fflush(NULL);
        _exit(0);
    }
    meet(p);
    say_event(set, -1);
    let_the_other_go(go);
    await_end_of(child);
    say_event(set, 0);
    recv_all(other, buffer, 5);
    converse(p, other);
}

// A child that has the instance and does not use it makes no difference.
static void child_ignores(struct peer *p) {
    int set = MUST(epoll_create1(0));
    int other = accept_one(p->listener);
    warm(other, true);
    add(set, p->fd, 1);
    pid_t child = MUST(fork());
    if (child == 0) {
        pause();
        _exit(0);
    }
    add(set, other, 2);
    meet(p);
    say_event(set, -1);
    recv_all(other, buffer, 5);
    MUST(kill(child, SIGTERM));
    await_end_of(child);
    converse(p, other);
}

static void sends_on_second(struct peer *p) {
    int other = connect_to(p, AF_INET, "port");
    warm(other, false);
    meet(p);
    send_all(other, "hello", 5);
    meet(p);
    say_alive(p->fd, false, "first");
    say_alive(other, false, "second");
    meet(p);
}

// The peer has half-closed, and the parent has not read to the end when a child uses the shared instance.
enum { UNREAD = 1000 };

static void behind_the_end(struct peer *p, int operation) {
    int go[2];
    int set = MUST(epoll_create1(0));
    MUST(pipe(go));
    if (operation != EPOLL_CTL_ADD)
        add(set, p->fd, 1);
    meet(p);
    await_events(p->fd, POLLRDHUP, POLLRDHUP);
    pid_t child = MUST(fork());
    if (child == 0) {
        struct epoll_event event = {.events = EPOLLIN | EPOLLRDHUP, .data.u32 = 2};
        if (operation)
            CALL(epoll_ctl(set, operation, p->fd, &event));
        int n = MUST(epoll_wait(set, &event, 1, 0));
        say("%d, %s", n, epoll_names(event.events));
        let_the_other_go(go);
        fflush(NULL);
        _exit(0);
    }
    await_the_other(go);
    await_end_of(child);
    struct epoll_event event = {0};
    int n = MUST(epoll_wait(set, &event, 1, 0));
    say("%d, %s, of %u", n, epoll_names(event.events), event.data.u32);
    drain_to_eof(p->fd, 0);
    say_event(set, 0);
    send_all(p->fd, "answer", 6);
    meet(p);
}

static void child_waits_behind_the_end(struct peer *p) { behind_the_end(p, 0); }
static void child_adds_behind_the_end(struct peer *p) { behind_the_end(p, EPOLL_CTL_ADD); }
static void child_changes_behind_the_end(struct peer *p) { behind_the_end(p, EPOLL_CTL_MOD); }

static void sends_and_ends(struct peer *p) {
    send_pattern(p->fd, 0, UNREAD, UNREAD);
    MUST(shutdown(p->fd, SHUT_WR));
    meet(p);
    meet(p);
    recv_all(p->fd, buffer, 6);
    say_text("received", buffer, 6);
}

// Children wait for the connection in instances of their own and are killed. The resources of their waits are
// free for later children.
enum { KILLED = 50 };

static void children_are_killed(struct peer *p) {
    int go[2];
    MUST(pipe(go));
    for (int i = 0; i < KILLED; i++) {
        pid_t child = MUST(fork());
        if (child == 0) {
            add(MUST(epoll_create1(0)), p->fd, 1);
            let_the_other_go(go);
            pause();
        }
        await_the_other(go);
        MUST(kill(child, SIGKILL));
        MUST(waitpid(child, NULL, 0));
        say_alive(p->fd, true, "after it");
    }
    meet(p);
}

static void talks_on(struct peer *p) {
    for (int i = 0; i < KILLED; i++)
        say_alive(p->fd, false, "after it");
    meet(p);
}

static const struct scenario scenarios[] = {
    {"a_child_adds_to_a_shared_set", child_adds, sends_on_second},
    {"a_child_removes_from_a_shared_set", child_removes, sends_on_second},
    {"a_parent_adds_to_a_shared_set", parent_adds, sends_on_second},
    {"a_parent_adds_to_a_set_that_its_child_has_not_used", parent_adds_first, sends_on_second},
    {"a_parent_changes_an_entry_before_its_child_waits", parent_changes, sends_on_second},
    {"a_parent_asks_for_less_before_its_child_waits", parent_asks_for_less, sends_on_second},
    {"a_parent_removes_an_entry_before_its_child_waits", parent_removes, sends_on_second},
    {"a_parent_changes_an_entry_and_leaves_the_set", parent_changes_and_leaves, sends_on_second},
    {"a_parent_removes_an_entry_and_leaves_the_set", parent_removes_and_leaves, sends_on_second},
    {"a_parent_has_an_event_and_leaves_the_set", parent_has_an_event_and_leaves, sends_on_second},
    {"a_set_is_passed_in_a_message", set_is_passed, sends_on_second},
    {"a_parent_takes_a_shot_before_its_child_waits", parent_takes_the_shot, sends_on_second},
    {"a_child_waits_behind_the_end", child_waits_behind_the_end, sends_and_ends},
    {"a_child_adds_behind_the_end", child_adds_behind_the_end, sends_and_ends},
    {"a_child_changes_behind_the_end", child_changes_behind_the_end, sends_and_ends},
    {"children_are_killed_with_sets_of_their_own", children_are_killed, talks_on},
    {"a_child_ignores_a_shared_set", child_ignores, sends_on_second},
};
SCENARIO_MAIN(scenarios)
