// Calls every further name of libc's functions: fortified forms, second names and 64-bit forms. Names without a
// header are found by dlsym. Other programs test the first names.
#include "common.h"
#include <dlfcn.h>
#include <mqueue.h>
#include <pty.h>
#include <sys/fanotify.h>
#include <sys/inotify.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/sendfile.h>
#include <sys/signalfd.h>
#include <sys/syscall.h>
#include <aio.h>
#include <execinfo.h>

static void *named(const char *name) {
    void *found = dlsym(RTLD_DEFAULT, name);
    if (!found)
        die("no %s", name);
    return found;
}
#define NAMED(name, result, ...) ((result(*)(__VA_ARGS__))named(name))

static char text[64];

// --- calls that receive: a word of the peer for each call

static ssize_t by_read(const char *name, int fd) { return NAMED(name, ssize_t, int, void *, size_t)(fd, text, 8); }
static ssize_t by_read_chk(const char *name, int fd) {
    return NAMED(name, ssize_t, int, void *, size_t, size_t)(fd, text, 8, sizeof text);
}
static ssize_t by_recv(const char *name, int fd) { return NAMED(name, ssize_t, int, void *, size_t, int)(fd, text, 8, 0); }
static ssize_t by_recv_chk(const char *name, int fd) {
    return NAMED(name, ssize_t, int, void *, size_t, size_t, int)(fd, text, 8, sizeof text, 0);
}
static ssize_t by_recvfrom(const char *name, int fd) {
    return NAMED(name, ssize_t, int, void *, size_t, int, void *, void *)(fd, text, 8, 0, NULL, NULL);
}
static ssize_t by_recvfrom_chk(const char *name, int fd) {
    return NAMED(name, ssize_t, int, void *, size_t, size_t, int, void *, void *)(fd, text, 8, sizeof text, 0, NULL, NULL);
}
static ssize_t by_preadv2(const char *name, int fd) {
    struct iovec part = {text, 8};
    return NAMED(name, ssize_t, int, struct iovec *, int, off_t, int)(fd, &part, 1, -1, 0);
}
static ssize_t by_aio_read(const char *name, int fd) {
    struct aiocb block = {.aio_fildes = fd, .aio_buf = text, .aio_nbytes = 8};
    const struct aiocb *list[] = {&block};
    MUST(NAMED(name, int, struct aiocb *)(&block));
    MUST(aio_suspend(list, 1, NULL));
    return aio_return(&block);
}

static ssize_t by_eventfd_read(const char *name, int fd) {
    return NAMED(name, int, int, void *)(fd, text);
}

struct way {
    const char *name;
    ssize_t (*call)(const char *, int);
};

static const struct way receives[] = {
    {"__read", by_read},           {"__read_nocancel", by_read}, {"__read_chk", by_read_chk},
    {"__recv", by_recv},           {"__recv_chk", by_recv_chk},  {"recvfrom", by_recvfrom},
    {"__recvfrom_chk", by_recvfrom_chk}, {"preadv2", by_preadv2}, {"preadv64v2", by_preadv2},
    // From here on the connection is on TCP.
    {"aio_read64", by_aio_read},     {"eventfd_read", by_eventfd_read},
};

#define COUNT(table) (sizeof table / sizeof table[0])

static void sends_words(struct peer *p) {
    for (size_t i = 0; i < COUNT(receives); i++) {
        char word[9];
        snprintf(word, sizeof word, "word%4zu", i);
        send_all(p->fd, word, 8);
        recv_all(p->fd, text, 1);
    }
}

static void receives_by_each(struct peer *p) {
    for (size_t i = 0; i < COUNT(receives); i++) {
        memset(text, 0, sizeof text);
        ssize_t got = receives[i].call(receives[i].name, p->fd);
        say("%s: %zd %s", receives[i].name, got, text);
        send_all(p->fd, "x", 1);
    }
}

// --- calls that send: a line for each call

