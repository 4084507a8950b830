// Socket options, ioctls and fcntl on a stream in use.
#include "common.h"
#include <linux/sockios.h>

static char buffer[70000];

static void idle(struct peer *p) {
    meet(p);
}

static void set_flag(int fd, int level, int option, int value, const char *name) {
    int is = -1;
    socklen_t length = sizeof is;
    int set = setsockopt(fd, level, option, &value, sizeof value);
    int got = getsockopt(fd, level, option, &is, &length);
    say("%s = %d: %d, %d, is %d, length %u", name, value, set, got, is, length);
}

static void flags(struct peer *p) {
    for (int on = 1; on >= 0; on--) {
        set_flag(p->fd, IPPROTO_TCP, TCP_NODELAY, on, "TCP_NODELAY");
        set_flag(p->fd, IPPROTO_TCP, TCP_CORK, on, "TCP_CORK");
        set_flag(p->fd, IPPROTO_TCP, TCP_QUICKACK, on, "TCP_QUICKACK");
        set_flag(p->fd, SOL_SOCKET, SO_KEEPALIVE, on, "SO_KEEPALIVE");
        set_flag(p->fd, SOL_SOCKET, SO_REUSEADDR, on, "SO_REUSEADDR");
        set_flag(p->fd, SOL_SOCKET, SO_OOBINLINE, on, "SO_OOBINLINE");
    }
    set_flag(p->fd, IPPROTO_TCP, TCP_KEEPIDLE, 77, "TCP_KEEPIDLE");
    set_flag(p->fd, IPPROTO_TCP, TCP_USER_TIMEOUT, 5000, "TCP_USER_TIMEOUT");
    set_flag(p->fd, SOL_SOCKET, SO_SNDBUF, 100000, "SO_SNDBUF");
    set_flag(p->fd, SOL_SOCKET, SO_RCVBUF, 100000, "SO_RCVBUF");
    set_flag(p->fd, SOL_SOCKET, SO_PRIORITY, 3, "SO_PRIORITY");
    set_flag(p->fd, IPPROTO_IP, IP_TOS, 0x10, "IP_TOS");
    set_flag(p->fd, SOL_SOCKET, SO_TYPE, 1, "SO_TYPE");
    set_flag(p->fd, SOL_SOCKET, SO_ERROR, 0, "SO_ERROR");
    set_flag(p->fd, SOL_SOCKET, SO_ACCEPTCONN, 0, "SO_ACCEPTCONN");
    set_flag(p->fd, SOL_SOCKET, SO_DOMAIN, 0, "SO_DOMAIN");
    set_flag(p->fd, SOL_SOCKET, SO_PROTOCOL, 0, "SO_PROTOCOL");
    set_flag(p->fd, SOL_SOCKET, 9999, 1, "no such option");
    set_flag(p->fd, 9999, 1, 1, "no such level");
    say_alive(p->fd, p->server, "afterwards");
}

static void flags_server(struct peer *p) { say_alive(p->fd, p->server, "afterwards"); }

static void structures(struct peer *p) {
    struct tcp_info info;
    socklen_t length = sizeof info;
    CALL(getsockopt(p->fd, IPPROTO_TCP, TCP_INFO, &info, &length));
    say("state %d, options %d", info.tcpi_state, info.tcpi_snd_mss > 0);
    struct linger linger = {1, 2};
    CALL(setsockopt(p->fd, SOL_SOCKET, SO_LINGER, &linger, sizeof linger));
    memset(&linger, 0, sizeof linger);
    length = sizeof linger;
    CALL(getsockopt(p->fd, SOL_SOCKET, SO_LINGER, &linger, &length));
    say("%d %d %u", linger.l_onoff, linger.l_linger, length);
    char name[16];
    length = sizeof name;
    CALL(getsockopt(p->fd, IPPROTO_TCP, TCP_CONGESTION, name, &length));
    int value;
    length = 2;
    CALL(getsockopt(p->fd, SOL_SOCKET, SO_KEEPALIVE, &value, &length));
    say("length %u", length);
    CALL(setsockopt(p->fd, SOL_SOCKET, SO_KEEPALIVE, &value, 1));
    void *volatile bad = (void *)8;
    length = sizeof value;
    CALL(getsockopt(p->fd, SOL_SOCKET, SO_KEEPALIVE, bad, &length));
    CALL(setsockopt(p->fd, SOL_SOCKET, SO_KEEPALIVE, bad, sizeof value));
    CALL(setsockopt(p->fd, SOL_SOCKET, SO_RCVTIMEO, bad, sizeof(struct timeval)));
    tell(p, 0);
    hear(p);
    await_events(p->fd, POLLRDHUP, POLLRDHUP);
    length = sizeof info;
    CALL(getsockopt(p->fd, IPPROTO_TCP, TCP_INFO, &info, &length));
    say("state %d", info.tcpi_state);
}

