// One call that sends many megabytes from the connection's first byte on. Its ends have not met when it begins.
#include "common.h"

#include <sys/mman.h>

enum { TOTAL = 64 << 20, PIECE = 1 << 16 };

static char *pattern(void) {
    char *all = malloc(TOTAL);
    fill(all, TOTAL, 0);
    return all;
}

// Reads to the end, and prints the number of bytes.
static void reads_all(struct peer *p) {
    static char buffer[PIECE];
    uint64_t total = 0;
    bool right = true;
    ssize_t got;
    while ((got = recv(p->fd, buffer, sizeof buffer, 0)) > 0) {
        right = right && matches(buffer, got, total);
        total += got;
    }
    say("%llu bytes, %s, then %s", (unsigned long long)total, right ? "right" : "WRONG",
        got == 0 ? "the end" : strerrorname_np(errno));
}

// Like reads_all, and reports the number of bytes. Begins when the peer says so.
static void reads_and_tells(struct peer *p) {
    static char buffer[PIECE];
    meet(p);
    uint64_t total = 0;
    ssize_t got;
    while ((got = recv(p->fd, buffer, sizeof buffer, 0)) > 0)
        total += got;
    tell(p, total);
    say("then %s", got == 0 ? "the end" : strerrorname_np(errno));
}

static void in_one_write(struct peer *p) {
    char *all = pattern();
    CALL(write(p->fd, all, TOTAL));
    CALL(shutdown(p->fd, SHUT_WR));
    CALL(recv(p->fd, all, 1, 0));
}

static void in_one_writev(struct peer *p) {
    char *all = pattern();
    struct iovec parts[] = {{all, 10}, {all + 10, TOTAL / 2}, {all + 10 + TOTAL / 2, TOTAL / 2 - 10}};
    CALL(writev(p->fd, parts, 3));
    CALL(shutdown(p->fd, SHUT_WR));
    CALL(recv(p->fd, all, 1, 0));
}

static void in_one_fwrite(struct peer *p) {
    char *all = pattern();
    FILE *out = fdopen(p->fd, "w");
    CALL(fwrite(all, 1, TOTAL, out));
    CALL(fclose(out));
}

// The sizes of buffers decide how much is sent before the call ends. Something must be sent, and all of it be
// received.
static void say_part(struct peer *p, ssize_t sent) {
    say("a part was sent: %s", sent > 0 && sent < TOTAL ? "yes" : "NO");
    MUST(shutdown(p->fd, SHUT_WR));
    meet(p);
    say("all of it was read: %s", hear(p) == (uint64_t)sent ? "yes" : "NO");
}

static void handled(int signal) { (void)signal; }

static void until_a_signal(struct peer *p, int flags) {
    struct sigaction action = {.sa_handler = handled, .sa_flags = flags};
    MUST(sigaction(SIGALRM, &action, NULL));
    char *all = pattern();
    // Repeat the signal, because the first one may come before the call.
    ualarm(300000, 300000);
    ssize_t sent = write(p->fd, all, TOTAL);
    ualarm(0, 0);
    say_part(p, sent);
}

static void until_a_signal_that_ends_calls(struct peer *p) { until_a_signal(p, 0); }
static void until_a_signal_that_restarts_them(struct peer *p) { until_a_signal(p, SA_RESTART); }

static void until_a_timeout(struct peer *p) {
    struct timeval limit = {0, 300000};
    MUST(setsockopt(p->fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit));
    char *all = pattern();
    say_part(p, write(p->fd, all, TOTAL));
}

static void without_waiting(struct peer *p) {
    char *all = pattern();
    say_part(p, send(p->fd, all, TOTAL, MSG_DONTWAIT));
}

static void on_a_nonblocking_socket(struct peer *p) {
    char *all = pattern();
    set_nonblocking(p->fd, true);
    say_part(p, write(p->fd, all, TOTAL));
    errno = 0;
}

