// Children that bypass the handlers of fork: by vfork, _Fork, clone and bare system calls.
#include "common.h"
#include <sys/time.h>
#include <malloc.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/syscall.h>

static char buffer[70000];

// Exchanges requests and answers of the client.
static void converse(int fd, int count, char tag) {
    for (int i = 0; i < count; i++) {
        char out[100], in[100];
        memset(out, tag + i % 20, sizeof out);
        send_all(fd, out, sizeof out);
        recv_all(fd, in, sizeof in);
        if (memcmp(in, out, sizeof in))
            die("answer %d is another's", i);
    }
}

static void answers(struct peer *p) {
    ssize_t got;
    long total = 0;
    while ((got = recv(p->fd, buffer, sizeof buffer, 0)) > 0) {
        send_all(p->fd, buffer, got);
        total += got;
    }
    say("%ld bytes answered, then %s", total, got ? strerrorname_np(errno) : "end of stream");
}

static void say_file(struct peer *p, const char *name) {
    char path[4096], text[100];
    snprintf(path, sizeof path, "%s/%s", p->dir, name);
    int fd = MUST(open(path, O_RDONLY));
    long n = MUST(read(fd, text, sizeof text));
    say_text(name, text, n);
    close(fd);
}

// The child's descriptor with this number is a file, which gets the child's writes.
static void vfork_reuses(struct peer *p) {
    char path[4096];
    snprintf(path, sizeof path, "%s/note", p->dir);
    pid_t child = MUST(vfork());
    if (child == 0) {
        close(p->fd);
        int fd = open(path, O_CREAT | O_TRUNC | O_WRONLY, 0600);
        if (fd != p->fd)
            _exit(1);
        if (write(fd, "for the file", 12) != 12)
            _exit(2);
        close(fd);
        _exit(0);
    }
    reap("child", child);
    say_file(p, "note");
    converse(p->fd, 50, 'a');
    close(p->fd);
}

// The child's descriptor with this number is a pipe, which the executed program inherits.
static void vfork_moves_and_execs(struct peer *p) {
    for (int i = 0; i < 3; i++) {
        int ends[2];
        MUST(pipe(ends));
        pid_t child = MUST(vfork());
        if (child == 0) {
            dup2(ends[1], p->fd);
            char command[100];
            snprintf(command, sizeof command, "echo to the pipe >&%d", p->fd);
            execl("/bin/bash", "bash", "-c", command, NULL);
            _exit(99);
        }
        reap("child", child);
        char text[100];
        say_text("pipe", text, MUST(read(ends[0], text, sizeof text)));
        close(ends[0]);
        close(ends[1]);
        converse(p->fd, 50, 'a');
    }
    close(p->fd);
}

// Does the same while the peer's bytes are under way. Neither the child nor the pipe may get any of
// them.
enum { LEAD = 1000, FLOW = 3000000 };

static void vfork_execs_amid_bytes(struct peer *p) {
    recv_pattern(p->fd, 0, LEAD, LEAD);
    int ends[2];
    MUST(pipe(ends));
    pid_t child = MUST(vfork());
    if (child == 0) {
        dup2(ends[1], p->fd);
        char command[100];
        snprintf(command, sizeof command, "echo to the pipe >&%d", p->fd);
        execl("/bin/bash", "bash", "-c", command, NULL);
        _exit(99);
    }
    close(ends[1]);
    reap("child", child);
    char text[100];
    say_text("pipe", text, MUST(read(ends[0], text, sizeof text)));
    CALL(read(ends[0], text, sizeof text));
    recv_pattern(p->fd, LEAD, FLOW - LEAD, 50000);
    converse(p->fd, 50, 'a');
    close(p->fd);
}

static void flows_and_answers(struct peer *p) {
    send_pattern(p->fd, 0, FLOW, 20000);
    ssize_t got;
    long total = 0;
    while ((got = recv(p->fd, buffer, sizeof buffer, 0)) > 0) {
        send_all(p->fd, buffer, got);
        total += got;
    }
    say("%ld bytes answered, then %s", total, got ? strerrorname_np(errno) : "end of stream");
}

// The child writes to the stream, and then closes it. The parent's descriptor stays open.
static void vfork_talks(struct peer *p) {
    pid_t child = MUST(vfork());
    if (child == 0) {
        char in[5];
        if (write(p->fd, "child", 5) != 5 || recv(p->fd, in, 5, MSG_WAITALL) != 5 ||
            memcmp(in, "child", 5))
            _exit(1);
        close(p->fd);
        _exit(0);
    }
    reap("child", child);
    converse(p->fd, 50, 'a');
    close(p->fd);
}

