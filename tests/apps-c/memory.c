// Memory that a writer holds because of slow readers, and whether it is freed.
#include "common.h"

enum { CONNECTIONS = 300, MOST = 4 << 20, PIECE = 64 << 10, KEPT = 16 << 10 };

static int fds[CONNECTIONS];
static size_t sent[CONNECTIONS];
static char buffer[PIECE], expected[PIECE];

// Returns the resident memory in KiB.
static long resident(void) {
    char line[200];
    long pages = 0;
    FILE *file = fopen("/proc/self/status", "r");
    while (file && fgets(line, sizeof line, file)) {
        long value;
        if (sscanf(line, "RssAnon: %ld", &value) == 1 || sscanf(line, "RssShmem: %ld", &value) == 1)
            pages += value;
    }
    if (!file)
        die("no /proc");
    fclose(file);
    return pages;
}

// --- the writer

static void write_until_full(int i) {
    while (sent[i] < MOST) {
        fill(buffer, sizeof buffer, sent[i]);
        ssize_t n = send(fds[i], buffer, sizeof buffer, MSG_DONTWAIT);
        if (n < 0 && errno == EAGAIN)
            return;
        if (n <= 0)
            die("send: %s", strerrorname_np(errno));
        sent[i] += n;
    }
}

// Receives the number of bytes that a connection has carried over the side channel.
static void write_to_all(struct peer *p) {
    for (int i = 0; i < CONNECTIONS; i++) {
        fds[i] = connect_to(p, AF_INET, "port");
        warm(fds[i], false);
    }
    tell(p, resident());
    for (int i = 0; i < CONNECTIONS; i++)
        write_until_full(i);
    for (int i = 0; i < CONNECTIONS; i++)
        tell(p, sent[i]);
}

static void writer_closes(struct peer *p) {
    write_to_all(p);
    hear(p);
    for (int i = 0; i < CONNECTIONS; i++)
        close(fds[i]);
    // Repeat until both are small; otherwise the watchdog ends the test.
    while (hear(p))
        tell(p, resident());
}

static void writer_stays(struct peer *p) {
    write_to_all(p);
    while (hear(p))
        tell(p, resident());
    for (int i = 0; i < CONNECTIONS; i += 7) {
        sent[i] = 0;
        write_until_full(i);
        tell(p, sent[i]);
    }
    for (int i = 0; i < CONNECTIONS; i++)
        close(fds[i]);
}

// --- the reader

static long before;

static void accept_all(struct peer *p) {
    p->listener = listen_on(p, AF_INET, "port");
    for (int i = 0; i < CONNECTIONS; i++) {
        fds[i] = accept_one(p->listener);
        warm(fds[i], true);
    }
    before = resident();
    before += hear(p);
    for (int i = 0; i < CONNECTIONS; i++)
        sent[i] = hear(p);
}

static void drain(int i) {
    for (size_t at = 0; at < sent[i];) {
        size_t want = sent[i] - at < sizeof buffer ? sent[i] - at : sizeof buffer;
        ssize_t n = recv(fds[i], buffer, want, MSG_WAITALL);
        if (n != (ssize_t)want)
            die("recv: %zd of %zu", n, want);
        fill(expected, want, at);
        if (memcmp(buffer, expected, want))
            die("connection %d: wrong bytes from %zu on", i, at);
        at += n;
    }
}

static void await_little(struct peer *p) {
    for (;;) {
        tell(p, 1);
        long now = hear(p) + resident();
        if (now < before + KEPT)
            break;
        nap(100);
    }
    tell(p, 0);
    say("both are within %d KiB of the beginning", KEPT);
}

static void reader_closes(struct peer *p) {
    accept_all(p);
    for (int i = 0; i < CONNECTIONS; i++)
        drain(i);
    tell(p, 0);
    for (int i = 0; i < CONNECTIONS; i++) {
        if (recv(fds[i], buffer, 1, 0) != 0)
            die("no end of stream");
        close(fds[i]);
    }
    say("everything came");
    await_little(p);
}

static void reader_stays(struct peer *p) {
    accept_all(p);
    for (int i = 0; i < CONNECTIONS; i++)
        drain(i);
    say("everything came");
    await_little(p);
    for (int i = 0; i < CONNECTIONS; i += 7) {
        sent[i] = hear(p);
        drain(i);
    }
    say("and again");
}

// --- a limit: the writer must wait while it uses little memory, and everything arrives

static void writer_is_limited(struct peer *p) {
    write_to_all(p);
    long most = atol(getenv("SOVIA_TESTS_MOST"));
    size_t all = 0;
    for (int i = 0; i < CONNECTIONS; i++)
        all += sent[i];
    long now = resident();
    note("%zu bytes accepted, %ld KiB resident", all, now);
    say("bounded: %s", now < most ? "yes" : "no");
    // Send the rest as the reader takes it.
    int left = CONNECTIONS;
    hear(p);
    while (left > 0) {
        struct pollfd all[CONNECTIONS];
        left = 0;
        for (int i = 0; i < CONNECTIONS; i++) {
            all[i] = (struct pollfd){.fd = fds[i], .events = sent[i] < MOST ? POLLOUT : 0};
            left += sent[i] < MOST;
        }
        if (left > 0)
            MUST(poll(all, CONNECTIONS, -1));
        for (int i = 0; i < CONNECTIONS; i++)
            if (all[i].revents & POLLOUT)
                write_until_full(i);
    }
    for (int i = 0; i < CONNECTIONS; i++)
        close(fds[i]);
}

static void reader_takes_all(struct peer *p) {
    accept_all(p);
    tell(p, 0);
    for (int i = 0; i < CONNECTIONS; i++) {
        sent[i] = MOST;
        drain(i);
    }
    say("everything came");
}

// --- children that end with unread bytes: their memory is free for others again

static void childrens_writer(struct peer *p) {
    port_of(p, "port");
    for (int i = 0; i < 40; i++) {
        pid_t child = MUST(fork());
        if (child == 0) {
            fds[0] = connect_to(p, AF_INET, "port");
            warm(fds[0], false);
            write_until_full(0);
            _exit(0);
        }
        MUST(waitpid(child, NULL, 0));
    }
    fds[0] = connect_to(p, AF_INET, "port");
    warm(fds[0], false);
    write_until_full(0);
    note("%zu bytes accepted", sent[0]);
    say("room: %s", sent[0] > 500000 ? "yes" : "no");
    tell(p, 0);
}

static void childrens_reader(struct peer *p) {
    p->listener = listen_on(p, AF_INET, "port");
    for (int i = 0; i <= 40; i++) {
        fds[i] = accept_one(p->listener);
        warm(fds[i], true);
    }
    hear(p);
}

static const struct scenario scenarios[] = {
    {"children_that_end", childrens_reader, childrens_writer, RAW},
    {"connections_that_end", reader_closes, writer_closes, RAW},
    {"connections_that_stay", reader_stays, writer_stays, RAW},
    {"a_limit", reader_takes_all, writer_is_limited, RAW},
};
SCENARIO_MAIN(scenarios)
