#include "common.h"
#include <dirent.h>
#include <dlfcn.h>
#include <sys/syscall.h>

static int transcript = 1;
// Milliseconds after which a missing event counts as lost, however busy the machine is.
enum { FOR_EVER = 60000 };

// --- the transcript

static void put_line(const char *format, va_list arguments) {
    char line[2048];
    int count = vsnprintf(line, sizeof line - 1, format, arguments);
    if (count > (int)sizeof line - 2)
        count = sizeof line - 2;
    line[count++] = '\n';
    if (write(transcript, line, count) != count)
        _exit(3);
}

void say(const char *format, ...) {
    int saved = errno;
    va_list arguments;
    va_start(arguments, format);
    put_line(format, arguments);
    va_end(arguments);
    errno = saved;
}

void die(const char *format, ...) {
    char line[1024] = "FAILED: ";
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(line + 8, sizeof line - 8, format, arguments);
    va_end(arguments);
    say("%s", line);
    _exit(1);
}

void note(const char *format, ...) {
    char line[500];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(line, sizeof line, format, arguments);
    va_end(arguments);
    dprintf(2, "note: %s\n", line);
}

void report(const char *call, long result, int error) {
    if (result < 0)
        say("%s = %ld %s", call, result, strerrorname_np(error));
    else
        say("%s = %ld", call, result);
}

void say_text(const char *what, const void *bytes, long count) {
    if (count < 0)
        say("%s: nothing", what);
    else
        say("%s: %ld '%.*s'", what, count, (int)count, (const char *)bytes);
}

struct bit {
    uint32_t mask;
    const char *name;
};

static const char *bit_names(uint32_t mask, const struct bit *bits, size_t count) {
    static __thread char text[200];
    text[0] = 0;
    for (size_t i = 0; i < count; i++) {
        if (mask & bits[i].mask) {
            strcat(strcat(text, text[0] ? "|" : ""), bits[i].name);
            mask &= ~bits[i].mask;
        }
    }
    if (mask)
        snprintf(text + strlen(text), 30, "|%#x", mask);
    return text[0] ? text : "none";
}

// Report IN together with RDNORM, which the kernel always sets with it.
const char *poll_names(int mask) {
    static const struct bit bits[] = {
        {POLLIN, "IN"},           {POLLPRI, "PRI"},       {POLLOUT, "OUT"},
        {POLLERR, "ERR"},         {POLLHUP, "HUP"},       {POLLNVAL, "NVAL"},
        {POLLRDHUP, "RDHUP"},     {POLLRDNORM, "RDNORM"}, {POLLRDBAND, "RDBAND"},
        {POLLWRNORM, "WRNORM"},   {POLLWRBAND, "WRBAND"},
    };
    return bit_names((uint32_t)mask & 0xffff, bits, sizeof bits / sizeof bits[0]);
}

const char *epoll_names(uint32_t mask) { return poll_names((int)mask); }

void say_status(const char *who, int status) {
    if (WIFSIGNALED(status))
        say("%s: killed by SIG%s", who, sigabbrev_np(WTERMSIG(status)));
    else
        say("%s: exit %d", who, WEXITSTATUS(status));
}

void reap(const char *who, pid_t child) {
    int status;
    MUST(waitpid(child, &status, __WALL));
    say_status(who, status);
}

// --- meeting

static socklen_t loopback(int family, int port, struct sockaddr_storage *address) {
    memset(address, 0, sizeof *address);
    if (family == AF_INET6) {
        struct sockaddr_in6 *in6 = (struct sockaddr_in6 *)address;
        in6->sin6_family = AF_INET6;
        in6->sin6_addr = in6addr_loopback;
        in6->sin6_port = htons(port);
        return sizeof *in6;
    }
    struct sockaddr_in *in = (struct sockaddr_in *)address;
    in->sin_family = AF_INET;
    in->sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    in->sin_port = htons(port);
    return sizeof *in;
}

