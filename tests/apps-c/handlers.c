// Signal handlers that use the connection whose call they have interrupted, or that leave by
// siglongjmp. Also threads that are cancelled during a call. POSIX allows all of this.
#include "common.h"
#include <malloc.h>
#include <setjmp.h>
#include <sys/select.h>
#include <sys/syscall.h>
#include <sys/time.h>

enum { RECORDS = 30000, MARK = 0x5eed };

struct record {
    uint32_t mark;
    uint32_t kind;
    uint64_t number;
};

static struct peer *now;
static pid_t main_thread;
static volatile bool storming;
static volatile sig_atomic_t in_time; // signals that arrived while there was a call to interrupt

// Sends SIGUSR1 to the main thread again and again.
static void *storm(void *argument) {
    long pause_ns = (long)(intptr_t)argument;
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, NULL);
    while (storming) {
        syscall(SYS_tgkill, getpid(), main_thread, SIGUSR1);
        struct timespec t = {0, pause_ns};
        nanosleep(&t, NULL);
    }
    return NULL;
}

static pthread_t begin_storm(struct peer *p, void (*handler)(int), int flags, long pause_ns) {
    struct sigaction action = {.sa_handler = handler, .sa_flags = flags};
    pthread_t thread;
    now = p;
    main_thread = gettid();
    MUST(sigaction(SIGUSR1, &action, NULL));
    storming = true;
    if (pthread_create(&thread, NULL, storm, (void *)(intptr_t)pause_ns))
        die("no thread");
    return thread;
}

static void end_storm(pthread_t thread) {
    storming = false;
    pthread_join(thread, NULL);
    signal(SIGUSR1, SIG_IGN);
}

// Writes a record with one write. A handler may run before the write, but not during it.
static void put_record(int fd, uint32_t kind, uint64_t number) {
    struct record one = {MARK, kind, number};
    ssize_t sent;
    do
        sent = write(fd, &one, sizeof one);
    while (sent < 0 && errno == EINTR);
    if (sent != sizeof one)
        die("write of record %lu: %zd %s", (unsigned long)number, sent, strerrorname_np(errno));
}

// Reads a whole record; returns false at the end.
static bool get_bytes(int fd, struct record *one) {
    size_t had = 0;
    while (had < sizeof *one) {
        ssize_t got = read(fd, (char *)one + had, sizeof *one - had);
        if (got == 0 && had == 0)
            return false;
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            die("read in a record: %zd %s", got, strerrorname_np(errno));
        had += got;
    }
    return true;
}

static bool get_record(int fd, struct record *one) {
    if (!get_bytes(fd, one))
        return false;
    if (one->mark != MARK)
        die("no record, but %08x %08x %016lx", one->mark, one->kind, (unsigned long)one->number);
    return true;
}

// --- handlers that write to the interrupted stream

static volatile uint64_t from_handler;
static volatile bool failed;

static void on_write(int signal) {
    int before = errno;
    struct record one = {MARK, 1, from_handler};
    (void)signal;
    ssize_t sent = write(now->fd, &one, sizeof one);
    if (sent == sizeof one)
        from_handler++;
    else
        failed = true;
    errno = before;
}

static void writes_in_both(struct peer *p) {
    pthread_t thread = begin_storm(p, on_write, SA_RESTART, 20000);
    for (uint64_t i = 0; i < RECORDS || from_handler < 200; i++)
        put_record(p->fd, 0, i);
    end_storm(thread);
    say("every write of a handler was taken: %s", failed ? "no" : "yes");
    MUST(shutdown(p->fd, SHUT_WR));
    char end;
    CALL(read(p->fd, &end, 1));
}

// --- handlers that repeat an interrupted call, and handlers that do not

enum { FEW = 20000, OFTEN = 300 };

static volatile long interrupted;

static void on_patient_write(int signal) {
    int before = errno;
    struct record one = {MARK, 1, from_handler};
    (void)signal;
    ssize_t sent;
    while ((sent = write(now->fd, &one, sizeof one)) < 0 && errno == EINTR) {
    }
    if (sent == sizeof one)
        from_handler++;
    else
        failed = true;
    errno = before;
}

static void on_single_write(int signal) {
    int before = errno;
    struct record one = {MARK, 1, from_handler};
    (void)signal;
    ssize_t sent = write(now->fd, &one, sizeof one);
    if (sent == sizeof one)
        from_handler++;
    else if (sent < 0 && errno == EINTR)
        interrupted++;
    else
        failed = true;
    errno = before;
}

