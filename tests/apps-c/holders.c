// A program inherits a connection that another process also has, which its family does not know.
#include "heirs.h"
#include <sched.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>

extern char **environ;
enum { MANY = 3000, FIRST = 20, LAST = 60, SET = 90, STACK = 1 << 18 };

static pid_t serve(struct peer *p, const char *what) { return start_heir(p, what, FIRST, FIRST); }

static void await_file(const char *dir, const char *name) {
    char path[600];
    snprintf(path, sizeof path, "%s/%s", dir, name);
    while (access(path, F_OK))
        usleep(5000);
}

static void make_file(const char *dir, const char *name) {
    char path[600];
    snprintf(path, sizeof path, "%s/%s", dir, name);
    close(MUST(open(path, O_CREAT | O_WRONLY, 0600)));
}

// Without the library, a child keeps the connection, and writes at the end.
static void keeps_it_and_becomes_a_server(struct peer *p, int fd) {
    if (MUST(fork()) == 0) {
        await_file(p->dir, "over");
        send_all(fd, "late", 4);
        _exit(0);
    }
    const char *library = getenv("LIBRARY");
    if (library && *library)
        setenv("LD_PRELOAD", library, 1);
    becomes(p, fd, "server");
}

static void answers_at_signals(int fd, const char *dir) {
    sigset_t news;
    sigemptyset(&news);
    sigaddset(&news, SIGIO);
    MUST(sigprocmask(SIG_BLOCK, &news, NULL));
    make_file(dir, "waits");
    for (int left = MANY * SIZE; left > 0;) {
        char some[SIZE];
        ssize_t got = recv(fd, some, sizeof some, MSG_DONTWAIT);
        if (got > 0) {
            send_all(fd, some, got);
            left -= got;
        } else if (got == 0) {
            die("the end, before %d bytes", left);
        } else {
            struct timespec longest = {20, 0};
            if (sigtimedwait(&news, NULL, &longest) < 0)
                die("no signal before %d bytes", left);
        }
    }
}

static int is_heir(char **argv) {
    int fd = atoi(argv[2]);
    struct peer p = {.self = argv[0], .dir = argv[4]};
    const char *what = argv[3];
    if (strcmp(what, "server") == 0) {
        talk(fd, true);
    } else if (strcmp(what, "first") == 0) {
        converse(fd, true, ROUNDS);
        talk(fd, true);
    } else if (strcmp(what, "by turns") == 0) {
        for (int i = 0; i < MANY; i++) {
            char in[SIZE];
            recv_all(fd, in, sizeof in);
            send_all(i % 2 ? LAST : fd, in, sizeof in);
        }
    } else if (strcmp(what, "set") == 0) {
        for (int i = 0; i < MANY; i++) {
            struct epoll_event event;
            if (epoll_wait(SET, &event, 1, 20000) != 1)
                die("no event in round %d", i);
            converse(fd, true, 1);
        }
    } else if (strcmp(what, "between") == 0) {
        keeps_it_and_becomes_a_server(&p, fd);
    } else if (strcmp(what, "signals") == 0) {
        answers_at_signals(fd, p.dir);
    }
    return 0;
}

// --- a process that has left the heir's family, and writes at the end

static void leaves_by_rights(void) { MUST(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)); }

static void leaves_by_address_space(void) {
    struct rlimit limit;
    MUST(getrlimit(RLIMIT_AS, &limit));
    limit.rlim_cur = 60L << 30;
    MUST(setrlimit(RLIMIT_AS, &limit));
}

static void has_a_relative_that_leaves(struct peer *p, void (*leaves)(void)) {
    pid_t relative = MUST(fork());
    if (relative == 0) {
        await_file(p->dir, "leave");
        leaves();
        make_file(p->dir, "left");
        await_file(p->dir, "over");
        send_all(p->fd, "late", 4);
        _exit(0);
    }
    pid_t server = serve(p, "first");
    hear(p);
    make_file(p->dir, "leave");
    await_file(p->dir, "left");
    close(p->fd);
    tell(p, 0);
    reap("relative", relative);
    reap("server", server);
}

static void one_changes_its_rights(struct peer *p) { has_a_relative_that_leaves(p, leaves_by_rights); }

static void one_limits_its_memory(struct peer *p) { has_a_relative_that_leaves(p, leaves_by_address_space); }

static void hears_the_late_word(struct peer *p) {
    talk(p->fd, false);
    make_file(p->dir, "over");
    char late[4];
    recv_all(p->fd, late, sizeof late);
    CALL(recv(p->fd, number, 1, 0));
}

static void talks_while_one_leaves(struct peer *p) {
    converse(p->fd, false, ROUNDS);
    tell(p, 0);
    hear(p);
    hears_the_late_word(p);
}

// --- more descriptors of the connection than the record has room for

static void has_many_numbers(struct peer *p) {
    for (int n = FIRST + 1; n <= LAST; n++)
        MUST(dup2(p->fd, n));
    pid_t server = serve(p, "by turns");
    for (int n = FIRST + 1; n <= LAST; n++)
        close(n);
    close(p->fd);
    reap("server", server);
}

static void talks_long(struct peer *p) {
    converse(p->fd, false, MANY);
    CALL(recv(p->fd, number, 1, 0));
}

// --- an epoll instance that the heir inherits too