static ssize_t by_write(const char *name, int fd) { return NAMED(name, ssize_t, int, const void *, size_t)(fd, "a word\n", 7); }
static ssize_t by_send(const char *name, int fd) { return NAMED(name, ssize_t, int, const void *, size_t, int)(fd, "a word\n", 7, 0); }
static ssize_t by_sendmmsg(const char *name, int fd) {
    struct iovec part = {"a word\n", 7};
    struct mmsghdr one = {.msg_hdr = {.msg_iov = &part, .msg_iovlen = 1}};
    return NAMED(name, int, int, struct mmsghdr *, unsigned, int)(fd, &one, 1, 0);
}
static ssize_t by_pwritev2(const char *name, int fd) {
    struct iovec part = {"a word\n", 7};
    return NAMED(name, ssize_t, int, struct iovec *, int, off_t, int)(fd, &part, 1, -1, 0);
}
static ssize_t by_sendfile(const char *name, int fd) {
    int file = MUST(memfd_create("a", 0));
    MUST(write(file, "a word\n", 7));
    off_t from = 0;
    ssize_t sent = NAMED(name, ssize_t, int, int, off_t *, size_t)(fd, file, &from, 7);
    close(file);
    return sent;
}
static ssize_t by_aio_write(const char *name, int fd) {
    struct aiocb block = {.aio_fildes = fd, .aio_buf = "a word\n", .aio_nbytes = 7};
    const struct aiocb *list[] = {&block};
    MUST(NAMED(name, int, struct aiocb *)(&block));
    MUST(aio_suspend(list, 1, NULL));
    return aio_return(&block);
}
static ssize_t by_lio_listio(const char *name, int fd) {
    struct aiocb block = {.aio_fildes = fd, .aio_buf = "a word\n", .aio_nbytes = 7, .aio_lio_opcode = LIO_WRITE};
    struct aiocb *list[] = {&block};
    return NAMED(name, int, int, struct aiocb **, int, void *)(LIO_WAIT, list, 1, NULL);
}
static ssize_t by_dprintf_chk(const char *name, int fd) { return NAMED(name, int, int, int, const char *, ...)(fd, 1, "a %s\n", "word"); }
static ssize_t with_list(const char *name, int fd, bool fortified, ...) {
    va_list arguments;
    va_start(arguments, fortified);
    int sent = fortified ? NAMED(name, int, int, int, const char *, va_list)(fd, 1, "a %s\n", arguments)
                         : NAMED(name, int, int, const char *, va_list)(fd, "a %s\n", arguments);
    va_end(arguments);
    return sent;
}
static ssize_t by_vdprintf(const char *name, int fd) { return with_list(name, fd, false, "word"); }
static ssize_t by_vdprintf_chk(const char *name, int fd) { return with_list(name, fd, true, "word"); }
static ssize_t by_eventfd_write(const char *name, int fd) {
    uint64_t word;
    memcpy(&word, "8 bytes\n", 8);
    return NAMED(name, int, int, uint64_t)(fd, word);
}
// A line that differs in each run.
static ssize_t by_backtrace(const char *name, int fd) {
    void *here = NULL;
    NAMED(name, void, void *const *, int, int)(&here, 1, fd);
    return 0;
}

static const struct way sends[] = {
    {"__write", by_write},       {"__write_nocancel", by_write}, {"__send", by_send},
    {"__sendmmsg", by_sendmmsg}, {"pwritev2", by_pwritev2},      {"pwritev64v2", by_pwritev2},
    {"sendfile64", by_sendfile},
    // Calls that fall back to TCP, each on a connection of its own.
    {"aio_write64", by_aio_write},   {"lio_listio", by_lio_listio},      {"lio_listio64", by_lio_listio},
    {"__dprintf_chk", by_dprintf_chk}, {"vdprintf", by_vdprintf},        {"__vdprintf_chk", by_vdprintf_chk},
    {"eventfd_write", by_eventfd_write},
    {"backtrace_symbols_fd", by_backtrace}, {"__backtrace_symbols_fd", by_backtrace},
};

