// Threads that share a stream.
#include "common.h"
#include <stdatomic.h>

static char buffer[70000];
static struct peer *shared;
enum { RECORD = 48, RECORDS = 20000 };

struct record {
    uint32_t writer, number;
    char body[RECORD - 8];
};

static void *writes_records(void *argument) {
    uint32_t writer = (uint32_t)(uintptr_t)argument;
    struct record r = {.writer = writer};
    memset(r.body, 'a' + writer, sizeof r.body);
    for (r.number = 0; r.number < RECORDS; r.number++)
        if (write(shared->fd, &r, sizeof r) != sizeof r)
            die("record %u of %u: %s", r.number, writer, strerrorname_np(errno));
    return NULL;
}

static void two_writers(struct peer *p) {
    pthread_t threads[2];
    shared = p;
    for (uintptr_t i = 0; i < 2; i++)
        pthread_create(&threads[i], NULL, writes_records, (void *)i);
    for (int i = 0; i < 2; i++)
        pthread_join(threads[i], NULL);
    CALL(shutdown(p->fd, SHUT_WR));
    CALL(recv(p->fd, buffer, 1, 0));
}

static pthread_mutex_t reading = PTHREAD_MUTEX_INITIALIZER;
static uint32_t next_number[2];
static long wrong;

// Two readers, each of which takes a whole record under the lock.
static void *reads_records(void *argument) {
    long *mine = argument;
    for (;;) {
        struct record r;
        pthread_mutex_lock(&reading);
        ssize_t got = recv(shared->fd, &r, sizeof r, MSG_WAITALL);
        if (got == sizeof r) {
            wrong += r.writer > 1 || r.number != next_number[r.writer & 1]++;
            for (size_t i = 0; i < sizeof r.body; i++)
                wrong += r.body[i] != (char)('a' + r.writer);
            ++*mine;
        }
        pthread_mutex_unlock(&reading);
        if (got != sizeof r)
            return NULL;
    }
}

static void two_readers(struct peer *p) {
    pthread_t threads[2];
    long mine[2] = {0, 0};
    shared = p;
    for (int i = 0; i < 2; i++)
        pthread_create(&threads[i], NULL, reads_records, &mine[i]);
    for (int i = 0; i < 2; i++)
        pthread_join(threads[i], NULL);
    say("%u and %u records in order, %ld altogether, %ld wrong", next_number[0], next_number[1], mine[0] + mine[1], wrong);
}

// Readers without a lock: no byte is lost or duplicated, whichever thread gets it.
static void *sums(void *argument) {
    uint64_t *sum = argument;
    unsigned char piece[777];
    ssize_t got;
    while ((got = recv(shared->fd, piece, sizeof piece, 0)) > 0)
        for (ssize_t i = 0; i < got; i++)
            sum[piece[i]]++;
    return NULL;
}

static void unlocked_readers(struct peer *p) {
    static uint64_t sums_of[3][256];
    pthread_t threads[3];
    uint64_t total = 0, weighted = 0;
    shared = p;
    for (int i = 0; i < 3; i++)
        pthread_create(&threads[i], NULL, sums, sums_of[i]);
    for (int i = 0; i < 3; i++)
        pthread_join(threads[i], NULL);
    for (int i = 0; i < 3; i++)
        for (int b = 0; b < 256; b++) {
            total += sums_of[i][b];
            weighted += sums_of[i][b] * b;
        }
    say("%llu bytes, sum %llu", (unsigned long long)total, (unsigned long long)weighted);
}

static void sends_pattern(struct peer *p) {
    send_pattern(p->fd, 0, 5000000, 5000);
    CALL(shutdown(p->fd, SHUT_WR));
    CALL(recv(p->fd, buffer, 1, 0));
}

// One thread reads while the other writes, both as fast as they can.
enum { FULL = 100 << 20 };

static void *writes_fast(void *argument) {
    (void)argument;
    send_pattern(shared->fd, 0, FULL, 60000);
    MUST(shutdown(shared->fd, SHUT_WR));
    return NULL;
}

static void both_ways(struct peer *p) {
    pthread_t writer;
    shared = p;
    pthread_create(&writer, NULL, writes_fast, NULL);
    drain_to_eof(p->fd, 0);
    pthread_join(writer, NULL);
    say("written");
}

static void *writes_small(void *argument) {
    (void)argument;
    for (int i = 0; i < 200000; i++) {
        fill(buffer, 20, (uint64_t)i * 20);
        send_all(shared->fd, buffer, 20);
    }
    MUST(shutdown(shared->fd, SHUT_WR));
    return NULL;
}

static void both_ways_small(struct peer *p) {
    pthread_t writer;
    char piece[64];
    uint64_t total = 0;
    bool right = true;
    ssize_t got;
    shared = p;
    pthread_create(&writer, NULL, writes_small, NULL);
    while ((got = recv(p->fd, piece, sizeof piece, 0)) > 0) {
        right = right && matches(piece, got, total);
        total += got;
    }
    pthread_join(writer, NULL);
    say("%llu bytes, %s", (unsigned long long)total, right ? "right" : "WRONG");
}

