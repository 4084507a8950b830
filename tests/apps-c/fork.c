// A connection and the processes that share it.
#include "converse.h"

#include <sys/prctl.h>

static char buffer[70000];

static pid_t spawn(void) { return MUST(fork()); }

// Waits for a word from another process, and sends one.
static int turns[2][2];
static void make_turns(void) {
    MUST(pipe(turns[0]));
    MUST(pipe(turns[1]));
}
static void pass_turn(int to) { MUST(write(turns[to][1], "x", 1)); }
static void await_turn(int of) {
    char x;
    if (read(turns[of][0], &x, 1) != 1)
        die("no turn");
}

// --- the other end of most scenarios: answers until the end of the stream

static void answers(struct peer *p) {
    ssize_t got;
    long total = 0;
    while ((got = recv(p->fd, buffer, sizeof buffer, 0)) > 0) {
        send_all(p->fd, buffer, got);
        total += got;
    }
    say("%ld bytes answered, then %s", total, got ? strerrorname_np(errno) : "end of stream");
}

// --- the servers of daemons

static void prefork(struct peer *p) {
    p->listener = listen_on(p, AF_INET, "prefork");
    pid_t workers[2];
    for (int w = 0; w < 2; w++) {
        if ((workers[w] = spawn()) == 0) {
            for (;;) {
                int fd = accept_one(p->listener);
                char last;
                warm(fd, true);
                converse_as(fd, true, 100, 'a');
                recv_all(fd, &last, 1);
                close(fd);
                if (last == 'q')
                    _exit(0);
            }
        }
    }
    reap("worker", workers[0]);
    reap("worker", workers[1]);
}

// One connection after the other; the last two end a worker each.
static void visits_prefork(struct peer *p) {
    for (int i = 0; i < 8; i++) {
        int fd = connect_to(p, AF_INET, "prefork");
        warm(fd, false);
        converse_as(fd, false, 100, 'a');
        send_all(fd, i < 6 ? "n" : "q", 1);
        say("connection %d served", i);
        CALL(recv(fd, buffer, 1, 0));
        close(fd);
    }
}

static void forks_for_each(struct peer *p) {
    p->listener = listen_on(p, AF_INET, "forks");
    for (int i = 0; i < 4; i++) {
        int fd = accept_one(p->listener);
        pid_t child = spawn();
        if (child == 0) {
            close(p->listener);
            warm(fd, true);
            converse_as(fd, true, 200, 'a');
            _exit(0);
        }
        close(fd);
        reap("child", child);
    }
}

static void visits_forks(struct peer *p) {
    for (int i = 0; i < 4; i++) {
        int fd = connect_to(p, AF_INET, "forks");
        warm(fd, false);
        converse_as(fd, false, 200, 'a');
        CALL(recv(fd, buffer, 1, 0));
        close(fd);
    }
}

// Each child closes its connection and exits at once, while its parent closes the same connection. Two threads of the
// client have connections at the same time, with different children. Remains of one child must not reach the other
// connection.
enum { BRIEF = 600, QUESTIONS = 5, CLIENTS = 2 };

static void hands_to_children(struct peer *p, bool confines) {
    p->listener = listen_on(p, AF_INET, "hurry");
    signal(SIGCHLD, SIG_IGN);
    for (int i = 0; i < BRIEF; i++) {
        int fd = accept_one(p->listener);
        if (spawn() == 0) {
            char question[16];
            ssize_t got;
            close(p->listener);
            if (confines)
                MUST(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0));
            while ((got = recv(fd, question, sizeof question, 0)) > 0)
                send_all(fd, question, got);
            close(fd);
            _exit(0);
        }
        close(fd);
    }
    say("%d connections handed to children", BRIEF);
}

static void forks_in_a_hurry(struct peer *p) { hands_to_children(p, false); }

// The children change their privileges, like those of sshd, and leave the records that they share with the server.
// These have room for 512 connections; another file holds further ones.
static void forks_confined(struct peer *p) {
    char line[4096];
    int files = 0;
    hands_to_children(p, true);
    FILE *maps = fopen("/proc/self/maps", "r");
    while (maps && fgets(line, sizeof line, maps))
        files += strstr(line, "memfd:sovia-records") || strstr(line, "memfd:sovia-board");
    say("records of connections that are over: %s", maps && files <= 1 ? "none" : "kept");
}

