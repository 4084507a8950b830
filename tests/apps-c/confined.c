// Programs that put themselves under a filter of system calls (seccomp). The filter allows the
// program's own calls, and kills for all others.
#include "common.h"
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/time.h>

enum { MOST = 32, ROUNDS = 200 };

// Makes a filter that allows these calls, and the calls that every program makes to end.
struct list {
    struct sock_filter code[2 * MOST + 8];
    struct sock_fprog program;
};

static void allow(struct list *list, const int *numbers) {
    static const int always[] = {SYS_exit, SYS_exit_group, SYS_rt_sigreturn, -1};
    struct sock_filter *next = list->code;
    *next++ = (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS,
                                           offsetof(struct seccomp_data, nr));
    const int *lists[] = {always, numbers};
    for (int i = 0; i < 2; i++)
        for (const int *number = lists[i]; *number >= 0; number++) {
            *next++ = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, *number, 0, 1);
            *next++ = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
        }
    *next++ = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS);
    list->program.filter = list->code;
    list->program.len = next - list->code;
}

#define ALLOW(list, ...) allow(list, (const int[]){__VA_ARGS__, -1})

// Allocate the buffer for later output now.
static void before(void) {
    say("about to be confined");
    fflush(stdout);
    MUST(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0));
}

static void confine(struct list *list) {
    before();
    CALL(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &list->program));
}

// --- read and write, as the program's own calls and nothing else

static void write_all(int fd, const char *bytes, size_t count) {
    while (count > 0) {
        ssize_t n = write(fd, bytes, count);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            die("write: %s", strerrorname_np(errno));
        bytes += n;
        count -= n;
    }
}

static void read_all(int fd, char *bytes, size_t count) {
    while (count > 0) {
        ssize_t n = read(fd, bytes, count);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            die("read: %s", n ? strerrorname_np(errno) : "end of stream");
        bytes += n;
        count -= n;
    }
}

static void converse(int fd, int rounds) {
    static char out[5000], in[5000];
    for (int i = 0; i < rounds; i++) {
        size_t size = i % 10 ? 1 + (size_t)i % 90 : sizeof out;
        fill(out, size, i);
        write_all(fd, out, size);
        read_all(fd, in, size);
        if (memcmp(out, in, size))
            die("answer %d is wrong", i);
    }
    say("%d answers", rounds);
}

static void answer(int fd) {
    static char buffer[8192];
    long total = 0;
    ssize_t got;
    while ((got = read(fd, buffer, sizeof buffer)) > 0) {
        write_all(fd, buffer, got);
        total += got;
    }
    say("%ld bytes answered, then %s", total, got ? strerrorname_np(errno) : "end of stream");
}

static void answers(struct peer *p) {
    answer(p->fd);
}

// --- the connection under test, which is on a VI

static void filtered(struct peer *p) {
    struct list list;
    ALLOW(&list, SYS_read, SYS_write, SYS_close);
    confine(&list);
    converse(p->fd, ROUNDS);
    CALL(close(p->fd));
}

static void filtered_server(struct peer *p) {
    struct list list;
    ALLOW(&list, SYS_read, SYS_write, SYS_close);
    confine(&list);
    answers(p);
}

// After a fork, which ends the library's thread, and after the filter, which forbids a new one.
static void waits_elsewhere(struct peer *p) {
    struct list list;
    struct timespec moment = {.tv_nsec = 1000000};
    char byte;
    int pipes[2];
    ALLOW(&list, SYS_read, SYS_write, SYS_close, SYS_nanosleep, SYS_clock_nanosleep, SYS_wait4);
    MUST(pipe(pipes));
    MUST(write(pipes[1], "x", 1));
    pid_t child = MUST(fork());
    if (child == 0)
        _exit(0);
    confine(&list);
    CALL(read(pipes[0], &byte, 1));
    CALL(nanosleep(&moment, NULL));
    CALL(waitpid(child, NULL, 0) == child);
    converse(p->fd, ROUNDS);
    CALL(read(pipes[0], &byte, 0));
    CALL(close(p->fd));
}