static void is_in_a_set(struct peer *p) {
    int set = MUST(epoll_create1(0));
    MUST(dup2(set, SET));
    close(set);
    MUST(dup2(p->fd, FIRST));
    struct epoll_event event = {.events = EPOLLIN};
    MUST(epoll_ctl(SET, EPOLL_CTL_ADD, FIRST, &event));
    pid_t server = serve(p, "set");
    close(SET);
    close(FIRST);
    close(p->fd);
    reap("server", server);
}

// --- a program in between that does not load the library

static void passes_it_by(struct peer *p, const char *preloaded) {
    const char *library = getenv("LD_PRELOAD");
    setenv("LIBRARY", library ? library : "", 1);
    MUST(dup2(p->fd, FIRST));
    close(p->fd);
    if (preloaded && library) {
        setenv("LD_PRELOAD", preloaded, 1);
        // The dynamic linker complains about it.
        MUST(dup2(MUST(open("/dev/null", O_WRONLY)), 2));
        becomes(p, FIRST, "between");
    }
    char *without[200];
    int n = 0;
    for (char **variable = environ; *variable && n < 199; variable++)
        if (strncmp(*variable, "LD_PRELOAD=", 11))
            without[n++] = *variable;
    without[n] = NULL;
    syscall(SYS_execve, p->self, heir(p, FIRST, "between"), without);
    die("exec: %s", strerrorname_np(errno));
}

static void by_a_system_call(struct peer *p) { passes_it_by(p, NULL); }

static void by_another_library(struct peer *p) { passes_it_by(p, "/nowhere/libsovia_preload.so"); }

// --- a child that shares memory with the future heir, but has its own descriptors

static int child_fd;
static const char *child_dir;

static int writes_late(void *nothing) {
    (void)nothing;
    await_file(child_dir, "over");
    send_all(child_fd, "late", 4);
    _exit(0);
}

static void has_a_child_on_its_memory(struct peer *p) {
    static char stack[STACK] __attribute__((aligned(16)));
    pid_t middle = MUST(fork());
    if (middle == 0) {
        child_fd = p->fd;
        child_dir = p->dir;
        MUST(clone(writes_late, stack + sizeof stack, CLONE_VM | SIGCHLD, NULL));
        MUST(dup2(p->fd, FIRST));
        close(p->fd);
        becomes(p, FIRST, "server");
    }
    close(p->fd);
    reap("server", middle);
}

// --- the parent's queries to the kernel when the heir has begun

static void asks_for_signals(struct peer *p) {
    pid_t server = serve(p, "signals");
    await_file(p->dir, "waits");
    MUST(fcntl(p->fd, F_SETOWN, server));
    MUST(fcntl(p->fd, F_SETFL, O_ASYNC));
    tell(p, 0);
    close(p->fd);
    reap("server", server);
}

static void talks_when_told(struct peer *p) {
    hear(p);
    talks_long(p);
}

static void sends_an_urgent_byte(struct peer *p) {
    pid_t server = serve(p, "first");
    hear(p);
    CALL(send(p->fd, "u", 1, MSG_OOB));
    tell(p, 0);
    close(p->fd);
    reap("server", server);
}

static void talks_around_an_urgent_byte(struct peer *p) {
    converse(p->fd, false, ROUNDS);
    tell(p, 0);
    hear(p);
    talk(p->fd, false);
    CALL(recv(p->fd, number, 1, 0));
}

// --- a process that repeatedly fails to execute a program while its parent forks

static void fails_while_its_parent_forks(struct peer *p) {
    MUST(fcntl(p->fd, F_SETFD, FD_CLOEXEC));
    pid_t child = MUST(fork());
    if (child == 0) {
        for (int i = 0; i < MANY; i++) {
            execv("/nowhere/at/all", heir(p, 0, "server"));
            if (i % 10 == 0)
                converse(p->fd, true, 1);
        }
        _exit(0);
    }
    close(p->fd);
    int status;
    while (MUST(waitpid(child, &status, WNOHANG)) == 0) {
        pid_t other = MUST(fork());
        if (other == 0)
            _exit(0);
        MUST(waitpid(other, NULL, 0));
    }
    say_status("child", status);
}

static void talks_to_it(struct peer *p) {
    converse(p->fd, false, MANY / 10);
    CALL(recv(p->fd, number, 1, 0));
}

static const struct scenario scenarios[] = {
    {"a_relative_changes_its_rights", one_changes_its_rights, talks_while_one_leaves, COLD},
    {"a_relative_limits_its_memory", one_limits_its_memory, talks_while_one_leaves, COLD},
    {"it_has_many_numbers", has_many_numbers, talks_long, COLD},
    {"it_is_in_an_inherited_set", is_in_a_set, talks_long, COLD},
    {"a_program_in_between_by_a_system_call", by_a_system_call, hears_the_late_word, COLD},
    {"a_program_in_between_without_its_library", by_another_library, hears_the_late_word, COLD},
    {"a_child_on_its_memory", has_a_child_on_its_memory, hears_the_late_word, COLD},
    {"another_process_asks_for_signals", asks_for_signals, talks_when_told, COLD},
    {"another_process_sends_an_urgent_byte", sends_an_urgent_byte, talks_around_an_urgent_byte, COLD},
    {"an_exec_fails_while_its_parent_forks", fails_while_its_parent_forks, talks_to_it},
};

int main(int argc, char **argv) {
    if (argc == 5 && strcmp(argv[1], "--heir") == 0)
        return is_heir(argv);
    return scenario_main(argc, argv, scenarios, sizeof scenarios / sizeof scenarios[0]);
}
