// Establishing connections: addresses, non-blocking connects, refusals, and bytes sent before the
// server has accepted.
#include "common.h"
#include <sys/resource.h>

static char buffer[70000];

static struct sockaddr_in loopback(int port) {
    return (struct sockaddr_in){
        .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK), .sin_port = htons(port)};
}

static int so_error(int fd) {
    int error = -1;
    socklen_t length = sizeof error;
    MUST(getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &length));
    return error;
}

static void say_addresses(int fd, int listening_port) {
    struct sockaddr_storage own, peer;
    socklen_t own_length = sizeof own, peer_length = sizeof peer;
    CALL(getsockname(fd, (struct sockaddr *)&own, &own_length));
    CALL(getpeername(fd, (struct sockaddr *)&peer, &peer_length));
    int own_port = ntohs(((struct sockaddr_in *)&own)->sin_port);
    int peer_port = ntohs(((struct sockaddr_in *)&peer)->sin_port);
    char name[100] = "";
    if (peer.ss_family == AF_INET)
        inet_ntop(AF_INET, &((struct sockaddr_in *)&peer)->sin_addr, name, sizeof name);
    else
        inet_ntop(AF_INET6, &((struct sockaddr_in6 *)&peer)->sin6_addr, name, sizeof name);
    say("family %d %d, lengths %u %u, own port listens %d, peer's %d, peer %s", own.ss_family, peer.ss_family,
        own_length, peer_length, own_port == listening_port, peer_port == listening_port, name);
}

static void addresses(struct peer *p) {
    int port = port_of(p, "port");
    say_addresses(p->fd, port);
    meet(p);
    struct sockaddr_in again = loopback(port);
    CALL(connect(p->fd, (struct sockaddr *)&again, sizeof again));
    CALL(bind(p->fd, (struct sockaddr *)&again, sizeof again));
    say_alive(p->fd, p->server, "afterwards");
    socklen_t length = 4;
    CALL(getpeername(p->fd, (struct sockaddr *)&again, &length));
    say("length %u", length);
    struct sockaddr *volatile bad = (void *)8;
    CALL(getpeername(p->fd, bad, &length));
}

// A listener on every address of both families; the client connects by IPv4.
static void listens_to_all(struct peer *p) {
    int fd = MUST(socket(AF_INET6, SOCK_STREAM, 0)), off = 0;
    struct sockaddr_in6 any = {.sin6_family = AF_INET6};
    socklen_t length = sizeof any;
    MUST(setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof off));
    MUST(bind(fd, (struct sockaddr *)&any, sizeof any));
    MUST(listen(fd, 5));
    MUST(getsockname(fd, (struct sockaddr *)&any, &length));
    tell(p, ntohs(any.sin6_port));
    for (int i = 0; i < 2; i++) {
        struct sockaddr_in6 from;
        length = sizeof from;
        int conn = MUST(accept(fd, (struct sockaddr *)&from, &length));
        say("family %d, length %u", from.sin6_family, length);
        warm(conn, true);
        say_addresses(conn, ntohs(any.sin6_port));
        say_alive(conn, true, "stream");
        meet(p);
    }
}

static void comes_by_both(struct peer *p) {
    int port = hear(p);
    struct sockaddr_in four = loopback(port);
    struct sockaddr_in6 six = {.sin6_family = AF_INET6, .sin6_addr = in6addr_loopback, .sin6_port = htons(port)};
    for (int i = 0; i < 2; i++) {
        int fd = MUST(socket(i ? AF_INET6 : AF_INET, SOCK_STREAM, 0));
        CALL(connect(fd, i ? (struct sockaddr *)&six : (struct sockaddr *)&four, i ? sizeof six : sizeof four));
        warm(fd, false);
        say_addresses(fd, port);
        say_alive(fd, false, "stream");
        meet(p);
    }
}

