// Many connections between a few processes. Another process interferes with the rendezvous of the
// two ends, or with the memory they share.
//
// That process finds its targets in notes (a port, process ids) in the folder SOVIA_TESTS_NOTES.
// The file `done` in that folder says that the test is over.
//
// SOVIA_TESTS_PLAIN is the role that unloads the library first, so that the other role finds no
// process to meet.
#include "common.h"
#include <sys/prctl.h>

enum { COMERS = 24, ROUNDS = 24, STREAMS = 4, LARGEST = 70000 };

static const size_t sizes[] = {1, 64, 113, 300, 5000, LARGEST};

__attribute__((constructor)) static void drop_the_library(int argc, char **argv) {
    const char *plain = getenv("SOVIA_TESTS_PLAIN");
    if (argc > 1 && plain && strcmp(plain, argv[1]) == 0 && getenv("LD_PRELOAD")) {
        unsetenv("LD_PRELOAD");
        execv("/proc/self/exe", argv);
    }
}

// --- notes

static const char *note_path(const char *name) {
    static __thread char path[600];
    const char *folder = getenv("SOVIA_TESTS_NOTES");
    snprintf(path, sizeof path, "%s/%s", folder ? folder : "/nonexistent", name);
    return path;
}

static void leave_note(const char *name, long value) {
    char fresh[600];
    snprintf(fresh, sizeof fresh, "%s.%d", note_path(name), gettid());
    FILE *file = fopen(fresh, "w");
    if (!file)
        return;
    fprintf(file, "%ld\n", value);
    fclose(file);
    MUST(rename(fresh, note_path(name)));
}

static bool is_over(void) { return access(note_path("done"), F_OK) == 0; }

static void await_note(const char *name) {
    for (int tries = 0; access(note_path(name), F_OK) != 0; tries++) {
        if (tries == 30000)
            die("no process has left the note %s", name);
        nap(2);
    }
}

// --- a server that survives its clients

static void *echo(void *argument) {
    int fd = (int)(intptr_t)argument;
    char *buffer = malloc(LARGEST);
    ssize_t got;
    while ((got = recv(fd, buffer, LARGEST, 0)) > 0) {
        for (ssize_t done = 0, sent; done < got; done += sent)
            if ((sent = send(fd, buffer + done, got - done, MSG_NOSIGNAL)) <= 0) {
                got = 0;
                break;
            }
    }
    free(buffer);
    close(fd);
    return NULL;
}

static void echo_for(int fd) {
    pthread_t thread;
    if (pthread_create(&thread, NULL, echo, (void *)(intptr_t)fd) != 0)
        die("no thread");
    pthread_detach(thread);
}

static void *accepts(void *argument) {
    for (;;)
        echo_for(accept_one((int)(intptr_t)argument));
    return NULL;
}

static void serves(struct peer *p) {
    int listener = listen_on(p, AF_INET, "port");
    pthread_t thread;
    leave_note("port", port_of(p, "port"));
    if (pthread_create(&thread, NULL, accepts, (void *)(intptr_t)listener) != 0)
        die("no thread");
    hear(p);
    say("served to the end");
}

// --- clients

// Exchanges a request and its answer. Returns false if the stream has ended, or other bytes have
// come.
static bool round_trip(int fd, size_t size, uint64_t offset, char *out, char *in) {
    fill(out, size, offset);
    for (size_t done = 0; done < size;) {
        ssize_t sent = send(fd, out + done, size - done, MSG_NOSIGNAL);
        if (sent <= 0)
            return false;
        done += sent;
    }
    for (size_t done = 0; done < size;) {
        ssize_t got = recv(fd, in + done, size - done, 0);
        if (got <= 0)
            return false;
        done += got;
    }
    return memcmp(in, out, size) == 0;
}

static void converse(int fd, int rounds) {
    static __thread char out[LARGEST], in[LARGEST];
    uint64_t offset = 0;
    for (int i = 0; i < rounds; i++) {
        size_t size = sizes[i % (sizeof sizes / sizeof sizes[0])];
        errno = 0;
        if (!round_trip(fd, size, offset, out, in))
            die("round %d of %zu bytes: %s", i, size, strerrorname_np(errno));
        offset += size;
    }
}

