// A program that inherits a connection, like a server under inetd, and other processes with that
// connection.
#include "heirs.h"
#include <spawn.h>

extern char **environ;
enum { GREETING = 8, EARLY = 12, READ_EARLY = 5, MARKS = 50, MARK = 9 };

// Talks until the two ends have their VI, perhaps once more, and for a while after that.
static void talk_on_vi(int fd, bool server) {
    warm_until_on_vi(fd, server);
    converse(fd, server, ROUNDS);
}

static void answers_lines(void) {
    char line[SIZE];
    while (fgets(line, sizeof line, stdin))
        if (fputs(line, stdout) < 0 || fflush(stdout) < 0)
            die("answer: %s", strerrorname_np(errno));
}

static int is_heir(char **argv) {
    int fd = atoi(argv[2]);
    struct peer p = {.self = argv[0], .dir = argv[4]};
    const char *what = argv[3];
    if (strcmp(what, "server") == 0) {
        talk(fd, true);
    } else if (strcmp(what, "client") == 0) {
        talk(fd, false);
    } else if (strcmp(what, "client again") == 0) {
        talk_on_vi(fd, false);
    } else if (strcmp(what, "twice") == 0) {
        becomes(&p, fd, "server");
    } else if (strcmp(what, "talked") == 0) {
        talk(fd, true);
        becomes(&p, fd, "server");
    } else if (strcmp(what, "again") == 0) {
        talk_on_vi(fd, true);
        becomes(&p, fd, "once more");
    } else if (strcmp(what, "once more") == 0) {
        talk_on_vi(fd, true);
    } else if (strcmp(what, "rest") == 0) {
        char rest[EARLY - READ_EARLY];
        recv_all(fd, rest, sizeof rest);
        say("%.*s", (int)sizeof rest, rest);
        talk(fd, true);
    } else if (strcmp(what, "first") == 0) {
        converse(fd, true, ROUNDS);
        talk(fd, true);
    } else if (strcmp(what, "converse") == 0) {
        for (int i = 0; i < 20; i++)
            converse(fd, true, ROUNDS);
    } else if (strcmp(what, "waits") == 0) {
        char byte;
        MUST(read(3, &byte, 1));
        converse(fd, true, ROUNDS);
    } else if (strcmp(what, "lines") == 0) {
        answers_lines();
    } else if (strcmp(what, "stays") == 0) {
        talk(fd, true);
        pause();
    }
    return 0;
}

// --- steps of inetd

static pid_t serve(struct peer *p, const char *what) { return start_heir(p, what, 0, 1); }

static void inetd(struct peer *p) {
    pid_t child = serve(p, "server");
    close(p->fd);
    reap("server", child);
}

static void talks(struct peer *p) {
    talk(p->fd, false);
    CALL(recv(p->fd, number, 1, 0));
}

// The parent keeps its copy for as long as the client says.
static void lets_go_later(struct peer *p) {
    pid_t child = serve(p, "first");
    hear(p);
    close(p->fd);
    reap("server", child);
}

static void talks_then_has_it_let_go(struct peer *p) {
    converse(p->fd, false, ROUNDS);
    tell(p, 0);
    talks(p);
}

// The parent continues where its child has ended.
static void keeps_its_copy(struct peer *p) {
    pid_t child = serve(p, "server");
    reap("server", child);
    talk(p->fd, true);
    close(p->fd);
}

static void talks_with_both(struct peer *p) {
    talk(p->fd, false);
    talks(p);
}

// The parent writes into its child's conversation, again and again.
static void writes_meanwhile(struct peer *p) {
    pid_t child = serve(p, "converse");
    for (int i = 0; i < MARKS; i++) {
        hear(p);
        send_all(p->fd, "a mark: x", MARK);
    }
    reap("server", child);
    close(p->fd);
}

static void counts_both(struct peer *p) {
    for (int i = 0; i < MARKS; i++) {
        converse(p->fd, false, 20 * ROUNDS / MARKS);
        tell(p, i);
        char mark[MARK];
        recv_all(p->fd, mark, MARK);
        if (memcmp(mark, "a mark: x", MARK))
            die("mark %d is none", i);
    }
    CALL(recv(p->fd, number, 1, 0));
}