int listen_on(struct peer *p, int family, const char *port_file) {
    struct sockaddr_storage address;
    socklen_t length = loopback(family, 0, &address);
    int fd = MUST(socket(family, SOCK_STREAM, 0));
    MUST(bind(fd, (struct sockaddr *)&address, length));
    MUST(listen(fd, 128));
    MUST(getsockname(fd, (struct sockaddr *)&address, &length));
    // sin_port and sin6_port have the same offset.
    int port = ntohs(((struct sockaddr_in *)&address)->sin_port);
    char path[512], fresh[520];
    snprintf(path, sizeof path, "%s/%s", p->dir, port_file);
    snprintf(fresh, sizeof fresh, "%s.new", path);
    FILE *file = fopen(fresh, "w");
    if (!file)
        die("cannot write %s", fresh);
    fprintf(file, "%d\n", port);
    fclose(file);
    MUST(rename(fresh, path));
    return fd;
}

int port_of(struct peer *p, const char *port_file) {
    char path[512];
    snprintf(path, sizeof path, "%s/%s", p->dir, port_file);
    for (int64_t start = now_ms(); now_ms() - start < FOR_EVER;) {
        FILE *file = fopen(path, "r");
        int port = 0;
        if (file) {
            int got = fscanf(file, "%d", &port);
            fclose(file);
            if (got == 1)
                return port;
        }
        nap(2);
    }
    die("no server has left its port");
}

int connect_to(struct peer *p, int family, const char *port_file) {
    struct sockaddr_storage address;
    socklen_t length = loopback(family, port_of(p, port_file), &address);
    int fd = MUST(socket(family, SOCK_STREAM, 0));
    MUST(connect(fd, (struct sockaddr *)&address, length));
    return fd;
}

int accept_one(int listener) {
    int fd = accept(listener, NULL, NULL);
    if (fd < 0)
        die("accept: %s", strerrorname_np(errno));
    return fd;
}

static int warm_rounds(void) {
    const char *text = getenv("SOVIA_TEST_WARMUP");
    return text ? atoi(text) : 20;
}

// First part of the engine's information about a connection (crates/sockets/src/native.rs).
struct info {
    uint32_t state;
    uint32_t rest[15];
};
enum { MEETING = 1, VIA = 2, TABLE_VERSIONS = 32, ROUNDS_UNTIL_MET = 1000000, ROUNDS_IN_VAIN = 8192 };

typedef void (*ask)(int, struct info *);

// Returns the engine's function for information, or NULL if the process has no engine.
static ask engine(void) {
    const ask *(*table)(uint32_t) = (const ask *(*)(uint32_t))dlsym(RTLD_DEFAULT, "sovia_native");
    for (uint32_t version = 0; table && version < TABLE_VERSIONS; version++) {
        const ask *first = table(version);
        if (first)
            return first[0];
    }
    return NULL;
}

static uint32_t state_of(int fd) {
    struct info info = {0};
    if (engine())
        engine()(fd, &info);
    return info.state;
}

// Returns true if the connection's ends have met, or never will.
static bool has_met(int fd) { return state_of(fd) != MEETING; }

static bool is_on_vi(int fd) { return state_of(fd) == VIA; }

static void warm_until(int fd, bool server, bool (*is_so)(int fd)) {
    enum { OVER, SO, HAS_ENGINE, LENGTH };
    char buffer[LENGTH] = {0};
    int decided = 0;
    for (int i = 0; !buffer[OVER]; i++) {
        // The client decides, by its own state and the server's answers. If an end has no engine, there is nothing
        // to wait for.
        bool both = i > 0 && buffer[HAS_ENGINE] && engine();
        decided = buffer[SO] ? decided + 1 : 0;
        // A client gives up a silent server after 131,072 rounds, which takes seconds. After that the ends never
        // meet.
        bool vain = is_so == has_met && decided > ROUNDS_IN_VAIN;
        buffer[OVER] = i > 0 && (!both || (buffer[SO] && is_so(fd)) || vain);
        if (!server)
            send_all(fd, buffer, sizeof buffer);
        recv_all(fd, buffer, sizeof buffer);
        if (server) {
            buffer[SO] = is_so(fd);
            buffer[HAS_ENGINE] = engine() != NULL;
            send_all(fd, buffer, sizeof buffer);
        }
        if (i > ROUNDS_UNTIL_MET)
            die("the ends have neither met nor given up after %d rounds", i);
    }
}

