// Processes that are killed. Their sent bytes arrive, their forked relatives continue, and a
// process that waits for them is notified soon.
#include "common.h"
#include <sys/mman.h>

static char buffer[1 << 20];

static void die_now(struct peer *p) {
    tell(p, now_ms());
    kill(getpid(), SIGKILL);
}

static int64_t began; // time at which the reader began to look

// The error of the end depends on whether bytes were unread, so only the end is printed.
static void say_end(struct peer *p, ssize_t last, int error) {
    int64_t now = now_ms(), died = (int64_t)hear(p);
    int64_t took = now - (died > began ? died : began);
    say("%s", last == 0 || error == ECONNRESET ? "gone" : strerrorname_np(error));
    say(took < LATE ? "told soon" : "told after %lld ms", (long long)took);
    if (took > 100)
        note("%s: told after %lld ms", p->name, (long long)took);
}

static void drain_and_say(struct peer *p) {
    uint64_t total = 0;
    ssize_t got;
    while ((got = recv(p->fd, buffer, sizeof buffer, 0)) > 0) {
        if (!matches(buffer, got, total))
            die("wrong bytes at %llu", (unsigned long long)total);
        total += got;
    }
    int error = errno;
    say("%llu bytes", (unsigned long long)total);
    say_end(p, got, error);
}

static void waits_for_bytes(struct peer *p) { drain_and_say(p); }

static void reads_after_death(struct peer *p) {
    nap(150);
    began = now_ms();
    drain_and_say(p);
}

static void sends_little(struct peer *p) {
    send_pattern(p->fd, 0, 100, 100);
    die_now(p);
}

static void sends_pieces(struct peer *p) {
    send_pattern(p->fd, 0, 50000, 10);
    die_now(p);
}

static void sends_much(struct peer *p) {
    send_pattern(p->fd, 0, 3500000, 100000);
    die_now(p);
}

static void sends_with_cork(struct peer *p) {
    send_pattern(p->fd, 0, 30000, 1000);
    fill(buffer, 1000, 30000);
    MUST(send(p->fd, buffer, 1000, MSG_MORE));
    die_now(p);
}

static void says_nothing(struct peer *p) {
    nap(100);
    die_now(p);
}

static void dies_in_recv(struct peer *p) {
    pid_t main_process = getpid();
    if (MUST(fork()) == 0) {
        close(p->fd);
        nap(100);
        tell(p, now_ms());
        kill(main_process, SIGKILL);
        _exit(0);
    }
    recv(p->fd, buffer, 1, 0);
}

static void exits_by_signal(struct peer *p) {
    send_pattern(p->fd, 0, 200000, 10000);
    tell(p, now_ms());
    abort();
}

static void exits_at_once(struct peer *p) {
    send_pattern(p->fd, 0, 200000, 10000);
    tell(p, now_ms());
    _exit(3);
}

// The peer's death shows in poll and epoll as well.
static void waits_by_epoll(struct peer *p) {
    struct epoll_event event = {.events = EPOLLIN | EPOLLRDHUP};
    int set = MUST(epoll_create1(0));
    MUST(epoll_ctl(set, EPOLL_CTL_ADD, p->fd, &event));
    CALL(epoll_wait(set, &event, 1, 20000));
    ssize_t got = recv(p->fd, buffer, 1, 0);
    say_end(p, got, errno);
}

static void waits_by_poll(struct peer *p) {
    struct pollfd one = {.fd = p->fd, .events = POLLIN};
    CALL(poll(&one, 1, 20000));
    ssize_t got = recv(p->fd, buffer, 1, 0);
    say_end(p, got, errno);
}

// A writer whose reader dies while the writer is blocked by a full buffer, or is writing
static void writes_until_told(struct peer *p) {
    signal(SIGPIPE, SIG_IGN);
    ssize_t sent;
    while ((sent = send(p->fd, buffer, 50000, 0)) > 0)
        ;
    say("%s", errno == EPIPE || errno == ECONNRESET ? "gone" : strerrorname_np(errno));
    int64_t took = now_ms() - (int64_t)hear(p);
    say(took < LATE ? "told soon" : "told after %lld ms", (long long)took);
}

static void dies_reading(struct peer *p) {
    for (int i = 0; i < 200; i++)
        recv(p->fd, buffer, 10000, 0);
    die_now(p);
}

static void dies_without_reading(struct peer *p) {
    nap(200);
    die_now(p);
}

// A sender is killed at any moment: all bytes that it counted as sent arrive.
struct counter {
    volatile uint64_t sent;
};