static void strict(struct peer *p) {
    before();
    CALL(prctl(PR_SET_SECCOMP, SECCOMP_MODE_STRICT));
    converse(p->fd, ROUNDS);
    fflush(stdout);
    syscall(SYS_exit, 0);
}

static void by_its_number(struct peer *p) {
    struct list list;
    ALLOW(&list, SYS_read, SYS_write, SYS_close);
    before();
    CALL(syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &list.program));
    converse(p->fd, ROUNDS);
    CALL(close(p->fd));
}

// Bytes that are unread when the filter is installed.
static void unread(struct peer *p) {
    static char out[50000], in[50000];
    struct list list;
    ALLOW(&list, SYS_read, SYS_write, SYS_close);
    fill(out, sizeof out, 7);
    write_all(p->fd, out, sizeof out);
    await_bytes(p->fd, sizeof out);
    confine(&list);
    read_all(p->fd, in, sizeof in);
    say("%s", memcmp(in, out, sizeof in) ? "wrong bytes" : "all bytes");
    converse(p->fd, ROUNDS);
}

// --- all threads at once, one of them during a call

static void *answers_here(void *p) {
    answers(p);
    return NULL;
}

static void all_threads(struct peer *p) {
    struct list list;
    pthread_t thread;
    ALLOW(&list, SYS_read, SYS_write, SYS_close, SYS_futex, SYS_madvise, SYS_munmap, SYS_mmap,
          SYS_mprotect, SYS_rt_sigprocmask, SYS_set_robust_list);
    if (pthread_create(&thread, NULL, answers_here, p))
        die("no thread");
    meet(p);
    before();
    CALL(syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC, &list.program));
    tell(p, 1);
    pthread_join(thread, NULL);
}

static void answer_by_poll(int fd, short events, int timeout) {
    struct pollfd one = {.fd = fd, .events = events};
    static char buffer[8192];
    for (;;) {
        MUST(poll(&one, 1, timeout));
        ssize_t n = read(fd, buffer, sizeof buffer);
        if (n <= 0)
            break;
        write_all(fd, buffer, n);
    }
    say("end of stream");
}

static void *polls_here(void *p) {
    answer_by_poll(((struct peer *)p)->fd, POLLIN | POLLRDHUP, -1);
    return NULL;
}

static void all_threads_in_poll(struct peer *p) {
    struct list list;
    pthread_t thread;
#ifdef SYS_poll
    const int polls = SYS_poll;
#else
    const int polls = SYS_ppoll;
#endif
    ALLOW(&list, SYS_read, SYS_write, SYS_close, polls, SYS_futex, SYS_madvise, SYS_munmap, SYS_mmap,
          SYS_mprotect, SYS_rt_sigprocmask, SYS_set_robust_list);
    if (pthread_create(&thread, NULL, polls_here, p))
        die("no thread");
    meet(p);
    before();
    CALL(syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC, &list.program));
    tell(p, 1);
    pthread_join(thread, NULL);
}

static void asks_all_threads(struct peer *p) {
    converse(p->fd, 10);
    meet(p);
    hear(p);
    converse(p->fd, ROUNDS);
}

// --- connections that are opened under the filter

static void connects(struct peer *p) {
    struct list list;
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    to.sin_port = htons(port_of(p, "port"));
    ALLOW(&list, SYS_read, SYS_write, SYS_close, SYS_socket, SYS_connect);
    confine(&list);
    for (int i = 0; i < 3; i++) {
        int fd = MUST(socket(AF_INET, SOCK_STREAM, 0));
        MUST(connect(fd, (struct sockaddr *)&to, sizeof to));
        converse(fd, ROUNDS);
        close(fd);
    }
}

