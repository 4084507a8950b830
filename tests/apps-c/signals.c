// Signals, jumps and cancellations during waits on a stream.
#include "common.h"
#include <setjmp.h>
#include <sys/mman.h>
#include <sys/sendfile.h>

static char buffer[70000];
static volatile sig_atomic_t caught, counted;

static void on_signal(int signal) {
    (void)signal;
    caught += !counted;
    counted = 1;
}

static void handle(int signal, int flags) {
    struct sigaction action = {.sa_handler = on_signal, .sa_flags = flags};
    MUST(sigaction(signal, &action, NULL));
    caught = 0;
}

static void set_alarm(int ms, int again_ms) {
    struct itimerspec when = {.it_value = {ms / 1000, ms % 1000 * 1000000},
                              .it_interval = {again_ms / 1000, again_ms % 1000 * 1000000}};
    struct sigevent how = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGALRM};
    static timer_t timer;
    static bool made;
    if (!made)
        MUST(timer_create(CLOCK_MONOTONIC, &how, &timer));
    made = true;
    MUST(timer_settime(timer, 0, &when, NULL));
}

static void alarm_in(int ms) {
    counted = 0;
    set_alarm(ms, 0);
}

// Makes a call that a signal interrupts. On a busy machine the signal may come before the call
// waits, and so have no effect. Therefore the timer repeats the signal, and repeated signals count
// as one.
#define ALARMED(ms, expression)                                                \
    do {                                                                       \
        counted = 0;                                                           \
        set_alarm(ms, 1000);                                                   \
        errno = 0;                                                             \
        long got_ = (long)(expression);                                        \
        int error_ = errno;                                                    \
        set_alarm(0, 0);                                                       \
        report(#expression, got_, error_);                                     \
    } while (0)

static void answers(struct peer *p) {
    ssize_t got;
    long total = 0;
    while ((got = recv(p->fd, buffer, sizeof buffer, 0)) > 0) {
        send_all(p->fd, buffer, got);
        total += got;
    }
    say("%ld bytes answered, then %s", total, got ? strerrorname_np(errno) : "end of stream");
}

static void still_alive(struct peer *p) {
    for (int i = 0; i < 20; i++) {
        send_all(p->fd, "still?", 6);
        recv_all(p->fd, buffer, 6);
    }
    say("still in order");
}

static void interrupted(struct peer *p) {
    struct iovec one = {buffer, 10};
    struct msghdr message = {.msg_iov = &one, .msg_iovlen = 1};
    struct pollfd ready = {.fd = p->fd, .events = POLLIN};
    struct epoll_event event = {.events = EPOLLIN};
    int set = MUST(epoll_create1(0));
    MUST(epoll_ctl(set, EPOLL_CTL_ADD, p->fd, &event));
    handle(SIGALRM, 0);
    ALARMED(60, read(p->fd, buffer, 10));
    ALARMED(60, recv(p->fd, buffer, 10, 0));
    ALARMED(60, recvmsg(p->fd, &message, 0));
    ALARMED(60, readv(p->fd, &one, 1));
    ALARMED(60, recv(p->fd, buffer, 10, MSG_PEEK));
    ALARMED(60, poll(&ready, 1, -1));
    ALARMED(60, epoll_wait(set, &event, 1, -1));
    say("caught %d", (int)caught);
    // Reads are restarted if the flag says so; poll and epoll_wait never are.
    handle(SIGALRM, SA_RESTART);
    ALARMED(60, poll(&ready, 1, -1));
    ALARMED(60, epoll_wait(set, &event, 1, -1));
    say("caught %d", (int)caught);
    still_alive(p);
}

static void restarted(struct peer *p) {
    handle(SIGALRM, SA_RESTART);
    for (int i = 0; i < 4; i++) {
        alarm_in(60);
        tell(p, 0);
        if (i == 0)
            CALL(read(p->fd, buffer, 10));
        else if (i == 1)
            CALL(recv(p->fd, buffer, 10, 0));
        else if (i == 2)
            CALL(recv(p->fd, buffer, 5, MSG_WAITALL));
        else
            CALL(recv(p->fd, buffer, 10, MSG_PEEK));
        say("caught %d", (int)caught);
    }
    recv_all(p->fd, buffer, 5);
    tell(p, 1);
}

static void feeds_late(struct peer *p) {
    while (hear(p) == 0) {
        nap(150);
        send_all(p->fd, "late!", 5);
    }
}

// The signal comes after a part of the bytes: the call returns the part.
static void part_then_signal(struct peer *p) {
    handle(SIGALRM, 0);
    meet(p);
    await_bytes(p->fd, 5);
    ALARMED(60, recv(p->fd, buffer, 10, MSG_WAITALL));
    say("caught %d", (int)caught);
    meet(p);
}

// With SA_RESTART, a call that has moved no bytes would be restarted.
static void part_then_restarting_signal(struct peer *p) {
    handle(SIGALRM, SA_RESTART);
    meet(p);
    await_bytes(p->fd, 5);
    ALARMED(60, recv(p->fd, buffer, 10, MSG_WAITALL));
    say("caught %d", (int)caught);
    meet(p);
}

static void sends_part(struct peer *p) {
    send_all(p->fd, "part!", 5);
    meet(p);
    meet(p);
}

// A timeout and a restarting handler: the wait ends with EINTR nevertheless.
static void timed_and_interrupted(struct peer *p) {
    struct timeval t = {5, 0};
    MUST(setsockopt(p->fd, SOL_SOCKET, SO_RCVTIMEO, &t, sizeof t));
    handle(SIGALRM, SA_RESTART);
    ALARMED(60, recv(p->fd, buffer, 10, 0));
    say("caught %d", (int)caught);
    still_alive(p);
}

static void blocked_write(struct peer *p) {
    static char much[32 << 20];
    fill(much, sizeof much, 0);
    handle(SIGALRM, 0);
    counted = 0;
    set_alarm(300, 1000);
    ssize_t sent = send(p->fd, much, sizeof much, 0);
    set_alarm(0, 0);
    say(sent > 1000000 && sent < (ssize_t)sizeof much ? "a part was sent" : "sent %zd", sent);
    say("caught %d", (int)caught);
    tell(p, sent);
    // The stream is full, and nothing was sent: EINTR.
    ssize_t more;
    do {
        more = send(p->fd, much + sent, 50000, MSG_DONTWAIT);
        sent += more > 0 ? more : 0;
    } while (more > 0);
    ALARMED(100, send(p->fd, much + sent, 50000, 0));
    say("caught %d", (int)caught);
    tell(p, sent);
    hear(p);
    say_alive(p->fd, p->server, "afterwards");
}

static void blocked_write_and_restart(struct peer *p) {
    static char much[32 << 20];
    fill(much, sizeof much, 0);
    handle(SIGALRM, SA_RESTART);
    counted = 0;
    set_alarm(300, 1000);
    ssize_t sent = send(p->fd, much, sizeof much, 0);
    set_alarm(0, 0);
    say(sent > 1000000 && sent < (ssize_t)sizeof much ? "a part was sent" : "sent %zd", sent);
    tell(p, 0);
    tell(p, sent);
    hear(p);
    say_alive(p->fd, p->server, "afterwards");
}

// One signal that comes when the peer has the first bytes. A call that copies for a while must remember the signal
// until there is no more room.
static pthread_t sender;
static void *interrupts_the_sender(void *argument) {
    hear(argument);
    MUST(pthread_kill(sender, SIGUSR1));
    return NULL;
}

static void one_signal_while_bytes_move(struct peer *p) {
    static char much[32 << 20];
    fill(much, sizeof much, 0);
    int file = MUST(memfd_create("much", 0));
    for (size_t done = 0; done < sizeof much;)
        done += MUST(write(file, much + done, sizeof much - done));
    sender = pthread_self();
    for (int way = 0; way < 6; way++) {
        handle(SIGUSR1, way < 3 ? 0 : SA_RESTART);
        counted = 0;
        pthread_t thread;
        pthread_create(&thread, NULL, interrupts_the_sender, p);
        off_t from = 0;
        ssize_t sent;
        if (way % 3 == 0)
            sent = send(p->fd, much, sizeof much, 0);
        else if (way % 3 == 1)
            sent = write(p->fd, much, sizeof much);
        else
            sent = sendfile(p->fd, file, &from, sizeof much);
        pthread_join(thread, NULL);
        say(sent > 0 && sent < (ssize_t)sizeof much ? "a part was sent" : "sent %zd", sent);
        if (way % 3 == 2)
            say("the place is behind it: %d", from == sent);
        say("caught %d", (int)caught);
        tell(p, sent);
        hear(p);
    }
    say_alive(p->fd, p->server, "afterwards");
}

static void says_when_bytes_come(struct peer *p) {
    for (int way = 0; way < 6; way++) {
        await_bytes(p->fd, 1);
        tell(p, 0);
        recv_pattern(p->fd, 0, hear(p), 65536);
        tell(p, 0);
    }
    say_alive(p->fd, p->server, "afterwards");
}

// A handler closes the descriptor of the wait. The restarted call finds no descriptor.
static int waited_for;
static void on_close(int signal) {
    (void)signal;
    if (waited_for >= 0)
        close(waited_for);
    waited_for = -1;
}

static void closed_by_handler(struct peer *p) {
    struct sigaction action = {.sa_handler = on_close, .sa_flags = SA_RESTART};
    MUST(sigaction(SIGALRM, &action, NULL));
    for (int way = 0; way < 4; way++) {
        int fd = waited_for = connect_to(p, AF_INET, "closed");
        warm(fd, false);
        static char much[32 << 20];
        if (way == 0)
            ALARMED(60, recv(fd, buffer, 10, 0));
        else if (way == 1)
            ALARMED(60, read(fd, buffer, 10));
        else if (way == 2)
            ALARMED(60, recv(fd, buffer, 10, MSG_WAITALL));
        else {
            while (send(fd, much, sizeof much, MSG_DONTWAIT) > 0)
                ;
            ALARMED(60, send(fd, much, 1, 0));
        }
        tell(p, 0);
        hear(p);
    }
}

static void sees_the_end(struct peer *p) {
    int listener = listen_on(p, AF_INET, "closed");
    for (int way = 0; way < 4; way++) {
        int fd = accept_one(listener);
        warm(fd, true);
        hear(p);
        ssize_t got;
        while ((got = recv(fd, buffer, sizeof buffer, 0)) > 0)
            ;
        say("then %zd", got);
        close(fd);
        tell(p, 0);
    }
}

static void reads_when_told(struct peer *p) {
    hear(p);
    recv_pattern(p->fd, 0, hear(p), 65536);
    tell(p, 0);
    say_alive(p->fd, p->server, "afterwards");
}

// SIGINT without a handler kills the waiting process at once.
static void dies_waiting(struct peer *p) {
    static const char *const ways[] = {"epoll_wait", "recv", "poll", "send"};
    // A shell starts tests in the background with SIGINT ignored.
    signal(SIGINT, SIG_DFL);
    for (int way = 0; way < 4; way++) {
        pid_t child = MUST(fork());
        if (child == 0) {
            struct epoll_event event = {.events = EPOLLIN};
            struct pollfd ready = {.fd = p->fd, .events = POLLIN};
            int set = MUST(epoll_create1(0));
            MUST(epoll_ctl(set, EPOLL_CTL_ADD, p->fd, &event));
            if (way == 0)
                epoll_wait(set, &event, 1, -1);
            else if (way == 1)
                recv(p->fd, buffer, 10, 0);
            else if (way == 2)
                poll(&ready, 1, -1);
            while (way == 3 && send(p->fd, buffer, sizeof buffer, 0) > 0)
                ;
            _exit(0);
        }
        nap(150);
        MUST(kill(child, SIGINT));
        int64_t start = now_ms();
        int status;
        MUST(waitpid(child, &status, 0));
        say_status(ways[way], status);
        say_elapsed(start, 0, LATE);
    }
    meet(p);
}

static void stays_silent(struct peer *p) { meet(p); }

// A signal stops and continues a waiting process.
static void stopped_waiting(struct peer *p) {
    pid_t child = MUST(fork());
    if (child == 0) {
        CALL(recv(p->fd, buffer, 6, MSG_WAITALL));
        _exit(0);
    }
    nap(100);
    MUST(kill(child, SIGSTOP));
    int status;
    MUST(waitpid(child, &status, WUNTRACED));
    say("stopped %d", WIFSTOPPED(status));
    send_all(p->fd, "answer", 6);
    nap(50);
    MUST(kill(child, SIGCONT));
    MUST(waitpid(child, &status, 0));
    say_status("child", status);
    still_alive(p);
}

static sigjmp_buf back;
static void on_jump(int signal) {
    (void)signal;
    siglongjmp(back, 1);
}

// A handler that never returns, as in old network programs for timeouts
static void jumps_out(struct peer *p) {
    struct sigaction action = {.sa_handler = on_jump};
    struct epoll_event event = {.events = EPOLLIN};
    int set = MUST(epoll_create1(0));
    MUST(epoll_ctl(set, EPOLL_CTL_ADD, p->fd, &event));
    MUST(sigaction(SIGALRM, &action, NULL));
    for (int way = 0; way < 9; way++) {
        if (sigsetjmp(back, 1) == 0) {
            struct pollfd ready = {.fd = p->fd, .events = POLLIN};
            alarm_in(40);
            if (way % 3 == 0)
                recv(p->fd, buffer, 10, 0);
            else if (way % 3 == 1)
                poll(&ready, 1, -1);
            else
                epoll_wait(set, &event, 1, -1);
            say("nothing came");
        } else {
            say("jumped out of wait %d", way);
        }
        still_alive(p);
    }
}

// Signals by the hundred while bytes move both ways
static void signal_storm(struct peer *p) {
    handle(SIGALRM, SA_RESTART);
    struct itimerspec often = {{0, 300000}, {0, 300000}};
    struct sigevent how = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGALRM};
    timer_t timer;
    MUST(timer_create(CLOCK_MONOTONIC, &how, &timer));
    MUST(timer_settime(timer, 0, &often, NULL));
    uint32_t wrong = 0;
    char out[3000], in[3000];
    for (int i = 0; i < 3000 || caught < 100; i++) {
        counted = 0;
        size_t size = 1 + (i * 37) % sizeof out;
        fill(out, size, i);
        send_all(p->fd, out, size);
        recv_all(p->fd, in, size);
        wrong += memcmp(in, out, size) != 0;
    }
    often = (struct itimerspec){{0, 0}, {0, 0}};
    MUST(timer_settime(timer, 0, &often, NULL));
    say("%u wrong", wrong);
}