// Signals that arrive during a write. The writer does nothing else.
static void writes_under(struct peer *p, void (*handler)(int)) {
    pthread_t thread = begin_storm(p, handler, SA_RESTART, 50000);
    for (uint64_t i = 0; i < FEW || from_handler + interrupted < OFTEN; i++)
        put_record(p->fd, 0, i);
    end_storm(thread);
    note("%lu writes of handlers taken, %ld interrupted", (unsigned long)from_handler, interrupted);
    say("writes of handlers interrupted: %s", interrupted ? "some" : "none");
    say("every other one taken: %s", failed ? "no" : "yes");
    MUST(shutdown(p->fd, SHUT_WR));
    char end;
    CALL(read(p->fd, &end, 1));
}

static void writes_patiently(struct peer *p) { writes_under(p, on_patient_write); }
static void writes_singly(struct peer *p) { writes_under(p, on_single_write); }

static void counts_in_order(struct peer *p) {
    struct record one;
    uint64_t next[2] = {0, 0};
    while (get_record(p->fd, &one)) {
        if (one.kind > 1 || one.number != next[one.kind])
            die("record %lu of kind %u for %lu", (unsigned long)one.number, one.kind,
                (unsigned long)next[one.kind & 1]);
        next[one.kind]++;
    }
    say("all in order: %d", next[0] >= FEW);
}

static void takes_all(struct peer *p) {
    char bytes[4096];
    ssize_t got;
    while ((got = read(p->fd, bytes, sizeof bytes)) > 0) {
    }
    say("then %zd", got);
}

// --- handlers that look at the interrupted stream

static void on_look(int signal) {
    int before = errno;
    char bytes[8];
    struct pollfd one = {.fd = now->fd, .events = POLLIN | POLLOUT};
    struct timeval none = {0, 0};
    fd_set set;
    (void)signal;
    FD_ZERO(&set);
    FD_SET(now->fd, &set);
    if (poll(&one, 1, 0) < 0 || select(now->fd + 1, &set, NULL, NULL, &none) < 0)
        failed = true;
    if (recv(now->fd, bytes, sizeof bytes, MSG_PEEK | MSG_DONTWAIT) < 0 && errno != EAGAIN)
        failed = true;
    in_time++;
    errno = before;
}

static void reads_in_order(struct peer *p) {
    struct record one;
    uint64_t next[2] = {0, 0};
    pthread_t thread = begin_storm(p, on_look, SA_RESTART, 20000);
    while (get_record(p->fd, &one)) {
        if (one.kind > 1 || one.number != next[one.kind])
            die("record %lu of kind %u for %lu", (unsigned long)one.number, one.kind,
                (unsigned long)next[one.kind & 1]);
        next[one.kind]++;
    }
    end_storm(thread);
    say("all in order: %d", next[0] >= RECORDS && next[1] >= 200);
    say("every look of a handler was answered: %s", failed ? "no" : "yes");
}

// --- handlers that read from the interrupted stream

static unsigned char seen[2 * RECORDS];

// Records arrive whole while fewer bytes than a TCP segment are waiting, so the writer is notified of
// its reader's position.
enum { STEP = 1000 };
static volatile uint64_t highest, told;

static void take(const struct record *one) {
    if (one->mark != MARK || one->number >= 2 * RECORDS || seen[one->number]++)
        failed = true;
    else if (one->number > highest)
        highest = one->number;
}

static void tell_progress(int fd) {
    for (; told < highest / STEP; told++)
        while (write(fd, "+", 1) < 0 && errno == EINTR) {
        }
}

static void on_read(int signal) {
    int before = errno;
    struct record one;
    (void)signal;
    // Records arrive whole, so only whole records are there.
    ssize_t got = recv(now->fd, &one, sizeof one, MSG_DONTWAIT);
    if (got == sizeof one)
        take(&one);
    else if (got != 0 && !(got < 0 && errno == EAGAIN))
        failed = true;
    in_time++;
    errno = before;
}

