// Bytes that are unread when the peer has finished and another program gets the stream. This process and the
// program may both read them.
#include "common.h"
#include <stdatomic.h>
#include <sys/prctl.h>

static char buffer[70000];
static char *const NOTHING[] = {"true", NULL};

// More bytes than the sockets between the program and the peer can hold.
enum { ANSWER = 12000000 };

// --- the program: its standard input is the stream

// Streams under the numbers from FIRST on, each with different bytes.
enum { MANY = 40, FIRST = 100, APART = 10000 };

static int inherited(char **argv) {
    uint64_t offset = strtoull(argv[3], NULL, 10);
    if (strcmp(argv[2], "takes of many") == 0) {
        for (int i = 0; i < MANY; i++)
            recv_pattern(FIRST + i, i * APART + offset, 700, 100);
        say("the program took 700 bytes of each");
    } else if (strcmp(argv[2], "takes") == 0) {
        recv_pattern(0, offset, 700, 100);
        say("the program took 700 bytes");
    } else if (strcmp(argv[2], "takes one") == 0) {
        CALL(recv(0, buffer, 1, 0));
    } else if (strcmp(argv[2], "drains") == 0)
        drain_to_eof(0, offset);
    else if (strcmp(argv[2], "answers much") == 0) {
        drain_to_eof(0, offset);
        send_pattern(0, 0, ANSWER, 10000);
    } else if (strcmp(argv[2], "is cut off") == 0) {
        ssize_t got;
        long total = 0;
        while ((got = recv(0, buffer, 1000, MSG_WAITALL)) > 0)
            total += got;
        say("%ld bytes, then %s", total, got ? strerrorname_np(errno) : "end of stream");
        CALL(recv(0, buffer, 1, 0));
        CALL(send(0, "x", 1, MSG_NOSIGNAL));
    } else if (strcmp(argv[2], "drains late") == 0) {
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

static void sends_few_and_exits(struct peer *p) {
    send_pattern(p->fd, 0, FEW, 1000);
    tell(p, 0);
}

static void sends_few_and_resets(struct peer *p) {
    struct linger none = {.l_onoff = 1, .l_linger = 0};
    send_pattern(p->fd, 0, FEW, 1000);
    meet(p); // bytes that have not arrived would be lost
    MUST(setsockopt(p->fd, SOL_SOCKET, SO_LINGER, &none, sizeof none));
    CALL(close(p->fd));
    tell(p, 0);
}

static void sends_many(struct peer *p) {
    int streams[MANY], listener = listen_on(p, AF_INET, "many");
    for (int i = 0; i < MANY; i++) {
        streams[i] = accept_one(listener);
        warm(streams[i], true);
    }
    for (int i = 0; i < MANY; i++) {
        send_pattern(streams[i], i * APART, FEW, 1000);
        MUST(close(streams[i]));
    }
    tell(p, 0);
}

static void sends_much(struct peer *p) { sends(p, MUCH); }

static void sends_few_and_hears(struct peer *p) {
    send_pattern(p->fd, 0, FEW, 1000);
    CALL(shutdown(p->fd, SHUT_WR));
    tell(p, 0);
    drain_to_eof(p->fd, 0);
}

static void sends_few_and_hears_slowly(struct peer *p) {
    send_pattern(p->fd, 0, FEW, 1000);
    CALL(shutdown(p->fd, SHUT_WR));
    tell(p, 0);
    nap(300);
    drain_to_eof(p->fd, 0);
}

// Checks that the end of the stream is reported as an end.
static void sends_few_and_looks(struct peer *p) {
    send_pattern(p->fd, 0, FEW, 1000);
    CALL(shutdown(p->fd, SHUT_WR));
    tell(p, 0);
    CALL(recv(p->fd, buffer, 1, 0));
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

// More bytes than a socket takes at once.
static void much_for_both(struct peer *p) {
    await_bytes(p->fd, 2000);
    run(p, false, becomes(p, "takes", "0"));
    run(p, true, becomes(p, "takes", "700"));
    drain_to_eof(p->fd, 1400);
    hear(p);
}

// A program that does not load the library gets all bytes. A relative that reads too gets the rest or an error, but
// never an early end.
static void a_program_without_its_library_gets_it(struct peer *p, bool vforked) {
    ssize_t got;
    long total = 0;
    hear(p);
    MUST(unsetenv("LD_PRELOAD"));
    run(p, vforked, becomes(p, "drains", "0"));
    while ((got = recv(p->fd, buffer, 1000, 0)) > 0)
        total += got;
    say("the relative %s", (got < 0 && errno == ECONNRESET) || total == 0 ? "is not misled" : "is misled");
}

static void a_program_without_its_library(struct peer *p) { a_program_without_its_library_gets_it(p, false); }
static void a_vforked_one_without_its_library(struct peer *p) { a_program_without_its_library_gets_it(p, true); }

static void both_read_it(struct peer *p, bool vforked, char *what, long total) {
    ssize_t got;
    hear(p);
    MUST(unsetenv("LD_PRELOAD"));
    run(p, vforked, becomes(p, what, "0"));
    while ((got = recv(p->fd, buffer, 1000, 0)) > 0)
        total += got;
    say("the relative %s", got < 0 ? errno == ECONNRESET ? "is not misled" : "fails" : total == FEW ? "is not misled" : "is misled");
}

// The program leaves its standard input to its parent, like many commands of a shell.
static void a_command_leaves_it(struct peer *p) {
    hear(p);
    MUST(unsetenv("LD_PRELOAD"));
    run(p, false, NOTHING);
    drain_to_eof(p->fd, 0);
}

// The program does not use the stream, which is none of its standard descriptors.
static void a_program_ignores_it(struct peer *p) {
    int status;
    hear(p);
    nap(100);
    MUST(unsetenv("LD_PRELOAD"));
    pid_t child = MUST(fork());
    if (child == 0) {
        execvp(NOTHING[0], NOTHING);
        _exit(99);
    }
    MUST(waitpid(child, &status, 0));
    say_status("the program", status);
    drain_to_eof(p->fd, 0);
}

static void a_relative_of_one_without_its_library(struct peer *p) { both_read_it(p, false, "takes", 700); }
static void a_relative_of_one_that_takes_a_byte(struct peer *p) { both_read_it(p, false, "takes one", 1); }
static void a_relative_of_a_vforked_one_without_its_library(struct peer *p) { both_read_it(p, true, "takes", 700); }

// Sends it to another process while a relative has it.
static void another_process_gets_it(struct peer *p) {
    int status, ways[2], ends[2];
    char byte;
    hear(p);
    MUST(socketpair(AF_UNIX, SOCK_STREAM, 0, ways));
    MUST(pipe(ends));
    fflush(stdout);
    pid_t relative = MUST(fork());
    if (relative == 0) {
        close(ends[1]);
        MUST(read(ends[0], &byte, 1));
        _exit(0);
    }
    pid_t receiver = MUST(fork());
    if (receiver == 0) {
        close(p->fd);
        drain_to_eof(take_over(ways[1], 0), 0);
        fflush(stdout);
        _exit(0);
    }
    hand_over(ways[0], p->fd);
    MUST(close(p->fd));
    MUST(waitpid(receiver, &status, 0));
    say_status("the receiver", status);
    close(ends[1]);
    MUST(waitpid(relative, &status, 0));
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

// An error follows it: the peer has reset the connection.
static void awaits_a_reset(struct peer *p) {
    await_bytes(p->fd, FEW);
    meet(p);
    hear(p);
}

static void a_program_is_told_of_a_reset(struct peer *p, bool vforked) {
    awaits_a_reset(p);
    run(p, vforked, becomes(p, "is cut off", "0"));
    CALL(send(p->fd, "x", 1, MSG_NOSIGNAL));
}

static void a_child_is_told_of_a_reset(struct peer *p) { a_program_is_told_of_a_reset(p, false); }
static void a_vforked_child_is_told_of_a_reset(struct peer *p) { a_program_is_told_of_a_reset(p, true); }

static void a_relative_is_told_of_a_reset(struct peer *p) {
    awaits_a_reset(p);
    run(p, false, becomes(p, "takes", "0"));
    recv_pattern(p->fd, 700, FEW - 700, 100);
    CALL(recv(p->fd, buffer, 1, 0));
}

// The error stays pending until a call gets it, however late.
static void a_late_relative_is_told_of_a_reset(struct peer *p) {
    awaits_a_reset(p);
    run(p, false, becomes(p, "takes", "0"));
    recv_pattern(p->fd, 700, FEW - 700, 100);
    nap(1000);
    CALL(recv(p->fd, buffer, 1, 0));
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

// A child of the same program reads too.
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

// Then the process itself executes a program.
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

static void programs_take_of_many(struct peer *p) {
    for (int i = 0; i < MANY; i++) {
        int fd = connect_to(p, AF_INET, "many");
        warm(fd, false);
        MUST(dup2(fd, FIRST + i));
        MUST(close(fd));
    }
    hear(p);
    run(p, false, becomes(p, "takes of many", "0"));
    run(p, true, becomes(p, "takes of many", "700"));
    for (int i = 0; i < MANY; i++)
        drain_to_eof(FIRST + i, i * APART + 1400);
}

// Forks children as long as `forks_until` is open.
static int forks_until[2];
static atomic_int forked;

static void *forks(void *unused) {
    (void)unused;
    for (int i = 0; i < 8; i++) {
        char byte;
        pid_t child = fork();
        if (child == 0) {
            close(forks_until[1]);
            _exit(read(forks_until[0], &byte, 1));
        }
        forked++;
    }
    return NULL;
}

// Programs start while a thread forks children that live on.
static void programs_begin_amid_forks(struct peer *p) {
    int status;
    hear(p);
    MUST(pipe2(forks_until, O_CLOEXEC));
    for (int i = 0; i < 5; i++) {
        fflush(stdout);
        pid_t child = MUST(fork());
        if (child == 0) {
            pthread_t thread;
            pthread_create(&thread, NULL, forks, NULL);
            while (forked < 2)
                sched_yield();
            execvp(NOTHING[0], NOTHING);
            _exit(99);
        }
        MUST(waitpid(child, &status, 0));
        say_status("the program", status);
    }
    MUST(close(forks_until[1]));
    drain_to_eof(p->fd, 0);
}

// More processes than the library can distinguish. One of those that share a slot is the last one with the
// stream.
static void the_last_of_many_reads(struct peer *p) {
    enum { CHILDREN = 70 };
    pid_t children[CHILDREN];
    int others[2], status;
    char byte;
    hear(p);
    run(p, false, becomes(p, "takes", "0"));
    MUST(pipe(others));
    fflush(stdout);
    for (int i = 0; i < CHILDREN; i++) {
        children[i] = MUST(fork());
        if (children[i])
            continue;
        MUST(close(others[1]));
        // The read ends when this process is the last one.
        MUST(read(others[0], &byte, 1));
        if (i + 1 < CHILDREN)
            _exit(0);
        // Wait until the next check for living processes is over.
        nap(300);
        drain_to_eof(p->fd, 700);
        fflush(stdout);
        _exit(0);
    }
    CALL(close(p->fd));
    MUST(close(others[1]));
    for (int i = 0; i < CHILDREN; i++)
        MUST(waitpid(children[i], &status, 0));
    say_status("the last", status);
}

// One program reads and answers, and another one follows it.
static void one_answers_after_the_other(struct peer *p) {
    hear(p);
    run(p, false, becomes(p, "answers much", "0"));
    fflush(stdout);
    pid_t child = MUST(fork());
    if (child == 0) {
        send_pattern(p->fd, ANSWER, 1000, 100);
        fflush(stdout);
        _exit(0);
    }
    int status;
    MUST(waitpid(child, &status, 0));
    say_status("the child", status);
    send_pattern(p->fd, ANSWER + 1000, 1000, 100);
    CALL(close(p->fd));
}

static void headers_of_messages(struct peer *p) {
    char name[64], control[256];
    struct iovec part = {buffer, 100};
    struct msghdr header = {.msg_iov = &part, .msg_iovlen = 1, .msg_name = name, .msg_namelen = sizeof name,
                            .msg_control = control, .msg_controllen = sizeof control, .msg_flags = 0x7777};
    hear(p);
    run(p, false, becomes(p, "takes", "0"));
    struct mmsghdr one = {.msg_hdr = header};
    CALL(recvmsg(p->fd, &header, 0));
    say("name %u, control %zu, flags %x", header.msg_namelen, header.msg_controllen, header.msg_flags);
    CALL(recvmmsg(p->fd, &one, 1, 0, NULL));
    say("name %u, control %zu, bytes %u", one.msg_hdr.msg_namelen, one.msg_hdr.msg_controllen, one.msg_len);
    drain_to_eof(p->fd, 900);
}

// The parent leaves the bytes unread that the program has left.
static void none_reads_it_all(struct peer *p) {
    hear(p);
    run(p, false, becomes(p, "takes", "0"));
    CALL(close(p->fd));
}

static void a_process_that_cannot_be_traced(struct peer *p) {
    hear(p);
    run(p, false, becomes(p, "takes", "0"));
    MUST(prctl(PR_SET_DUMPABLE, 0));
    drain_to_eof(p->fd, 700);
}

// Process group of the child that executed the program.
static void its_group_is_killed(struct peer *p) {
    int status, begins[2];
    char byte;
    hear(p);
    MUST(pipe2(begins, O_CLOEXEC));
    fflush(stdout);
    pid_t child = MUST(fork());
    if (child == 0) {
        setsid();
        dup2(p->fd, 0);
        execlp("sleep", "sleep", "1000", NULL);
        _exit(99);
    }
    // The read ends when the child executes the program.
    MUST(close(begins[1]));
    MUST(read(begins[0], &byte, 1));
    MUST(kill(-child, SIGKILL));
    MUST(waitpid(child, &status, 0));
    say_status("the program", status);
    drain_to_eof(p->fd, 0);
}

// Children that are killed meanwhile lose no bytes.
static void children_are_killed(struct peer *p) {
    int status;
    hear(p);
    fflush(stdout);
    for (int i = 0; i < 40; i++) {
        pid_t child = start(p, false, NOTHING);
        usleep(i * 100);
        kill(child, SIGKILL);
        MUST(waitpid(child, &status, 0));
    }
    drain_to_eof(p->fd, 0);
}

static void *reads_meanwhile(void *fd) {
    recv_pattern(*(int *)fd, 0, 700, 7);
    return NULL;
}

static void a_thread_reads_while_a_command_runs(struct peer *p) {
    pthread_t thread;
    hear(p);
    pthread_create(&thread, NULL, reads_meanwhile, &p->fd);
    for (int i = 0; i < 10; i++)
        MUST(system("true"));
    pthread_join(thread, NULL);
    drain_to_eof(p->fd, 700);
}

static const struct scenario scenarios[] = {
    {"one_program_answers_after_another", sends_few_and_hears_slowly, one_answers_after_the_other},
    {"headers_say_what_the_kernel_says", sends_few, headers_of_messages},
    {"it_is_left_unread", sends_few_and_looks, none_reads_it_all},
    {"the_process_cannot_be_traced_any_more", sends_few, a_process_that_cannot_be_traced},
    {"its_programs_group_is_killed", sends_few, its_group_is_killed},
    {"children_are_killed_meanwhile", sends_few, children_are_killed},
    {"a_thread_reads_it_while_a_command_runs", sends_few, a_thread_reads_while_a_command_runs},
    {"a_child_reads_it_as_its_input", sends_few, a_child_reads},
    {"a_vforked_child_reads_it_as_its_input", sends_few, a_vforked_child_reads},
    {"a_child_that_reads_nothing_leaves_it", sends_few, a_child_does_not},
    {"a_vforked_child_that_reads_nothing_leaves_it", sends_few, a_vforked_child_does_not},
    {"another_process_gets_it", sends_few, another_process_gets_it},
    {"children_take_parts_of_it", sends_few, children_take_parts},
    {"vforked_children_take_parts_of_it", sends_few, vforked_children_take_parts},
    {"much_of_it_is_for_both", sends_much, much_for_both},
    {"it_is_for_a_program_without_its_library", sends_few, a_program_without_its_library},
    {"it_is_for_a_vforked_program_without_its_library", sends_few, a_vforked_one_without_its_library},
    {"a_relative_reads_what_a_program_ignores", sends_few, a_program_ignores_it},
    {"a_relative_reads_what_a_program_ignores_after_an_exit", sends_few_and_exits, a_program_ignores_it},
    {"a_relative_of_a_program_without_its_library_is_not_misled_by_an_exit", sends_few_and_exits,
     a_relative_of_one_without_its_library},
    {"a_relative_of_a_program_without_its_library_is_not_misled", sends_few, a_relative_of_one_without_its_library},
    {"a_relative_of_a_vforked_program_without_its_library_is_not_misled", sends_few, a_relative_of_a_vforked_one_without_its_library},
    {"a_relative_of_a_program_that_takes_a_byte_is_not_misled", sends_few, a_relative_of_one_that_takes_a_byte},
    {"a_relative_reads_what_a_command_leaves", sends_few, a_command_leaves_it},
    {"the_process_lets_go", sends_few, a_process_that_lets_go},
    {"both_answer_a_peer_that_listens", sends_few_and_hears, both_answer},
    {"a_reset_comes_behind_it", sends_few_and_resets, a_child_is_told_of_a_reset},
    {"a_reset_comes_behind_it_for_a_vforked_child", sends_few_and_resets, a_vforked_child_is_told_of_a_reset},
    {"a_reset_comes_behind_it_for_a_relative", sends_few_and_resets, a_relative_is_told_of_a_reset},
    {"a_reset_comes_behind_it_for_a_late_relative", sends_few_and_resets, a_late_relative_is_told_of_a_reset},
    {"calls_say_what_is_left_of_it", sends_few, what_calls_say},
    {"a_set_tells_of_it", sends_few, a_set_tells_of_it},
    {"the_last_of_many_relatives_reads_it", sends_few, the_last_of_many_reads},
    {"programs_take_parts_of_many_rests", sends_many, programs_take_of_many, RAW},
    {"programs_begin_while_a_thread_forks", sends_few, programs_begin_amid_forks},
    {"a_relative_reads_it_too", sends_few, a_relative_reads},
    {"the_process_becomes_a_program_after_its_child", sends_few, it_becomes_a_program},
    {"an_exec_that_fails_leaves_it", sends_few, an_exec_that_fails},
};

int main(int argc, char **argv) {
    if (argc > 3 && strcmp(argv[1], "--inherited") == 0)
        return inherited(argv);
    return scenario_main(argc, argv, scenarios, sizeof scenarios / sizeof scenarios[0]);
}