static void accepts_with_flags(struct peer *p) {
    int fd = listen_on(p, AF_INET, "flags");
    set_nonblocking(fd, true);
    CALL(accept(fd, NULL, NULL));
    CALL(accept4(fd, NULL, NULL, SOCK_CLOEXEC));
    meet(p);
    static const int kinds[] = {0, SOCK_NONBLOCK, SOCK_CLOEXEC, SOCK_NONBLOCK | SOCK_CLOEXEC};
    for (int i = 0; i < 4; i++) {
        struct pollfd one = {.fd = fd, .events = POLLIN};
        CALL(poll(&one, 1, 5000));
        struct sockaddr_in from;
        socklen_t length = sizeof from;
        int conn = MUST(accept4(fd, (struct sockaddr *)&from, &length, kinds[i]));
        say("length %u, family %d, non-blocking %d, close on exec %ld", length, from.sin_family,
            !!(MUST(fcntl(conn, F_GETFL)) & O_NONBLOCK), MUST(fcntl(conn, F_GETFD)));
        set_nonblocking(conn, false);
        warm(conn, true);
        say_alive(conn, true, "stream");
        close(conn);
    }
    CALL(accept4(fd, NULL, NULL, 12345));
    meet(p);
}

static void comes_four_times(struct peer *p) {
    meet(p);
    for (int i = 0; i < 4; i++) {
        int fd = connect_to(p, AF_INET, "flags");
        warm(fd, false);
        say_alive(fd, false, "stream");
        CALL(recv(fd, buffer, 1, 0));
        close(fd);
    }
    meet(p);
}

static void nonblocking_connect(struct peer *p) {
    if (p->server) {
        int conn = accept_one(listen_on(p, AF_INET, "late"));
        warm(conn, true);
        say_alive(conn, true, "stream");
        return;
    }
    struct sockaddr_in to = loopback(port_of(p, "late"));
    int fd = MUST(socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0));
    int made = connect(fd, (struct sockaddr *)&to, sizeof to);
    say("connect: %s", made == 0 || errno == EINPROGRESS ? "begun" : strerrorname_np(errno));
    struct pollfd one = {.fd = fd, .events = POLLOUT};
    CALL(poll(&one, 1, 5000));
    say("%s, SO_ERROR %d", poll_names(one.revents), so_error(fd));
    int again = connect(fd, (struct sockaddr *)&to, sizeof to);
    // The call that finds the connection established reports it once.
    say("again: %s", again == 0 || errno == EISCONN ? "connected" : strerrorname_np(errno));
    CALL(connect(fd, (struct sockaddr *)&to, sizeof to));
    CALL(recv(fd, buffer, 1, 0));
    set_nonblocking(fd, false);
    warm(fd, false);
    say_alive(fd, false, "stream");
}

static int nobodys_port(void) {
    // Bound, but not listening.
    int fd = MUST(socket(AF_INET, SOCK_STREAM, 0));
    struct sockaddr_in address = loopback(0);
    socklen_t length = sizeof address;
    MUST(bind(fd, (struct sockaddr *)&address, sizeof address));
    MUST(getsockname(fd, (struct sockaddr *)&address, &length));
    return ntohs(address.sin_port);
}

static void refused(struct peer *p) {
    struct sockaddr_in to = loopback(nobodys_port());
    int fd = MUST(socket(AF_INET, SOCK_STREAM, 0));
    CALL(connect(fd, (struct sockaddr *)&to, sizeof to));
    say("SO_ERROR %d", so_error(fd));
    CALL(send(fd, "x", 1, MSG_NOSIGNAL));
    CALL(recv(fd, buffer, 1, 0));
    struct pollfd one = {.fd = fd, .events = POLLIN | POLLOUT};
    CALL(poll(&one, 1, 0));
    say("%s", poll_names(one.revents));
    close(fd);
    fd = MUST(socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0));
    int made = connect(fd, (struct sockaddr *)&to, sizeof to);
    say("connect: %s", made < 0 && (errno == EINPROGRESS || errno == ECONNREFUSED) ? "begun or refused" : "WRONG");
    one.fd = fd;
    CALL(poll(&one, 1, 5000));
    say("%s", poll_names(one.revents));
    close(fd);
    // After a failure, the same socket may connect to another address.
    fd = MUST(socket(AF_INET, SOCK_STREAM, 0));
    CALL(connect(fd, (struct sockaddr *)&to, sizeof to));
    to = loopback(port_of(p, "port"));
    CALL(connect(fd, (struct sockaddr *)&to, sizeof to));
    warm(fd, false);
    say_alive(fd, false, "stream");
}

static void accepts_one(struct peer *p) {
    int fd = accept_one(listen_on(p, AF_INET, "port"));
    warm(fd, true);
    say_alive(fd, true, "stream");
}