static void serves(struct peer *p) {
    p->listener = listen_on(p, AF_INET, "port");
    for (int i = 0; i < 3; i++) {
        int fd = accept_one(p->listener);
        answer(fd);
        close(fd);
    }
}

// Echoes on `count` connections, which share an epoll instance with the listener.
static void serve_set(int set, int listener, int count) {
    struct epoll_event event = {.events = EPOLLIN}, events[8];
    static char buffer[8192];
    while (count > 0) {
        int ready = MUST(epoll_wait(set, events, 8, 60000));
        for (int i = 0; i < ready; i++) {
            int fd = events[i].data.fd;
            if (fd == listener) {
                event.data.fd = MUST(accept(fd, NULL, NULL));
                MUST(epoll_ctl(set, EPOLL_CTL_ADD, event.data.fd, &event));
                continue;
            }
            ssize_t got = read(fd, buffer, sizeof buffer);
            if (got > 0) {
                write_all(fd, buffer, got);
            } else {
                close(fd);
                count--;
            }
        }
    }
}

static void serves_by_epoll(struct peer *p) {
    struct list list;
    p->listener = listen_on(p, AF_INET, "port");
    ALLOW(&list, SYS_read, SYS_write, SYS_close, SYS_accept, SYS_epoll_create1, SYS_epoll_ctl,
#ifdef SYS_epoll_wait
          SYS_epoll_wait,
#endif
          SYS_epoll_pwait);
    confine(&list);
    int set = MUST(epoll_create1(0));
    struct epoll_event event = {.events = EPOLLIN, .data.fd = p->listener};
    MUST(epoll_ctl(set, EPOLL_CTL_ADD, p->listener, &event));
    serve_set(set, p->listener, 3);
    say("three connections served");
}

// An epoll instance that has held the connection since before the filter.
static void waits_in_an_old_set(struct peer *p) {
    struct epoll_event event = {.events = EPOLLIN, .data.fd = p->fd}, got;
    struct list list;
    static char buffer[8192];
    int set = MUST(epoll_create1(0));
    MUST(epoll_ctl(set, EPOLL_CTL_ADD, p->fd, &event));
    ALLOW(&list, SYS_read, SYS_write, SYS_close,
#ifdef SYS_epoll_wait
          SYS_epoll_wait,
#endif
          SYS_epoll_pwait);
    confine(&list);
    for (;;) {
        MUST(epoll_wait(set, &got, 1, 60000));
        ssize_t n = read(p->fd, buffer, sizeof buffer);
        if (n <= 0)
            break;
        write_all(p->fd, buffer, n);
    }
    say("end of stream");
}

// The filter is refused, and the program continues.
static void serves_after_a_refusal(struct peer *p) {
    struct sock_fprog none = {0};
    p->listener = listen_on(p, AF_INET, "port");
    int set = MUST(epoll_create1(0));
    struct epoll_event event = {.events = EPOLLIN, .data.fd = p->listener};
    MUST(epoll_ctl(set, EPOLL_CTL_ADD, p->listener, &event));
    CALL(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &none));
    serve_set(set, p->listener, 2);
    say("two connections served");
}

static void connects_to_old_set(struct peer *p) {
    for (int i = 0; i < 2; i++) {
        int fd = connect_to(p, AF_INET, "port");
        converse(fd, ROUNDS);
        close(fd);
    }
}

static void polls(struct peer *p) {
    struct list list;
#ifdef SYS_poll
    ALLOW(&list, SYS_read, SYS_write, SYS_close, SYS_poll);
#else
    ALLOW(&list, SYS_read, SYS_write, SYS_close, SYS_ppoll);
#endif
    confine(&list);
    answer_by_poll(p->fd, POLLIN, 60000);
}

// --- a child that serves under a filter, as in servers that drop privileges