// Two programs inherit it. The second one starts when the first has begun to answer, and answers when the
// first has ended.
static void two_heirs(struct peer *p) {
    int go[2], runs[2];
    MUST(pipe(go));
    MUST(pipe2(runs, O_CLOEXEC));
    pid_t first = serve(p, "first");
    hear(p);
    pid_t second = MUST(fork());
    if (second == 0) {
        MUST(dup2(p->fd, 0));
        MUST(dup2(go[0], 3));
        becomes(p, 0, "waits");
    }
    close(runs[1]);
    char byte;
    MUST(read(runs[0], &byte, 1));
    close(p->fd);
    reap("first", first);
    MUST(write(go[1], "g", 1));
    reap("second", second);
}

static void talks_to_one_after_the_other(struct peer *p) {
    converse(p->fd, false, ROUNDS);
    tell(p, 0);
    talk(p->fd, false);
    converse(p->fd, false, ROUNDS);
    CALL(recv(p->fd, number, 1, 0));
}

static void talks_to_two(struct peer *p) {
    talk(p->fd, false);
    converse(p->fd, false, ROUNDS);
    CALL(recv(p->fd, number, 1, 0));
}

static void fails_first(struct peer *p) {
    for (int i = 0; i < 3; i++)
        CALL(execv("/nowhere/at/all", heir(p, p->fd, "server")));
    becomes(p, p->fd, "server");
}

// Reads a part first, like a program that looks at the client before it lets another program
// answer.
static void reads_and_greets(struct peer *p) {
    char some[READ_EARLY];
    recv_all(p->fd, some, sizeof some);
    send_all(p->fd, "welcome!", GREETING);
    meet(p);
    becomes(p, p->fd, "rest");
}

static void sends_early(struct peer *p) {
    send_all(p->fd, "early bytes.", EARLY);
    char greeting[GREETING];
    recv_all(p->fd, greeting, sizeof greeting);
    meet(p);
    talks(p);
}

static void becomes_it_twice(struct peer *p) { becomes(p, p->fd, "twice"); }

static void becomes_it_again(struct peer *p) { becomes(p, p->fd, "talked"); }

static void becomes_it_on_vi(struct peer *p) {
    talk_on_vi(p->fd, true);
    becomes(p, p->fd, "again");
}

static void talks_to_three_on_vi(struct peer *p) {
    for (int i = 0; i < 3; i++)
        talk_on_vi(p->fd, false);
    CALL(recv(p->fd, number, 1, 0));
}

// The parent, which was on the VI, waits for its child's program, and then executes another one.
static void a_child_becomes_it_on_vi(struct peer *p) {
    talk_on_vi(p->fd, true);
    pid_t child = serve(p, "again");
    close(p->fd);
    reap("server", child);
}

static void becomes_a_client_on_vi(struct peer *p) {
    talk_on_vi(p->fd, false);
    becomes(p, p->fd, "client again");
}

static void serves_on_vi(struct peer *p) {
    talk_on_vi(p->fd, true);
    talk_on_vi(p->fd, true);
    close(p->fd);
}

static void talks_to_both(struct peer *p) {
    talk(p->fd, false);
    talks(p);
}

static void serves(struct peer *p) {
    talk(p->fd, true);
    close(p->fd);
}

static void becomes_a_client(struct peer *p) {
    pid_t child = MUST(fork());
    if (child == 0)
        becomes(p, p->fd, "client");
    close(p->fd);
    reap("client", child);
}

static void vforks(struct peer *p) {
    char **arguments = heir(p, p->fd, "server");
    pid_t child = vfork();
    if (child == 0) {
        execv(p->self, arguments);
        _exit(1);
    }
    close(p->fd);
    reap("server", child);
}

static void spawns(struct peer *p) {
    pid_t child;
    CALL(posix_spawn(&child, p->self, NULL, NULL, heir(p, p->fd, "server"), environ));
    close(p->fd);
    reap("server", child);
}

// A shell without the library has it in between. A process of the shell keeps a copy, and answers at the end.
static void goes_through_a_shell(struct peer *p) {
    const char *library = getenv("LD_PRELOAD");
    setenv("LIBRARY", library ? library : "", 1);
    unsetenv("LD_PRELOAD");
    MUST(dup2(p->fd, 0));
    MUST(dup2(p->fd, 1));
    close(p->fd);
    char script[2000];
    snprintf(script, sizeof script,
             "(until [ -e %s/over ]; do sleep 0.01; done; printf late) & "
             "LD_PRELOAD=$LIBRARY exec %s --heir 0 server %s",
             p->dir, p->self, p->dir);
    execl("/bin/sh", "sh", "-c", script, NULL);
    die("exec");
}

