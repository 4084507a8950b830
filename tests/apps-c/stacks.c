// Measures how much of the program's stack calls use. Each call runs on a painted stack, once on the
// connection and once on a Unix socket. The library uses the difference.
#include "common.h"
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <ucontext.h>

enum {
    STACK = 256 << 10,
    PAINT = 0xa5,
    TRANSFER = 2560, // greatest use of a call on a connection
    MEETING = 6144,  // greatest use of the calls in which two ends meet
    ANSWER = 200,
};

static char *stack;
static ucontext_t caller, callee;
static void (*running)(int);
static int running_on;

static void run(void) {
    running(running_on);
}

// Bytes that a call uses.
static long taken(void (*call)(int), int fd) {
    if (!stack) {
        stack = mmap(NULL, STACK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (stack == MAP_FAILED)
            die("no stack");
    }
    memset(stack, PAINT, STACK);
    getcontext(&callee);
    callee.uc_stack.ss_sp = stack;
    callee.uc_stack.ss_size = STACK;
    callee.uc_link = &caller;
    running = call;
    running_on = fd;
    makecontext(&callee, run, 0);
    swapcontext(&caller, &callee);
    long lowest = 0;
    while (lowest < STACK && (unsigned char)stack[lowest] == PAINT)
        lowest++;
    return STACK - lowest;
}

static void compare(const char *name, long base, long here, long limit) {
    if (here - base <= limit)
        say("%s: little", name);
    else
        say("%s: %ld bytes of %ld", name, here - base, limit);
    note("%s: %ld", name, here - base);
}

// --- calls that send

static char bytes[60000];

static void a_write(int fd) {
    MUST(write(fd, "e", 1));
}
static void a_send(int fd) {
    MUST(send(fd, "e", 1, MSG_NOSIGNAL));
}
static void a_sendto(int fd) {
    MUST(sendto(fd, "e", 1, 0, NULL, 0));
}
static void a_writev(int fd) {
    struct iovec part[2] = {{"e", 1}, {"", 0}};
    MUST(writev(fd, part, 2));
}
static void a_sendmsg(int fd) {
    struct iovec part[1] = {{"e", 1}};
    struct msghdr message = {.msg_iov = part, .msg_iovlen = 1};
    MUST(sendmsg(fd, &message, 0));
}
static void a_sendmmsg(int fd) {
    struct iovec part[1] = {{"e", 1}};
    struct mmsghdr message = {.msg_hdr = {.msg_iov = part, .msg_iovlen = 1}};
    MUST(sendmmsg(fd, &message, 1, 0));
}

// --- calls that receive

static void a_read(int fd) {
    MUST(read(fd, bytes, ANSWER));
}
static void a_readv(int fd) {
    struct iovec parts[2] = {{bytes, 10}, {bytes + 10, ANSWER - 10}};
    MUST(readv(fd, parts, 2));
}
static void a_recv(int fd) {
    MUST(recv(fd, bytes, ANSWER, 0));
}
static void a_peek(int fd) {
    MUST(recv(fd, bytes, ANSWER, MSG_PEEK));
    MUST(recv(fd, bytes, ANSWER, MSG_WAITALL));
}
static void a_recvfrom(int fd) {
    MUST(recvfrom(fd, bytes, ANSWER, 0, NULL, NULL));
}
static void a_recvmsg(int fd) {
    struct iovec part[1] = {{bytes, ANSWER}};
    struct msghdr message = {.msg_iov = part, .msg_iovlen = 1};
    MUST(recvmsg(fd, &message, 0));
}
static void a_recvmmsg(int fd) {
    struct iovec part[1] = {{bytes, ANSWER}};
    struct mmsghdr message = {.msg_hdr = {.msg_iov = part, .msg_iovlen = 1}};
    MUST(recvmmsg(fd, &message, 1, MSG_DONTWAIT, NULL));
}

// --- calls that query, with bytes to read

static int set = -1;

static void a_poll(int fd) {
    struct pollfd one = {.fd = fd, .events = POLLIN};
    MUST(poll(&one, 1, -1));
}
static void a_ppoll(int fd) {
    struct pollfd one = {.fd = fd, .events = POLLIN};
    sigset_t none;
    sigemptyset(&none);
    MUST(ppoll(&one, 1, NULL, &none));
}
static void a_select(int fd) {
    // The program's own descriptor sets are large, so only ours are compared.
    fd_set read;
    FD_ZERO(&read);
    FD_SET(fd, &read);
    MUST(select(fd + 1, &read, NULL, NULL, NULL));
}
static void an_epoll_wait(int fd) {
    struct epoll_event event;
    (void)fd;
    MUST(epoll_wait(set, &event, 1, -1));
}
static void an_epoll_pwait2(int fd) {
    struct epoll_event event;
    (void)fd;
    if (epoll_pwait2(set, &event, 1, NULL, NULL) < 0 && errno != ENOSYS)
        die("epoll_pwait2");
}
static void a_question(int fd) {
    int count;
    MUST(ioctl(fd, FIONREAD, &count));
}

// --- calls that change something

static void an_epoll_add(int fd) {
    struct epoll_event event = {.events = EPOLLIN};
    MUST(epoll_ctl(set, EPOLL_CTL_ADD, fd, &event));
}
static void an_epoll_mod(int fd) {
    struct epoll_event event = {.events = EPOLLIN | EPOLLOUT};
    MUST(epoll_ctl(set, EPOLL_CTL_MOD, fd, &event));
}
static void an_epoll_del(int fd) {
    MUST(epoll_ctl(set, EPOLL_CTL_DEL, fd, NULL));
}
static void a_fcntl(int fd) {
    int flags = MUST(fcntl(fd, F_GETFL));
    MUST(fcntl(fd, F_SETFL, flags | O_NONBLOCK));
    MUST(fcntl(fd, F_SETFL, flags));
}
static void an_option(int fd) {
    struct timeval time = {20, 0};
    int error;
    socklen_t len = sizeof error;
    MUST(setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &time, sizeof time));
    MUST(getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &len));
}
static void a_dup(int fd) {
    int other = MUST(dup(fd));
    MUST(dup2(fd, other));
    MUST(dup3(fd, other, O_CLOEXEC));
    MUST(close(other));
}
static void a_file(int fd) {
    static int file = -1;
    if (file < 0)
        file = MUST(open("/proc/self/exe", O_RDONLY | O_CLOEXEC));
    off_t from = 0;
    // End with requests that need no answer: the peer ignores them.
    MUST(sendfile(fd, file, &from, 1));
}
static void a_shutdown(int fd) {
    MUST(shutdown(fd, SHUT_WR));
}
static void a_close(int fd) {
    MUST(close(fd));
}