static void read_line(int fd, char *line) {
    do
        recv_all(fd, line, 1);
    while (*line++ != '\n');
    line[-1] = 0;
}

static void reads_lines(struct peer *p) {
    int listener = listen_on(p, AF_INET, "port");
    for (size_t i = 0; i < COUNT(sends); i++) {
        int fd = accept_one(listener);
        warm(fd, true);
        read_line(fd, text);
        say("%s: %s", sends[i].name, strstr(sends[i].name, "backtrace") ? "a line" : text);
        send_all(fd, "x", 1);
        CALL(recv(fd, text, 1, 0));
        close(fd);
    }
}

static void sends_by_each(struct peer *p) {
    port_of(p, "port");
    for (size_t i = 0; i < COUNT(sends); i++) {
        int fd = connect_to(p, AF_INET, "port");
        warm(fd, false);
        say("%s: %zd", sends[i].name, sends[i].call(sends[i].name, fd));
        recv_all(fd, text, 1);
        close(fd);
    }
}

// --- calls that wait

static ssize_t by_poll(const char *name, int fd) {
    struct pollfd one = {.fd = fd, .events = POLLIN};
    return NAMED(name, int, struct pollfd *, nfds_t, int)(&one, 1, -1) == 1 ? one.revents : -1;
}
static ssize_t by_poll_chk(const char *name, int fd) {
    struct pollfd one = {.fd = fd, .events = POLLIN};
    return NAMED(name, int, struct pollfd *, nfds_t, int, size_t)(&one, 1, -1, sizeof one) == 1 ? one.revents : -1;
}
static ssize_t by_ppoll_chk(const char *name, int fd) {
    struct pollfd one = {.fd = fd, .events = POLLIN};
    return NAMED(name, int, struct pollfd *, nfds_t, void *, void *, size_t)(&one, 1, NULL, NULL, sizeof one) == 1
               ? one.revents
               : -1;
}
static ssize_t by_select(const char *name, int fd) {
    fd_set set;
    FD_ZERO(&set);
    FD_SET(fd, &set);
    return NAMED(name, int, int, fd_set *, fd_set *, fd_set *, struct timeval *)(fd + 1, &set, NULL, NULL, NULL) == 1 &&
                   FD_ISSET(fd, &set)
               ? POLLIN
               : -1;
}

static const struct way waits[] = {
    {"__poll", by_poll}, {"__poll_chk", by_poll_chk}, {"__ppoll_chk", by_ppoll_chk}, {"__select", by_select},
};

static void sends_when_asked(struct peer *p) {
    for (size_t i = 0; i < COUNT(waits); i++) {
        recv_all(p->fd, text, 1);
        send_all(p->fd, "y", 1);
    }
}

static void waits_by_each(struct peer *p) {
    for (size_t i = 0; i < COUNT(waits); i++) {
        send_all(p->fd, "x", 1);
        ssize_t found = waits[i].call(waits[i].name, p->fd);
        say("%s: %s", waits[i].name, found < 0 ? "nothing" : poll_names((int)found));
        recv_all(p->fd, text, 1);
    }
}

// --- calls that make children, which send

// Shell command that does the same as `sends_a_byte`.
static char *shell_line(int fd) {
    static char line[40];
    snprintf(line, sizeof line, "printf c >&%d; exit 7", fd);
    return line;
}

static int sends_a_byte(void *fd) { return write(*(int *)fd, "c", 1) == 1 ? 7 : 8; }

