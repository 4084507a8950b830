// Processes that are killed while they are busy. On each of many connections, their sent bytes
// arrive. The processes at the other end are notified at once, and forked relatives that shared a
// connection continue.
#include "common.h"
#include <sys/mman.h>

enum { STREAMS = 32, ROUNDS = 6, PIECE = 30000 };

// Data that the two sides exchange outside the connections.
struct board {
    int64_t killed_at;
    uint64_t sent[STREAMS]; // by the process that is killed
};

static struct board *board(struct peer *p) {
    char path[512];
    snprintf(path, sizeof path, "%s/board", p->dir);
    int fd = MUST(open(path, O_RDWR | O_CREAT, 0600));
    MUST(ftruncate(fd, sizeof(struct board)));
    struct board *memory = mmap(NULL, sizeof *memory, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    close(fd);
    return memory;
}

struct stream {
    struct board *board;
    int index, fd;
    uint64_t bytes;
    int64_t ended_at;
};

// --- the victim: sends on every other stream, and reads the rest

static void *lives(void *argument) {
    struct stream *s = argument;
    char *buffer = malloc(PIECE);
    if (s->index % 2) {
        while (recv(s->fd, buffer, PIECE, 0) > 0)
            ;
        return NULL;
    }
    for (unsigned n = 0;; n++) {
        size_t size = n % 4 == 3 ? PIECE : 1 + n * 37 % 900;
        fill(buffer, size, s->bytes);
        send_all(s->fd, buffer, size);
        s->bytes += size;
        __atomic_store_n(&s->board->sent[s->index], s->bytes, __ATOMIC_RELEASE);
    }
}

// --- the survivor: does the opposite

static void *survives(void *argument) {
    struct stream *s = argument;
    char *buffer = calloc(1, PIECE);
    ssize_t got;
    if (s->index % 2)
        while ((got = send(s->fd, buffer, 1 + s->index * PIECE / STREAMS, MSG_NOSIGNAL)) > 0)
            s->bytes += got;
    else
        while ((got = recv(s->fd, buffer, PIECE, 0)) > 0) {
            if (!matches(buffer, got, s->bytes))
                die("wrong bytes at %llu", (unsigned long long)s->bytes);
            s->bytes += got;
        }
    if (got < 0 && errno != ECONNRESET && errno != EPIPE)
        die("stream %d ended by %s", s->index, strerrorname_np(errno));
    s->ended_at = now_ms();
    free(buffer);
    close(s->fd);
    return NULL;
}

static void start_all(struct stream *streams, pthread_t *threads, void *(*life)(void *)) {
    for (int i = 0; i < STREAMS; i++)
        if (pthread_create(&threads[i], NULL, life, &streams[i]) != 0)
            die("no thread");
}

static void open_all(struct peer *p, struct stream *streams, int listener) {
    for (int i = 0; i < STREAMS; i++) {
        int fd = listener >= 0 ? accept_one(listener) : connect_to(p, AF_INET, "doom");
        warm(fd, listener >= 0);
        streams[i] = (struct stream){.board = board(p), .index = i, .fd = fd};
    }
}

// One process after the other, each killed at some moment.
static void killer(struct peer *p, int listener) {
    struct board *told = board(p);
    for (int round = 0; round < ROUNDS; round++) {
        memset(told, 0, sizeof *told);
        meet(p);
        pid_t child = MUST(fork());
        if (child == 0) {
            struct stream streams[STREAMS];
            pthread_t threads[STREAMS];
            open_all(p, streams, listener);
            start_all(streams, threads, lives);
            for (;;)
                pause();
        }
        hear(p);
        nap(30 + round * 17);
        told->killed_at = now_ms();
        MUST(kill(child, SIGKILL));
        int status;
        MUST(waitpid(child, &status, 0));
        say_status("the doomed", status);
        meet(p);
    }
}

static void survivor(struct peer *p, int listener) {
    int64_t slowest = 0;
    for (int round = 0; round < ROUNDS; round++) {
        struct stream streams[STREAMS];
        pthread_t threads[STREAMS];
        meet(p);
        open_all(p, streams, listener);
        start_all(streams, threads, survives);
        tell(p, 0);
        for (int i = 0; i < STREAMS; i++)
            pthread_join(threads[i], NULL);
        for (int i = 0; i < STREAMS; i++) {
            uint64_t sent = streams[i].board->sent[i];
            if (streams[i].bytes < sent)
                die("of %llu bytes %llu came", (unsigned long long)sent, (unsigned long long)streams[i].bytes);
            int64_t late = streams[i].ended_at - streams[i].board->killed_at;
            slowest = late > slowest ? late : slowest;
        }
        meet(p);
    }
    say("%d streams, %d times: everything came", STREAMS, ROUNDS);
    note("told after at most %lld ms", (long long)slowest);
    // Sent bytes are read first, which takes time on a busy machine.
    say(slowest < 15000 ? "told soon" : "told after %lld ms", (long long)slowest);
}

static void dies_accepting(struct peer *p) { killer(p, listen_on(p, AF_INET, "doom")); }
static void dies_connecting(struct peer *p) { killer(p, -1); }
static void outlives_acceptor(struct peer *p) { survivor(p, -1); }
static void outlives_connector(struct peer *p) { survivor(p, listen_on(p, AF_INET, "doom")); }

// --- forked relatives with one connection, one of which stops or ends inside the library

enum { LIVES = 25, BLOCK = 60000, BLOCKS = 40 };

static void stop_and_kill(pid_t child, int round) {
    struct timespec moment = {0, 700000 + round * 131071 % 900000};
    nanosleep(&moment, NULL);
    MUST(kill(child, SIGSTOP));
    nanosleep(&moment, NULL);
    MUST(kill(child, SIGKILL));
}

static char block[BLOCK];

// Dead processes are reaped only at the end, so a thread that waits for their lock must find out by
// itself that they are dead.
static void sends_beside_the_dead(struct peer *p) {
    pid_t children[LIVES];
    for (int round = 0; round < LIVES; round++) {
        children[round] = MUST(fork());
        if (children[round] == 0)
            for (memset(block, 0, sizeof block);;)
                send_all(p->fd, block, sizeof block);
        stop_and_kill(children[round], round);
        memset(block, 'x', sizeof block);
        for (int i = 0; i < BLOCKS; i++)
            send_all(p->fd, block, sizeof block);
    }
    MUST(shutdown(p->fd, SHUT_WR));
    for (int round = 0; round < LIVES; round++)
        MUST(waitpid(children[round], NULL, 0));
    CALL(recv(p->fd, block, 1, 0));
}

static void counts_the_living(struct peer *p) {
    long others = 0, strange = 0;
    ssize_t got;
    while ((got = recv(p->fd, block, sizeof block, 0)) > 0)
        for (ssize_t i = 0; i < got; i++) {
            others += block[i] == 'x';
            strange += block[i] != 'x' && block[i] != 0;
        }
    say("%ld of %ld bytes of the living, %ld strange ones, then %zd", others,
        (long)LIVES * BLOCKS * BLOCK, strange, got);
}

// Records that can be found wherever a stream is cut: a mark that is no digit, and a number in
// seven digits.
enum { RECORDS = 400000, RECORD = 8, MARK = 255 };

static void encode(uint8_t *out, uint64_t number) {
    out[0] = MARK;
    for (int i = 1; i < RECORD; i++, number /= MARK)
        out[i] = number % MARK;
}

static uint64_t decode(const uint8_t *in) {
    uint64_t number = 0;
    for (int i = RECORD - 1; i > 0; i--)
        number = number * MARK + in[i];
    return number;
}

static void sends_records(struct peer *p) {
    uint8_t *out = (uint8_t *)block;
    signal(SIGPIPE, SIG_IGN);
    for (uint64_t i = 1, count; i <= RECORDS; i += count) {
        count = 1 + i % 19;
        for (uint64_t n = 0; n < count; n++)
            encode(out + n * RECORD, i + n);
        send_all(p->fd, out, count * RECORD);
    }
    MUST(shutdown(p->fd, SHUT_WR));
    CALL(recv(p->fd, block, 1, 0));
}

// Reads some records. A relative may have read between two reads, but within one read nothing is
// missing. Returns false at the end.
static bool records(int fd, uint64_t *last) {
    static uint8_t in[4096];
    ssize_t got = recv(fd, in, 1 + *last * 31 % sizeof in, 0), whole = -1;
    if (got < 0)
        die("recv: %s", strerrorname_np(errno));
    for (ssize_t at = 0; at + RECORD <= got; at++) {
        if (in[at] != MARK) {
            if (whole >= 0 && whole == at)
                die("no record after %llu", (unsigned long long)*last);
            continue;
        }
        uint64_t next = decode(in + at);
        if (whole == at ? next != *last + 1 : next <= *last)
            die("record %llu after %llu", (unsigned long long)next, (unsigned long long)*last);
        *last = next;
        whole = at + RECORD;
        at += RECORD - 1;
    }
    return got > 0;
}

static void reads_beside_the_dead(struct peer *p) {
    uint64_t last = 0;
    pid_t children[LIVES];
    for (int round = 0; round < LIVES; round++) {
        children[round] = MUST(fork());
        if (children[round] == 0) {
            while (records(p->fd, &last))
                ;
            pause();
        }
        stop_and_kill(children[round], round);
        for (int i = 0; i < 20 && records(p->fd, &last); i++)
            ;
    }
    while (records(p->fd, &last))
        ;
    say("records in order to the end");
    for (int round = 0; round < LIVES; round++)
        MUST(waitpid(children[round], NULL, 0));
}

// The process is killed during long copies, while as many bytes are unread as possible.
enum { COPIES = 300 };

static void sends_until_refused(struct peer *p) {
    while (send(p->fd, block, sizeof block / 2, MSG_NOSIGNAL) > 0)
        ;
    say("%s", errno == EPIPE || errno == ECONNRESET ? "refused at last" : strerrorname_np(errno));
}

static void looks_beside_the_dead(struct peer *p) {
    for (int round = 0; round < COPIES; round++) {
        pid_t child = MUST(fork());
        if (child == 0)
            for (;;)
                recv(p->fd, block, sizeof block, 0);
        stop_and_kill(child, round);
        MUST(waitpid(child, NULL, 0));
        int unread = 0;
        for (int tries = 0; unread < 100000 && tries < 1000; tries++) {
            MUST(ioctl(p->fd, FIONREAD, &unread));
            if (unread < 100000)
                nap(1);
        }
        if (MUST(recv(p->fd, block, sizeof block, 0)) == 0)
            die("round %d: the stream has ended", round);
    }
    say("the survivor reads on");
    close(p->fd);
}

static const struct scenario scenarios[] = {
    {"a_connector_is_killed", outlives_connector, dies_connecting, RAW},
    {"an_acceptor_is_killed", dies_accepting, outlives_acceptor, RAW},
    {"a_relative_is_killed_sending", counts_the_living, sends_beside_the_dead},
    {"a_relative_is_killed_receiving", sends_records, reads_beside_the_dead},
    {"a_relative_is_killed_copying", sends_until_refused, looks_beside_the_dead},
};
SCENARIO_MAIN(scenarios)