static void vfork_fails_to_exec(struct peer *p) {
    pid_t child = MUST(vfork());
    if (child == 0) {
        pid_t grandchild = vfork();
        if (grandchild == 0) {
            execl("/nowhere", "nowhere", NULL);
            close(p->fd);
            _exit(errno == ENOENT ? 3 : 4);
        }
        int status;
        waitpid(grandchild, &status, 0);
        // Still the child: this closes no descriptor of its parent.
        close(p->fd);
        _exit(WEXITSTATUS(status));
    }
    reap("child", child);
    converse(p->fd, 50, 'a');
    close(p->fd);
}

static pid_t by_Fork(void) { return _Fork(); }
static pid_t by_fork(void) {
#ifdef SYS_fork
    return syscall(SYS_fork);
#else
    return syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0);
#endif
}
static pid_t by_clone(void) { return syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0); }
static pid_t by_clone3(void) {
    uint64_t arguments[11] = {0, 0, 0, 0, SIGCHLD};
    return syscall(SYS_clone3, arguments, sizeof arguments);
}
static pid_t inline_clone(void) {
    long result;
#if defined(__x86_64__)
    register long r10 __asm__("r10") = 0;
    register long r8 __asm__("r8") = 0;
    __asm__ volatile("syscall"
                     : "=a"(result)
                     : "0"((long)SYS_clone), "D"((long)SIGCHLD), "S"(0L), "d"(0L), "r"(r10), "r"(r8)
                     : "rcx", "r11", "memory");
#else
    result = syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0);
#endif
    return result;
}

// The parent closes, the child serves.
static void child_goes_on(struct peer *p, pid_t (*make)(void)) {
    int gate[2];
    MUST(pipe(gate));
    pid_t child = MUST(make());
    if (child == 0) {
        char x;
        if (read(gate[0], &x, 1) != 1)
            _exit(1);
        converse(p->fd, 100, 'a');
        close(p->fd);
        _exit(0);
    }
    MUST(close(p->fd));
    MUST(write(gate[1], "x", 1));
    reap("child", child);
}

// Both have the stream. The child closes it, and the parent continues; then another child takes
// over.
static void takes_turns(struct peer *p, pid_t (*make)(void)) {
    for (int i = 0; i < 3; i++) {
        converse(p->fd, 20, 'a');
        pid_t child = MUST(make());
        if (child == 0) {
            converse(p->fd, 20, 'b');
            close(p->fd);
            _exit(i);
        }
        reap("child", child);
    }
    converse(p->fd, 20, 'c');
    close(p->fd);
}

static void Fork_goes_on(struct peer *p) { child_goes_on(p, by_Fork); }
static void fork_goes_on(struct peer *p) { child_goes_on(p, by_fork); }
static void clone_goes_on(struct peer *p) { child_goes_on(p, by_clone); }
static void clone3_goes_on(struct peer *p) { child_goes_on(p, by_clone3); }
static void Fork_takes_turns(struct peer *p) { takes_turns(p, by_Fork); }
static void clone_takes_turns(struct peer *p) { takes_turns(p, by_clone); }
static void inline_takes_turns(struct peer *p) { takes_turns(p, inline_clone); }

static struct peer *shared;
static int gates[2];

static int cloned(void *argument) {
    char x;
    if (argument != &gates || read(gates[0], &x, 1) != 1)
        return 1;
    converse(shared->fd, 100, 'a');
    close(shared->fd);
    return 7;
}

