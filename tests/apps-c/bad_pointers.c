// Pointers to unmapped memory, in every call and on every kind of descriptor: the same errno, and
// nothing lost.
#include "common.h"
#include <sys/mman.h>
#include <sys/select.h>

static char buffer[70000];
static char *page;        // a page; the page after it is unmapped
static void *missing;     // the second
static void *readonly;    // a read-only page
static void *noncanonical = (void *)0xdead000000000000;

static void make_pages(void) {
    page = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    readonly = mmap(NULL, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    missing = page + 4096;
    MUST(munmap(missing, 4096));
}

static void arrived(struct peer *p, int count) {
    meet(p);
    await_bytes(p->fd, count);
}

static void sends_200(struct peer *p) {
    send_pattern(p->fd, 0, 200, 200);
    meet(p);
    meet(p);
    // The process must have survived the bad pointers.
    say_alive(p->fd, p->server, "afterwards");
}

static void still_there(struct peer *p) {
    long got = CALL(recv(p->fd, buffer, 300, MSG_DONTWAIT));
    say("%s", got == 200 && matches(buffer, 200, 0) ? "right" : "WRONG");
    meet(p);
    say_alive(p->fd, p->server, "afterwards");
}

static void receives_into_bad_memory(struct peer *p) {
    make_pages();
    arrived(p, 200);
    void *bad[] = {missing, readonly, noncanonical};
    for (int i = 0; i < 3; i++) {
        void *b = bad[i];
        struct iovec one = {b, 100};
        struct iovec second[2] = {{buffer, 10}, {b, 100}};
        struct msghdr message = {.msg_iov = &one, .msg_iovlen = 1};
        CALL(read(p->fd, b, 100));
        CALL(recv(p->fd, b, 100, 0));
        CALL(recv(p->fd, b, 100, MSG_PEEK));
        CALL(recvfrom(p->fd, b, 100, 0, NULL, NULL));
        CALL(readv(p->fd, &one, 1));
        CALL(readv(p->fd, second, 2));
        CALL(recvmsg(p->fd, &message, 0));
    }
    struct msghdr message = {.msg_iov = missing, .msg_iovlen = 1};
    CALL(readv(p->fd, missing, 1));
    CALL(recvmsg(p->fd, missing, 0));
    CALL(recvmsg(p->fd, &message, 0));
    CALL(recvmmsg(p->fd, missing, 1, 0, NULL));
    // A buffer whose first 50 bytes are mapped, and the rest is not.
    CALL(recv(p->fd, page + 4096 - 50, 100, 0));
    still_there(p);
}

static void large_receives(struct peer *p) {
    make_pages();
    arrived(p, 60000);
    CALL(read(p->fd, missing, 60000));
    CALL(read(p->fd, readonly, 60000));
    recv_pattern(p->fd, 0, 60000, 60000);
    meet(p);
    say_alive(p->fd, p->server, "afterwards");
}

static void sends_60000(struct peer *p) {
    static char much[60000];
    fill(much, sizeof much, 0);
    send_all(p->fd, much, sizeof much);
    meet(p);
    meet(p);
    say_alive(p->fd, p->server, "afterwards");
}

// A gathered write with an unmapped part sends nothing, however much is unread.
static void sends_parts_behind_unread(struct peer *p) {
    make_pages();
    for (int unread = 0; unread < 2; unread++) {
        for (int i = 0; unread && i < 100; i++)
            MUST(send(p->fd, "unread ", 7, 0));
        for (size_t size = 100; size < 20000; size *= 10) {
            struct iovec parts[2] = {{buffer, 10}, {missing, size}};
            struct iovec turned[2] = {{page + 4090, size}, {buffer, 10}};
            CALL(writev(p->fd, parts, 2));
            CALL(writev(p->fd, turned, 2));
        }
    }
    CALL(send(p->fd, "intact", 6, 0));
    meet(p);
    meet(p);
}

static void hears_all(struct peer *p) {
    meet(p);
    ssize_t got = MUST(recv(p->fd, buffer, 706, MSG_WAITALL));
    say("received: %zd '%.6s'", got, buffer + 700);
    meet(p);
}

static void sends_from_bad_memory(struct peer *p) {
    make_pages();
    void *bad[] = {missing, noncanonical};
    for (int i = 0; i < 2; i++) {
        void *b = bad[i];
        struct iovec one = {b, 100};
        struct iovec second[2] = {{buffer, 10}, {b, 100}};
        struct msghdr message = {.msg_iov = &one, .msg_iovlen = 1};
        CALL(write(p->fd, b, 4));
        CALL(write(p->fd, b, 100));
        CALL(write(p->fd, b, 1000));
        CALL(write(p->fd, b, 60000));
        CALL(send(p->fd, b, 100, MSG_DONTWAIT));
        CALL(sendto(p->fd, b, 100, 0, NULL, 0));
        CALL(writev(p->fd, &one, 1));
        CALL(writev(p->fd, second, 2));
        CALL(sendmsg(p->fd, &message, 0));
    }
    struct msghdr message = {.msg_iov = missing, .msg_iovlen = 1};
    CALL(writev(p->fd, missing, 1));
    CALL(sendmsg(p->fd, missing, 0));
    CALL(sendmsg(p->fd, &message, 0));
    CALL(sendmmsg(p->fd, missing, 1, 0));
    CALL(send(p->fd, "intact", 6, 0));
    meet(p);
    meet(p);
}

static void receives_intact(struct peer *p) {
    char text[100];
    meet(p);
    say_text("received", text, recv(p->fd, text, sizeof text, 0));
    meet(p);
}

static void waits_on(int fd, int set) {
    struct timespec none = {0, 0};
    CALL(poll(missing, 1, 0));
    CALL(poll(noncanonical, 1, 0));
    struct pollfd *edge = (struct pollfd *)missing - 1;
    *edge = (struct pollfd){.fd = fd, .events = POLLOUT};
    CALL(poll(edge, 2, 0));
    CALL(poll(edge, 1, 0));
    // libc itself reads timeouts, and crashes on bad ones, so they are left out.
    CALL(ppoll(edge, 1, &none, missing));
    CALL(select(fd + 1, missing, NULL, NULL, (struct timeval[1]){{0, 0}}));
    CALL(select(fd + 1, NULL, missing, NULL, (struct timeval[1]){{0, 0}}));
    CALL(epoll_ctl(set, EPOLL_CTL_ADD, fd, missing));
    struct epoll_event event = {.events = EPOLLOUT};
    CALL(epoll_ctl(set, EPOLL_CTL_ADD, fd, &event));
    CALL(epoll_ctl(set, EPOLL_CTL_MOD, fd, missing));
    CALL(epoll_wait(set, missing, 1, 100));
    CALL(epoll_wait(set, readonly, 1, 100));
    CALL(epoll_wait(set, &event, 1, 100));
    CALL(epoll_ctl(set, EPOLL_CTL_DEL, fd, missing));
}

static void waits_with_bad_lists(struct peer *p) {
    make_pages();
    int set = MUST(epoll_create1(0));
    waits_on(p->fd, set);
    int ends[2];
    MUST(pipe(ends));
    say("a pipe");
    waits_on(ends[1], set);
    int fresh = MUST(socket(AF_INET, SOCK_STREAM, 0));
    struct msghdr message = {.msg_control = missing, .msg_controllen = 64};
    CALL(sendmsg(fresh, &message, MSG_NOSIGNAL));
    CALL(sendmsg(fresh, missing, MSG_NOSIGNAL));
    CALL(connect(fresh, missing, 16));
    CALL(ioctl(p->fd, FIONREAD, missing));
    CALL(setsockopt(p->fd, SOL_SOCKET, SO_RCVLOWAT, missing, 4));
    CALL(getsockopt(p->fd, SOL_SOCKET, SO_ERROR, missing, (socklen_t *)readonly));
    say_alive(p->fd, p->server, "afterwards");
}

// Each in a child of its own, because a call may kill the process.
#define EACH(expression)                                                       \
    do {                                                                       \
        fflush(NULL);                                                          \
        pid_t child_ = MUST(fork());                                           \
        if (child_ == 0) {                                                     \
            CALL(expression);                                                  \
            _exit(0);                                                          \
        }                                                                      \
        int status_;                                                           \
        MUST(waitpid(child_, &status_, 0));                                    \
        say_status(#expression, status_ & ~0x80);                              \
    } while (0)

static void each_waits(int fd) {
    struct timespec none = {0, 0};
    int set = MUST(epoll_create1(0));
    EACH(poll(missing, 1, 0));
    EACH(ppoll(missing, 1, &none, NULL));
    EACH(select(fd + 1, missing, NULL, NULL, (struct timeval[1]){{0, 0}}));
    EACH(epoll_ctl(set, EPOLL_CTL_ADD, fd, missing));
    EACH(epoll_ctl(set, EPOLL_CTL_MOD, fd, missing));
    close(set);
}

static void each_call(struct peer *p) {
    make_pages();
    struct msghdr message = {.msg_iov = missing, .msg_iovlen = 1};
    say("the connection");
    each_waits(p->fd);
    EACH(sendmsg(p->fd, missing, MSG_NOSIGNAL));
    EACH(sendmsg(p->fd, &message, MSG_NOSIGNAL));
    EACH(write(p->fd, missing, 100));
    await_bytes(p->fd, 200);
    EACH(read(p->fd, missing, 100));
    recv_pattern(p->fd, 0, 200, 200);
    int ends[2], fresh = MUST(socket(AF_INET, SOCK_DGRAM, 0));
    MUST(pipe(ends));
    say("a pipe");
    each_waits(ends[1]);
    say("a socket");
    each_waits(fresh);
    EACH(sendmsg(fresh, missing, MSG_NOSIGNAL));
    EACH(sendmsg(fresh, &message, MSG_NOSIGNAL));
    say_alive(p->fd, p->server, "afterwards");
}

static void sends_200_alive(struct peer *p) {
    send_pattern(p->fd, 0, 200, 200);
    say_alive(p->fd, p->server, "afterwards");
}

static void says_alive(struct peer *p) { say_alive(p->fd, p->server, "afterwards"); }

// --- handlers that the program has installed for its own faults keep working

static volatile sig_atomic_t faults;
static void on_fault(int signal, siginfo_t *info, void *context) {
    (void)context;
    if (signal != SIGSEGV || info->si_addr != missing)
        _exit(3);
    faults++;
    mmap(missing, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
}

static void own_handler(struct peer *p) {
    make_pages();
    struct sigaction action = {.sa_sigaction = on_fault, .sa_flags = SA_SIGINFO}, seen;
    MUST(sigaction(SIGSEGV, &action, NULL));
    MUST(sigaction(SIGSEGV, NULL, &seen));
    say("%s", seen.sa_sigaction == on_fault ? "its own" : "another");
    CALL(write(p->fd, missing, 100)); // must fail without calling the handler
    say("%d faults", (int)faults);
    *(volatile char *)missing = 1;
    say("%d faults", (int)faults);
    // With the signal blocked, the call still fails with an error.
    MUST(munmap(missing, 4096));
    sigset_t all, now;
    sigfillset(&all);
    MUST(sigprocmask(SIG_SETMASK, &all, NULL));
    CALL(write(p->fd, missing, 100));
    MUST(sigprocmask(SIG_SETMASK, NULL, &now));
    say("SIGSEGV blocked: %d", sigismember(&now, SIGSEGV));
    MUST(sigprocmask(SIG_UNBLOCK, &all, NULL));
    MUST(sigprocmask(SIG_SETMASK, NULL, &now));
    say("SIGSEGV blocked: %d", sigismember(&now, SIGSEGV));
    // Without a handler, the program's own fault kills it, as usual.
    pid_t child = MUST(fork());
    if (child == 0) {
        signal(SIGSEGV, SIG_DFL);
        CALL(write(p->fd, missing, 100));
        *(volatile char *)missing = 1;
        _exit(0);
    }
    int status;
    MUST(waitpid(child, &status, 0));
    say_status("child", status & ~0x80);
    say_alive(p->fd, p->server, "afterwards");
}

static const struct scenario scenarios[] = {
    {"receiving_into_memory_that_is_not_there", sends_200, receives_into_bad_memory},
    {"receiving_much_into_memory_that_is_not_there", sends_60000, large_receives},
    {"sending_from_memory_that_is_not_there", receives_intact, sends_from_bad_memory},
    {"sending_parts_that_are_not_there", hears_all, sends_parts_behind_unread},
    {"waiting_with_lists_that_are_not_there", says_alive, waits_with_bad_lists},
    {"each_call_by_itself", sends_200_alive, each_call},
    {"the_programs_own_handler_for_faults", says_alive, own_handler},
};
SCENARIO_MAIN(scenarios)