void warm_until_met(int fd, bool server) { warm_until(fd, server, has_met); }

void warm_until_on_vi(int fd, bool server) { warm_until(fd, server, is_on_vi); }

void warm(int fd, bool server) {
    char buffer[64] = "warm-up";
    if (getenv("SOVIA_TEST_UNTIL_MET"))
        warm_until_met(fd, server);
    for (int i = 0; i < warm_rounds(); i++) {
        if (!server)
            send_all(fd, buffer, sizeof buffer);
        recv_all(fd, buffer, sizeof buffer);
        if (server)
            send_all(fd, buffer, sizeof buffer);
    }
}

void warm_both(int one, int other) {
    char buffer[64] = "warm-up";
    bool has_to = getenv("SOVIA_TEST_UNTIL_MET") != NULL;
    for (int i = 0; has_to && i < ROUNDS_UNTIL_MET && !(has_met(one) && has_met(other)); i++) {
        send_all(one, buffer, sizeof buffer);
        recv_all(other, buffer, sizeof buffer);
        send_all(other, buffer, sizeof buffer);
        recv_all(one, buffer, sizeof buffer);
    }
    for (int i = 0; i < warm_rounds(); i++) {
        send_all(one, buffer, sizeof buffer);
        recv_all(other, buffer, sizeof buffer);
        send_all(other, buffer, sizeof buffer);
        recv_all(one, buffer, sizeof buffer);
    }
}

// --- the side channel: two FIFOs, so that no socket is involved

static int open_fifo(const char *dir, const char *name) {
    char path[512];
    snprintf(path, sizeof path, "%s/%s", dir, name);
    if (mkfifo(path, 0600) < 0 && errno != EEXIST)
        die("mkfifo %s: %s", path, strerrorname_np(errno));
    int fd = MUST(open(path, O_RDWR | O_CLOEXEC));
    // Use high numbers, because scenarios look at descriptor numbers.
    int high = MUST(fcntl(fd, F_DUPFD_CLOEXEC, 200));
    close(fd);
    return high;
}

void tell(struct peer *p, uint64_t value) {
    if (write(p->tell, &value, sizeof value) != sizeof value)
        die("side channel: %s", strerrorname_np(errno));
}

uint64_t hear(struct peer *p) {
    uint64_t value;
    ssize_t got;
    while ((got = read(p->hear, &value, sizeof value)) < 0 && errno == EINTR)
        ;
    if (got != sizeof value)
        die("side channel: %s", strerrorname_np(errno));
    return value;
}

void meet(struct peer *p) {
    tell(p, 0);
    hear(p);
}

// --- the entry

// Accepts a first connection, so that this process and the client's share a segment. With `worker`, does so in
// a process that stays until the scenario is over, and has no other part in it.
static void accept_first(struct peer *p, bool worker) {
    int ready[2], over[2];
    if (worker) {
        MUST(pipe2(ready, O_CLOEXEC));
        MUST(pipe2(over, O_CLOEXEC));
        pid_t child = MUST(fork());
        if (child != 0) {
            char byte;
            close(ready[1]);
            close(over[0]);
            MUST(waitpid(child, NULL, 0));
            if (read(ready[0], &byte, 1) != 1)
                die("the worker has not accepted");
            close(ready[0]);
            // `over[1]` is closed by the end of this process and its children.
            MUST(fcntl(over[1], F_DUPFD_CLOEXEC, 300));
            close(over[1]);
            return;
        }
        // A grandchild, for which the scenario does not wait.
        if (MUST(fork()) != 0)
            _exit(0);
        close(over[1]);
    }
    int fd = accept_one(p->listener);
    warm_until_met(fd, true);
    // The client closes first, so that the listener's address does not stay in use here.
    char byte;
    if (recv(fd, &byte, 1, 0) != 0)
        die("the first connection has not ended");
    close(fd);
    if (worker) {
        close(p->listener);
        close(p->hear);
        close(p->tell);
        MUST(write(ready[1], "", 1));
        close(ready[1]);
        read(over[0], &byte, 1);
        _exit(0);
    }
}