static void half_closes(struct peer *p) {
    hear(p);
    MUST(shutdown(p->fd, SHUT_WR));
    tell(p, 0);
    CALL(recv(p->fd, buffer, 1, 0));
}

// The kernel counts such timeouts in ticks of at most this many milliseconds. The first tick has begun before the
// call.
enum { TICK = 10 };

static void set_timeout(int fd, int option, int ms) {
    struct timeval t = {ms / 1000, ms % 1000 * 1000};
    MUST(setsockopt(fd, SOL_SOCKET, option, &t, sizeof t));
    memset(&t, 0, sizeof t);
    socklen_t length = sizeof t;
    MUST(getsockopt(fd, SOL_SOCKET, option, &t, &length));
    long is = t.tv_sec * 1000 + t.tv_usec / 1000;
    say("timeout %s", is >= ms && is <= ms + TICK ? "as set" : "WRONG");
}

static void receive_timeout(struct peer *p) {
    struct iovec one = {buffer, 10};
    struct msghdr message = {.msg_iov = &one, .msg_iovlen = 1};
    set_timeout(p->fd, SO_RCVTIMEO, 150);
    int64_t start = now_ms();
    CALL(recv(p->fd, buffer, 10, 0));
    say_elapsed(start, 150 - TICK, LATE);
    start = now_ms();
    CALL(read(p->fd, buffer, 10));
    say_elapsed(start, 150 - TICK, LATE);
    start = now_ms();
    CALL(recvmsg(p->fd, &message, MSG_WAITALL));
    say_elapsed(start, 150 - TICK, LATE);
    CALL(recv(p->fd, buffer, 10, MSG_PEEK));
    // A partial result is returned after the timeout.
    tell(p, 0);
    hear(p);
    await_bytes(p->fd, 4);
    start = now_ms();
    CALL(recv(p->fd, buffer, 10, MSG_WAITALL));
    say_elapsed(start, 150 - TICK, LATE);
    set_timeout(p->fd, SO_RCVTIMEO, 0);
    tell(p, 0);
    CALL(recv(p->fd, buffer, 10, 0));
    hear(p);
}

static void sends_now_and_later(struct peer *p) {
    hear(p);
    send_all(p->fd, "now,", 4);
    tell(p, 0);
    hear(p);
    nap(250);
    send_all(p->fd, "later", 5);
    tell(p, 0);
}

static void send_timeout(struct peer *p) {
    static char much[32 << 20];
    fill(much, sizeof much, 0);
    set_timeout(p->fd, SO_SNDTIMEO, 200);
    int64_t start = now_ms();
    ssize_t sent = send(p->fd, much, sizeof much, 0);
    say_elapsed(start, 200 - TICK, LATE);
    say(sent > 1000000 && sent < (ssize_t)sizeof much ? "a part was sent" : "sent %zd", sent);
    ssize_t more;
    do {
        start = now_ms();
        more = send(p->fd, much + sent, 50000, 0);
        sent += more > 0 ? more : 0;
    } while (more > 0);
    say("then %s", strerrorname_np(errno));
    say_elapsed(start, 200 - TICK, LATE);
    tell(p, sent);
    hear(p);
    set_timeout(p->fd, SO_SNDTIMEO, 0);
    say_alive(p->fd, p->server, "afterwards");
}