static void reads_in_both(struct peer *p) {
    pthread_t thread = begin_storm(p, on_read, SA_RESTART, 20000);
    for (;;) {
        struct record one;
        ssize_t got = recv(p->fd, &one, sizeof one, 0);
        if (got < 0 && errno == EINTR)
            continue;
        if (got == 0)
            break;
        if (got != sizeof one)
            die("recv: %zd %s", got, strerrorname_np(errno));
        take(&one);
        tell_progress(p->fd);
    }
    end_storm(thread);
    uint64_t count = 0;
    while (count < 2 * RECORDS && seen[count] == 1)
        count++;
    say("each record was read once: %s", failed || count < 2 * RECORDS ? "no" : "yes");
}

static void writes_records(struct peer *p) {
    char word;
    for (uint64_t i = 0; i < 2 * RECORDS; i++) {
        put_record(p->fd, 0, i);
        if (i % STEP == 0 && i > STEP && read(p->fd, &word, 1) != 1)
            die("no word from the reader");
    }
    if (read(p->fd, &word, 1) != 1)
        die("no last word from the reader");
    MUST(shutdown(p->fd, SHUT_WR));
    CALL(read(p->fd, &word, 1));
}

// --- a handler that closes the descriptor in use

static volatile int other = -1;

static void on_close(int signal) {
    int before = errno;
    (void)signal;
    if (other >= 0)
        close(other);
    other = -1;
    errno = before;
}

static void closes_in_handler(struct peer *p) {
    uint64_t count = 0;
    pthread_t thread = begin_storm(p, on_close, SA_RESTART, 100000);
    for (int i = 0; i < 300; i++) {
        struct record one = {MARK, 0, i};
        int fd = MUST(dup(p->fd));
        other = fd;
        while (write(fd, &one, sizeof one) == sizeof one)
            count++;
        if (errno != EBADF)
            die("write: %s", strerrorname_np(errno));
    }
    end_storm(thread);
    MUST(shutdown(p->fd, SHUT_WR));
    tell(p, count);
    // A handler closes the last descriptor during a wait, which then continues.
    struct sigaction action = {.sa_handler = on_close};
    MUST(sigaction(SIGALRM, &action, NULL));
    other = p->fd;
    struct itimerval soon = {.it_value = {0, 50000}, .it_interval = {1, 0}};
    MUST(setitimer(ITIMER_REAL, &soon, NULL));
    char byte;
    CALL(read(p->fd, &byte, 1));
    soon = (struct itimerval){{0, 0}, {0, 0}};
    MUST(setitimer(ITIMER_REAL, &soon, NULL));
    CALL(fcntl(p->fd, F_GETFD));
    p->fd = -1;
    meet(p);
}

static void counts_records(struct peer *p) {
    struct record one;
    uint64_t count = 0;
    while (get_record(p->fd, &one))
        count++;
    say("as many records as were written: %s", count == hear(p) ? "yes" : "no");
    meet(p);
}

// --- a handler that is the first to use a connection, and interrupts malloc

static volatile sig_atomic_t answered;

static void on_echo(int signal) {
    int before = errno;
    uint64_t out = answered, in = 0;
    (void)signal;
    if (answered < 60 && !failed) {
        if (write(now->fd, &out, sizeof out) != sizeof out ||
            recv(now->fd, &in, sizeof in, MSG_WAITALL) != sizeof in || in != out)
            failed = true;
        answered++;
    }
    errno = before;
}

static void mallocs_meanwhile(struct peer *p) {
    static void *blocks[512];
    uint32_t draw = 1;
    mallopt(M_MMAP_THRESHOLD, 1 << 30);
    pthread_t thread = begin_storm(p, on_echo, SA_RESTART, 30000);
    while (answered < 60 && !failed) {
        draw = draw * 1664525u + 1013904223u;
        void **block = &blocks[draw >> 23];
        free(*block);
        *block = malloc(1 + (draw & 0x3fff));
        **(char *volatile *)block = 1;
    }
    end_storm(thread);
    for (int i = 0; i < 512; i++)
        free(blocks[i]);
    say("%d answers: %s", (int)answered, failed ? "wrong" : "right");
    MUST(shutdown(p->fd, SHUT_WR));
}

static void echoes(struct peer *p) {
    char bytes[4096];
    ssize_t got;
    while ((got = recv(p->fd, bytes, sizeof bytes, 0)) > 0)
        send_all(p->fd, bytes, got);
    say("%zd", got);
}

// --- handlers that do not return

static sigjmp_buf back;
static volatile bool may_jump;

