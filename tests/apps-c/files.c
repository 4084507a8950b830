// Moves bytes between files, pipes and streams without a buffer of the program.
#include "common.h"
#include <sys/resource.h>
#include <sys/sendfile.h>

static char buffer[70000];

static int pattern_file(struct peer *p, const char *name, size_t size) {
    char path[512];
    snprintf(path, sizeof path, "%s/%s", p->dir, name);
    int fd = MUST(open(path, O_RDWR | O_CREAT | O_TRUNC, 0600));
    for (size_t at = 0; at < size; at += 50000) {
        size_t step = size - at < 50000 ? size - at : 50000;
        fill(buffer, step, at);
        MUST(write(fd, buffer, step));
    }
    MUST(lseek(fd, 0, SEEK_SET));
    return fd;
}

static void takes_files(struct peer *p) {
    uint64_t offset = 0, count;
    while ((count = hear(p)) != 0) {
        recv_pattern(p->fd, offset, count, 8000);
        offset += count;
    }
    drain_to_eof(p->fd, offset);
}

static void sends_file(struct peer *p) {
    int file = pattern_file(p, "file", 100000);
    off_t at = 0;
    CALL(sendfile(p->fd, file, &at, 1000));
    say("offset %ld, file at %ld", (long)at, (long)lseek(file, 0, SEEK_CUR));
    tell(p, 1000);
    CALL(sendfile(p->fd, file, NULL, 0));
    CALL(lseek(file, 1000, SEEK_SET));
    CALL(sendfile(p->fd, file, NULL, 49000));
    say("file at %ld", (long)lseek(file, 0, SEEK_CUR));
    tell(p, 49000);
    at = 50000;
    CALL(sendfile(p->fd, file, &at, 1 << 20));
    say("offset %ld", (long)at);
    tell(p, 50000);
    CALL(sendfile(p->fd, file, &at, 10));
    CALL(sendfile(p->fd, file, (off_t *)8, 10));
    CALL(sendfile(p->fd, 150, NULL, 10));
    int pipes[2];
    MUST(pipe(pipes));
    CALL(sendfile(p->fd, pipes[0], NULL, 10));
    CALL(sendfile(p->fd, p->fd, NULL, 10));
    tell(p, 0);
    CALL(close(p->fd));
}

// More bytes than there is room for: a blocking call sends all, a non-blocking one a part
static void sends_large_file(struct peer *p) {
    size_t size = 12 << 20;
    int file = pattern_file(p, "large", size);
    off_t at = 0;
    tell(p, size);
    while (at < (off_t)size)
        MUST(sendfile(p->fd, file, &at, size - at));
    say("blocking: all");
    tell(p, 0);
    at = 0;
    set_nonblocking(p->fd, true);
    while (at < (off_t)size) {
        ssize_t sent = sendfile(p->fd, file, &at, size - at);
        if (sent < 0 && errno != EAGAIN)
            die("sendfile: %s", strerrorname_np(errno));
        if (sent < 0)
            await_events(p->fd, POLLOUT, POLLOUT);
    }
    say("non-blocking: all");
    tell(p, 0);
    MUST(lseek(file, 7, SEEK_SET));
    for (size_t left = size - 7; left > 0;) {
        ssize_t sent = sendfile(p->fd, file, NULL, left);
        if (sent < 0 && errno != EAGAIN)
            die("sendfile: %s", strerrorname_np(errno));
        if (sent < 0)
            await_events(p->fd, POLLOUT, POLLOUT);
        else
            left -= sent;
        // A part that was read and not sent does not move the file's position.
        off_t now = MUST(lseek(file, 0, SEEK_CUR));
        if (now != (off_t)(size - left))
            die("the file is at %ld, with %zu bytes left", (long)now, left);
    }
    say("from the file's position: all");
    CALL(close(p->fd));
}

static void takes_large_files(struct peer *p) {
    uint64_t count = hear(p);
    nap(100);
    recv_pattern(p->fd, 0, count, 65536);
    hear(p);
    nap(100);
    recv_pattern(p->fd, 0, count, 65536);
    hear(p);
    nap(100);
    drain_to_eof(p->fd, 7);
}

static void file_after_shutdown(struct peer *p) {
    int file = pattern_file(p, "file", 1000);
    signal(SIGPIPE, SIG_IGN);
    MUST(shutdown(p->fd, SHUT_WR));
    CALL(sendfile(p->fd, file, NULL, 10));
    tell(p, 0);
}

// Bytes sent by write come before and after those of the file.
static void headers_and_files(struct peer *p) {
    int file = pattern_file(p, "file", 100000);
    for (int i = 0; i < 50; i++) {
        off_t at = i * 2000 + 50;
        fill(buffer, 50, i * 2000);
        CALL(write(p->fd, buffer, 50));
        CALL(sendfile(p->fd, file, &at, 1900));
        fill(buffer, 50, i * 2000 + 1950);
        CALL(send(p->fd, buffer, 50, i % 2 ? MSG_MORE : 0));
    }
    tell(p, 100000);
    tell(p, 0);
    CALL(close(p->fd));
}

static void splices_out(struct peer *p) {
    int pipes[2];
    MUST(pipe(pipes));
    for (int i = 0; i < 20; i++) {
        fill(buffer, 30000, i * 30000);
        MUST(write(pipes[1], buffer, 30000));
        long left = 30000;
        while (left)
            left -= MUST(splice(pipes[0], NULL, p->fd, NULL, left, i % 2 ? SPLICE_F_MOVE : SPLICE_F_MORE));
    }
    say("spliced");
    tell(p, 600000);
    CALL(splice(pipes[0], NULL, p->fd, NULL, 10, SPLICE_F_NONBLOCK));
    close(pipes[1]);
    CALL(splice(pipes[0], NULL, p->fd, NULL, 10, 0));
    tell(p, 0);
    CALL(close(p->fd));
}

