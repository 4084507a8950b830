// Programs with just the resources that they need: few descriptors, little address space, no large
// files, no /proc. Also more connections than a segment has VIs, and more processes than one
// process can share segments with.
#include "common.h"
#include <dirent.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/resource.h>

enum { MESSAGE = 3000, ROUNDS = 12 };

// --- a server with one thread. It needs a descriptor for each connection, one for the epoll
// instance, and one for the listener

static void serve(int listener, int connections) {
    struct epoll_event event = {.events = EPOLLIN}, events[64];
    int set = MUST(epoll_create1(0)), open = 0, accepted = 0;
    event.data.fd = listener;
    MUST(epoll_ctl(set, EPOLL_CTL_ADD, listener, &event));
    while (accepted < connections || open > 0) {
        int count = MUST(epoll_wait(set, events, 64, 60000));
        if (count == 0)
            die("%d connections are left, and nothing happens", open);
        for (int i = 0; i < count; i++) {
            static char buffer[MESSAGE];
            int fd = events[i].data.fd;
            if (fd == listener) {
                event.data.fd = accept_one(listener);
                MUST(epoll_ctl(set, EPOLL_CTL_ADD, event.data.fd, &event));
                open++;
                accepted++;
                continue;
            }
            ssize_t got = recv(fd, buffer, sizeof buffer, 0);
            if (got > 0) {
                send_all(fd, buffer, got);
            } else {
                close(fd);
                open--;
            }
        }
    }
    close(set);
}

static void converse_for(int *fds, int count, int rounds) {
    static char out[MESSAGE], in[MESSAGE];
    for (int round = 0; round < rounds; round++)
        for (int i = 0; i < count; i++) {
            size_t size = round % 3 ? 10 + i % 50 : MESSAGE;
            fill(out, size, (uint64_t)i * 100 + round);
            send_all(fds[i], out, size);
            recv_all(fds[i], in, size);
            if (memcmp(out, in, size))
                die("connection %d, round %d: wrong bytes", i, round);
        }
}

static void converse(int *fds, int count) {
    converse_for(fds, count, ROUNDS);
}

static void connect_all(struct peer *p, int *fds, int count) {
    for (int i = 0; i < count; i++)
        fds[i] = connect_to(p, AF_INET, "port");
}

static void close_all(int *fds, int count) {
    for (int i = 0; i < count; i++)
        close(fds[i]);
}

// --- limits that hold from the program's first instruction on

static void limit(int resource, rlim_t value) {
    struct rlimit limits = {value, value};
    MUST(setrlimit(resource, &limits));
}

// Starts the program again under limits, unless it runs under them already.
static void again_under(struct peer *p, int resource, rlim_t value) {
    if (getenv("SOVIA_TESTS_LIMITED"))
        return;
    limit(resource, value);
    setenv("SOVIA_TESTS_LIMITED", "yes", 1);
    char *argv[] = {(char *)p->self, p->server ? "server" : "client", (char *)p->dir,
                    (char *)p->name, NULL};
    execv("/proc/self/exe", argv);
    die("execv: %s", strerrorname_np(errno));
}

enum { FEW = 20 };

static void plain_server(struct peer *p) {
    serve(listen_on(p, AF_INET, "port"), FEW);
    say("%d connections served", FEW);
}

static void plain_client(struct peer *p) {
    int fds[FEW];
    connect_all(p, fds, FEW);
    converse(fds, FEW);
    close_all(fds, FEW);
    say("%d connections carried everything", FEW);
}

#define UNDER(name, resource, value)                                           \
    static void server_##name(struct peer *p) {                                \
        again_under(p, resource, value);                                       \
        plain_server(p);                                                       \
    }                                                                          \
    static void client_##name(struct peer *p) {                                \
        again_under(p, resource, value);                                       \
        plain_client(p);                                                       \
    }

UNDER(address_space, RLIMIT_AS, 1L << 30)
UNDER(less_address_space, RLIMIT_AS, 100L << 20)
UNDER(file_size, RLIMIT_FSIZE, 1 << 20)
UNDER(locked_memory, RLIMIT_MEMLOCK, 0)
UNDER(processes, RLIMIT_NPROC, 1)