static pid_t child(struct peer *p, void (*life)(struct peer *)) {
    pid_t pid = MUST(fork());
    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        life(p);
        _exit(0);
    }
    return pid;
}

// One connection, with a pause in which another process may come first.
static void comes_and_goes(struct peer *p) {
    int fd = connect_to(p, AF_INET, "port");
    nap(15);
    for (int part = 0; part < 4; part++) {
        converse(fd, ROUNDS / 4);
        nap(3);
    }
    close(fd);
}

// Each process is a new peer of the server.
static void come_and_go(struct peer *p) {
    int64_t slowest = 0;
    for (int i = 0; i < COMERS; i++) {
        int64_t start = now_ms();
        int status;
        MUST(waitpid(child(p, comes_and_goes), &status, 0));
        if (status != 0)
            die("client %d has failed", i);
        int64_t took = now_ms() - start;
        slowest = took > slowest ? took : slowest;
    }
    say("%d connections carried everything", COMERS);
    say(slowest < LATE ? "none was held up" : "one took %lld ms", (long long)slowest);
    tell(p, 0);
}

// --- processes whose memory is overwritten, and others beside them

static void *suffers(void *argument) {
    struct peer *p = argument;
    char *out = malloc(LARGEST), *in = malloc(LARGEST);
    struct timeval limit = {.tv_sec = 60};
    for (int n = 0; !is_over(); n++) {
        int fd = connect_to(p, AF_INET, "port");
        MUST(setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit));
        MUST(setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit));
        uint64_t offset = 0;
        bool fine = true;
        for (int i = 0; fine && (i < 200 || n == 0) && !is_over(); i++) {
            size_t size = sizes[i % (sizeof sizes / sizeof sizes[0])];
            errno = 0;
            fine = round_trip(fd, size, offset, out, in);
            if (!fine && errno == EAGAIN)
                say("a stream hangs");
            offset += size;
            if (i == 100)
                leave_note("warm", 1);
        }
        close(fd);
    }
    free(out);
    free(in);
    return NULL;
}

static void victim(struct peer *p) {
    pthread_t threads[STREAMS];
    leave_note("victim", getpid());
    for (int i = 0; i < STREAMS; i++)
        if (pthread_create(&threads[i], NULL, suffers, p) != 0)
            die("no thread");
    for (int i = 0; i < STREAMS; i++)
        pthread_join(threads[i], NULL);
}

static void bystander(struct peer *p) {
    int fds[STREAMS];
    for (int i = 0; i < STREAMS; i++)
        fds[i] = connect_to(p, AF_INET, "port");
    do {
        for (int i = 0; i < STREAMS; i++)
            converse(fds[i], ROUNDS);
    } while (!is_over());
    for (int i = 0; i < STREAMS; i++)
        close(fds[i]);
}

static void lives_on(struct peer *p) {
    port_of(p, "port");
    pid_t beside = child(p, bystander), victims = child(p, victim);
    await_note("warm");
    int status;
    MUST(waitpid(victims, &status, 0));
    say_status("victim", status);
    MUST(waitpid(beside, &status, 0));
    say_status("bystander", status);
    int fd = connect_to(p, AF_INET, "port");
    converse(fd, ROUNDS);
    close(fd);
    say("later ones work");
    tell(p, 0);
}

// Runs without interference, for comparison.
static void lives_undisturbed(struct peer *p) {
    port_of(p, "port");
    int status;
    pid_t beside = child(p, bystander), victims = child(p, victim);
    await_note("warm");
    leave_note("done", 1);
    MUST(waitpid(victims, &status, 0));
    say_status("victim", status);
    MUST(waitpid(beside, &status, 0));
    say_status("bystander", status);
    tell(p, 0);
}

static const struct scenario scenarios[] = {
    {"come_and_go", serves, come_and_go, RAW},
    {"victims_and_bystanders", serves, lives_on, RAW},
    {"nobody_interferes", serves, lives_undisturbed, RAW},
};
SCENARIO_MAIN(scenarios)