static struct counter *shared_counter(struct peer *p) {
    char path[512];
    snprintf(path, sizeof path, "%s/counter", p->dir);
    int fd = MUST(open(path, O_RDWR | O_CREAT, 0600));
    MUST(ftruncate(fd, 4096));
    void *memory = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    close(fd);
    return memory;
}

static void sends_until_killed(struct peer *p) {
    struct counter *counter = shared_counter(p);
    int listener = listen_on(p, AF_INET, "killed");
    for (int i = 0; i < 20; i++) {
        counter->sent = 0;
        pid_t child = MUST(fork());
        if (child == 0) {
            int fd = accept_one(listener);
            warm(fd, true);
            for (;;) {
                size_t size = 1 + (counter->sent * 31) % 4000;
                fill(buffer, size, counter->sent);
                send_all(fd, buffer, size);
                counter->sent += size;
            }
        }
        hear(p);
        nap(i % 7);
        MUST(kill(child, SIGKILL));
        MUST(waitpid(child, NULL, 0));
        tell(p, 0);
        hear(p);
    }
}

static void reads_until_killed(struct peer *p) {
    struct counter *counter = shared_counter(p);
    int lost = 0;
    for (int i = 0; i < 20; i++) {
        uint64_t total = 0;
        ssize_t got;
        int fd = connect_to(p, AF_INET, "killed");
        warm(fd, false);
        recv_all(fd, buffer, 1);
        total++;
        tell(p, 0);
        while ((got = recv(fd, buffer, sizeof buffer, 0)) > 0) {
            if (!matches(buffer, got, total))
                die("wrong bytes at %llu", (unsigned long long)total);
            total += got;
        }
        hear(p);
        if (total < counter->sent) {
            lost++;
            note("of %llu bytes %llu arrived", (unsigned long long)counter->sent, (unsigned long long)total);
        }
        close(fd);
        tell(p, 0);
    }
    say("20 killed, %d with losses", lost);
}

// --- one of two processes that share a stream

static void answers(struct peer *p) {
    ssize_t got;
    long total = 0;
    while ((got = recv(p->fd, buffer, sizeof buffer, 0)) > 0) {
        send_all(p->fd, buffer, got);
        total += got;
    }
    say("%s", got ? strerrorname_np(errno) : "end of stream");
}

static void converse(int fd, int count) {
    for (int i = 0; i < count; i++) {
        char out[100], in[100];
        memset(out, 'a' + i % 20, sizeof out);
        send_all(fd, out, sizeof out);
        recv_all(fd, in, sizeof in);
        if (memcmp(in, out, sizeof in))
            die("answer %d is another's", i);
    }
}

static void kill_and_reap(pid_t child) {
    int status;
    MUST(kill(child, SIGKILL));
    MUST(waitpid(child, &status, 0));
    say_status("child", status);
}

// Side channel to the parent or child: a FIFO of its own.
static void tell_relative(struct peer *p) { tell(&(struct peer){.tell = p->hear}, 1); }

static void child_dies_idle(struct peer *p) {
    pid_t child = MUST(fork());
    if (child == 0) {
        converse(p->fd, 10);
        tell_relative(p);
        pause();
    }
    hear(p);
    kill_and_reap(child);
    converse(p->fd, 100);
    say("the other goes on");
}

static void child_dies_waiting(struct peer *p) {
    for (int i = 0; i < 5; i++) {
        pid_t child = MUST(fork());
        if (child == 0) {
            recv(p->fd, buffer, 1, MSG_PEEK);
            pause();
        }
        nap(30);
        kill_and_reap(child);
        converse(p->fd, 100);
    }
    say("the other goes on");
}

// Killed during a send: complete records arrive, and then those of the other process.
static void child_dies_sending(struct peer *p) {
    for (int i = 0; i < 10; i++) {
        pid_t child = MUST(fork());
        if (child == 0) {
            char zeros[64] = {0};
            send_all(p->fd, zeros, sizeof zeros);
            tell_relative(p);
            for (;;)
                send_all(p->fd, zeros, sizeof zeros);
        }
        hear(p);
        nap(3 + i % 4);
        kill_and_reap(child);
    }
    memset(buffer, 'x', 640);
    send_all(p->fd, buffer, 640);
    MUST(shutdown(p->fd, SHUT_WR));
    CALL(recv(p->fd, buffer, 1, 0));
}