// --- descriptors: those of the program add up to exactly its limit

enum { OWN = 60, SIDE_CHANNEL = 256 };

// The side channel and the transcript have numbers above 200, and stay.
static void only_so_many(int count) {
    struct rlimit limits;
    MUST(getrlimit(RLIMIT_NOFILE, &limits));
    // Uses every number that the connections must not get.
    int highest = SIDE_CHANNEL;
    limits.rlim_cur = limits.rlim_max = highest;
    MUST(setrlimit(RLIMIT_NOFILE, &limits));
    int null = MUST(open("/dev/null", O_RDONLY)), last = null, used = 0;
    static int taken[SIDE_CHANNEL];
    while ((last = dup(null)) >= 0)
        taken[used++] = last;
    if (errno != EMFILE || used < count)
        die("%d descriptors are too few for this test", used);
    for (int i = 0; i < count; i++)
        close(taken[i]);
}

static void server_descriptors(struct peer *p) {
    int listener = listen_on(p, AF_INET, "port");
    // One more for the epoll instance.
    only_so_many(OWN + 1);
    serve(listener, OWN);
    say("%d connections served", OWN);
}

static void client_descriptors(struct peer *p) {
    int fds[OWN];
    port_of(p, "port");
    // One more for the file with the port.
    only_so_many(OWN + 1);
    connect_all(p, fds, OWN);
    converse(fds, OWN);
    close_all(fds, OWN);
    say("%d connections carried everything", OWN);
}

// Connections are in different states when the limit is reached.
static void client_descriptors_one_by_one(struct peer *p) {
    int fds[OWN];
    port_of(p, "port");
    only_so_many(OWN + 1);
    for (int i = 0; i < OWN; i++) {
        connect_all(p, fds + i, 1);
        converse(fds, i + 1);
    }
    close_all(fds, OWN);
    say("%d connections carried everything", OWN);
}

// Opens as many as the limit allows: most connections are warm before the last one is opened.
enum { ALL = 100 };

static int free_numbers(void) {
    static int taken[ALL];
    int count = 0, null = MUST(open("/dev/null", O_RDONLY));
    while ((taken[count] = dup(null)) >= 0)
        count++;
    close_all(taken, count);
    close(null);
    return count + 1;
}

static void server_every_descriptor(struct peer *p) {
    int listener = listen_on(p, AF_INET, "port");
    serve(listener, hear(p));
    say("served");
}

static void client_every_descriptor(struct peer *p) {
    struct rlimit limits = {ALL, ALL};
    int fds[ALL], count = 0, port = port_of(p, "port");
    // The side channel and the transcript have higher numbers, and stay.
    MUST(setrlimit(RLIMIT_NOFILE, &limits));
    int expected = free_numbers();
    tell(p, expected);
    for (;;) {
        struct sockaddr_in address = {.sin_family = AF_INET,
                                      .sin_addr.s_addr = htonl(INADDR_LOOPBACK),
                                      .sin_port = htons(port)};
        int fd = socket(AF_INET, SOCK_STREAM, 0);
        if (fd < 0)
            break;
        MUST(connect(fd, (struct sockaddr *)&address, sizeof address));
        fds[count++] = fd;
        converse(fds, count);
    }
    say("%s connections, then %s", count == expected ? "as many" : "FEWER",
        strerrorname_np(errno));
    close_all(fds, count);
}

// --- a forked child in which no thread can be started, and no descriptor be made

// Rounds after which two processes have met for the first time.
enum { RECEIVES, POLLS, WAITS, LOOKS, WAYS, LONG = 200 };

static void server_child_without_a_thread(struct peer *p) {
    static char buffer[MESSAGE];
    int listener = listen_on(p, AF_INET, "port");
    for (int way = 0; way < WAYS; way++) {
        int fd = accept_one(listener);
        for (int round = 0; round < LONG; round++) {
            size_t size = round % 3 ? 10 : MESSAGE;
            recv_all(fd, buffer, size);
            send_all(fd, buffer, size);
        }
        hear(p);
        // The child sleeps by then.
        usleep(100000);
        struct linger reset = {1, 0};
        MUST(setsockopt(fd, SOL_SOCKET, SO_LINGER, &reset, sizeof reset));
        close(fd);
    }
    say("%d connections were reset", WAYS);
}