static int ours, theirs; // the Unix socket

// Makes the peers answer on the connection and on the Unix socket.
static void ask(struct peer *p, const char *how) {
    MUST(send(p->fd, how, 1, 0));
    static char answer[ANSWER];
    MUST(write(theirs, answer, sizeof answer));
}

static void take_answers(struct peer *p) {
    recv_all(p->fd, bytes, ANSWER);
    recv_all(ours, bytes, ANSWER);
}

static void nothing(int fd) {
    (void)fd;
}

// Each call was made once before, because the dynamic linker uses stack at a function's first call.
static void measure(struct peer *p, const char *name, void (*call)(int)) {
    compare(name, taken(nothing, 0), taken(call, p->fd), TRANSFER);
}

static void sending(struct peer *p, const char *name, void (*call)(int)) {
    call(ours);
    MUST(read(theirs, bytes, sizeof bytes));
    measure(p, name, call);
    recv_all(p->fd, bytes, ANSWER);
}

static void receiving(struct peer *p, const char *name, void (*call)(int)) {
    for (const char *how = "ew"; *how; how++) {
        static char answer[ANSWER];
        MUST(write(theirs, answer, sizeof answer));
        call(ours);
        ask(p, how);
        if (*how == 'e')
            await_bytes(p->fd, ANSWER);
        measure(p, name, call);
        recv_all(ours, bytes, ANSWER);
    }
}

static void looking(struct peer *p, const char *name, void (*call)(int)) {
    for (const char *how = "ew"; *how; how++) {
        ask(p, how);
        call(ours);
        if (*how == 'e')
            await_bytes(p->fd, ANSWER);
        measure(p, name, call);
        take_answers(p);
    }
}

static void changing(struct peer *p, const char *name, void (*call)(int)) {
    measure(p, name, call);
}

