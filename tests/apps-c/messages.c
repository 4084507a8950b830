// Streams that arrive in a message, as when a server hands new connections to its workers. Most of them have not
// carried bytes before, and only the receiver uses them.
#include "common.h"

enum { ROUNDS = 3000, STREAMS = 20 };

static void talk_on(int fd, bool server, int from, int to) {
    char out[64], in[64];
    for (int i = from; i < to; i++) {
        fill(out, sizeof out, (uint64_t)i * 17);
        if (!server)
            send_all(fd, out, sizeof out);
        recv_all(fd, in, sizeof in);
        if (memcmp(in, out, sizeof in))
            die("message %d is another's", i);
        if (server)
            send_all(fd, in, sizeof in);
    }
}

static void talk(int fd, bool server, int rounds) { talk_on(fd, server, 0, rounds); }

static void talks(struct peer *p) {
    char byte;
    p->fd = connect_to(p, AF_INET, "new");
    talk(p->fd, false, ROUNDS);
    CALL(recv(p->fd, &byte, 1, 0));
}

// --- workers

static void serves(int channel) {
    int fd = take_over(channel, 0);
    talk(fd, true, ROUNDS);
    say("the worker is done");
}

static void serves_on_vi(int channel) {
    int fd = take_over(channel, 0);
    warm_until_on_vi(fd, true);
    talk(fd, true, ROUNDS);
    say("the worker is done");
}

static void looks_first(int channel) {
    int before = take_over(channel, MSG_PEEK);
    int fd = take_over(channel, 0);
    MUST(close(before));
    talk(fd, true, ROUNDS);
    say("the worker is done");
}

static void uses_what_it_has_looked_at(int channel) {
    int before = take_over(channel, MSG_PEEK);
    int fd = take_over(channel, 0);
    talk(fd, true, ROUNDS / 2);
    talk_on(before, true, ROUNDS / 2, ROUNDS);
    say("the worker is done");
}

// Passes the stream on and keeps its own descriptor.
static void gives_on(int from, int to) {
    char byte;
    int fd = take_over(from, 0);
    hand_over(to, fd);
    recv_all(from, &byte, 1);
    talk_on(fd, true, ROUNDS / 2, ROUNDS);
    say("the worker is done");
}

static void gives_back(int channel) { gives_on(channel, channel); }

// Reads half of it, and then the other half.
static void serves_half(int channel) {
    int fd = take_over(channel, 0);
    talk(fd, true, ROUNDS / 2);
    MUST(write(channel, "x", 1));
}

static void serves_the_other_half(int channel) {
    char byte;
    int fd = take_over(channel, 0);
    recv_all(channel, &byte, 1);
    talk_on(fd, true, ROUNDS / 2, ROUNDS);
}

struct worker {
    pid_t id;
    int channel;
};

// Runs a separate program, with the channel as its standard input.
static struct worker execute(struct peer *p, char *work) {
    int pair[2];
    MUST(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair));
    fflush(stdout);
    struct worker w = {MUST(fork()), pair[0]};
    if (w.id == 0) {
        dup2(pair[1], 0);
        execl(p->self, p->self, "--worker", work, NULL);
        _exit(99);
    }
    close(pair[1]);
    return w;
}

static struct worker fork_one(void (*work)(int channel)) {
    int pair[2];
    MUST(socketpair(AF_UNIX, SOCK_STREAM, 0, pair));
    fflush(stdout);
    struct worker w = {MUST(fork()), pair[0]};
    if (w.id == 0) {
        close(pair[0]);
        work(pair[1]);
        fflush(stdout);
        _exit(0);
    }
    close(pair[1]);
    return w;
}

static int worker(char **argv) {
    if (strcmp(argv[2], "serves") == 0)
        serves(0);
    else if (strcmp(argv[2], "serves on a VI") == 0)
        serves_on_vi(0);
    else if (strcmp(argv[2], "looks first") == 0)
        looks_first(0);
    else if (strcmp(argv[2], "uses both") == 0)
        uses_what_it_has_looked_at(0);
    else if (strcmp(argv[2], "gives back") == 0)
        gives_back(0);
    else if (strcmp(argv[2], "gives on") == 0)
        gives_on(0, 1000);
    else if (strcmp(argv[2], "half") == 0)
        serves_half(0);
    else
        serves_the_other_half(0);
    return 0;
}

// --- the process that accepts, and sends

// The workers start before the connections.
static void accepts(struct peer *p) { p->fd = accept_one(listen_on(p, AF_INET, "new")); }

static void send_and_close(struct peer *p, struct worker w) {
    accepts(p);
    hand_over(w.channel, p->fd);
    MUST(close(p->fd));
    reap("the worker", w.id);
}