static void on_jump(int signal) {
    (void)signal;
    if (may_jump)
        siglongjmp(back, 1);
}

// The program cannot know how much an abandoned call has sent: records may come twice, but never
// torn, and none is lost.
static void jumps_out_of_writes(struct peer *p) {
    volatile uint64_t number = 0;
    volatile int jumps = 0;
    pthread_t thread = begin_storm(p, on_jump, SA_RESTART, 20000);
    if (sigsetjmp(back, 1))
        jumps++;
    may_jump = true;
    while (number < RECORDS || jumps < 300) {
        struct pollfd one = {.fd = p->fd, .events = POLLIN | POLLOUT};
        put_record(p->fd, 0, number);
        number++;
        if (number % 8 == 0)
            poll(&one, 1, -1);
    }
    may_jump = false;
    end_storm(thread);
    put_record(p->fd, 1, 0);
    say_alive(p->fd, p->server, "afterwards");
}

// A write that is abandoned while it waits for room may have sent a part of its record. The next
// write begins with the same record. Drops such a part from the front of `one`, and reads as many
// bytes again.
static void drop_torn(int fd, struct record *one, uint64_t number) {
    const struct record torn = {MARK, 0, number};
    char *bytes = (char *)one;
    const uint32_t mark = MARK;
    for (size_t part = 1; part < sizeof *one; part++) {
        size_t rest = sizeof *one - part;
        size_t seen = rest < sizeof mark ? rest : sizeof mark;
        if (memcmp(bytes, &torn, part) == 0 && memcmp(bytes + part, &mark, seen) == 0) {
            memmove(bytes, bytes + part, rest);
            recv_all(fd, bytes + rest, part);
            return;
        }
    }
}

static void sees_no_gap(struct peer *p) {
    struct record one;
    uint64_t last = 0;
    while (get_bytes(p->fd, &one)) {
        bool is_last = one.kind == 1 && one.number == 0;
        bool is_next = one.kind == 0 && (one.number == last || one.number == last + 1);
        if (one.mark != MARK || (!is_last && !is_next))
            drop_torn(p->fd, &one, last + 1);
        if (one.mark != MARK)
            die("no record, but %08x %08x %016lx", one.mark, one.kind, (unsigned long)one.number);
        if (one.kind != 0)
            break;
        if (one.number != last && one.number != last + 1)
            die("record %lu after %lu", (unsigned long)one.number, (unsigned long)last);
        last = one.number;
    }
    say("no gap, and the end came");
    say_alive(p->fd, p->server, "afterwards");
}

static void (*volatile jump)(jmp_buf, int);

static void on_jump_by(int signal) {
    (void)signal;
    if (may_jump)
        jump(back, 1);
}

// Deeper on the stack than a handler that has interrupted the caller.
__attribute__((noinline)) static int polls_deep(struct pollfd *one) {
    volatile char room[1 << 16];
    room[0] = 1;
    return poll(one, 1, -1) - 1 + room[0];
}

extern void __longjmp_chk(jmp_buf, int);

// Each function jumps out of calls that are made from deep on the stack. Each call must work as outside of
// handlers.
static void jumps_out_of_deep_calls(struct peer *p) {
    static struct record one;
    static void (*const all[])(jmp_buf, int) = {longjmp, _longjmp, siglongjmp, __longjmp_chk};
    volatile int jumps = 0;
    jump = all[0];
    pthread_t thread = begin_storm(p, on_jump_by, SA_RESTART | SA_NODEFER, 50000);
    if (sigsetjmp(back, 1))
        jump = all[++jumps % 4];
    may_jump = true;
    for (;;) {
        struct pollfd ready = {.fd = p->fd, .events = POLLIN};
        if (polls_deep(&ready) < 0)
            continue;
        ssize_t got = recv(p->fd, &one, sizeof one, MSG_DONTWAIT);
        if (got == 0)
            break;
        if (got > 0) {
            may_jump = false;
            highest = one.number;
            tell_progress(p->fd);
            may_jump = true;
        }
    }
    may_jump = false;
    end_storm(thread);
    say("left by jumps: %d", jumps > 0);
}

