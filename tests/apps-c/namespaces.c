// A connection whose processes are in separate PID namespaces, so neither knows the other's process
// id.
#include "common.h"
#include <sched.h>

static char buffer[70000];

// Returns true if a child may have a separate namespace of that kind.
static bool may_have_own(int kind, const char *otherwise) {
    pid_t child = MUST(fork());
    if (child == 0)
        _exit(unshare(kind) ? 1 : 0);
    int status;
    MUST(waitpid(child, &status, 0));
    if (status)
        note("%s", otherwise);
    return status == 0;
}

static bool may_nest(void) {
    return may_have_own(CLONE_NEWPID, "skipped: PID namespaces cannot be made here");
}

static pid_t nested(void (*run)(struct peer *), struct peer *p) {
    pid_t outer = MUST(fork());
    if (outer == 0) {
        MUST(unshare(CLONE_NEWPID));
        pid_t inner = MUST(fork());
        if (inner == 0) {
            if (getpid() != 1)
                die("not process 1");
            run(p);
            _exit(0);
        }
        close(p->fd);
        int status;
        MUST(waitpid(inner, &status, 0));
        _exit(WIFEXITED(status) ? WEXITSTATUS(status) : 99);
    }
    return outer;
}

static void converse(int fd, int count, char tag) {
    for (int i = 0; i < count; i++) {
        char out[100], in[100];
        memset(out, tag + i % 20, sizeof out);
        send_all(fd, out, sizeof out);
        recv_all(fd, in, sizeof in);
        if (memcmp(in, out, sizeof in))
            die("answer %d is another's", i);
    }
}

static void answers(struct peer *p) {
    ssize_t got;
    while ((got = recv(p->fd, buffer, sizeof buffer, 0)) > 0)
        send_all(p->fd, buffer, got);
    say("%s", got ? strerrorname_np(errno) : "end of stream");
}

static void closes(struct peer *p) { close(p->fd); }

// Children in other namespaces close their copies, and the parent continues.
static void children_close(struct peer *p) {
    if (!may_nest())
        return;
    for (int i = 0; i < 4; i++) {
        reap("child", nested(closes, p));
        converse(p->fd, 20, 'a');
    }
    close(p->fd);
}

static int gate[2];

static void goes_on(struct peer *p) {
    char x;
    if (read(gate[0], &x, 1) != 1)
        die("no word");
    converse(p->fd, 50, 'a');
    close(p->fd);
}

// The parent closes, and the child in its namespace continues.
static void parent_closes(struct peer *p) {
    if (!may_nest())
        return;
    MUST(pipe(gate));
    pid_t child = nested(goes_on, p);
    nap(50);
    CALL(close(p->fd));
    MUST(write(gate[1], "x", 1));
    reap("child", child);
}

// Both write whole records at the same time, and the reader counts them.
enum { RECORDS = 3000, LENGTH = 64 };

static void writes(struct peer *p) {
    char record[LENGTH];
    memset(record, getpid() == 1 ? 'c' : 'p', sizeof record);
    for (int i = 0; i < RECORDS; i++)
        if (send(p->fd, record, sizeof record, 0) != sizeof record)
            die("record %d: %s", i, strerrorname_np(errno));
}

static void reads_records(struct peer *p) {
    long of_parent = 0, of_child = 0;
    char record[LENGTH];
    while (recv(p->fd, record, sizeof record, MSG_WAITALL) == sizeof record) {
        for (int i = 1; i < LENGTH; i++)
            if (record[i] != record[0])
                die("a record is torn");
        *(record[0] == 'p' ? &of_parent : &of_child) += 1;
    }
    say("%ld and %ld records", of_parent, of_child);
}

static void both_write(struct peer *p) {
    if (!may_nest())
        return;
    pid_t child = nested(writes, p);
    writes(p);
    reap("child", child);
    close(p->fd);
}

// Both write at the same moment, until one waits for the other.
enum { MANY = 40000 };

static void writes_many(struct peer *p) {
    char record[LENGTH];
    memset(record, getpid() == 1 ? 'c' : 'p', sizeof record);
    for (int i = 0; i < MANY; i++)
        if (send(p->fd, record, sizeof record, MSG_NOSIGNAL) != sizeof record)
            die("record %d: %s", i, strerrorname_np(errno));
}