// Sends much, and the end, before the server accepts.
static void accepts_late(struct peer *p) {
    int fd = listen_on(p, AF_INET, "port");
    meet(p);
    fd = accept_one(fd);
    drain_to_eof(fd, 0);
    send_all(fd, "thanks", 6);
}

static void sends_early(struct peer *p) {
    p->fd = connect_to(p, AF_INET, "port");
    send_pattern(p->fd, 0, 60000, 1000);
    CALL(shutdown(p->fd, SHUT_WR));
    meet(p);
    say_text("received", buffer, recv(p->fd, buffer, 10, MSG_WAITALL));
}

// Small requests one after the other with no answer: no switch may wait for one.
static void sends_only(struct peer *p) {
    char piece[100];
    for (int i = 0; i < 5000; i++) {
        fill(piece, sizeof piece, (uint64_t)i * sizeof piece);
        send_all(p->fd, piece, sizeof piece);
        if (i % 500 == 0)
            nap(1);
    }
    CALL(shutdown(p->fd, SHUT_WR));
    CALL(recv(p->fd, buffer, 1, 0));
}

static void receives_only(struct peer *p) { drain_to_eof(p->fd, 0); }

// Connections that end before acceleration could gain anything
static void short_lives(struct peer *p) {
    int listener = p->server ? listen_on(p, AF_INET, "short") : -1;
    for (int i = 0; i < 300; i++) {
        int fd = p->server ? accept_one(listener) : connect_to(p, AF_INET, "short");
        if (p->server) {
            recv_all(fd, buffer, 10);
            send_all(fd, "answer", 6);
        } else {
            send_all(fd, "a question", 10);
            recv_all(fd, buffer, 6);
            if (recv(fd, buffer, 1, 0) != 0)
                die("no end");
        }
        close(fd);
    }
    say("300 connections");
}

// Connects the same two ends many times, each time long enough for the switch to a VI
static void medium_lives(struct peer *p) {
    int listener = p->server ? listen_on(p, AF_INET, "medium") : -1;
    for (int i = 0; i < 200; i++) {
        int fd = p->server ? accept_one(listener) : connect_to(p, AF_INET, "medium");
        warm(fd, p->server);
        if (p->server)
            send_all(fd, "answer", 6);
        else
            recv_all(fd, buffer, 6);
        close(fd);
    }
    say("200 connections");
}

// A thousand at the same time, all in use
static void thousand(struct peer *p) {
    static int fds[1000];
    int listener = p->server ? listen_on(p, AF_INET, "thousand") : -1;
    for (int i = 0; i < 1000; i++) {
        fds[i] = p->server ? accept_one(listener) : connect_to(p, AF_INET, "thousand");
        warm(fds[i], p->server);
    }
    char text[8];
    for (int turn = 0; turn < 5; turn++) {
        for (int i = 0; i < 1000; i++) {
            snprintf(text, sizeof text, "%d.%d", turn, i);
            if (!p->server)
                send_all(fds[i], text, sizeof text);
            char back[8];
            recv_all(fds[i], back, sizeof back);
            if (strcmp(text, back))
                die("%s instead of %s", back, text);
            if (p->server)
                send_all(fds[i], text, sizeof text);
        }
    }
    meet(p);
    say("1000 connections");
}

// Opens as many descriptors as the limit allows; the library must not take any of them
static void run_out(struct peer *p) {
    struct rlimit few = {100, 100};
    MUST(setrlimit(RLIMIT_NOFILE, &few));
    int opened = 0;
    while (opened < 1000 && open("/dev/null", O_RDONLY) >= 0)
        opened++;
    say("%d more, then %s", opened, strerrorname_np(errno));
    CALL(dup(p->fd));
    CALL(accept(p->listener, NULL, NULL));
    say_alive(p->fd, p->server, "at the limit");
    close(50);
    CALL(dup(p->fd));
    meet(p);
}

static void comes_too_late(struct peer *p) {
    say_alive(p->fd, p->server, "at the limit");
    meet(p);
}