// Requests of any number
static void answers_silently(struct peer *p) {
    ssize_t got;
    while ((got = recv(p->fd, buffer, sizeof buffer, 0)) > 0)
        send_all(p->fd, buffer, got);
    say("%s", got ? strerrorname_np(errno) : "end of stream");
}

// A handler that uses the stream itself, which POSIX allows
static struct peer *handled_peer;
static void on_write(int signal) {
    (void)signal;
    if (write(handled_peer->fd, "h", 1) == 1)
        caught++;
}

static void writes_in_handler(struct peer *p) {
    struct sigaction action = {.sa_handler = on_write, .sa_flags = SA_RESTART};
    handled_peer = p;
    MUST(sigaction(SIGALRM, &action, NULL));
    alarm_in(60);
    CALL(recv(p->fd, buffer, 1, 0));
    say("handler wrote %d, and '%c' came back", (int)caught, buffer[0]);
    still_alive(p);
}

static void *reads_forever(void *argument) {
    struct peer *p = argument;
    recv(p->fd, buffer, 10, 0);
    return NULL;
}

static void *polls_forever(void *argument) {
    struct pollfd ready = {.fd = ((struct peer *)argument)->fd, .events = POLLIN};
    poll(&ready, 1, -1);
    return NULL;
}

static void *waits_forever(void *argument) {
    struct epoll_event event = {.events = EPOLLIN};
    int set = MUST(epoll_create1(0));
    MUST(epoll_ctl(set, EPOLL_CTL_ADD, ((struct peer *)argument)->fd, &event));
    epoll_wait(set, &event, 1, -1);
    return NULL;
}