// Returns the error with which the connection ends.
static int end_of(struct peer *p, int fd, int way) {
    struct epoll_event event = {.events = EPOLLIN};
    struct pollfd poll_for = {fd, POLLIN, 0};
    int set = MUST(epoll_create1(0));
    char byte;
    // Before any call about the connection, which would start a thread.
    only_so_many(0);
    tell(p, way);
    if (way == POLLS)
        MUST(poll(&poll_for, 1, -1));
    if (way == WAITS) {
        MUST(epoll_ctl(set, EPOLL_CTL_ADD, fd, &event));
        MUST(epoll_wait(set, &event, 1, -1));
    }
    int flags = way == RECEIVES ? 0 : MSG_DONTWAIT;
    while (recv(fd, &byte, 1, flags) >= 0 || errno == EAGAIN)
        usleep(10000);
    return errno;
}

static void client_child_without_a_thread(struct peer *p) {
    static const char *const names[] = {"receives", "polls", "waits", "looks"};
    for (int way = 0; way < WAYS; way++) {
        int fd = connect_to(p, AF_INET, "port"), status;
        converse_for(&fd, 1, LONG);
        pid_t child = MUST(fork());
        if (child == 0)
            _exit(end_of(p, fd, way));
        close(fd);
        MUST(waitpid(child, &status, 0));
        say("a child that %s: %s", names[way], strerrorname_np(WEXITSTATUS(status)));
    }
}

// --- without /proc

static void hide_proc(struct peer *p) {
    if (getenv("SOVIA_TESTS_LIMITED"))
        return;
    char self[512];
    ssize_t got = readlink("/proc/self/exe", self, sizeof self - 1);
    if (got < 0)
        die("readlink: %s", strerrorname_np(errno));
    self[got] = 0;
    if (unshare(CLONE_NEWNS) == 0 && mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0 &&
        mount("none", "/proc", "tmpfs", 0, NULL) == 0)
        note("%s: /proc is hidden", p->name);
    setenv("SOVIA_TESTS_LIMITED", "yes", 1);
    char *argv[] = {self, p->server ? "server" : "client", (char *)p->dir, (char *)p->name, NULL};
    execv(self, argv);
    die("execv: %s", strerrorname_np(errno));
}

static void server_no_proc(struct peer *p) {
    hide_proc(p);
    plain_server(p);
}

static void client_no_proc(struct peer *p) {
    hide_proc(p);
    plain_client(p);
}

// --- many

enum { MANY = 2000, CLIENTS = 300, WARM_CLIENTS = 40 };

static void enough_descriptors(void) {
    struct rlimit limits;
    MUST(getrlimit(RLIMIT_NOFILE, &limits));
    limits.rlim_cur = limits.rlim_max;
    MUST(setrlimit(RLIMIT_NOFILE, &limits));
    if (limits.rlim_cur < MANY + 100)
        die("only %ld descriptors", (long)limits.rlim_cur);
}

static void server_many(struct peer *p) {
    enough_descriptors();
    serve(listen_on(p, AF_INET, "port"), MANY);
    say("%d connections served", MANY);
}

static void client_many(struct peer *p) {
    static int fds[MANY];
    enough_descriptors();
    connect_all(p, fds, MANY);
    converse(fds, MANY);
    close_all(fds, MANY);
    say("%d connections carried everything", MANY);
}

static void client_many_for_long(struct peer *p) {
    static int fds[MANY];
    enough_descriptors();
    connect_all(p, fds, MANY);
    converse_for(fds, MANY, 60);
    close_all(fds, MANY);
    say("%d connections carried everything", MANY);
}

// --- threads with the smallest stacks: connecting, meeting and moving bytes

enum { SMALLEST = 16384 };

static void *converses(void *argument) {
    static int fds[FEW];
    struct peer *p = argument;
    connect_all(p, fds, FEW);
    for (int i = 0; i < 60; i++) {
        struct pollfd one = {.fd = fds[i % FEW], .events = POLLOUT};
        MUST(poll(&one, 1, -1));
        converse_for(fds, FEW, 1);
    }
    close_all(fds, FEW);
    return NULL;
}