static void datagrams_and_unix(struct peer *p) {
    int pair[2], fd = MUST(socket(AF_INET, SOCK_DGRAM, 0));
    struct sockaddr_in address = loopback(0);
    socklen_t length = sizeof address;
    MUST(bind(fd, (struct sockaddr *)&address, sizeof address));
    MUST(getsockname(fd, (struct sockaddr *)&address, &length));
    MUST(connect(fd, (struct sockaddr *)&address, sizeof address));
    for (int i = 0; i < 30; i++) {
        MUST(send(fd, "datagram", 8, 0));
        MUST(recv(fd, buffer, 100, 0));
    }
    CALL(send(fd, "datagram", 8, 0));
    CALL(recv(fd, buffer, 3, MSG_TRUNC));
    MUST(socketpair(AF_UNIX, SOCK_STREAM, 0, pair));
    warm_both(pair[0], pair[1]);
    CALL(write(pair[0], "x", 1));
    CALL(read(pair[1], buffer, 10));
    say_alive(p->fd, p->server, "the stream");
}

// The association is dissolved after the peer's end, or before it. Then the same descriptor is
// connected again.
static void dissolve(struct peer *p, size_t unread, bool shut, bool child) {
    if (p->server) {
        send_pattern(p->fd, 0, unread, unread);
        if (shut)
            MUST(shutdown(p->fd, SHUT_WR));
        meet(p);
        meet(p);
        await_events(p->fd, POLLERR, POLLERR);
        CALL(recv(p->fd, buffer, sizeof buffer, 0));
        CALL(recv(p->fd, buffer, sizeof buffer, 0));
        int other = accept_one(p->listener);
        warm(other, true);
        say_alive(other, true, "connected anew");
        meet(p);
        return;
    }
    meet(p);
    await_rest();
    pid_t other = child ? MUST(fork()) : 0;
    if (child && other == 0) {
        pause();
        _exit(0);
    }
    struct sockaddr_in again = loopback(port_of(p, "port"));
    struct sockaddr none = {.sa_family = AF_UNSPEC};
    CALL(connect(p->fd, &none, 1));
    CALL(connect(p->fd, &none, sizeof none));
    CALL(recv(p->fd, buffer, sizeof buffer, MSG_DONTWAIT));
    socklen_t length = sizeof none;
    CALL(getpeername(p->fd, &none, &length));
    meet(p);
    CALL(connect(p->fd, (struct sockaddr *)&again, sizeof again));
    warm(p->fd, false);
    say_alive(p->fd, false, "connected anew");
    if (child)
        MUST(kill(other, SIGKILL));
    meet(p);
}

static void dissolves(struct peer *p) { dissolve(p, 0, false, false); }
static void dissolves_unread(struct peer *p) { dissolve(p, 1000, false, false); }
static void dissolves_behind_the_end(struct peer *p) { dissolve(p, 0, true, false); }
static void dissolves_unread_behind_the_end(struct peer *p) { dissolve(p, 1000, true, false); }
static void dissolves_what_a_child_has(struct peer *p) { dissolve(p, 1000, true, true); }

static const struct scenario scenarios[] = {
    {"addresses_are_the_kernels", addresses, addresses},
    {"addresses_over_ipv6", addresses, addresses, V6},
    {"one_listener_for_both_families", listens_to_all, comes_by_both, RAW},
    {"accept_with_flags", accepts_with_flags, comes_four_times, RAW},
    {"connecting_without_blocking", nonblocking_connect, nonblocking_connect, RAW},
    {"connections_are_refused", accepts_one, refused, RAW},
    {"bytes_before_the_accept", accepts_late, sends_early, RAW},
    {"a_connection_is_dissolved", dissolves, dissolves},
    {"a_connection_is_dissolved_unread", dissolves_unread, dissolves_unread},
    {"a_connection_is_dissolved_behind_the_end", dissolves_behind_the_end, dissolves_behind_the_end},
    {"a_connection_is_dissolved_unread_behind_the_end", dissolves_unread_behind_the_end, dissolves_unread_behind_the_end},
    {"a_connection_is_dissolved_that_a_child_has", dissolves_what_a_child_has, dissolves_what_a_child_has},
    {"one_way_from_the_start", receives_only, sends_only, COLD},
    {"short_connections", short_lives, short_lives, RAW},
    {"many_connections_of_one_pair", medium_lives, medium_lives, RAW},
    {"a_thousand_connections", thousand, thousand, RAW},
    {"descriptors_run_out", run_out, comes_too_late},
    {"other_sockets_are_left_alone", datagrams_and_unix, datagrams_and_unix},
};
SCENARIO_MAIN(scenarios)