static void until_bad_memory(struct peer *p) {
    char *all = mmap(NULL, TOTAL, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    MUST(munmap(all + TOTAL / 2, TOTAL / 2));
    tell(p, 1);
    ssize_t sent = write(p->fd, all, TOTAL);
    say("a part was sent: %s", sent > 0 && sent <= TOTAL / 2 ? "yes" : "NO");
    CALL(write(p->fd, all + TOTAL / 2, 10));
    CALL(shutdown(p->fd, SHUT_WR));
    say("all of it was read: %s", hear(p) == (uint64_t)sent ? "yes" : "NO");
}

static void reads_zeros(struct peer *p) {
    hear(p);
    static char buffer[PIECE];
    uint64_t total = 0;
    ssize_t got;
    while ((got = recv(p->fd, buffer, sizeof buffer, 0)) > 0)
        total += got;
    tell(p, total);
}

static void to_a_peer_that_leaves(struct peer *p) {
    signal(SIGPIPE, SIG_IGN);
    char *all = pattern();
    ssize_t sent = write(p->fd, all, TOTAL);
    say("a part was sent: %s", sent > 0 && sent < TOTAL ? "yes" : "NO");
    CALL(write(p->fd, all, 1));
    CALL(write(p->fd, all, 1));
    CALL(recv(p->fd, all, 1, 0));
}

static void leaves(struct peer *p) {
    static char buffer[1 << 20];
    recv_all(p->fd, buffer, sizeof buffer);
    // With no unread bytes, the peer's close would be an end first, and a reset later: EPIPE.
    await_bytes(p->fd, 1);
    MUST(close(p->fd));
}

static void *closes(void *argument) {
    struct peer *p = argument;
    nap(100);
    MUST(close(p->fd));
    // Another file gets the number: one that can always be written, or one that never can.
    int ends[2];
    bool taken = !strcmp(p->name, "a_long_write_whose_number_is_closed") ? open("/dev/null", O_RDWR) == p->fd
               : !strcmp(p->name, "a_long_write_whose_number_is_a_pipes") ? pipe(ends) == 0 && ends[0] == p->fd
                                                                         : socket(AF_INET, SOCK_STREAM, 0) == p->fd;
    say("number taken: %s", taken ? "yes" : "NO");
    tell(p, 1);
    return NULL;
}

static void while_it_is_closed(struct peer *p) {
    char *all = pattern();
    pthread_t thread;
    pthread_create(&thread, NULL, closes, p);
    CALL(write(p->fd, all, TOTAL));
    pthread_join(thread, NULL);
}

static void reads_once_it_is_closed(struct peer *p) {
    hear(p);
    reads_all(p);
}

static void *writes_all(void *argument) {
    struct peer *p = argument;
    char *all = pattern();
    write(p->fd, all, TOTAL);
    return NULL;
}

static void until_it_is_cancelled(struct peer *p) {
    pthread_t thread;
    void *result;
    pthread_create(&thread, NULL, writes_all, p);
    nap(200);
    pthread_cancel(thread);
    pthread_join(thread, &result);
    say("cancelled: %s", result == PTHREAD_CANCELED ? "yes" : "NO");
    MUST(shutdown(p->fd, SHUT_WR));
    meet(p);
    hear(p);
}

static const struct scenario scenarios[] = {
    {"many_megabytes_in_one_write", reads_all, in_one_write, COLD},
    {"many_megabytes_in_one_writev", reads_all, in_one_writev, COLD},
    {"many_megabytes_in_one_fwrite", reads_all, in_one_fwrite, COLD},
    {"a_signal_ends_a_long_write", reads_and_tells, until_a_signal_that_ends_calls, COLD},
    {"a_signal_with_restart_ends_a_long_write", reads_and_tells, until_a_signal_that_restarts_them, COLD},
    {"a_timeout_ends_a_long_write", reads_and_tells, until_a_timeout, COLD},
    {"a_long_send_that_does_not_wait", reads_and_tells, without_waiting, COLD},
    {"a_long_write_without_blocking", reads_and_tells, on_a_nonblocking_socket, COLD},
    {"a_long_write_from_bad_memory", reads_zeros, until_bad_memory, COLD},
    {"a_long_write_to_a_peer_that_leaves", leaves, to_a_peer_that_leaves, COLD},
    {"a_long_write_whose_number_is_closed", reads_once_it_is_closed, while_it_is_closed, COLD},
    {"a_long_write_whose_number_is_a_pipes", reads_once_it_is_closed, while_it_is_closed, COLD},
    {"a_long_write_whose_number_is_a_sockets", reads_once_it_is_closed, while_it_is_closed, COLD},
    {"a_long_write_is_cancelled", reads_and_tells, until_it_is_cancelled, COLD},
};
SCENARIO_MAIN(scenarios)