static void cancelled(struct peer *p) {
    void *(*const ways[])(void *) = {reads_forever, polls_forever, waits_forever};
    for (int way = 0; way < 6; way++) {
        pthread_t thread;
        void *result;
        pthread_create(&thread, NULL, ways[way % 3], p);
        nap(80);
        pthread_cancel(thread);
        pthread_join(thread, &result);
        say("cancelled %d", result == PTHREAD_CANCELED);
        still_alive(p);
    }
}

/* Enough writes for the library to bias its locks to the thread. */
enum { WRITES = 5000 };
static int written;

static void *writes_when_cancelled(void *argument) {
    struct peer *p = argument;
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, NULL);
    for (int i = 0; i < WRITES; i++) MUST(write(p->fd, "w", 1));
    pthread_cancel(pthread_self());
    pthread_setcancelstate(PTHREAD_CANCEL_ENABLE, NULL);
    for (;;) {
        MUST(write(p->fd, "x", 1));
        written++;
    }
}

static void cancelled_in_a_write(struct peer *p) {
    meet(p);
    pthread_t thread;
    void *result;
    pthread_create(&thread, NULL, writes_when_cancelled, p);
    pthread_join(thread, &result);
    say("cancelled %d, after %d writes more", result == PTHREAD_CANCELED, written);
    MUST(write(p->fd, "e", 1));
    meet(p);
}