static void *a_stack(void) {
    char *stack = mmap(NULL, 1 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (stack == MAP_FAILED)
        die("no stack");
    return stack + (1 << 20);
}

static void function_goes_on(struct peer *p) {
    shared = p;
    MUST(pipe(gates));
    pid_t child = MUST(clone(cloned, a_stack(), SIGCHLD, &gates));
    MUST(close(p->fd));
    MUST(write(gates[1], "x", 1));
    reap("child", child);
}

static int closes_its_own(void *argument) {
    struct peer *p = argument;
    char path[4096];
    close(p->fd);
    snprintf(path, sizeof path, "%s/note", p->dir);
    int fd = open(path, O_CREAT | O_TRUNC | O_WRONLY, 0600);
    if (fd != p->fd || write(fd, "for the file", 12) != 12)
        _exit(1);
    close(fd);
    _exit(5);
}

// The child shares memory with its parent, but has its own descriptors.
static void shares_memory(struct peer *p) {
    pid_t child = MUST(clone(closes_its_own, a_stack(), CLONE_VM | SIGCHLD, p));
    reap("child", child);
    say_file(p, "note");
    converse(p->fd, 50, 'a');
    close(p->fd);
}

static volatile pid_t handlers_child;
static struct peer *handlers_peer;
static void forks_in_handler(int signal) {
    (void)signal;
    pid_t child = _Fork();
    if (child == 0) {
        close(handlers_peer->fd);
        _exit(6);
    }
    handlers_child = child;
}

// Runs in a handler, at any moment of a busy stream.
static void Fork_in_a_handler(struct peer *p) {
    handlers_peer = p;
    struct sigaction action = {.sa_handler = forks_in_handler, .sa_flags = SA_RESTART};
    MUST(sigaction(SIGUSR1, &action, NULL));
    for (int i = 0; i < 20; i++) {
        handlers_child = 0;
        pid_t me = getpid(), sender = MUST(fork());
        if (sender == 0) {
            close(p->fd);
            nap(i % 3);
            kill(me, SIGUSR1);
            _exit(0);
        }
        while (handlers_child == 0)
            converse(p->fd, 5, 'a');
        int status;
        MUST(waitpid(sender, &status, 0));
        MUST(waitpid(handlers_child, &status, 0));
        if (!WIFEXITED(status) || WEXITSTATUS(status) != 6)
            die("a child has failed");
    }
    say("all have closed theirs");
    send_all(p->fd, "end", 3);
    recv_all(p->fd, buffer, 3);
    close(p->fd);
}

static volatile int made;
static void forks_at_an_alarm(int signal) {
    int before = errno;
    (void)signal;
    pid_t child = fork();
    if (child == 0)
        _exit(6);
    int status;
    while (waitpid(child, &status, 0) < 0 && errno == EINTR)
        ;
    made++;
    errno = before;
}

// A program with one thread may fork in a handler that has interrupted malloc; libc does not take malloc's locks
// then.
static void fork_in_a_handler(struct peer *p) {
    struct sigaction action = {.sa_handler = forks_at_an_alarm, .sa_flags = SA_RESTART};
    MUST(sigaction(SIGALRM, &action, NULL));
    struct itimerval often = {{0, 1000}, {0, 1000}}, never = {0};
    MUST(setitimer(ITIMER_REAL, &often, NULL));
    for (size_t i = 0; made < 40; i++) {
        // Too large for the cache of a thread.
        free(malloc(2000 + i % 50 * 1000));
    }
    MUST(setitimer(ITIMER_REAL, &never, NULL));
    say("made enough");
    send_all(p->fd, "end", 3);
    recv_all(p->fd, buffer, 3);
    close(p->fd);
}

static void answers_uncounted(struct peer *p) {
    ssize_t got;
    while ((got = recv(p->fd, buffer, sizeof buffer, 0)) > 0)
        send_all(p->fd, buffer, got);
    say("%s", got ? strerrorname_np(errno) : "end of stream");
}

static const struct scenario scenarios[] = {
    {"a_vfork_child_reuses_the_number", answers, vfork_reuses},
    {"a_vfork_child_moves_a_pipe_there_and_execs", answers, vfork_moves_and_execs},
    {"a_vfork_child_execs_amid_bytes", flows_and_answers, vfork_execs_amid_bytes},
    {"a_vfork_child_talks", answers, vfork_talks},
    {"a_vfork_childs_child_fails_to_exec", answers, vfork_fails_to_exec},
    {"a_child_of_underscore_fork_goes_on", answers, Fork_goes_on},
    {"a_child_of_the_system_call_fork_goes_on", answers, fork_goes_on},
    {"a_child_of_the_system_call_clone_goes_on", answers, clone_goes_on},
    {"a_child_of_the_system_call_clone3_goes_on", answers, clone3_goes_on},
    {"a_child_of_clone_goes_on", answers, function_goes_on},
    {"children_of_underscore_fork_take_turns", answers, Fork_takes_turns},
    {"children_of_the_system_call_clone_take_turns", answers, clone_takes_turns},
    {"children_of_an_inline_clone_take_turns", answers, inline_takes_turns},
    {"a_child_shares_memory", answers, shares_memory},
    {"fork_in_a_handler_of_malloc", answers_uncounted, fork_in_a_handler},
    {"underscore_fork_in_a_handler", answers_uncounted, Fork_in_a_handler},
};
SCENARIO_MAIN(scenarios)