static void child_serves(struct peer *p) {
    struct list list;
    ALLOW(&list, SYS_read, SYS_write, SYS_close);
    say("a child is about to serve");
    fflush(stdout);
    pid_t child = MUST(fork());
    if (child == 0) {
        MUST(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0));
        MUST(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &list.program));
        answers(p);
        fflush(stdout);
        _exit(0);
    }
    int status;
    close(p->fd);
    MUST(waitpid(child, &status, 0));
    say_status("child", status);
}

static void forks_under_a_filter(struct peer *p) {
    struct list list;
    ALLOW(&list, SYS_read, SYS_write, SYS_close, SYS_clone, SYS_set_robust_list, SYS_wait4, SYS_rseq);
    confine(&list);
    fflush(stdout);
    pid_t child = MUST(fork());
    if (child == 0) {
        answers(p);
        fflush(stdout);
        _exit(0);
    }
    int status;
    close(p->fd);
    MUST(waitpid(child, &status, 0));
    say_status("child", status);
}

// --- signals under a filter that allows only their return

static volatile sig_atomic_t ticks;

static void tick(int signal) {
    (void)signal;
    ticks++;
}

static void ticking(struct peer *p) {
    struct sigaction action = {.sa_handler = tick, .sa_flags = SA_RESTART};
    struct itimerval often = {{0, 300}, {0, 300}};
    struct list list;
    ALLOW(&list, SYS_read, SYS_write, SYS_close);
    MUST(sigaction(SIGALRM, &action, NULL));
    MUST(setitimer(ITIMER_REAL, &often, NULL));
    confine(&list);
    converse(p->fd, 20 * ROUNDS);
    say("the clock has ticked: %s", ticks > 0 ? "yes" : "no");
}

// --- queries, and filters that the kernel refuses: nothing changes

static void refused(struct peer *p) {
    struct sock_fprog none = {0};
    MUST(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0));
    CALL(prctl(PR_GET_SECCOMP));
    CALL(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, NULL));
    CALL(syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, NULL));
    CALL(prctl(PR_SET_SECCOMP, 77, NULL));
    converse(p->fd, ROUNDS);
    CALL(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &none));
    converse(p->fd, ROUNDS);
    int fd = connect_to(p, AF_INET, "again");
    converse(fd, ROUNDS);
    close(fd);
}

static void serves_twice(struct peer *p) {
    p->listener = listen_on(p, AF_INET, "again");
    struct pollfd either[2] = {{.fd = p->fd, .events = POLLIN}, {.fd = p->listener, .events = POLLIN}};
    static char buffer[8192];
    for (;;) {
        MUST(poll(either, 2, -1));
        if (either[1].revents) {
            int fd = accept_one(p->listener);
            answer(fd);
            close(fd);
            break;
        }
        ssize_t got = read(p->fd, buffer, sizeof buffer);
        if (got <= 0)
            break;
        write_all(p->fd, buffer, got);
    }
}

static const struct scenario scenarios[] = {
    {"a_client_under_an_allow_list", answers, filtered},
    {"a_server_under_an_allow_list", filtered_server, filtered},
    {"strict_mode", answers, strict},
    {"waits_for_something_else", answers, waits_elsewhere},
    {"seccomp_by_its_number", answers, by_its_number},
    {"bytes_that_are_unread", answers, unread},
    {"every_thread_at_once", all_threads, asks_all_threads},
    {"every_thread_at_once_in_poll", all_threads_in_poll, asks_all_threads},
    {"a_set_from_before_a_refused_filter", serves_after_a_refusal, connects_to_old_set, RAW},
    {"connections_opened_under_a_filter", serves, connects, RAW},
    {"connections_accepted_under_a_filter", serves_by_epoll, connects, RAW},
    {"a_set_from_before", waits_in_an_old_set, filtered},
    {"poll_under_a_filter", polls, filtered},
    {"a_confined_child_serves", child_serves, filtered},
    {"a_fork_under_a_filter", forks_under_a_filter, filtered},
    {"signals_under_a_filter", answers, ticking},
    {"filters_that_are_refused", serves_twice, refused},
};
SCENARIO_MAIN(scenarios)
