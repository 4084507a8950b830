// What is unread when the peer has finished, and another program gets the stream: this process and the program may
// both be the ones that read it.
#include "common.h"

static char buffer[70000];
static char *const NOTHING[] = {"true", NULL};

// --- the program: it has the stream as its standard input

static int inherited(char **argv) {
    uint64_t offset = strtoull(argv[3], NULL, 10);
    if (strcmp(argv[2], "takes") == 0) {
        recv_pattern(0, offset, 700, 100);
        say("the program took 700 bytes");
    } else if (strcmp(argv[2], "drains") == 0)
        drain_to_eof(0, offset);
    else if (strcmp(argv[2], "drains late") == 0) {
        nap(300);
        drain_to_eof(0, offset);
    } else {
        drain_to_eof(0, offset);
        send_pattern(0, 0, 1000, 100);
    }
    return 0;
}

static char **becomes(struct peer *p, char *what, const char *offset) {
    static char *arguments[5];
    char *all[5] = {(char *)p->self, "--inherited", what, (char *)offset, NULL};
    memcpy(arguments, all, sizeof arguments);
    return arguments;
}

static pid_t start(struct peer *p, bool vforked, char *const *program) {
    fflush(stdout);
    pid_t child = vforked ? vfork() : fork();
    if (child == 0) {
        dup2(p->fd, 0);
        execvp(program[0], program);
        _exit(99);
    }
    return child;
}

static void run(struct peer *p, bool vforked, char *const *program) {
    int status;
    MUST(waitpid(start(p, vforked, program), &status, 0));
    say_status("the program", status);
}

// --- the peer

enum { FEW = 3000, MUCH = 600000 };

static void sends(struct peer *p, uint64_t count) {
    send_pattern(p->fd, 0, count, 1000);
    CALL(close(p->fd));
    tell(p, 0);
}

static void sends_few(struct peer *p) { sends(p, FEW); }
static void sends_much(struct peer *p) { sends(p, MUCH); }

static void sends_few_and_hears(struct peer *p) {
    send_pattern(p->fd, 0, FEW, 1000);
    CALL(shutdown(p->fd, SHUT_WR));
    tell(p, 0);
    drain_to_eof(p->fd, 0);
}

// --- this process

static void a_program_reads(struct peer *p, bool vforked) {
    hear(p);
    run(p, vforked, becomes(p, "drains", "0"));
    drain_to_eof(p->fd, FEW);
}

static void a_program_does_not(struct peer *p, bool vforked) {
    hear(p);
    run(p, vforked, NOTHING);
    drain_to_eof(p->fd, 0);
}

static void programs_take_parts(struct peer *p, bool vforked) {
    hear(p);
    run(p, vforked, becomes(p, "takes", "0"));
    run(p, !vforked, becomes(p, "takes", "700"));
    recv_pattern(p->fd, 1400, 100, 50);
    run(p, vforked, becomes(p, "takes", "1500"));
    drain_to_eof(p->fd, 2200);
}

static void a_child_reads(struct peer *p) { a_program_reads(p, false); }
static void a_vforked_child_reads(struct peer *p) { a_program_reads(p, true); }
static void a_child_does_not(struct peer *p) { a_program_does_not(p, false); }
static void a_vforked_child_does_not(struct peer *p) { a_program_does_not(p, true); }
static void children_take_parts(struct peer *p) { programs_take_parts(p, false); }
static void vforked_children_take_parts(struct peer *p) { programs_take_parts(p, true); }

// More than a socket takes at once.
static void much_for_both(struct peer *p) {
    await_bytes(p->fd, 2000);
    run(p, false, becomes(p, "takes", "0"));
    run(p, true, becomes(p, "takes", "700"));
    drain_to_eof(p->fd, 1400);
    hear(p);
}

static void a_program_without_its_library(struct peer *p) {
    hear(p);
    MUST(unsetenv("LD_PRELOAD"));
    run(p, false, becomes(p, "takes", "0"));
    drain_to_eof(p->fd, 700);
}

static void a_process_that_lets_go(struct peer *p) {
    hear(p);
    pid_t child = start(p, false, becomes(p, "drains late", "0"));
    CALL(close(p->fd));
    int status;
    MUST(waitpid(child, &status, 0));
    say_status("the program", status);
}

static void both_answer(struct peer *p) {
    hear(p);
    run(p, false, becomes(p, "answers", "0"));
    drain_to_eof(p->fd, FEW);
    send_pattern(p->fd, 1000, 1000, 100);
    CALL(close(p->fd));
}