static void splices_in(struct peer *p) {
    int pipes[2];
    uint64_t total = 0;
    bool right = true;
    MUST(pipe(pipes));
    set_nonblocking(p->fd, true);
    CALL(splice(p->fd, NULL, pipes[1], NULL, 100, SPLICE_F_NONBLOCK));
    set_nonblocking(p->fd, false);
    meet(p);
    ssize_t got;
    while ((got = splice(p->fd, NULL, pipes[1], NULL, 60000, SPLICE_F_MOVE)) > 0) {
        while (got) {
            ssize_t part = MUST(read(pipes[0], buffer, got));
            right = right && matches(buffer, part, total);
            total += part;
            got -= part;
        }
    }
    say("%llu bytes, %s, then %zd", (unsigned long long)total, right ? "right" : "WRONG", got);
}

static void feeds_splice(struct peer *p) {
    meet(p);
    send_pattern(p->fd, 0, 2000000, 33333);
    CALL(close(p->fd));
}

// A relay: from one stream through a pipe to another
static void relays(struct peer *p) {
    int other = accept_one(listen_on(p, AF_INET, "relay")), pipes[2];
    warm(other, true);
    MUST(pipe(pipes));
    ssize_t got;
    while ((got = splice(p->fd, NULL, pipes[1], NULL, 65536, SPLICE_F_MOVE)) > 0)
        while (got > 0)
            got -= MUST(splice(pipes[0], NULL, other, NULL, got, SPLICE_F_MOVE));
    close(other);
    say("relayed");
}

static void uses_relay(struct peer *p) {
    int other = connect_to(p, AF_INET, "relay");
    warm(other, false);
    if (MUST(fork()) == 0) {
        send_pattern(p->fd, 0, 3000000, 12345);
        _exit(0);
    }
    close(p->fd);
    drain_to_eof(other, 0);
}

// The target file has no room for received bytes. The error is that of the file, and the connection
// stays usable.
static void keeps_what_has_no_room(struct peer *p) {
    int full = MUST(open("/dev/full", O_WRONLY)), file = pattern_file(p, "small", 0), pipes[2];
    MUST(pipe(pipes));
    recv_all(p->fd, buffer, 10000);
    CALL(write(full, buffer, 10000));
    say("right %d", matches(buffer, 10000, 0));
    CALL(sendfile(full, p->fd, NULL, 10000));
    uint64_t at = 10000;
    signal(SIGXFSZ, SIG_IGN);
    struct rlimit limit = {5000, 5000};
    MUST(setrlimit(RLIMIT_FSIZE, &limit));
    recv_all(p->fd, buffer, 10000);
    say("right %d", matches(buffer, 10000, at));
    at += 10000;
    CALL(write(file, buffer, 10000));
    CALL(write(file, buffer + 5000, 5000));
    ssize_t got = MUST(splice(p->fd, NULL, pipes[1], NULL, 10000, 0));
    CALL(splice(pipes[0], NULL, full, NULL, got, 0));
    CALL(splice(pipes[0], NULL, file, NULL, got, 0));
    MUST(read(pipes[0], buffer, got));
    say("right %d", matches(buffer, got, at));
    at += got;
    tell(p, 1);
    recv_pattern(p->fd, at, 1000000 - at, 8000);
    say_alive(p->fd, true, "at the end");
}

static void sends_what_has_no_room(struct peer *p) {
    send_pattern(p->fd, 0, 50000, 10000);
    hear(p);
    send_pattern(p->fd, 50000, 950000, 10000);
    say_alive(p->fd, false, "at the end");
}

// A server stops because a file has no room, and closes with bytes unread.
static void gives_up(struct peer *p) {
    int full = MUST(open("/dev/full", O_WRONLY));
    recv_all(p->fd, buffer, 10000);
    await_bytes(p->fd, 10000);
    if (write(full, buffer, 10000) < 0)
        CALL(close(p->fd));
    tell(p, 1);
}

static void is_told_of_no_room(struct peer *p) {
    signal(SIGPIPE, SIG_IGN);
    send_pattern(p->fd, 0, 20000, 10000);
    hear(p);
    // The first send may still succeed.
    int sent = 0;
    while (send(p->fd, buffer, sizeof buffer, 0) >= 0)
        sent++;
    say("soon %d: %s", sent < 100, strerrorname_np(errno));
    CALL(send(p->fd, buffer, 10, 0));
    CALL(recv(p->fd, buffer, 10, 0));
}

static const struct scenario scenarios[] = {
    {"sendfile_sends_what_it_says", takes_files, sends_file},
    {"sendfile_of_more_than_there_is_room_for", takes_large_files, sends_large_file},
    {"sendfile_after_shutdown", takes_files, file_after_shutdown},
    {"sendfile_between_writes", takes_files, headers_and_files},
    {"splice_from_a_pipe", takes_files, splices_out},
    {"splice_to_a_pipe", feeds_splice, splices_in},
    {"a_relay_of_splices", relays, uses_relay},
    {"what_comes_has_no_room", keeps_what_has_no_room, sends_what_has_no_room},
    {"a_server_without_room_gives_up", gives_up, is_told_of_no_room},
};
SCENARIO_MAIN(scenarios)