static struct sockaddr_in hurry;

static void *asks(void *which) {
    for (uint64_t i = (uintptr_t)which; i < BRIEF; i += CLIENTS) {
        int fd = MUST(socket(AF_INET, SOCK_STREAM, 0));
        MUST(connect(fd, (struct sockaddr *)&hurry, sizeof hurry));
        for (uint64_t n = 0; n < QUESTIONS; n++) {
            uint64_t question = i << 8 | n, answer;
            send_all(fd, &question, sizeof question);
            recv_all(fd, &answer, sizeof answer);
            if (answer != question)
                die("an answer for another connection");
        }
        close(fd);
    }
    return NULL;
}

static void asks_in_two_threads(struct peer *p) {
    hurry = (struct sockaddr_in){AF_INET, htons(port_of(p, "hurry")), {htonl(INADDR_LOOPBACK)}};
    pthread_t threads[CLIENTS];
    for (uintptr_t t = 0; t < CLIENTS; t++)
        pthread_create(&threads[t], NULL, asks, (void *)t);
    for (int t = 0; t < CLIENTS; t++)
        pthread_join(threads[t], NULL);
    say("%d connections answered", BRIEF);
}

// --- a connection that is already in use

static void child_serves(struct peer *p) {
    pid_t child = spawn();
    if (child == 0) {
        converse_as(p->fd, false, 300, 'a');
        CALL(shutdown(p->fd, SHUT_WR));
        CALL(recv(p->fd, buffer, 1, 0));
        _exit(0);
    }
    close(p->fd);
    reap("child", child);
}

static void alternate(struct peer *p) {
    make_turns();
    pid_t child = spawn();
    if (child == 0) {
        for (int i = 0; i < 20; i++) {
            await_turn(1);
            converse_as(p->fd, false, 5, 'a');
            pass_turn(0);
        }
        say("child has had its turns");
        _exit(0);
    }
    for (int i = 0; i < 20; i++) {
        converse_as(p->fd, false, 5, 'A');
        pass_turn(1);
        await_turn(0);
    }
    reap("child", child);
    converse_as(p->fd, false, 5, 'A');
    say("parent has had its turns");
}

// One process writes, the other reads, as pipelines of filters do it.
static void split_directions(struct peer *p) {
    pid_t child = spawn();
    if (child == 0) {
        send_pattern(p->fd, 0, 5000000, 30000);
        MUST(shutdown(p->fd, SHUT_WR));
        _exit(0);
    }
    drain_to_eof(p->fd, 0);
    reap("child", child);
}

static void untouched(struct peer *p) {
    for (int i = 0; i < 5; i++) {
        pid_t child = spawn();
        if (child == 0)
            _exit(i);
        converse_as(p->fd, false, 20, 'a');
        reap("child", child);
        converse_as(p->fd, false, 20, 'a');
    }
    pid_t child = spawn();
    if (child == 0) {
        CALL(close(p->fd));
        _exit(0);
    }
    reap("child", child);
    converse_as(p->fd, false, 20, 'a');
}

static void parent_leaves(struct peer *p) {
    make_turns();
    if (spawn() == 0) {
        close(turns[1][1]);
        await_turn(1);
        char x;
        say("parent gone: %zd", read(turns[1][0], &x, 1));
        converse_as(p->fd, false, 200, 'a');
        say("child is done");
        _exit(0);
    }
    converse_as(p->fd, false, 20, 'A');
    pass_turn(1);
    say("parent leaves");
    _exit(0);
}

// A daemon starts: the process that opened the connection ends, then its child, and the grandchild continues.
static void becomes_a_daemon(struct peer *p) {
    make_turns();
    if (spawn() == 0) {
        close(turns[1][1]);
        char x;
        say("opener gone: %zd", read(turns[1][0], &x, 1));
        if (spawn() == 0) {
            converse_as(p->fd, false, 200, 'a');
            say("daemon is done");
        }
        _exit(0);
    }
    converse_as(p->fd, false, 20, 'A');
    _exit(0);
}