static void run_pair(struct peer *p, const struct scenario *s) {
    const char *known = getenv("SOVIA_TEST_KNOWN");
    int family = s->flags & V6 ? AF_INET6 : AF_INET;
    p->hear = open_fifo(p->dir, p->server ? "to-server" : "to-client");
    p->tell = open_fifo(p->dir, p->server ? "to-client" : "to-server");
    if (!(s->flags & RAW)) {
        if (p->server) {
            p->listener = listen_on(p, family, "port");
            if (known)
                accept_first(p, strcmp(known, "worker") == 0);
            p->fd = accept_one(p->listener);
        } else {
            if (known) {
                int first = connect_to(p, family, "port");
                warm_until_met(first, false);
                close(first);
            }
            p->fd = connect_to(p, family, "port");
        }
        if (!(s->flags & COLD))
            warm(p->fd, p->server);
    }
    (p->server ? s->server : s->client)(p);
}

static void run_both(struct peer *p, const struct scenario *s) {
    p->listener = listen_on(p, s->flags & V6 ? AF_INET6 : AF_INET, "port");
    p->other = connect_to(p, s->flags & V6 ? AF_INET6 : AF_INET, "port");
    p->fd = accept_one(p->listener);
    if (!(s->flags & COLD))
        warm_both(p->other, p->fd);
    s->server(p);
}

int scenario_main(int argc, char **argv, const struct scenario *all, size_t count) {
    if (argc < 4) {
        fprintf(stderr, "usage: %s server|client|both DIR CASE\n", argv[0]);
        return 2;
    }
    // Scenarios may replace standard output by a socket.
    transcript = MUST(fcntl(1, F_DUPFD, 210));
    struct peer p = {.server = strcmp(argv[1], "client") != 0,
                     .self = argv[0],
                     .dir = argv[2],
                     .name = argv[3],
                     .listener = -1,
                     .fd = -1};
    for (size_t i = 0; i < count; i++) {
        if (strcmp(all[i].name, argv[3]) == 0) {
            if (strcmp(argv[1], "both") == 0)
                run_both(&p, &all[i]);
            else
                run_pair(&p, &all[i]);
            say("end");
            return 0;
        }
    }
    fprintf(stderr, "%s: no case %s\n", argv[0], argv[3]);
    return 2;
}

// --- time

void nap(int milliseconds) {
    struct timespec left = {milliseconds / 1000, milliseconds % 1000 * 1000000L};
    while (nanosleep(&left, &left) < 0 && errno == EINTR)
        ;
}