static void waits_for_a_late_word(struct peer *p) {
    talk(p->fd, false);
    char over[600], late[4];
    snprintf(over, sizeof over, "%s/over", p->dir);
    close(MUST(open(over, O_CREAT | O_WRONLY, 0600)));
    recv_all(p->fd, late, sizeof late);
    say("%.4s", late);
    CALL(recv(p->fd, number, 1, 0));
}

// Another process has received it before, in a message.
static void gives_it_away_before(struct peer *p) {
    int channel[2], go[2];
    MUST(socketpair(AF_UNIX, SOCK_STREAM, 0, channel));
    MUST(pipe(go));
    pid_t other = MUST(fork());
    if (other == 0) {
        close(p->fd);
        close(channel[0]);
        int fd = take_over(channel[1], 0);
        char byte;
        MUST(read(go[0], &byte, 1));
        converse(fd, true, ROUNDS);
        exit(0);
    }
    hand_over(channel[0], p->fd);
    pid_t first = serve(p, "server");
    close(p->fd);
    reap("first", first);
    MUST(write(go[1], "g", 1));
    reap("second", other);
}

// Lines through stdio, as in a server under inetd.
static void serves_lines(struct peer *p) {
    pid_t child = serve(p, "lines");
    close(p->fd);
    reap("server", child);
}

static void talks_in_lines(struct peer *p) {
    for (int i = 0; i < 20 * ROUNDS; i++) {
        char out[50], in[50];
        int length = snprintf(out, sizeof out, "line %d\n", i);
        send_all(p->fd, out, length);
        recv_all(p->fd, in, length);
        if (memcmp(in, out, length))
            die("line %d came as another", i);
    }
    CALL(shutdown(p->fd, SHUT_WR));
    CALL(recv(p->fd, number, 1, 0));
}

static void kills_it(struct peer *p) {
    pid_t child = serve(p, "stays");
    close(p->fd);
    hear(p);
    kill(child, SIGKILL);
    reap("server", child);
}

static void sees_the_end(struct peer *p) {
    talk(p->fd, false);
    tell(p, 0);
    CALL(recv(p->fd, number, 1, 0));
}

static const struct scenario scenarios[] = {
    {"a_server_of_inetds", inetd, talks, COLD},
    {"a_parent_that_lets_go_later", lets_go_later, talks_then_has_it_let_go, COLD},
    {"a_parent_that_goes_on_after_it", keeps_its_copy, talks_with_both, COLD},
    {"a_parent_that_writes_meanwhile", writes_meanwhile, counts_both, COLD},
    {"two_programs_get_it", two_heirs, talks_to_one_after_the_other, COLD},
    {"an_exec_that_fails_before", fails_first, talks, COLD},
    {"bytes_before_the_exec", reads_and_greets, sends_early, COLD},
    {"a_program_that_becomes_another", becomes_it_twice, talks, COLD},
    {"a_program_that_becomes_another_later", becomes_it_again, talks_to_both, COLD},
    {"a_program_on_its_vi_that_becomes_another", becomes_it_on_vi, talks_to_three_on_vi, COLD},
    {"a_child_of_a_server_on_its_vi_becomes_another", a_child_becomes_it_on_vi, talks_to_three_on_vi, COLD},
    {"a_client_on_its_vi_becomes_another", serves_on_vi, becomes_a_client_on_vi, COLD},
    {"a_client_inherits", serves, becomes_a_client, COLD},
    {"a_child_of_vfork_inherits", vforks, talks, COLD},
    {"a_child_of_posix_spawn_inherits", spawns, talks, COLD},
    {"a_shell_in_between_keeps_it", goes_through_a_shell, waits_for_a_late_word, COLD},
    {"another_process_has_been_sent_it", gives_it_away_before, talks_to_two, COLD},
    {"lines_of_a_server_of_inetds", serves_lines, talks_in_lines, COLD},
    {"a_server_of_inetds_is_killed", kills_it, sees_the_end, COLD},
};

int main(int argc, char **argv) {
    if (argc == 5 && strcmp(argv[1], "--heir") == 0)
        return is_heir(argv);
    return scenario_main(argc, argv, scenarios, sizeof scenarios / sizeof scenarios[0]);
}