static void writes_when_told(struct peer *p) {
    char x = 0;
    MUST(write(gate[1], &x, 1));
    writes_many(p);
}

static void both_write_at_once(struct peer *p) {
    if (!may_nest())
        return;
    MUST(pipe(gate));
    pid_t child = nested(writes_when_told, p);
    char x;
    MUST(read(gate[0], &x, 1));
    writes_many(p);
    reap("child", child);
    close(p->fd);
}

// A process with one thread may get a user namespace or a descriptor table of its own. It may do so after any number
// of transfers, in any state of the library. Its peer, a forked relative, sees the end of each stream.
enum { STREAMS = 6, LEAST = 4, MOST = 64 };

static void serve_until_all_end(int listener) {
    struct pollfd all[STREAMS];
    for (int k = 0; k < STREAMS; k++)
        all[k] = (struct pollfd){.fd = accept_one(listener), .events = POLLIN};
    for (int open = STREAMS; open;) {
        if (MUST(poll(all, STREAMS, 20000)) == 0)
            die("an end is not seen");
        for (int k = 0; k < STREAMS; k++) {
            if (all[k].revents == 0)
                continue;
            ssize_t got = recv(all[k].fd, buffer, sizeof buffer, 0);
            if (got > 0) {
                send(all[k].fd, buffer, got, MSG_NOSIGNAL);
                continue;
            }
            close(all[k].fd);
            all[k].fd = -1;
            open--;
        }
    }
}

static void get_own(struct peer *p, int transfers, int what) {
    int streams[STREAMS];
    for (int k = 0; k < STREAMS; k++)
        streams[k] = connect_to(p, AF_INET, p->server ? "one" : "two");
    for (int k = 0; k < transfers; k++) {
        struct pollfd all[STREAMS];
        send_all(streams[k * 7 % STREAMS], "x", 1);
        for (int other = 0; other < STREAMS; other++)
            all[other] = (struct pollfd){.fd = streams[other], .events = POLLIN};
        if (k % 3)
            poll(all, STREAMS, 10);
        for (int other = 0; other < STREAMS; other++)
            if (all[other].revents & POLLIN)
                recv(streams[other], buffer, sizeof buffer, 0);
    }
    if (unshare(what))
        die("unshare after %d transfers: %s", transfers, strerrorname_np(errno));
    for (int k = 0; k < STREAMS; k++)
        send_all(streams[k], "x", 1);
    for (int k = 0; k < STREAMS; k++)
        close(streams[k]);
}

static void get_their_own(struct peer *p) {
    int gate[2], failed = 0;
    bool users = may_have_own(CLONE_NEWUSER, "without user namespaces, which cannot be made here");
    int listener = listen_on(p, AF_INET, p->server ? "one" : "two");
    for (int i = 2 * LEAST; i < 2 * MOST; i++) {
        int status;
        char x;
        MUST(pipe(gate));
        pid_t server = MUST(fork());
        if (server == 0) {
            close(gate[1]);
            serve_until_all_end(listener);
            _exit(0);
        }
        pid_t client = MUST(fork());
        if (client == 0) {
            close(gate[1]);
            get_own(p, i / 2, i % 2 && users ? CLONE_NEWUSER : CLONE_FILES);
            // This process's own end must not end the streams.
            _exit(read(gate[0], &x, 1) != 0);
        }
        close(gate[0]);
        MUST(waitpid(server, &status, 0));
        failed += status != 0;
        close(gate[1]);
        MUST(waitpid(client, &status, 0));
        failed += status != 0;
    }
    say("%d failed", failed);
}

static const struct scenario scenarios[] = {
    {"children_in_other_namespaces_close", answers, children_close},
    {"a_child_in_another_namespace_goes_on", answers, parent_closes},
    {"a_namespace_or_a_table_of_its_own_at_any_moment", get_their_own, get_their_own, RAW},
    {"parent_and_child_in_another_namespace_write", reads_records, both_write},
    {"parent_and_child_in_another_namespace_write_at_once", reads_records, both_write_at_once},
};
SCENARIO_MAIN(scenarios)