static void calls(struct peer *p) {
    int pair[2];
    MUST(socketpair(AF_UNIX, SOCK_STREAM, 0, pair));
    ours = pair[0];
    theirs = pair[1];
    sending(p, "write", a_write);
    sending(p, "send", a_send);
    sending(p, "sendto", a_sendto);
    sending(p, "writev", a_writev);
    sending(p, "sendmsg", a_sendmsg);
    sending(p, "sendmmsg", a_sendmmsg);
    receiving(p, "read", a_read);
    receiving(p, "readv", a_readv);
    receiving(p, "recv", a_recv);
    receiving(p, "peek", a_peek);
    receiving(p, "recvfrom", a_recvfrom);
    receiving(p, "recvmsg", a_recvmsg);
    ask(p, "e");
    await_bytes(p->fd, ANSWER);
    MUST(write(theirs, bytes, ANSWER));
    a_recvmmsg(ours);
    measure(p, "recvmmsg", a_recvmmsg);
    looking(p, "poll", a_poll);
    looking(p, "ppoll", a_ppoll);
    looking(p, "select", a_select);
    set = MUST(epoll_create1(0));
    an_epoll_add(ours);
    an_epoll_del(ours);
    changing(p, "epoll_ctl, ADD", an_epoll_add);
    changing(p, "epoll_ctl, MOD", an_epoll_mod);
    changing(p, "epoll_ctl, MOD", an_epoll_mod);
    // Alone in the epoll instance, one after the other.
    an_epoll_del(p->fd);
    an_epoll_add(ours);
    an_epoll_mod(ours);
    ask(p, "e");
    an_epoll_wait(ours);
    an_epoll_pwait2(ours);
    long base = taken(nothing, 0);
    an_epoll_del(ours);
    an_epoll_add(p->fd);
    compare("epoll_wait", base, taken(an_epoll_wait, p->fd), TRANSFER);
    compare("epoll_pwait2", base, taken(an_epoll_pwait2, p->fd), TRANSFER);
    take_answers(p);
    ask(p, "w");
    compare("epoll_wait", base, taken(an_epoll_wait, p->fd), TRANSFER);
    take_answers(p);
    changing(p, "epoll_ctl, DEL", an_epoll_del);
    looking(p, "ioctl", a_question);
    a_fcntl(ours);
    changing(p, "fcntl", a_fcntl);
    an_option(ours);
    changing(p, "setsockopt and getsockopt", an_option);
    a_dup(ours);
    changing(p, "dup and close", a_dup);
    a_file(ours);
    changing(p, "sendfile", a_file);
    a_shutdown(ours);
    changing(p, "shutdown", a_shutdown);
    a_close(ours);
    changing(p, "close", a_close);
}

static void answers(struct peer *p) {
    char how;
    while (recv(p->fd, &how, 1, 0) == 1) {
        if (how == 'w')
            nap(20);
        if (how == 'w' || how == 'e')
            send_all(p->fd, bytes, ANSWER);
    }
}

// --- the calls in which the ends meet: the first connection of two processes, and later ones

static struct peer *self;

static void transfers(int fd, bool server) {
    for (int i = 0; i < 60; i++) {
        if (server)
            MUST(read(fd, bytes, 1));
        MUST(write(fd, "x", 1));
        if (!server)
            MUST(read(fd, bytes, 1));
    }
}

static void accepts(int fd) {
    (void)fd;
    int one = MUST(accept(self->listener, NULL, NULL));
    transfers(one, true);
    MUST(close(one));
}

static void connects(int port) {
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    to.sin_port = htons(port);
    int one = MUST(socket(AF_INET, SOCK_STREAM, 0));
    MUST(connect(one, (struct sockaddr *)&to, sizeof to));
    transfers(one, false);
    MUST(close(one));
}

// Makes the same calls on descriptors that the library does not handle.
static void elsewhere(int fd) {
    int pair[2], fresh = MUST(socket(AF_INET, SOCK_STREAM, 0));
    (void)fd;
    close(fresh);
    MUST(socketpair(AF_UNIX, SOCK_STREAM, 0, pair));
    for (int i = 0; i < 3; i++) {
        MUST(write(pair[0], "x", 1));
        MUST(read(pair[1], bytes, 1));
    }
    MUST(accept(pair[0], NULL, NULL) < 0 ? 0 : -1);
    MUST(connect(pair[0], (struct sockaddr *)&(struct sockaddr_un){0}, 2) < 0 ? 0 : -1);
    MUST(close(pair[0]));
    MUST(close(pair[1]));
}

static void meets(void (*call)(int), int argument) {
    elsewhere(0);
    long base = taken(nothing, 0);
    for (int i = 0; i < 5; i++)
        compare(i ? "a later meeting" : "the first meeting", base, taken(call, argument), MEETING);
}

static void server_meets(struct peer *p) {
    self = p;
    p->listener = listen_on(p, AF_INET, "port");
    meets(accepts, 0);
}

static void client_meets(struct peer *p) {
    self = p;
    meets(connects, port_of(p, "port"));
}

static const struct scenario scenarios[] = {
    {"calls_on_a_connection", answers, calls},
    {"calls_in_which_the_ends_meet", server_meets, client_meets, RAW},
};
SCENARIO_MAIN(scenarios)