static void generations(struct peer *p) {
    pid_t child = spawn();
    if (child == 0) {
        converse_as(p->fd, false, 20, 'a');
        pid_t grandchild = spawn();
        if (grandchild == 0) {
            converse_as(p->fd, false, 20, 'k');
            _exit(3);
        }
        reap("grandchild", grandchild);
        converse_as(p->fd, false, 20, 'b');
        _exit(2);
    }
    reap("child", child);
    converse_as(p->fd, false, 20, 'A');
}

// Children write records at once; no record is torn.
static void writers(struct peer *p) {
    pid_t children[4];
    for (int c = 0; c < 4; c++) {
        if ((children[c] = spawn()) == 0) {
            char record[64];
            memset(record, 'a' + c, sizeof record);
            for (int i = 0; i < 2000; i++)
                send_all(p->fd, record, sizeof record);
            _exit(0);
        }
    }
    for (int c = 0; c < 4; c++)
        reap("child", children[c]);
    CALL(shutdown(p->fd, SHUT_WR));
    CALL(recv(p->fd, buffer, 1, 0));
}

static void reads_records(struct peer *p) {
    int counts[4] = {0}, torn = 0;
    char record[64];
    ssize_t got;
    while ((got = recv(p->fd, record, sizeof record, MSG_WAITALL)) == sizeof record) {
        for (size_t i = 1; i < sizeof record; i++)
            torn += record[i] != record[0];
        counts[(record[0] - 'a') & 3]++;
    }
    say("%d %d %d %d records, %d bytes torn, then %zd", counts[0], counts[1], counts[2], counts[3], torn, got);
}

// Both ends fork, and both children continue.
static void both_fork(struct peer *p) {
    pid_t child = spawn();
    if (child == 0) {
        converse_as(p->fd, p->server, 100, 'a');
        _exit(0);
    }
    reap("child", child);
    converse_as(p->fd, p->server, 100, 'A');
    meet(p);
}

// Parent and child wait for the same bytes; both are woken.
static void both_wait(struct peer *p) {
    pid_t child = spawn();
    struct pollfd one = {.fd = p->fd, .events = POLLIN};
    int ready = poll(&one, 1, 10000);
    if (child == 0)
        _exit(ready == 1 ? one.revents : 99);
    say("parent: poll = %d, %s", ready, poll_names(one.revents));
    reap("child", child);
    say_text("received", buffer, recv(p->fd, buffer, 10, 0));
    meet(p);
}

static void wakes_both(struct peer *p) {
    nap(200);
    send_all(p->fd, "wake", 4);
    meet(p);
}

// One of two readers takes the bytes, and the other one's read continues.
static void both_read(struct peer *p) {
    pid_t child = spawn();
    int got = 0, here;
    while ((here = recv(p->fd, buffer, 100, 0)) > 0)
        got += here;
    if (child == 0)
        _exit(0);
    reap("child", child);
    say("both have seen the end: %d", here == 0);
    meet(p);
}

static void sends_to_both(struct peer *p) {
    for (int i = 0; i < 200; i++) {
        send_all(p->fd, buffer, 100);
        if (i % 20 == 0)
            nap(1);
    }
    CALL(shutdown(p->fd, SHUT_WR));
    meet(p);
}

static void child_shuts(struct peer *p) {
    pid_t child = spawn();
    if (child == 0) {
        CALL(shutdown(p->fd, SHUT_WR));
        _exit(0);
    }
    reap("child", child);
    CALL(send(p->fd, "x", 1, MSG_NOSIGNAL));
    CALL(recv(p->fd, buffer, 1, 0));
}

// Either process can read bytes that arrived before the fork.
static void unread_bytes(struct peer *p) {
    send_pattern(p->fd, 0, 10000, 10000);
    await_bytes(p->fd, 10000);
    recv_pattern(p->fd, 0, 1000, 1000);
    pid_t child = spawn();
    if (child == 0) {
        recv_pattern(p->fd, 1000, 4000, 4000);
        _exit(0);
    }
    reap("child", child);
    recv_pattern(p->fd, 5000, 5000, 5000);
    converse_as(p->fd, false, 20, 'a');
    say("all there");
}