static void server_small_stack(struct peer *p) {
    plain_server(p);
}

static void client_small_stack(struct peer *p) {
    pthread_attr_t attributes;
    pthread_t thread;
    // The page below it is not mapped.
    char *memory = mmap(NULL, 16 * SMALLEST, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    char *stack = memory + 15 * SMALLEST;
    MUST(mprotect(stack, SMALLEST, PROT_READ | PROT_WRITE));
    pthread_attr_init(&attributes);
    pthread_attr_setstack(&attributes, stack, SMALLEST);
    if (pthread_create(&thread, &attributes, converses, p))
        die("no thread with so little stack");
    pthread_join(thread, NULL);
    say("%d connections carried everything", FEW);
}

// --- handlers on an alternate stack as small as in real programs

enum { ALTERNATE = 8192, SIGNALS = 200 };
static int handlers_fd;
static volatile int handled, wrong;

static void converses_in_handler(int signal) {
    (void)signal;
    char out[24] = "from the handler", in[24];
    struct iovec parts[2] = {{out, 12}, {out + 12, 12}};
    struct msghdr message = {.msg_iov = parts, .msg_iovlen = 2};
    ssize_t sent = handled % 2 ? sendmsg(handlers_fd, &message, 0) : writev(handlers_fd, parts, 2);
    if (sent != sizeof out || recv(handlers_fd, in, sizeof in, MSG_WAITALL) != sizeof in ||
        memcmp(in, out, sizeof in))
        wrong++;
    handled++;
}

static void server_small_alternate_stack(struct peer *p) {
    serve(listen_on(p, AF_INET, "port"), 1);
    say("served");
}

static void client_small_alternate_stack(struct peer *p) {
    // The page below it is not mapped.
    char *memory = mmap(NULL, 16 * ALTERNATE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    stack_t stack = {.ss_sp = memory + 15 * ALTERNATE, .ss_size = ALTERNATE};
    MUST(mprotect(stack.ss_sp, ALTERNATE, PROT_READ | PROT_WRITE));
    MUST(sigaltstack(&stack, NULL));
    struct sigaction action = {.sa_handler = converses_in_handler, .sa_flags = SA_ONSTACK};
    MUST(sigaction(SIGUSR1, &action, NULL));
    handlers_fd = connect_to(p, AF_INET, "port");
    warm(handlers_fd, false);
    for (int i = 0; i < SIGNALS; i++)
        raise(SIGUSR1);
    say("%d handled, %d wrong", handled, wrong);
    close(handlers_fd);
}

// --- address space: shared memory takes much of it, and must not count

static void *does_nothing(void *argument) { return argument; }

static void say_room(void) {
    void *memory = malloc(20 << 20);
    say("malloc: %s", memory ? "enough" : "NO MEMORY");
    free(memory);
    pthread_t thread;
    int error = pthread_create(&thread, NULL, does_nothing, NULL);
    say("thread: %s", error ? strerrorname_np(error) : "enough");
    if (!error)
        pthread_join(thread, NULL);
}

static void server_limited_meanwhile(struct peer *p) { plain_server(p); }

static void client_limited_meanwhile(struct peer *p) {
    int fds[FEW];
    struct rlimit limits = {400 << 20, RLIM_INFINITY}, before;
    connect_all(p, fds, FEW);
    converse(fds, FEW);
    CALL(setrlimit(RLIMIT_AS, &limits));
    say_room();
    converse(fds, FEW);
    limits.rlim_cur = RLIM_INFINITY;
    CALL(prlimit(0, RLIMIT_AS, &limits, &before));
    say("was %ld MB", (long)(before.rlim_cur >> 20));
    converse(fds, FEW);
    close_all(fds, FEW);
}

// --- locked memory: shared memory is sparse, and must not be filled

static long resident_kb(void);

static void say_size(const char *when) {
    long mb = resident_kb() / 1000;
    if (mb < 500)
        say("%s: small", when);
    else
        say("%s: %ld MB", when, mb);
}

// Before a segment exists.
static void server_locks_all(struct peer *p) {
    CALL(mlockall(MCL_CURRENT | MCL_FUTURE));
    plain_server(p);
    say_size("at the end");
}

// After a segment has been mapped.
static void client_locks_all(struct peer *p) {
    int fds[FEW];
    connect_all(p, fds, FEW);
    converse(fds, FEW);
    CALL(mlockall(MCL_CURRENT));
    say_size("locked");
    converse(fds, FEW);
    CALL(mlockall(MCL_CURRENT | MCL_FUTURE));
    CALL(mlockall(MCL_CURRENT | MCL_ONFAULT));
    CALL(mlockall(1 << 20));
    say_size("locked again");
    converse(fds, FEW);
    CALL(munlockall());
    close_all(fds, FEW);
}

// --- clients that come and go

static int entries(const char *folder) {
    DIR *open = opendir(folder);
    int count = 0;
    while (readdir(open))
        count++;
    closedir(open);
    return count;
}

static int lines(const char *path) {
    FILE *file = fopen(path, "r");
    int count = 0;
    for (int c; (c = fgetc(file)) != EOF;)
        count += c == '\n';
    fclose(file);
    return count;
}

static long resident_kb(void) {
    FILE *file = fopen("/proc/self/status", "r");
    char line[200];
    long kb = 0;
    while (fgets(line, sizeof line, file))
        if (sscanf(line, "VmRSS: %ld", &kb) == 1)
            break;
    fclose(file);
    return kb;
}

static void server_short(struct peer *p) {
    int listener = listen_on(p, AF_INET, "port");
    serve(listener, WARM_CLIENTS);
    // By now the engine has kept what it keeps for a while of the last peers.
    int first_fds = entries("/proc/self/fd"), first_maps = lines("/proc/self/maps");
    long first_memory = resident_kb();
    tell(p, 0);
    serve(listener, CLIENTS - WARM_CLIENTS);
    int fds, maps, seconds = 0;
    long memory;
    do {
        fds = entries("/proc/self/fd") - first_fds;
        maps = lines("/proc/self/maps") - first_maps;
        memory = resident_kb() - first_memory;
        // Memory shared with dead processes may stay for a moment, but no call is needed to free
        // it.
    } while ((fds > 100 || maps > 50 || memory > 10000) && seconds++ < 10 && (sleep(1), true));
    note("more than before: %d descriptors, %d mappings, %ld KB", fds, maps, memory);
    say(fds > 100 ? "%d descriptors more" : "no more descriptors", fds);
    say(maps > 50 ? "%d mappings more" : "no more mappings", maps);
    say(memory > 10000 ? "%ld KB more" : "no more memory", memory);
}

static void short_life(struct peer *p) {
    int fd;
    connect_all(p, &fd, 1);
    converse(&fd, 1);
    close(fd);
}

static void client_short(struct peer *p) {
    port_of(p, "port");
    for (int i = 0; i < CLIENTS; i++) {
        if (i == WARM_CLIENTS)
            hear(p);
        pid_t child = MUST(fork());
        if (child == 0) {
            short_life(p);
            _exit(0);
        }
        int status;
        MUST(waitpid(child, &status, 0));
        if (status != 0)
            die("client %d has failed", i);
    }
    say("%d clients were served", CLIENTS);
}

#define BOTH(name) {#name, server_##name, client_##name, RAW}

static const struct scenario scenarios[] = {
    BOTH(address_space),
    BOTH(less_address_space),
    BOTH(file_size),
    BOTH(locked_memory),
    BOTH(processes),
    BOTH(descriptors),
    {"descriptors_one_by_one", server_descriptors, client_descriptors_one_by_one, RAW},
    BOTH(every_descriptor),
    BOTH(child_without_a_thread),
    BOTH(no_proc),
    BOTH(limited_meanwhile),
    BOTH(locks_all),
    BOTH(many),
    BOTH(small_stack),
    BOTH(small_alternate_stack),
    {"many_for_long", server_many, client_many_for_long, RAW},
    BOTH(short),
};
SCENARIO_MAIN(scenarios)