// Records that an abandoned call had taken are lost, as over the kernel. The others are in order.
static void jumps_out_of_reads(struct peer *p) {
    static struct record one;
    static volatile uint64_t last;
    volatile int jumps = 0;
    pthread_t thread = begin_storm(p, on_jump, SA_RESTART, 50000);
    if (sigsetjmp(back, 1))
        jumps++;
    may_jump = true;
    for (;;) {
        struct pollfd ready = {.fd = p->fd, .events = POLLIN};
        if (poll(&ready, 1, -1) < 0)
            continue;
        ssize_t got = recv(p->fd, &one, sizeof one, MSG_DONTWAIT);
        if (got < 0 && (errno == EAGAIN || errno == EINTR))
            continue;
        if (got == 0)
            break;
        if (got != sizeof one || one.mark != MARK || (last && one.number <= last))
            die("%zd bytes, record %lu after %lu", got, (unsigned long)one.number,
                (unsigned long)last);
        last = highest = one.number;
        may_jump = false;
        tell_progress(p->fd);
        may_jump = true;
    }
    may_jump = false;
    end_storm(thread);
    say("in order to the end, left by jumps: %d", jumps > 0);
}

// --- threads that are cancelled while they move bytes

static volatile uint64_t cancelled_number;

static void *writes_for_ever(void *argument) {
    struct peer *p = argument;
    for (;;) {
        put_record(p->fd, 0, cancelled_number);
        cancelled_number++;
    }
    return NULL;
}

static void cancels_writers(struct peer *p) {
    int done = 0;
    for (int i = 0; i < 300; i++) {
        pthread_t thread;
        void *result;
        if (pthread_create(&thread, NULL, writes_for_ever, p))
            die("no thread");
        usleep(100 + i * 7);
        pthread_cancel(thread);
        pthread_join(thread, &result);
        done += result == PTHREAD_CANCELED;
    }
    put_record(p->fd, 1, 0);
    say("%d cancelled", done);
    say_alive(p->fd, p->server, "afterwards");
}

static void *reads_for_ever(void *argument) {
    static char bytes[256];
    struct peer *p = argument;
    for (;;)
        if (read(p->fd, bytes, sizeof bytes) <= 0)
            pause();
    return NULL;
}

static void cancels_readers(struct peer *p) {
    int done = 0;
    for (int i = 0; i < 300; i++) {
        pthread_t thread;
        void *result;
        if (pthread_create(&thread, NULL, reads_for_ever, p))
            die("no thread");
        usleep(100 + i * 7);
        pthread_cancel(thread);
        pthread_join(thread, &result);
        done += result == PTHREAD_CANCELED;
    }
    say("%d cancelled", done);
    tell(p, 0);
    // Reads the rest up to its mark.
    static char bytes[65536];
    bool over = false;
    while (!over) {
        ssize_t got = recv(p->fd, bytes, sizeof bytes, 0);
        if (got <= 0)
            die("recv: %zd", got);
        over = bytes[got - 1] == '!';
    }
    say_alive(p->fd, p->server, "afterwards");
}

static void *waits_to_be_told(void *argument) {
    hear(argument);
    storming = false;
    return NULL;
}

static void feeds_until_told(struct peer *p) {
    pthread_t thread;
    storming = true;
    if (pthread_create(&thread, NULL, waits_to_be_told, p))
        die("no thread");
    while (storming)
        send_all(p->fd, "some bytes to be read", 21);
    pthread_join(thread, NULL);
    send_all(p->fd, "the end!", 8);
    say_alive(p->fd, p->server, "afterwards");
}

static const struct scenario scenarios[] = {
    {"handlers_write_what_they_interrupt", reads_in_order, writes_in_both},
    {"handlers_write_until_it_is_taken", counts_in_order, writes_patiently},
    {"handlers_writes_are_not_interrupted", takes_all, writes_singly},
    {"handlers_read_what_they_interrupt", writes_records, reads_in_both},
    {"handlers_close_what_they_interrupt", counts_records, closes_in_handler},
    {"a_handler_is_the_first_to_write", echoes, mallocs_meanwhile, COLD},
    {"jumping_out_of_writes", sees_no_gap, jumps_out_of_writes},
    {"jumping_out_of_reads", writes_records, jumps_out_of_reads},
    {"jumping_out_of_deep_calls", writes_records, jumps_out_of_deep_calls},
    {"cancelling_writers", sees_no_gap, cancels_writers},
    {"cancelling_readers", feeds_until_told, cancels_readers},
};
SCENARIO_MAIN(scenarios)