// More processes than the library can distinguish: whichever process ends, the stream stays open until the
// last has.
enum { HUNDRED = 100 };

static void hundred(struct peer *p) {
    int gates[HUNDRED][2];
    pid_t children[HUNDRED];
    for (int i = 0; i < HUNDRED; i++) {
        MUST(pipe(gates[i]));
        if ((children[i] = spawn()) == 0) {
            char x;
            // The read ends too if the parent fails.
            for (int j = 0; j <= i; j++)
                close(gates[j][1]);
            if (read(gates[i][0], &x, 1) == 1)
                converse_as(p->fd, false, 3, 'a');
            if (i % 2)
                close(p->fd);
            _exit(0);
        }
    }
    converse_as(p->fd, false, 3, 'a');
    CALL(close(p->fd));
    // First those at both ends, then those in between.
    for (int i = 0; i < HUNDRED; i++) {
        int turn = i < 10 ? HUNDRED - 1 - i : i < 80 ? i - 10 : 169 - i;
        MUST(write(gates[turn][1], "x", 1));
        int status;
        MUST(waitpid(children[turn], &status, 0));
        if (status != 0)
            die("child %d has failed", turn);
    }
    say("all had their turn");
}

// --- a program of one thread, as the kernel counts

static int threads_now(void) {
    static char line[4096];
    FILE *file = fopen("/proc/self/stat", "r");
    if (!file || !fgets(line, sizeof line, file))
        die("cannot read /proc/self/stat");
    fclose(file);
    // The name may contain blanks. The state is the third word, the number of threads the
    // twentieth.
    char *word = strrchr(line, ')') + 2;
    for (int i = 3; i < 20; i++)
        word = strchr(word, ' ') + 1;
    return atoi(word);
}

static void forks_alone(struct peer *p) {
    int alone = 0;
    for (int i = 0; i < 40; i++) {
        // The library restarts its thread meanwhile, if it had one.
        converse_as(p->fd, false, 5, 'a');
        usleep(i % 4 * 1000);
        pid_t child = spawn();
        if (child == 0) {
            if (i % 3 == 0)
                converse_as(p->fd, false, 2, 'b');
            _exit(0);
        }
        alone += threads_now() == 1;
        reap("child", child);
    }
    // The library's thread may be busy at this moment.
    say("alone after %s forks", alone >= 30 ? "nearly all" : "too few");
    note("alone after %d", alone);
    CALL(close(p->fd));
}

static const struct scenario scenarios[] = {
    {"a_program_of_one_thread_stays_one", answers, forks_alone},
    {"workers_share_a_listener", prefork, visits_prefork},
    {"a_child_for_each_connection", forks_for_each, visits_forks},
    {"children_serve_two_threads_in_a_hurry", forks_in_a_hurry, asks_in_two_threads},
    {"children_that_change_their_rights_leave_no_record", forks_confined, asks_in_two_threads},
    {"a_child_takes_a_connection_over", answers, child_serves},
    {"parent_and_child_take_turns", answers, alternate},
    {"a_child_writes_and_its_parent_reads", answers, split_directions},
    {"children_that_leave_it_alone", answers, untouched},
    {"a_child_goes_on_without_its_parent", answers, parent_leaves},
    {"a_daemon_goes_on_without_its_ancestors", answers, becomes_a_daemon},
    {"three_generations", answers, generations},
    {"children_write_whole_records", reads_records, writers},
    {"both_ends_fork", both_fork, both_fork},
    {"parent_and_child_are_both_woken", wakes_both, both_wait},
    {"parent_and_child_both_read", sends_to_both, both_read},
    {"a_childs_shutdown_is_its_parents", answers, child_shuts},
    {"unread_bytes_are_there_for_either", answers, unread_bytes},
    {"a_hundred_children", answers, hundred},
};
SCENARIO_MAIN(scenarios)