static void to_a_program(struct peer *p) { send_and_close(p, execute(p, "serves")); }
static void to_a_child(struct peer *p) { send_and_close(p, fork_one(serves)); }
static void to_one_that_looks_first(struct peer *p) { send_and_close(p, execute(p, "looks first")); }

static void after_much(struct peer *p) {
    struct worker w = execute(p, "serves on a VI");
    accepts(p);
    warm_until_on_vi(p->fd, true);
    talk(p->fd, true, ROUNDS);
    hand_over(w.channel, p->fd);
    MUST(close(p->fd));
    reap("the worker", w.id);
}

static void talks_to_both(struct peer *p) {
    char byte;
    p->fd = connect_to(p, AF_INET, "new");
    for (int i = 0; i < 2; i++) {
        warm_until_on_vi(p->fd, false);
        talk(p->fd, false, ROUNDS);
    }
    CALL(recv(p->fd, &byte, 1, 0));
}

static void over_a_named_channel(struct peer *p) {
    struct sockaddr_un name = {.sun_family = AF_UNIX};
    snprintf(name.sun_path + 1, sizeof name.sun_path - 1, "messages-%d", getpid());
    int listener = MUST(socket(AF_UNIX, SOCK_STREAM, 0));
    MUST(bind(listener, (struct sockaddr *)&name, sizeof name));
    MUST(listen(listener, 1));
    fflush(stdout);
    pid_t child = MUST(fork());
    if (child == 0) {
        MUST(dup2(MUST(socket(AF_UNIX, SOCK_STREAM, 0)), 0));
        MUST(connect(0, (struct sockaddr *)&name, sizeof name));
        execl(p->self, p->self, "--worker", "serves", NULL);
        _exit(99);
    }
    send_and_close(p, (struct worker){child, accept_one(listener)});
}

static void to_one_that_is_late(struct peer *p) {
    int pair[2];
    MUST(socketpair(AF_UNIX, SOCK_STREAM, 0, pair));
    accepts(p);
    hand_over(pair[0], p->fd);
    // Only the message holds it.
    MUST(close(p->fd));
    for (int i = 0; i < 5; i++)
        MUST(close(MUST(socket(AF_INET, SOCK_STREAM, 0))));
    fflush(stdout);
    pid_t child = MUST(fork());
    if (child == 0) {
        dup2(pair[1], 0);
        execl(p->self, p->self, "--worker", "serves", NULL);
        _exit(99);
    }
    reap("the worker", child);
}

static void to_oneself(struct peer *p) {
    int pair[2];
    MUST(socketpair(AF_UNIX, SOCK_STREAM, 0, pair));
    accepts(p);
    hand_over(pair[0], p->fd);
    MUST(close(p->fd));
    p->fd = take_over(pair[1], 0);
    talk(p->fd, true, ROUNDS);
}

static void many(struct peer *p) {
    int listener = listen_on(p, AF_INET, "many");
    for (int i = 0; i < STREAMS; i++) {
        struct worker w = i % 2 ? execute(p, "serves") : fork_one(serves);
        p->fd = accept_one(listener);
        hand_over(w.channel, p->fd);
        MUST(close(p->fd));
        reap("the worker", w.id);
        MUST(close(w.channel));
    }
}

static void talks_on_many(struct peer *p) {
    for (int i = 0; i < STREAMS; i++) {
        p->fd = connect_to(p, AF_INET, "many");
        talk(p->fd, false, ROUNDS);
        MUST(close(p->fd));
    }
}

// --- streams that other processes hold too

static void its_sender_goes_on(struct peer *p) {
    struct worker w = execute(p, "half");
    char byte;
    accepts(p);
    hand_over(w.channel, p->fd);
    recv_all(w.channel, &byte, 1);
    talk_on(p->fd, true, ROUNDS / 2, ROUNDS);
    reap("the worker", w.id);
}

static void it_is_sent_to_two(struct peer *p) {
    struct worker one = execute(p, "half"), other = execute(p, "other half");
    char byte;
    accepts(p);
    hand_over(one.channel, p->fd);
    hand_over(other.channel, p->fd);
    MUST(close(p->fd));
    recv_all(one.channel, &byte, 1);
    MUST(write(other.channel, "x", 1));
    reap("one", one.id);
    reap("the other", other.id);
}

static void a_worker_gives_it_back(struct peer *p) {
    struct worker w = execute(p, "gives back");
    accepts(p);
    hand_over(w.channel, p->fd);
    MUST(close(p->fd));
    p->fd = take_over(w.channel, 0);
    talk(p->fd, true, ROUNDS / 2);
    MUST(write(w.channel, "x", 1));
    reap("the worker", w.id);
}