static void reads_zeros(struct peer *p) {
    long zeros = 0, others = 0, mixed = 0;
    ssize_t got;
    while ((got = recv(p->fd, buffer, sizeof buffer, 0)) > 0)
        for (ssize_t i = 0; i < got; i++) {
            mixed += buffer[i] == 0 && others > 0;
            zeros += buffer[i] == 0;
            others += buffer[i] == 'x';
        }
    say("zeros %s, %ld others, %ld mixed, then %zd", zeros > 0 ? "came" : "MISSING", others, mixed, got);
}

static void parent_dies(struct peer *p) {
    pid_t parent = getpid();
    if (MUST(fork()) == 0) {
        hear(p);
        nap(50);
        MUST(kill(parent, SIGKILL));
        nap(50);
        converse(p->fd, 200);
        say("the child goes on");
        _exit(0);
    }
    converse(p->fd, 50);
    // The child would get an answer that the dead parent did not read.
    tell_relative(p);
    pause();
}

// A child that never waits sees the end after the bytes that it has not read.
static void child_only_looks(struct peer *p) {
    pid_t parent = getpid();
    if (MUST(fork()) == 0) {
        MUST(kill(parent, SIGKILL));
        await_bytes(p->fd, 1000);
        hear(p);
        for (int looks = 0; looks < 3; looks++) {
            struct pollfd one = {.fd = p->fd, .events = POLLIN | POLLRDHUP | POLLOUT};
            MUST(poll(&one, 1, 0));
            say("events %s", poll_names(one.revents));
        }
        drain_to_eof(p->fd, 0);
        _exit(0);
    }
    pause();
}

static void sends_and_closes(struct peer *p) {
    send_pattern(p->fd, 0, 1000, 1000);
    MUST(close(p->fd));
    nap(20);
    tell(p, 0);
}

// Once a reset has been reported, sends keep failing, even if only the kernel can serve the socket. Bytes
// that the dead peer had sent can be read at once.
static void goes_back_after_a_reset(struct peer *p) {
    set_nonblocking(p->fd, true);
    send_pattern(p->fd, 0, 20000, 20000);
    tell(p, 0);
    await_events(p->fd, 0, POLLHUP);
    CALL(send(p->fd, "x", 1, MSG_NOSIGNAL));
    CALL(send(p->fd, "x", 1, MSG_NOSIGNAL));
    int low = 50;
    MUST(setsockopt(p->fd, SOL_SOCKET, SO_RCVLOWAT, &low, sizeof low));
    CALL(send(p->fd, "x", 1, MSG_NOSIGNAL));
    ssize_t got = recv(p->fd, buffer, 3000, 0);
    say("received %zd, %s", got, matches(buffer, got, 0) ? "right" : "WRONG");
    CALL(send(p->fd, "x", 1, MSG_NOSIGNAL));
}

static void dies_with_bytes_unread(struct peer *p) {
    send_pattern(p->fd, 0, 3000, 3000);
    await_bytes(p->fd, 20000);
    hear(p);
    MUST(kill(getpid(), SIGKILL));
}

static const struct scenario scenarios[] = {
    {"little_is_sent_before_death", waits_for_bytes, sends_little},
    {"little_is_sent_and_read_after_death", reads_after_death, sends_little},
    {"small_pieces_before_death", reads_after_death, sends_pieces},
    {"much_is_sent_before_death", reads_after_death, sends_much},
    {"the_server_sends_and_dies", sends_much, reads_after_death},
    {"gathered_bytes_before_death", reads_after_death, sends_with_cork},
    {"a_death_ends_a_blocked_read", waits_for_bytes, says_nothing},
    {"a_death_in_recv", waits_for_bytes, dies_in_recv},
    {"a_death_shows_in_epoll", waits_by_epoll, says_nothing},
    {"a_death_shows_in_poll", waits_by_poll, says_nothing},
    {"an_abort_after_sending", reads_after_death, exits_by_signal},
    {"an_exit_after_sending", reads_after_death, exits_at_once},
    {"a_reader_dies_in_full_swing", dies_reading, writes_until_told},
    {"a_reader_dies_without_reading", dies_without_reading, writes_until_told},
    {"killed_at_any_moment", sends_until_killed, reads_until_killed, RAW},
    {"one_of_two_dies_idle", answers, child_dies_idle},
    {"one_of_two_dies_waiting", answers, child_dies_waiting},
    {"one_of_two_dies_sending", reads_zeros, child_dies_sending},
    {"the_parent_of_two_dies", answers, parent_dies},
    {"going_back_after_a_reset", goes_back_after_a_reset, dies_with_bytes_unread},
    {"a_child_that_only_looks_sees_the_end", child_only_looks, sends_and_closes},
};
SCENARIO_MAIN(scenarios)