static void reads_part(struct peer *p) {
    recv_pattern(p->fd, 0, hear(p), 65536);
    tell(p, 0);
    say_alive(p->fd, p->server, "afterwards");
}

static void counts(struct peer *p) {
    int there = -1, marked = -1;
    CALL(ioctl(p->fd, FIONREAD, &there));
    say("%d there", there);
    meet(p);
    meet(p);
    await_bytes(p->fd, 12345);
    CALL(ioctl(p->fd, FIONREAD, &there));
    say("%d there", there);
    recv_all(p->fd, buffer, 345);
    CALL(ioctl(p->fd, SIOCINQ, &there));
    say("%d there", there);
    recv_all(p->fd, buffer, 12000);
    CALL(ioctl(p->fd, FIONREAD, &there));
    say("%d there", there);
    CALL(ioctl(p->fd, SIOCATMARK, &marked));
    say("at mark %d", marked);
    send_all(p->fd, buffer, 5000);
    meet(p);
    CALL(ioctl(p->fd, SIOCOUTQ, &there));
    for (int tries = 0; there && tries < 30000; tries++) {
        nap(1);
        MUST(ioctl(p->fd, SIOCOUTQ, &there));
    }
    say("%d not taken", there);
    CALL(ioctl(p->fd, FIONREAD, (void *)8));
    CALL(ioctl(p->fd, TIOCGWINSZ, buffer));
}

static void counted(struct peer *p) {
    meet(p);
    send_pattern(p->fd, 0, 12345, 5000);
    meet(p);
    recv_all(p->fd, buffer, 5000);
    meet(p);
}

static void modes(struct peer *p) {
    int on = 1, off = 0;
    say("flags %#lx", MUST(fcntl(p->fd, F_GETFL)) & ~O_LARGEFILE);
    CALL(ioctl(p->fd, FIONBIO, &on));
    say("flags %#lx", MUST(fcntl(p->fd, F_GETFL)));
    CALL(recv(p->fd, buffer, 1, 0));
    CALL(ioctl(p->fd, FIONBIO, &off));
    say("flags %#lx", MUST(fcntl(p->fd, F_GETFL)));
    CALL(fcntl(p->fd, F_SETFL, O_NONBLOCK | O_APPEND));
    say("flags %#lx", MUST(fcntl(p->fd, F_GETFL)));
    CALL(read(p->fd, buffer, 1));
    CALL(fcntl(p->fd, F_SETFL, 0));
    CALL(fcntl(p->fd, F_SETFD, FD_CLOEXEC));
    CALL(fcntl(p->fd, F_GETFD));
    CALL(ioctl(p->fd, FIONCLEX));
    CALL(fcntl(p->fd, F_GETFD));
    CALL(ioctl(p->fd, FIOCLEX));
    CALL(fcntl(p->fd, F_GETFD));
    CALL(fcntl(p->fd, 9999, 0));
    struct flock lock = {.l_type = F_WRLCK};
    CALL(fcntl(p->fd, F_GETLK, &lock));
    meet(p);
}

static volatile sig_atomic_t told;
static void on_io(int signal) {
    (void)signal;
    told++;
}

// The kernel raises SIGIO when bytes come.
static void asynchronous(struct peer *p) {
    signal(SIGIO, on_io);
    MUST(fcntl(p->fd, F_SETOWN, getpid()));
    CALL(fcntl(p->fd, F_SETFL, O_ASYNC | O_NONBLOCK));
    told = 0;
    meet(p);
    for (int tries = 0; !told && tries < 30000; tries++)
        nap(1);
    say("signal: %s", told ? "came" : "MISSING");
    await_bytes(p->fd, 5);
    CALL(recv(p->fd, buffer, 10, 0));
    MUST(fcntl(p->fd, F_SETFL, 0));
}

static void sends_five(struct peer *p) {
    meet(p);
    nap(50);
    send_all(p->fd, "five!", 5);
    CALL(recv(p->fd, buffer, 1, 0));
}