static void a_worker_gives_it_on(struct peer *p) {
    struct worker second = execute(p, "half");
    char byte;
    // The first worker has an end of the channel to the second one.
    MUST(dup2(second.channel, 1000));
    struct worker first = execute(p, "gives on");
    accepts(p);
    hand_over(first.channel, p->fd);
    MUST(close(p->fd));
    recv_all(second.channel, &byte, 1);
    reap("the second", second.id);
    MUST(write(first.channel, "x", 1));
    reap("the first", first.id);
}

static void a_worker_uses_both(struct peer *p) { send_and_close(p, execute(p, "uses both")); }

static void a_child_of_its_senders_has_it(struct peer *p) {
    int pair[2];
    char byte;
    MUST(socketpair(AF_UNIX, SOCK_STREAM, 0, pair));
    struct worker w = execute(p, "half");
    accepts(p);
    fflush(stdout);
    pid_t child = MUST(fork());
    if (child == 0) {
        recv_all(pair[1], &byte, 1);
        talk_on(p->fd, true, ROUNDS / 2, ROUNDS);
        fflush(stdout);
        _exit(0);
    }
    hand_over(w.channel, p->fd);
    MUST(close(p->fd));
    recv_all(w.channel, &byte, 1);
    MUST(write(pair[0], "x", 1));
    reap("the worker", w.id);
    reap("the child", child);
}

static void it_goes_on_to_another(struct peer *p) {
    struct worker first = execute(p, "half");
    accepts(p);
    hand_over(first.channel, p->fd);
    MUST(close(p->fd));
    char byte;
    recv_all(first.channel, &byte, 1);
    // The first worker has ended.
    reap("the first", first.id);
    say("%s", "the stream has ended");
}

static void talks_to_half(struct peer *p) {
    char byte;
    p->fd = connect_to(p, AF_INET, "new");
    talk(p->fd, false, ROUNDS / 2);
    CALL(recv(p->fd, &byte, 1, 0));
}

// A message that cannot be sent passes no descriptor.
static void it_is_not_sent_at_first(struct peer *p) {
    struct worker w = execute(p, "serves");
    accepts(p);
    char control[CMSG_SPACE(sizeof p->fd)] = {0};
    struct iovec word = {"take it", 7};
    struct msghdr message = {
        .msg_iov = &word, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof control};
    struct cmsghdr *header = CMSG_FIRSTHDR(&message);
    *header = (struct cmsghdr){
        .cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS, .cmsg_len = CMSG_LEN(sizeof p->fd)};
    memcpy(CMSG_DATA(header), &p->fd, sizeof p->fd);
    // This socket has no peer.
    int nowhere = MUST(socket(AF_UNIX, SOCK_DGRAM, 0));
    CALL(sendmsg(nowhere, &message, 0));
    hand_over(w.channel, p->fd);
    MUST(close(p->fd));
    reap("the worker", w.id);
}

static const struct scenario scenarios[] = {
    {"a_program_gets_a_new_stream", to_a_program, talks, RAW},
    {"a_child_gets_a_new_stream", to_a_child, talks, RAW},
    {"a_program_gets_a_stream_on_its_vi", after_much, talks_to_both, RAW},
    {"it_comes_over_a_named_channel", over_a_named_channel, talks, RAW},
    {"the_message_alone_holds_it", to_one_that_is_late, talks, RAW},
    {"it_comes_back_to_its_sender", to_oneself, talks, RAW},
    {"many_new_streams", many, talks_on_many, RAW},
    {"it_is_looked_at_first", to_one_that_looks_first, talks, RAW},
    {"its_sender_goes_on_with_it", its_sender_goes_on, talks, RAW},
    {"two_programs_get_it_in_messages", it_is_sent_to_two, talks, RAW},
    {"a_child_of_its_senders_has_it", a_child_of_its_senders_has_it, talks, RAW},
    {"a_worker_sends_it_back_and_keeps_it", a_worker_gives_it_back, talks, RAW},
    {"a_worker_sends_it_on_and_keeps_it", a_worker_gives_it_on, talks, RAW},
    {"it_is_looked_at_and_used", a_worker_uses_both, talks, RAW},
    {"its_receiver_ends", it_goes_on_to_another, talks_to_half, RAW},
    {"a_message_fails", it_is_not_sent_at_first, talks, RAW},
};

int main(int argc, char **argv) {
    if (argc > 2 && strcmp(argv[1], "--worker") == 0)
        return worker(argv);
    return scenario_main(argc, argv, scenarios, sizeof scenarios / sizeof scenarios[0]);
}
