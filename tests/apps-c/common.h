// Shared by all scenario programs. Two separately started processes find each other, stay in step
// without the connection under test, and write down what they see.
//
//     program server DIR CASE      listens, leaves its port in DIR/port
//     program client DIR CASE      connects to it
//     program both   DIR CASE      one process that holds both ends
//
// A transcript holds return values, errno names, counts, event masks and
// checksums: nothing that differs from one run to the next.
#ifndef SOVIA_TESTS_COMMON_H
#define SOVIA_TESTS_COMMON_H

#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

struct peer {
    bool server;
    const char *self; // argv[0], for programs that exec themselves
    const char *dir;
    const char *name; // the scenario's
    int listener;     // server only
    int fd;           // the connection under test
    int tell, hear;   // the side channel
    int other;        // `both`: the connected end, `fd` being the accepted one
};

enum {
    RAW = 1,  // no connection is made beforehand
    COLD = 2, // connected, but nothing has been transferred
    V6 = 4,   // over ::1
};

struct scenario {
    const char *name;
    void (*server)(struct peer *);
    void (*client)(struct peer *);
    unsigned flags;
};

// Runs the scenario that the command line names. `both` calls only the server's function, and has
// no side channel.
int scenario_main(int argc, char **argv, const struct scenario *all, size_t count);
#define SCENARIO_MAIN(table)                                                   \
    int main(int argc, char **argv) {                                          \
        return scenario_main(argc, argv, table,                                \
                             sizeof table / sizeof table[0]);                  \
    }

// --- the transcript
__attribute__((format(printf, 1, 2))) void say(const char *format, ...);
__attribute__((format(printf, 1, 2), noreturn)) void die(const char *format, ...);
void report(const char *call, long result, int error);
// Makes a call, and writes it down with its result.
#define CALL(expression)                                                       \
    ({                                                                         \
        errno = 0;                                                             \
        long result_ = (long)(expression);                                     \
        report(#expression, result_, errno);                                   \
        result_;                                                               \
    })
// Makes a call that must succeed, and writes nothing.
#define MUST(expression)                                                       \
    ({                                                                         \
        long result_ = (long)(expression);                                     \
        if (result_ < 0)                                                       \
            die("%s: %s", #expression, strerrorname_np(errno));                \
        result_;                                                               \
    })
void say_text(const char *what, const void *bytes, long count);
const char *poll_names(int mask);
const char *epoll_names(uint32_t mask);
void say_status(const char *who, int wait_status);
void reap(const char *who, pid_t child); // a child of whatever kind; says how it has ended
// Prints a note to stderr, as a line that begins with `note: `. Notes are not compared.
__attribute__((format(printf, 1, 2))) void note(const char *format, ...);

// --- meeting
int listen_on(struct peer *p, int family, const char *port_file);
int connect_to(struct peer *p, int family, const char *port_file);
int port_of(struct peer *p, const char *port_file);
int accept_one(int listener);
// Small requests and answers until the switch to shared memory has happened.
void warm(int fd, bool server);
// Like warm, until both ends know whether they have met, or one of them is not under Sovia.
void warm_until_met(int fd, bool server);
// Like warm, until both ends have their VI, if both run under Sovia.
void warm_until_on_vi(int fd, bool server);
void warm_both(int one, int other); // both ends in this thread

// --- the side channel
void meet(struct peer *p); // both have come this far
void tell(struct peer *p, uint64_t value);
uint64_t hear(struct peer *p);

// --- past every function of libc
long call_inline(long number, long first, long second, long third); // a negative error number if it fails
void close_inline(int fd);

// --- descriptors in messages
void hand_over(int channel, int fd);
int take_over(int channel, int flags);

// --- bytes
void fill(void *buffer, size_t count, uint64_t offset);
bool matches(const void *buffer, size_t count, uint64_t offset);
// Prints where in the pattern wrong bytes belong.
void die_of_wrong_bytes(const void *buffer, size_t count, uint64_t offset) __attribute__((noreturn));
uint32_t checksum(uint32_t sum, const void *buffer, size_t count);
#define CHECKSUM_START 2166136261u
void send_all(int fd, const void *buffer, size_t count);
void recv_all(int fd, void *buffer, size_t count);
// Sends or checks the standard pattern, `count` bytes from `offset` on.
void send_pattern(int fd, uint64_t offset, uint64_t count, size_t piece);
void recv_pattern(int fd, uint64_t offset, uint64_t count, size_t piece);
// Reads to the end, and prints the number of bytes and whether they were right.
void drain_to_eof(int fd, uint64_t offset);
// Exchanges one small request and answer, to check that the connection works.
void say_alive(int fd, bool server, const char *when);

// --- time
void nap(int milliseconds);
int64_t now_ms(void);
void await_bytes(int fd, int count);
int await_events(int fd, short events, short wanted);
// Waits until no other thread of this process has anything to do, so the library's threads have
// reported all events.
void await_rest(void);
// Waits until the process is stopped.
void await_stopped(pid_t process);
void set_nonblocking(int fd, bool on);
/* Says whether a wait has taken as long as it should, in milliseconds. A busy machine adds to the
 * wait. If the wait would otherwise last without end, or for 20 seconds, LATE is early enough. */
void say_elapsed(int64_t since, int at_least, int at_most);
#define LATE 10000

#endif