static pid_t by_fork(const char *name, int fd) {
    pid_t pid = NAMED(name, pid_t, void)();
    if (pid == 0)
        _exit(sends_a_byte(&fd));
    return pid;
}
static pid_t by_vfork(const char *name, int fd) {
    const char *line = shell_line(fd);
    pid_t (*fork_here)(void) = NAMED(name, pid_t, void);
    pid_t pid = fork_here();
    if (pid == 0) {
        execl("/bin/sh", "sh", "-c", line, (char *)NULL);
        _exit(99);
    }
    return pid;
}
static pid_t by_clone(const char *name, int fd) {
    static char stack[1 << 16] __attribute__((aligned(16)));
    return NAMED(name, int, int (*)(void *), void *, int, void *)(sends_a_byte, stack + sizeof stack, SIGCHLD, &fd);
}
static pid_t by_exec(const char *name, int fd) {
    char *line = shell_line(fd);
    char *words[] = {"sh", "-c", line, NULL};
    extern char **environ;
    pid_t pid = fork();
    if (pid == 0) {
        if (!strcmp(name, "execvpe"))
            execvpe("sh", words, environ);
        else if (!strcmp(name, "execle"))
            execle("/bin/sh", "sh", "-c", line, (char *)NULL, environ);
        else
            fexecve(open("/bin/sh", O_RDONLY), words, environ);
        _exit(99);
    }
    return pid;
}
static pid_t by_system(const char *name, int fd) {
    say_status(name, NAMED(name, int, const char *)(shell_line(fd)));
    return 0;
}
static pid_t by_popen(const char *name, int fd) {
    FILE *pipe = NAMED(name, FILE *, const char *, const char *)(shell_line(fd), "r");
    say_status(name, pclose(pipe));
    return 0;
}

static const struct {
    const char *name;
    pid_t (*start)(const char *, int);
} starts[] = {
    {"__fork", by_fork},   {"__vfork", by_vfork},  {"__clone", by_clone},        {"execvpe", by_exec},
    {"execle", by_exec},   {"fexecve", by_exec},   {"__libc_system", by_system}, {"_IO_popen", by_popen},
};

static void hears_from_children(struct peer *p) {
    int listener = listen_on(p, AF_INET, "port");
    for (size_t i = 0; i < COUNT(starts); i++) {
        int fd = accept_one(listener);
        warm(fd, true);
        recv_all(fd, text, 2);
        say_text(starts[i].name, text, 2);
        CALL(recv(fd, text, 1, 0));
        close(fd);
    }
}

static void starts_by_each(struct peer *p) {
    port_of(p, "port");
    for (size_t i = 0; i < COUNT(starts); i++) {
        int fd = connect_to(p, AF_INET, "port");
        warm(fd, false);
        pid_t pid = starts[i].start(starts[i].name, fd);
        if (pid > 0) {
            int status;
            MUST(waitpid(pid, &status, 0));
            say_status(starts[i].name, status);
        }
        send_all(fd, "p", 1);
        close(fd);
    }
}

// --- calls that set a signal's disposition; then the signal comes while the connection is used

static volatile sig_atomic_t caught;
static void count(int number) {
    (void)number;
    caught++;
}

static void by_signal(const char *name) { NAMED(name, void *, int, void (*)(int))(SIGUSR1, count); }
static void by_sigaction(const char *name) {
    struct sigaction action = {.sa_handler = count};
    NAMED(name, int, int, const struct sigaction *, struct sigaction *)(SIGUSR1, &action, NULL);
}
static void by_sigignore(const char *name) { NAMED(name, int, int)(SIGUSR1); }
static void by_siginterrupt(const char *name) {
    signal(SIGUSR1, count);
    NAMED(name, int, int, int)(SIGUSR1, 1);
}

static const struct {
    const char *name;
    void (*set)(const char *);
} dispositions[] = {
    {"signal", by_signal},      {"bsd_signal", by_signal},   {"ssignal", by_signal}, {"sysv_signal", by_signal},
    {"__sysv_signal", by_signal}, {"sigset", by_signal},       {"__sigaction", by_sigaction},
    {"sigignore", by_sigignore}, {"siginterrupt", by_siginterrupt},
};