int64_t now_ms(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

void await_bytes(int fd, int count) {
    int there = 0;
    for (int64_t start = now_ms(); now_ms() - start < FOR_EVER;) {
        MUST(ioctl(fd, FIONREAD, &there));
        if (there >= count)
            return;
        nap(1);
    }
    die("only %d of %d bytes have arrived", there, count);
}

int await_events(int fd, short events, short wanted) {
    struct pollfd one = {.fd = fd, .events = events};
    for (int64_t start = now_ms(); now_ms() - start < FOR_EVER;) {
        MUST(poll(&one, 1, 5000));
        if ((one.revents & wanted) == wanted)
            return one.revents;
        nap(1);
    }
    die("events stay at %s", poll_names(one.revents));
}

static bool others_sleep(void) {
    DIR *threads = opendir("/proc/self/task");
    bool sleep = true;
    if (!threads)
        die("no /proc/self/task");
    for (struct dirent *entry; sleep && (entry = readdir(threads));) {
        char path[300], text[300], *name_end;
        if (entry->d_name[0] == '.' || atoi(entry->d_name) == gettid())
            continue;
        snprintf(path, sizeof path, "/proc/self/task/%s/stat", entry->d_name);
        FILE *file = fopen(path, "r");
        // A thread that has ended meanwhile counts as asleep.
        if (file && fgets(text, sizeof text, file) && (name_end = strrchr(text, ')')))
            sleep = name_end[2] == 'S';
        if (file)
            fclose(file);
    }
    closedir(threads);
    return sleep;
}

void await_rest(void) {
    for (int64_t start = now_ms(); !others_sleep(); nap(1))
        if (now_ms() - start > FOR_EVER)
            die("a thread does not come to rest");
}

void set_nonblocking(int fd, bool on) {
    int flags = MUST(fcntl(fd, F_GETFL));
    MUST(fcntl(fd, F_SETFL, on ? flags | O_NONBLOCK : flags & ~O_NONBLOCK));
}

void say_elapsed(int64_t since, int at_least, int at_most) {
    int64_t took = now_ms() - since;
    if (took >= at_least && took <= at_most)
        say("in time");
    else
        say("took %lld ms, not %d to %d", (long long)took, at_least, at_most);
}

void hand_over(int channel, int fd) {
    char control[CMSG_SPACE(sizeof fd)] = {0};
    struct iovec word = {"take it", 7};
    struct msghdr message = {
        .msg_iov = &word, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof control};
    struct cmsghdr *header = CMSG_FIRSTHDR(&message);
    *header = (struct cmsghdr){.cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS, .cmsg_len = CMSG_LEN(sizeof fd)};
    memcpy(CMSG_DATA(header), &fd, sizeof fd);
    if (sendmsg(channel, &message, 0) != 7)
        die("handing over: %s", strerrorname_np(errno));
}

int take_over(int channel, int flags) {
    char control[CMSG_SPACE(sizeof(int))], word[10];
    struct iovec in = {word, sizeof word};
    struct msghdr message = {
        .msg_iov = &in, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof control};
    if (recvmsg(channel, &message, flags) != 7)
        die("taking over: %s", strerrorname_np(errno));
    struct cmsghdr *header = CMSG_FIRSTHDR(&message);
    int fd = -1;
    if (!header || header->cmsg_type != SCM_RIGHTS)
        die("nothing came with it");
    memcpy(&fd, CMSG_DATA(header), sizeof fd);
    return fd;
}

void await_stopped(pid_t process) {
    char path[50], state = 0;
    snprintf(path, sizeof path, "/proc/%d/stat", process);
    while (state != 'T') {
        FILE *stat = fopen(path, "r");
        if (!stat || fscanf(stat, "%*d %*s %c", &state) != 1)
            die("no state of %d", process);
        fclose(stat);
    }
}

// --- descriptors

long call_inline(long number, long first, long second, long third) {
#if defined __x86_64__
    long result;
    register long fourth __asm__("r10") = 0, fifth __asm__("r8") = 0;
    __asm__ volatile("syscall"
                     : "=a"(result)
                     : "a"(number), "D"(first), "S"(second), "d"(third), "r"(fourth), "r"(fifth)
                     : "rcx", "r11", "memory");
#elif defined __aarch64__
    register long result __asm__("x0") = first, second_ __asm__("x1") = second, third_ __asm__("x2") = third;
    register long fourth __asm__("x3") = 0, fifth __asm__("x4") = 0, number_ __asm__("x8") = number;
    __asm__ volatile("svc 0"
                     : "+r"(result)
                     : "r"(second_), "r"(third_), "r"(fourth), "r"(fifth), "r"(number_)
                     : "memory");
#else
#error another processor
#endif
    return result;
}

void close_inline(int fd) {
    long result = call_inline(SYS_close, fd, 0, 0);
    if (result < 0)
        die("close: %ld", result);
}