// A low-water mark delays poll and recv until that many bytes are there.
static void low_water(struct peer *p) {
    int least = 10;
    struct pollfd one = {.fd = p->fd, .events = POLLIN};
    CALL(setsockopt(p->fd, SOL_SOCKET, SO_RCVLOWAT, &least, sizeof least));
    meet(p);
    await_bytes(p->fd, 5);
    CALL(poll(&one, 1, 50));
    meet(p);
    CALL(poll(&one, 1, 5000));
    CALL(recv(p->fd, buffer, 100, 0));
}

static void sends_by_five(struct peer *p) {
    send_all(p->fd, "five!", 5);
    meet(p);
    meet(p);
    send_all(p->fd, "ten!!", 5);
    CALL(recv(p->fd, buffer, 1, 0));
}

// Accepted sockets inherit their listener's mark.
static void low_water_of_the_listener(struct peer *p) {
    int least = 10, listener = listen_on(p, AF_INET, "marked");
    MUST(setsockopt(listener, SOL_SOCKET, SO_RCVLOWAT, &least, sizeof least));
    meet(p);
    struct pollfd one = {.fd = accept_one(listener), .events = POLLIN};
    warm(one.fd, true);
    meet(p);
    await_bytes(one.fd, 5);
    CALL(poll(&one, 1, 50));
    meet(p);
    CALL(poll(&one, 1, 5000));
    CALL(recv(one.fd, buffer, 100, 0));
}

static void sends_by_five_to_it(struct peer *p) {
    meet(p);
    int fd = connect_to(p, AF_INET, "marked");
    warm(fd, false);
    send_all(fd, "five!", 5);
    meet(p);
    meet(p);
    send_all(fd, "ten!!", 5);
    CALL(recv(fd, buffer, 1, 0));
}

// A peer that takes nothing for that long counts as dead.
static void send_until_timeout(struct peer *p) {
    int milliseconds = 300;
    CALL(setsockopt(p->fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &milliseconds, sizeof milliseconds));
    ssize_t sent;
    while ((sent = send(p->fd, buffer, sizeof buffer, MSG_NOSIGNAL)) > 0)
        ;
    report("the last send", sent, errno);
}

static void user_timeout(struct peer *p) {
    send_until_timeout(p);
    meet(p);
}

// Does the same in a program that sends only when poll reports room.
static void polled_user_timeout(struct peer *p) {
    int milliseconds = 300, mask = 0;
    CALL(setsockopt(p->fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &milliseconds, sizeof milliseconds));
    set_nonblocking(p->fd, true);
    struct pollfd one = {.fd = p->fd, .events = POLLOUT};
    while (!(mask & POLLERR)) {
        MUST(poll(&one, 1, -1));
        mask = one.revents;
        if (mask == POLLOUT && send(p->fd, buffer, sizeof buffer, MSG_NOSIGNAL) < 0 && errno != EAGAIN)
            break;
    }
    int error;
    socklen_t length = sizeof error;
    MUST(getsockopt(p->fd, SOL_SOCKET, SO_ERROR, &error, &length));
    // Reported by the send or by poll.
    say("in the end: %s", error == ETIMEDOUT || errno == ETIMEDOUT ? "a time-out" : "something else");
    meet(p);
}

// A stopped peer takes nothing either.
static void user_timeout_of_a_stopped_peer(struct peer *p) {
    pid_t stopped = hear(p);
    await_stopped(stopped);
    send_until_timeout(p);
    MUST(kill(stopped, SIGCONT));
}

static void is_stopped(struct peer *p) {
    tell(p, getpid());
    MUST(raise(SIGSTOP));
}

static void takes_nothing(struct peer *p) { meet(p); }

static bool has_time(int fd) {
    char control[200];
    struct iovec part = {buffer, 100};
    struct msghdr message = {
        .msg_iov = &part, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof control};
    MUST(recvmsg(fd, &message, 0));
    struct cmsghdr *first = CMSG_FIRSTHDR(&message);
    return first && first->cmsg_type == SO_TIMESTAMPNS;
}