static void asks_for_signals(struct peer *p) {
    for (size_t i = 0; i < COUNT(dispositions); i++) {
        send_all(p->fd, "x", 1);
        recv_all(p->fd, text, 1);
    }
}

static void sets_by_each(struct peer *p) {
    for (size_t i = 0; i < COUNT(dispositions); i++) {
        caught = 0;
        dispositions[i].set(dispositions[i].name);
        recv_all(p->fd, text, 1);
        raise(SIGUSR1);
        struct sigaction now;
        MUST(sigaction(SIGUSR1, NULL, &now));
        say("%s: %d, then %s, flags %x", dispositions[i].name, (int)caught,
            now.sa_handler == count     ? "the handler"
            : now.sa_handler == SIG_IGN ? "ignored"
                                        : "the default",
            now.sa_flags & (SA_RESTART | SA_RESETHAND | SA_NODEFER));
        send_all(p->fd, "y", 1);
    }
}

// Prints how the kernel reports a mask of all signals, by both ways of asking.
static void shows_a_full_mask(struct peer *p) {
    struct sigaction action = {.sa_handler = count, .sa_flags = SA_RESTART | SA_RESETHAND | 0x400}, now;
    struct {
        void *handler;
        unsigned long flags;
        void *restorer;
        uint64_t mask;
    } raw;
    recv_all(p->fd, text, 1);
    sigfillset(&action.sa_mask);
    MUST(sigaction(SIGUSR1, &action, NULL));
    MUST(sigaction(SIGUSR1, NULL, &now));
    MUST(syscall(SYS_rt_sigaction, SIGUSR1, NULL, &raw, sizeof raw.mask));
    say("kill %d, stop %d, term %d", sigismember(&now.sa_mask, SIGKILL), sigismember(&now.sa_mask, SIGSTOP),
        sigismember(&now.sa_mask, SIGTERM));
    say("flags %x, %lx, mask %jx", now.sa_flags, raw.flags, (uintmax_t)raw.mask);
    send_all(p->fd, "y", 1);
}

static void asks_for_a_mask(struct peer *p) {
    send_all(p->fd, "x", 1);
    recv_all(p->fd, text, 1);
}

// --- calls that block signals, one of which a bad pointer would raise

static void hold(const char *name) { NAMED(name, int, int)(SIGUSR1), NAMED(name, int, int)(SIGSEGV); }
static void block(const char *name) { NAMED(name, int, int)(1 << (SIGUSR1 - 1) | 1 << (SIGSEGV - 1)); }

static const struct {
    const char *name, *undo;
    void (*block)(const char *);
} masks[] = {{"sighold", "sigrelse", hold}, {"sigblock", "sigsetmask", block}, {"sigsetmask", "sigsetmask", block}};

static void answers_masks(struct peer *p) {
    for (size_t i = 0; i < COUNT(masks); i++) {
        recv_all(p->fd, text, 1);
        send_all(p->fd, "y", 1);
    }
}

static void blocks_by_each(struct peer *p) {
    signal(SIGUSR1, count);
    for (size_t i = 0; i < COUNT(masks); i++) {
        caught = 0;
        masks[i].block(masks[i].name);
        raise(SIGUSR1);
        say("%s: caught %d, blocked %x", masks[i].name, (int)caught, (unsigned)NAMED("siggetmask", int, void)());
        send_all(p->fd, "x", 1);
        char *volatile bad = (char *)16;
        CALL(write(p->fd, bad, 8));
        CALL(recv(p->fd, bad, 1, 0));
        recv_all(p->fd, text, 1);
        if (!strcmp(masks[i].undo, "sigrelse"))
            hold("sigrelse");
        else
            NAMED(masks[i].undo, int, int)(0);
        say("%s: caught %d, blocked %x", masks[i].undo, (int)caught, (unsigned)NAMED("siggetmask", int, void)());
    }
    CALL(NAMED("sighold", int, int)(65));
}

// --- calls that change limits and restore them