static void what_calls_say(struct peer *p) {
    int count, one = 1;
    hear(p);
    run(p, false, NOTHING);
    CALL(ioctl(p->fd, FIONREAD, &count));
    say("%d bytes are unread", count);
    say("%s", poll_names(await_events(p->fd, POLLIN, POLLIN)));
    CALL(recv(p->fd, buffer, 100, MSG_PEEK));
    struct iovec parts[] = {{buffer, 100}, {buffer + 100, 200}};
    CALL(readv(p->fd, parts, 2));
    say("%s", matches(buffer, 300, 0) ? "right" : "wrong");
    MUST(ioctl(p->fd, FIONBIO, &one));
    CALL(recv(p->fd, buffer, 600, MSG_DONTWAIT));
    say("%s", matches(buffer, 600, 300) ? "right" : "wrong");
    one = 0;
    MUST(ioctl(p->fd, FIONBIO, &one));
    CALL(recv(p->fd, buffer, 5000, MSG_WAITALL));
    say("%s", matches(buffer, FEW - 900, 900) ? "right" : "wrong");
    CALL(recv(p->fd, buffer, 1, 0));
}

static void a_set_tells_of_it(struct peer *p) {
    struct epoll_event event = {.events = EPOLLIN};
    int set = MUST(epoll_create1(EPOLL_CLOEXEC));
    uint64_t total = 0;
    ssize_t got;
    MUST(epoll_ctl(set, EPOLL_CTL_ADD, p->fd, &event));
    hear(p);
    run(p, true, NOTHING);
    set_nonblocking(p->fd, true);
    do {
        MUST(epoll_wait(set, &event, 1, -1));
        got = recv(p->fd, buffer, 77, 0);
        if (got > 0 && !matches(buffer, got, total))
            die("other bytes at %llu", (unsigned long long)total);
        total += got > 0 ? got : 0;
    } while (got > 0 || (got < 0 && errno == EAGAIN));
    say("%llu bytes, then %ld", (unsigned long long)total, (long)got);
}

// A child of the same program is one more that reads.
static void a_relative_reads(struct peer *p) {
    int status;
    hear(p);
    run(p, false, becomes(p, "takes", "0"));
    fflush(stdout);
    pid_t child = MUST(fork());
    if (child == 0) {
        recv_pattern(p->fd, 700, 700, 70);
        run(p, true, becomes(p, "takes", "1400"));
        fflush(stdout);
        _exit(0);
    }
    MUST(waitpid(child, &status, 0));
    say_status("the child", status);
    drain_to_eof(p->fd, 2100);
}

// The process itself becomes a program then.
static void it_becomes_a_program(struct peer *p) {
    hear(p);
    run(p, false, becomes(p, "takes", "0"));
    MUST(dup2(p->fd, 0));
    fflush(stdout);
    execv(p->self, becomes(p, "drains", "700"));
    die("exec");
}

static void an_exec_that_fails(struct peer *p) {
    int status;
    hear(p);
    fflush(stdout);
    pid_t child = MUST(fork());
    if (child == 0) {
        CALL(execl("/dev/null", "null", NULL));
        recv_pattern(p->fd, 0, 700, 70);
        say("the child took 700 bytes");
        fflush(stdout);
        _exit(0);
    }
    MUST(waitpid(child, &status, 0));
    say_status("the child", status);
    drain_to_eof(p->fd, 700);
}

static const struct scenario scenarios[] = {
    {"a_child_reads_it_as_its_input", sends_few, a_child_reads},
    {"a_vforked_child_reads_it_as_its_input", sends_few, a_vforked_child_reads},
    {"a_child_that_reads_nothing_leaves_it", sends_few, a_child_does_not},
    {"a_vforked_child_that_reads_nothing_leaves_it", sends_few, a_vforked_child_does_not},
    {"children_take_parts_of_it", sends_few, children_take_parts},
    {"vforked_children_take_parts_of_it", sends_few, vforked_children_take_parts},
    {"much_of_it_is_for_both", sends_much, much_for_both},
    {"it_is_for_a_program_without_its_library", sends_few, a_program_without_its_library},
    {"the_process_lets_go", sends_few, a_process_that_lets_go},
    {"both_answer_a_peer_that_listens", sends_few_and_hears, both_answer},
    {"calls_say_what_is_left_of_it", sends_few, what_calls_say},
    {"a_set_tells_of_it", sends_few, a_set_tells_of_it},
    {"a_relative_reads_it_too", sends_few, a_relative_reads},
    {"the_process_becomes_a_program_after_its_child", sends_few, it_becomes_a_program},
    {"an_exec_that_fails_leaves_it", sends_few, an_exec_that_fails},
};

int main(int argc, char **argv) {
    if (argc > 3 && strcmp(argv[1], "--inherited") == 0)
        return inherited(argv);
    return scenario_main(argc, argv, scenarios, sizeof scenarios / sizeof scenarios[0]);
}