// A listener's connections inherit its options.
static void times_of_arrival(struct peer *p) {
    int on = 1, listener = listen_on(p, AF_INET, "timed");
    MUST(setsockopt(listener, SOL_SOCKET, SO_TIMESTAMPNS, &on, sizeof on));
    meet(p);
    int fds[2] = {p->fd, accept_one(listener)};
    MUST(setsockopt(p->fd, SOL_SOCKET, SO_TIMESTAMPNS, &on, sizeof on));
    warm(fds[1], true);
    // The kernel sets timestamps on arriving packets only a while after the first socket has asked
    // for them.
    for (int i = 0; i < 2; i++) {
        while (!has_time(fds[i]))
            send_all(fds[i], "again", 5);
        say("with the time");
        send_all(fds[i], "done!", 5);
    }
}

static void sends_at_times(struct peer *p) {
    meet(p);
    int fds[2] = {p->fd, connect_to(p, AF_INET, "timed")};
    warm(fds[1], false);
    for (int i = 0; i < 2; i++)
        do {
            send_all(fds[i], "five!", 5);
            recv_all(fds[i], buffer, 5);
        } while (memcmp(buffer, "again", 5) == 0);
}

// Without room for control messages, no byte shows these options.
static void times_that_nobody_asks_for(struct peer *p) {
    int on = 1;
    CALL(setsockopt(p->fd, SOL_SOCKET, SO_TIMESTAMP, &on, sizeof on));
    meet(p);
    for (int i = 0; i < 20; i++) {
        recv_all(p->fd, buffer, 5);
        send_all(p->fd, "there", 5);
    }
    struct iovec part = {buffer, 5};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1};
    CALL(recvmsg(p->fd, &message, MSG_WAITALL));
    say("flags %x, %zu bytes of control messages", message.msg_flags, message.msg_controllen);
}

// TCP ignores credentials and descriptors that another socket would pass.
static void sends_with_credentials(struct peer *p) {
    union {
        char bytes[CMSG_SPACE(sizeof(struct ucred))];
        struct cmsghdr first;
    } control = {.first = {.cmsg_level = SOL_SOCKET, .cmsg_type = SCM_CREDENTIALS}};
    control.first.cmsg_len = CMSG_LEN(sizeof(struct ucred));
    struct iovec part = {"five!", 5};
    struct msghdr message = {
        .msg_iov = &part, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof control};
    meet(p);
    for (int i = 0; i < 20; i++) {
        if (sendmsg(p->fd, &message, 0) != 5)
            report("sendmsg", -1, errno);
        recv_all(p->fd, buffer, 5);
    }
    CALL(sendmsg(p->fd, &message, 0));
}

// The cork holds a part of a segment back; removing it sends the part.
static void corked(struct peer *p) {
    int on = 1, off = 0;
    CALL(setsockopt(p->fd, IPPROTO_TCP, TCP_CORK, &on, sizeof on));
    send_all(p->fd, "held ", 5);
    send_all(p->fd, "back", 4);
    CALL(setsockopt(p->fd, IPPROTO_TCP, TCP_CORK, &off, sizeof off));
    say_alive(p->fd, true, "uncorked");
}

static void uncorked(struct peer *p) {
    recv_all(p->fd, buffer, 9);
    say_text("received", buffer, 9);
    say_alive(p->fd, false, "uncorked");
}

static const struct scenario scenarios[] = {
    {"options_are_kept", flags_server, flags},
    {"options_with_structures", half_closes, structures},
    {"receive_timeouts", sends_now_and_later, receive_timeout},
    {"send_timeouts", reads_part, send_timeout},
    {"bytes_are_counted", counted, counts},
    {"modes_and_flags", idle, modes},
    {"sigio_when_bytes_come", sends_five, asynchronous},
    {"a_low_water_mark", sends_by_five, low_water},
    {"a_low_water_mark_of_the_listener", low_water_of_the_listener, sends_by_five_to_it},
    {"a_user_timeout", takes_nothing, user_timeout},
    {"a_user_timeout_of_a_stopped_peer", is_stopped, user_timeout_of_a_stopped_peer},
    {"a_polled_user_timeout", takes_nothing, polled_user_timeout},
    {"times_of_arrival", sends_at_times, times_of_arrival},
    {"times_and_credentials_that_nobody_sees", sends_with_credentials, times_that_nobody_asks_for},
    {"the_cork", uncorked, corked},
};
SCENARIO_MAIN(scenarios)