static void changes_limits(struct peer *p) {
    struct rlimit limit;
    MUST(getrlimit(RLIMIT_NOFILE, &limit));
    say("setrlimit64 %d", NAMED("setrlimit64", int, int, struct rlimit *)(RLIMIT_NOFILE, &limit));
    say("prlimit64 %d", NAMED("prlimit64", int, pid_t, int, struct rlimit *, void *)(0, RLIMIT_NOFILE, &limit, NULL));
    say("fcntl64 %d", NAMED("fcntl64", int, int, int, ...)(p->fd, F_SETFL, O_NONBLOCK));
    CALL(recv(p->fd, text, 1, 0));
    say("__libc_fcntl64 %d", NAMED("__libc_fcntl64", int, int, int, ...)(p->fd, F_SETFL, 0));
    say_alive(p->fd, p->server, "after all");
}

static void is_alive(struct peer *p) { say_alive(p->fd, p->server, "after all"); }

// --- calls that return a descriptor whose number a connection had, closed by a bare system call

static char path[400], templates[420];
static int folder;

static int by_open(const char *name) { return NAMED(name, int, const char *, int, ...)(path, O_RDWR | O_CREAT, 0600); }
static int by_open_2(const char *name) { return NAMED(name, int, const char *, int)(path, O_RDWR); }
static int by_openat(const char *name) { return NAMED(name, int, int, const char *, int, ...)(folder, "file", O_RDWR | O_CREAT, 0600); }
static int by_openat_2(const char *name) { return NAMED(name, int, int, const char *, int)(folder, "file", O_RDWR); }
static int by_creat(const char *name) { return NAMED(name, int, const char *, mode_t)(path, 0600); }
static int by_mkostemp(const char *name) { return NAMED(name, int, char *, int)(templates, O_CLOEXEC); }
static int by_mkstemp(const char *name) { return NAMED(name, int, char *)(templates); }
static int by_mkstemps(const char *name) { return NAMED(name, int, char *, int)(templates, 0); }
static int by_mkostemps(const char *name) { return NAMED(name, int, char *, int, int)(templates, 0, O_CLOEXEC); }
static int by_file(FILE *file) { return file ? fileno(file) : -1; }
static int by_fopen(const char *name) { return by_file(NAMED(name, FILE *, const char *, const char *)(path, "r+")); }
static int by_freopen(const char *name) {
    return by_file(NAMED(name, FILE *, const char *, const char *, FILE *)(path, "r+", fopen("/dev/null", "r")));
}
static int by_fdopen(const char *name) {
    return by_file(NAMED(name, FILE *, int, const char *)(MUST(open(path, O_RDWR)), "r+"));
}
static int by_tmpfile(const char *name) { return by_file(NAMED(name, FILE *, void)()); }
static int by_shm_open(const char *name) {
    char shared[60];
    snprintf(shared, sizeof shared, "/sovia-names-%d", getpid());
    int fd = NAMED(name, int, const char *, int, mode_t)(shared, O_RDWR | O_CREAT, 0600);
    shm_unlink(shared);
    return fd;
}
static int by_mq_open(const char *name) {
    char queue[60];
    snprintf(queue, sizeof queue, "/sovia-names-%d", getpid());
    int fd = strcmp(name, "mq_open") ? NAMED(name, mqd_t, const char *, int)(queue, O_RDWR)
                                     : NAMED(name, mqd_t, const char *, int, ...)(queue, O_RDWR | O_CREAT, 0600, NULL);
    int error = errno;
    if (strcmp(name, "mq_open"))
        mq_unlink(queue);
    errno = error;
    return fd;
}
static int by_openpt(const char *name) { return NAMED(name, int, int)(O_RDWR | O_NOCTTY); }
static int by_getpt(const char *name) { return NAMED(name, int, void)(); }
static int by_pipe(const char *name) {
    int fds[2] = {-1, -1};
    return NAMED(name, int, int *)(fds) < 0 ? -1 : fds[0];
}
static int by_openpty(const char *name) {
    int one = -1, other = -1;
    (void)NAMED(name, int, int *, int *, char *, void *, void *)(&one, &other, NULL, NULL, NULL);
    return one;
}
static int by_forkpty(const char *name) {
    int one = -1;
    pid_t pid = NAMED(name, pid_t, int *, char *, void *, void *)(&one, NULL, NULL, NULL);
    if (pid == 0)
        _exit(0);
    if (pid > 0)
        waitpid(pid, NULL, 0);
    return one;
}
static int by_signalfd(const char *name) {
    sigset_t none;
    sigemptyset(&none);
    return NAMED(name, int, int, const sigset_t *, int)(-1, &none, 0);
}
static int by_inotify(const char *name) { return NAMED(name, int, int)(0); }
static int by_fanotify(const char *name) { return NAMED(name, int, unsigned, unsigned)(FAN_CLASS_NOTIF, O_RDONLY); }
static int by_pidfd(const char *name) { return NAMED(name, int, pid_t, unsigned)(getpid(), 0); }
static int by_pidfd_getfd(const char *name) {
    int self = syscall(SYS_pidfd_open, getpid(), 0), fd = NAMED(name, int, int, int, unsigned)(self, folder, 0);
    close(self);
    return fd;
}
static int by_handle(const char *name) {
    struct {
        struct file_handle head;
        char rest[MAX_HANDLE_SZ];
    } handle = {.head.handle_bytes = MAX_HANDLE_SZ};
    int mount;
    if (name_to_handle_at(folder, "file", &handle.head, &mount, 0) < 0)
        return -1;
    return NAMED(name, int, int, struct file_handle *, int)(folder, &handle.head, O_RDWR);
}
static int by_open_tree(const char *name) { return NAMED(name, int, int, const char *, unsigned)(folder, "file", 0); }
static int by_fsopen(const char *name) { return NAMED(name, int, const char *, unsigned)("tmpfs", 0); }
static int by_fspick(const char *name) { return NAMED(name, int, int, const char *, unsigned)(AT_FDCWD, "/proc", 0); }
static int by_fsmount(const char *name) { return NAMED(name, int, int, unsigned, unsigned)(folder, 0, 0); }
static int by_socket(const char *name) { return NAMED(name, int, int, int, int)(AF_INET, SOCK_STREAM, 0); }