// A hundred streams are opened and closed in four threads, while one stays in use.
static void *visits(void *argument) {
    (void)argument;
    for (int i = 0; i < 25; i++) {
        int fd = connect_to(shared, AF_INET, "visits");
        char text[16] = "visit";
        for (int k = 0; k < 30; k++) {
            send_all(fd, text, sizeof text);
            recv_all(fd, text, sizeof text);
        }
        close(fd);
    }
    return NULL;
}

static void many_visits(struct peer *p) {
    pthread_t threads[4];
    shared = p;
    for (int i = 0; i < 4; i++)
        pthread_create(&threads[i], NULL, visits, NULL);
    for (int i = 0; i < 100; i++)
        say_alive(p->fd, false, "beside them");
    for (int i = 0; i < 4; i++)
        pthread_join(threads[i], NULL);
    close(p->fd);
    say("all done");
}

static void *serves_visit(void *argument) {
    int fd = (int)(intptr_t)argument;
    char text[16];
    while (recv(fd, text, sizeof text, MSG_WAITALL) == sizeof text)
        send_all(fd, text, sizeof text);
    close(fd);
    return NULL;
}

static void *serves_beside(void *argument) {
    (void)argument;
    for (int i = 0; i < 100; i++)
        say_alive(shared->fd, true, "beside them");
    return NULL;
}

static void serves_visits(struct peer *p) {
    pthread_t beside, threads[100];
    int listener = listen_on(p, AF_INET, "visits");
    shared = p;
    pthread_create(&beside, NULL, serves_beside, NULL);
    for (int i = 0; i < 100; i++)
        pthread_create(&threads[i], NULL, serves_visit, (void *)(intptr_t)accept_one(listener));
    for (int i = 0; i < 100; i++)
        pthread_join(threads[i], NULL);
    pthread_join(beside, NULL);
    say("all done");
}

// Threads close streams that others use: errors and ends, but no crash, and no effect on other
// streams.
static void *uses_until_closed(void *argument) {
    (void)argument;
    char text[100] = "text";
    while (send(shared->fd, text, sizeof text, MSG_NOSIGNAL) > 0)
        ;
    return NULL;
}

static void closes_under_users(struct peer *p) {
    for (int i = 0; i < 20; i++) {
        pthread_t users[2];
        p->fd = connect_to(p, AF_INET, "users");
        warm(p->fd, false);
        shared = p;
        for (int u = 0; u < 2; u++)
            pthread_create(&users[u], NULL, uses_until_closed, NULL);
        nap(5);
        MUST(shutdown(p->fd, SHUT_RDWR));
        for (int u = 0; u < 2; u++)
            pthread_join(users[u], NULL);
        MUST(close(p->fd));
    }
    say("twenty times");
}

static void serves_users(struct peer *p) {
    int listener = listen_on(p, AF_INET, "users");
    for (int i = 0; i < 20; i++) {
        int fd = accept_one(listener);
        warm(fd, true);
        ssize_t got;
        while ((got = recv(fd, buffer, sizeof buffer, 0)) > 0)
            ;
        say("ended by %s", got ? strerrorname_np(errno) : "end of stream");
        close(fd);
    }
}

// --- several threads write records of several parts: the parts of a record stay together

enum { PARTS = 4, PART = 125, PARTED = 3000 };

static void *writes_parted(void *argument) {
    struct peer *p = argument;
    static atomic_int writers;
    char tag = 'a' + atomic_fetch_add(&writers, 1), part[PART];
    struct iovec parts[PARTS];
    memset(part, tag, sizeof part);
    for (int i = 0; i < PARTS; i++)
        parts[i] = (struct iovec){part, sizeof part};
    for (int i = 0; i < PARTED; i++)
        if (writev(p->fd, parts, PARTS) != PARTS * PART)
            die("writev: %s", strerrorname_np(errno));
    return NULL;
}

static void two_parted_writers(struct peer *p) {
    pthread_t threads[2];
    // Room for all records: only a full buffer splits a record.
    hear(p);
    for (int i = 0; i < 2; i++)
        if (pthread_create(&threads[i], NULL, writes_parted, p))
            die("no thread");
    for (int i = 0; i < 2; i++)
        pthread_join(threads[i], NULL);
    MUST(shutdown(p->fd, SHUT_WR));
}

static void reads_parted(struct peer *p) {
    static char all[2 * PARTED * PARTS * PART];
    int torn = 0;
    tell(p, 0);
    recv_all(p->fd, all, sizeof all);
    for (size_t at = 0; at < sizeof all; at += PARTS * PART)
        for (int i = 1; i < PARTS * PART; i++)
            if (all[at + i] != all[at]) {
                torn++;
                break;
            }
    // The kernel splits some records when its buffers are full.
    say("torn: %s", torn < 2 * PARTED / 20 ? "few or none" : "many");
    note("%d records torn", torn);
}

static const struct scenario scenarios[] = {
    {"records_of_several_parts", reads_parted, two_parted_writers},
    {"two_writers_and_two_readers", two_readers, two_writers},
    {"readers_without_a_lock", unlocked_readers, sends_pattern},
    {"reading_and_writing_at_full_speed", both_ways, both_ways},
    {"small_messages_both_ways", both_ways_small, both_ways_small},
    {"streams_that_come_and_go_in_threads", serves_visits, many_visits},
    {"shutting_what_others_write_to", serves_users, closes_under_users, RAW},
};
SCENARIO_MAIN(scenarios)