static void reads_what_is_written(struct peer *p) {
    meet(p);
    char bytes[64];
    int of[256] = {0};
    while (!of['e']) {
        ssize_t n = MUST(read(p->fd, bytes, sizeof bytes));
        for (ssize_t i = 0; i < n; i++) of[(unsigned char)bytes[i]]++;
    }
    say("%d before, %d after", of['w'], of['x']);
    meet(p);
}

static const struct scenario scenarios[] = {
    {"a_signal_interrupts", answers, interrupted},
    {"a_signal_that_restarts", feeds_late, restarted},
    {"a_part_is_kept_when_interrupted", sends_part, part_then_signal},
    {"a_part_is_kept_when_a_handler_restarts", sends_part, part_then_restarting_signal},
    {"a_restarting_handler_during_a_blocked_write", reads_when_told, blocked_write_and_restart},
    {"a_handler_closes_what_is_waited_for", sees_the_end, closed_by_handler},
    {"a_timeout_does_not_restart", answers, timed_and_interrupted},
    {"a_signal_during_a_blocked_write", reads_when_told, blocked_write},
    {"a_signal_while_a_write_copies", says_when_bytes_come, one_signal_while_bytes_move},
    {"ctrl_c_kills_whoever_waits", stays_silent, dies_waiting},
    {"stopping_and_continuing", answers, stopped_waiting},
    {"jumping_out_of_a_wait", answers, jumps_out},
    {"a_storm_of_signals", answers_silently, signal_storm},
    {"writing_in_a_handler", answers, writes_in_handler},
    {"cancelling_a_waiting_thread", answers, cancelled},
    {"a_write_is_where_a_thread_is_cancelled", reads_what_is_written, cancelled_in_a_write},
};
SCENARIO_MAIN(scenarios)