static const struct {
    const char *name;
    int (*make)(const char *);
} makes[] = {
    {"__open64", by_open},           {"__open_nocancel", by_open},   {"__open64_nocancel", by_open},
    {"__open_2", by_open_2},         {"__open64_2", by_open_2},      {"openat64", by_openat},
    {"__openat_2", by_openat_2},     {"__openat64_2", by_openat_2},  {"creat", by_creat},
    {"creat64", by_creat},           {"mkstemp64", by_mkstemp},      {"mkostemp", by_mkostemp},
    {"mkostemp64", by_mkostemp},     {"mkstemps", by_mkstemps},      {"mkstemps64", by_mkstemps},
    {"mkostemps", by_mkostemps},     {"mkostemps64", by_mkostemps},  {"fopen64", by_fopen},
    {"_IO_fopen", by_fopen},         {"_IO_fdopen", by_fdopen},      {"freopen64", by_freopen},
    {"tmpfile64", by_tmpfile},       {"shm_open", by_shm_open},      {"mq_open", by_mq_open},
    {"__mq_open_2", by_mq_open},     {"posix_openpt", by_openpt},    {"getpt", by_getpt},
    {"__pipe", by_pipe},             {"openpty", by_openpty},        {"forkpty", by_forkpty},
    {"signalfd", by_signalfd},       {"inotify_init", by_getpt},     {"inotify_init1", by_inotify},
    {"fanotify_init", by_fanotify},  {"pidfd_open", by_pidfd},       {"pidfd_getfd", by_pidfd_getfd},
    {"open_by_handle_at", by_handle}, {"open_tree", by_open_tree},   {"fsopen", by_fsopen},
    {"fspick", by_fspick},           {"fsmount", by_fsmount},        {"__socket", by_socket},
};

