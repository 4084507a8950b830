// Streams that are passed to other processes over a Unix socket.
#include "converse.h"

static char buffer[70000];

static void answers(struct peer *p) {
    ssize_t got;
    long total = 0;
    while ((got = recv(p->fd, buffer, sizeof buffer, 0)) > 0) {
        send_all(p->fd, buffer, got);
        total += got;
    }
    say("%ld bytes answered, then %s", total, got ? strerrorname_np(errno) : "end of stream");
}

// Starts a process before the connection, which talks on the stream that it receives.
struct worker {
    pid_t id;
    int channel;
};

static struct worker start_worker(void (*work)(int channel)) {
    int pair[2];
    MUST(socketpair(AF_UNIX, SOCK_STREAM, 0, pair));
    struct worker w = {MUST(fork()), pair[0]};
    if (w.id == 0) {
        close(pair[0]);
        work(pair[1]);
        _exit(0);
    }
    close(pair[1]);
    return w;
}

static void talks(int channel) {
    int fd = take_over(channel, 0);
    converse(fd, false, 100);
    say("worker is done");
}

static void talks_after_another(int channel) {
    char word[7];
    recv_all(channel, word, sizeof word);
    talks(channel);
}

static void talks_cloexec(int channel) {
    int fd = take_over(channel, MSG_CMSG_CLOEXEC);
    say("close on exec %ld", MUST(fcntl(fd, F_GETFD)));
    converse(fd, false, 100);
}

static void connected(struct peer *p) {
    p->fd = connect_to(p, AF_INET, "passing");
    warm(p->fd, false);
}

static void answers_late(struct peer *p) {
    p->fd = accept_one(listen_on(p, AF_INET, "passing"));
    warm(p->fd, true);
    answers(p);
}

static void given_away(struct peer *p) {
    struct worker w = start_worker(talks);
    connected(p);
    converse(p->fd, false, 10);
    hand_over(w.channel, p->fd);
    // Print nothing, because the worker may end before or after that line.
    MUST(close(p->fd));
    reap("worker", w.id);
}

// Does the same with a call that sends several messages; the second one carries the descriptor.
static void given_away_among_several(struct peer *p) {
    struct worker w = start_worker(talks_after_another);
    connected(p);
    converse(p->fd, false, 10);
    char control[CMSG_SPACE(sizeof p->fd)] = {0};
    struct iovec words[2] = {{"nothing", 7}, {"take it", 7}};
    struct mmsghdr messages[2] = {{.msg_hdr = {.msg_iov = &words[0], .msg_iovlen = 1}},
                                  {.msg_hdr = {.msg_iov = &words[1], .msg_iovlen = 1,
                                               .msg_control = control, .msg_controllen = sizeof control}}};
    struct cmsghdr *header = CMSG_FIRSTHDR(&messages[1].msg_hdr);
    *header = (struct cmsghdr){
        .cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS, .cmsg_len = CMSG_LEN(sizeof p->fd)};
    memcpy(CMSG_DATA(header), &p->fd, sizeof p->fd);
    CALL(sendmmsg(w.channel, messages, 2, 0));
    MUST(close(p->fd));
    reap("worker", w.id);
}

static void lent(struct peer *p) {
    struct worker w = start_worker(talks_cloexec);
    connected(p);
    hand_over(w.channel, p->fd);
    reap("worker", w.id);
    converse(p->fd, false, 50);
    say("lender is done");
}

static void drains(int channel) {
    int fd = take_over(channel, 0);
    drain_to_eof(fd, 1000);
}

// Passed on with unread bytes, while more arrive
static void given_away_unread(struct peer *p) {
    struct worker w = start_worker(drains);
    p->fd = connect_to(p, AF_INET, "passing");
    warm(p->fd, false);
    await_bytes(p->fd, 3000);
    recv_pattern(p->fd, 0, 1000, 1000);
    hand_over(w.channel, p->fd);
    CALL(close(p->fd));
    meet(p);
    reap("worker", w.id);
}

static void sends_across(struct peer *p) {
    p->fd = accept_one(listen_on(p, AF_INET, "passing"));
    warm(p->fd, true);
    send_pattern(p->fd, 0, 3000, 3000);
    meet(p);
    send_pattern(p->fd, 3000, 6000000, 20000);
    CALL(shutdown(p->fd, SHUT_WR));
    CALL(recv(p->fd, buffer, 1, 0));
}

static void passes_on(int channel) {
    int pair[2], fd = take_over(channel, 0);
    MUST(socketpair(AF_UNIX, SOCK_STREAM, 0, pair));
    converse(fd, false, 10);
    hand_over(pair[0], fd);
    close(fd);
    // Only the message holds it now.
    nap(100);
    fd = take_over(pair[1], 0);
    converse(fd, false, 10);
    hand_over(channel, fd);
    close(fd);
}

static void there_and_back(struct peer *p) {
    struct worker w = start_worker(passes_on);
    connected(p);
    converse(p->fd, false, 10);
    hand_over(w.channel, p->fd);
    close(p->fd);
    p->fd = take_over(w.channel, 0);
    reap("worker", w.id);
    converse(p->fd, false, 10);
    say("back again");
}

static void to_oneself(struct peer *p) {
    int pair[2];
    MUST(socketpair(AF_UNIX, SOCK_STREAM, 0, pair));
    hand_over(pair[0], p->fd);
    int twin = take_over(pair[1], 0);
    send_all(twin, "by twin", 7);
    recv_all(p->fd, buffer, 7);
    send_all(p->fd, "by first", 8);
    recv_all(twin, buffer, 8);
    CALL(close(p->fd));
    converse(twin, false, 20);
    say("twin is in order");
}

// A listener process accepts every connection and passes it to a worker, before it has read
// anything
static void serves(int channel) {
    for (int i = 0; i < 3; i++) {
        int fd = take_over(channel, 0);
        warm(fd, true);
        converse(fd, true, 50);
        close(fd);
    }
}

static void dispatches(struct peer *p) {
    struct worker w = start_worker(serves);
    int listener = listen_on(p, AF_INET, "dispatch");
    for (int i = 0; i < 3; i++) {
        int fd = accept_one(listener);
        hand_over(w.channel, fd);
        close(fd);
    }
    reap("worker", w.id);
}

static void is_dispatched(struct peer *p) {
    for (int i = 0; i < 3; i++) {
        int fd = connect_to(p, AF_INET, "dispatch");
        warm(fd, false);
        converse(fd, false, 50);
        CALL(recv(fd, buffer, 1, 0));
        close(fd);
    }
}

static const struct scenario scenarios[] = {
    {"a_stream_is_given_away", answers_late, given_away, RAW},
    {"a_stream_is_given_away_among_several_messages", answers_late, given_away_among_several, RAW},
    {"a_stream_is_lent", answers_late, lent, RAW},
    {"a_stream_is_given_away_with_unread_bytes", sends_across, given_away_unread, RAW},
    {"a_stream_goes_there_and_back", answers_late, there_and_back, RAW},
    {"a_stream_is_handed_to_oneself", answers, to_oneself},
    {"a_dispatcher_hands_connections_out", dispatches, is_dispatched, RAW},
};
SCENARIO_MAIN(scenarios)