// Prints how a stream ends whose descriptor the client has closed.
static void sees_ends(struct peer *p) {
    int listener = listen_on(p, AF_INET, "port");
    for (size_t i = 0; i < COUNT(makes); i++) {
        int fd = accept_one(listener);
        warm(fd, true);
        ssize_t got = recv(fd, text, sizeof text, 0);
        say("%s: %s", makes[i].name, got == 0 ? "end of stream" : got > 0 ? "BYTES" : strerrorname_np(errno));
        send_all(fd, "x", got == 0 ? 0 : 1);
        close(fd);
    }
}

static void makes_by_each(struct peer *p) {
    snprintf(path, sizeof path, "%s/file", p->dir);
    close(MUST(open(path, O_RDWR | O_CREAT, 0600)));
    folder = fcntl(MUST(open(p->dir, O_RDONLY | O_DIRECTORY)), F_DUPFD, 110);
    signal(SIGPIPE, SIG_IGN);
    port_of(p, "port");
    for (size_t i = 0; i < COUNT(makes); i++) {
        snprintf(templates, sizeof templates, "%s/tXXXXXX", p->dir);
        int fd = connect_to(p, AF_INET, "port");
        warm(fd, false);
        close_inline(fd);
        errno = 0;
        int made = makes[i].make(makes[i].name);
        if (made < 0) {
            say("%s: %s", makes[i].name, strerrorname_np(errno));
            // The library still has the number on record. The next file with the number ends the
            // connection.
            close(MUST(open(path, O_RDWR)));
            continue;
        }
        errno = 0;
        ssize_t put = write(made, "to it", 5);
        say("%s: %s number, written %zd %s", makes[i].name, made == fd ? "the same" : "another", put,
            put < 0 ? strerrorname_np(errno) : "");
        NAMED(i % 2 ? "__close_nocancel" : "__close", int, int)(made);
    }
    FILE *file = fopen(path, "r");
    say("_IO_fclose %d", NAMED("_IO_fclose", int, FILE *)(file));
}

// --- closefrom, which leaves the library's descriptors open

static void closes_from(struct peer *p) {
    int high = MUST(fcntl(p->fd, F_DUPFD, 200));
    // In a child, because the transcript has a high number.
    pid_t pid = MUST(fork());
    if (pid == 0) {
        NAMED("closefrom", void, int)(200);
        bool is_closed = write(high, "x", 1) < 0 && errno == EBADF;
        send_all(p->fd, "y", 1);
        _exit(is_closed ? 0 : 1);
    }
    int status;
    MUST(waitpid(pid, &status, 0));
    say_status("closefrom", status);
    say_alive(high, p->server, "after all");
}

static void hears_one_more(struct peer *p) {
    recv_all(p->fd, text, 1);
    say_text("from the child", text, 1);
    say_alive(p->fd, p->server, "after all");
}

static const struct scenario all[] = {
    {"names_that_receive", sends_words, receives_by_each},
    {"names_that_send", reads_lines, sends_by_each, RAW},
    {"names_that_wait", sends_when_asked, waits_by_each},
    {"names_that_make_children", hears_from_children, starts_by_each, RAW},
    {"names_that_catch_signals", asks_for_signals, sets_by_each},
    {"a_mask_of_all_signals", asks_for_a_mask, shows_a_full_mask},
    {"names_that_block_signals", answers_masks, blocks_by_each},
    {"names_that_change_limits", is_alive, changes_limits},
    {"names_that_return_descriptors", sees_ends, makes_by_each, RAW},
    {"closefrom_leaves_what_is_below", hears_one_more, closes_from},
};
SCENARIO_MAIN(all)
