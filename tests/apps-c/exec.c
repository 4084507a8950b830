// Programs that are started with an open stream.
#include "converse.h"
#include <spawn.h>

extern char **environ;
static char buffer[70000];

static void answers(struct peer *p) {
    ssize_t got;
    long total = 0;
    while ((got = recv(p->fd, buffer, sizeof buffer, 0)) > 0) {
        send_all(p->fd, buffer, got);
        total += got;
    }
    say("%ld bytes answered, then %s", total, got ? strerrorname_np(errno) : "end of stream");
}

// --- this program again, with a stream that it inherits by number. It continues where its
// predecessor was, like a server that replaces itself.

static char number[16], offset_text[16];

static char **again(struct peer *p, const char *role, uint64_t offset) {
    static char *arguments[7];
    snprintf(number, sizeof number, "%d", p->fd);
    snprintf(offset_text, sizeof offset_text, "%llu", (unsigned long long)offset);
    char *all[7] = {(char *)p->self, "--inherited", number, (char *)role, offset_text, NULL};
    memcpy(arguments, all, sizeof arguments);
    return arguments;
}

// Writes before it reads, as long as there is room. No process reads this, so an error must end it.
static void floods(int fd) {
    struct pollfd room = {fd, POLLOUT, 0};
    ssize_t sent;
    do {
        if (MUST(poll(&room, 1, LATE)) == 0)
            die("no room, and no error");
        sent = send(fd, buffer, 65536, MSG_DONTWAIT | MSG_NOSIGNAL);
    } while (sent >= 0 || errno == EAGAIN);
    say("an error ends it");
}

// Reads 2000 bytes that were there before the exec, whatever the peer does.
static void takes_soon(int fd, uint64_t offset) {
    int64_t start = now_ms();
    recv_pattern(fd, offset, 2000, 700);
    say_elapsed(start, 0, LATE);
    drain_to_eof(fd, offset + 2000);
}

static int inherited(int argc, char **argv) {
    int fd = atoi(argv[2]);
    uint64_t offset = argc > 4 ? strtoull(argv[4], NULL, 10) : 0;
    if (strcmp(argv[3], "client") == 0)
        converse(fd, false, 100);
    else if (strcmp(argv[3], "server") == 0)
        converse(fd, true, 100);
    else if (strcmp(argv[3], "echo") == 0)
        answers(&(struct peer){.fd = fd});
    else if (strcmp(argv[3], "drain") == 0)
        drain_to_eof(fd, offset);
    else if (strcmp(argv[3], "late") == 0) {
        nap(2800);
        drain_to_eof(fd, offset);
    } else if (strcmp(argv[3], "goes_on") == 0) {
        send_pattern(fd, offset, 1000, 100);
        CALL(shutdown(fd, SHUT_WR));
        CALL(recv(fd, buffer, 1, 0));
    } else if (strcmp(argv[3], "take") == 0)
        takes_soon(fd, offset);
    else if (strcmp(argv[3], "floods") == 0) {
        floods(fd);
        recv_pattern(fd, offset, 2000, 700);
    } else if (strcmp(argv[3], "cut") == 0) {
        recv_pattern(fd, offset, 2000, 700);
        CALL(recv(fd, buffer, 1, 0));
        CALL(recv(fd, buffer, 1, 0));
        CALL(send(fd, "x", 1, MSG_NOSIGNAL));
    } else if (strcmp(argv[3], "closed") == 0)
        CALL(send(fd, "x", 1, MSG_NOSIGNAL));
    say("successor is done");
    return 0;
}

static void becomes_itself(struct peer *p) {
    converse(p->fd, false, 10);
    execv(p->self, again(p, "client", 0));
    die("exec");
}

static void serves_after_exec(struct peer *p) {
    close(p->listener);
    execv(p->self, again(p, "echo", 0));
    die("exec");
}

static void client_alone(struct peer *p) {
    converse(p->fd, false, 100);
    CALL(shutdown(p->fd, SHUT_WR));
    CALL(recv(p->fd, buffer, 1, 0));
}

static void both_become_themselves(struct peer *p) {
    execv(p->self, again(p, p->server ? "server" : "client", 0));
    die("exec");
}

// Leaves bytes unread, and the peer sends more during the exec
static void becomes_itself_unread(struct peer *p) {
    await_bytes(p->fd, 3000);
    recv_pattern(p->fd, 0, 1000, 1000);
    meet(p);
    execv(p->self, again(p, "drain", 1000));
    die("exec");
}

static void sends_across_exec(struct peer *p) {
    send_pattern(p->fd, 0, 3000, 3000);
    meet(p);
    send_pattern(p->fd, 3000, 8000000, 10000);
    CALL(shutdown(p->fd, SHUT_WR));
    CALL(recv(p->fd, buffer, 1, 0));
}

// The peer has reset the connection: the new program finds earlier bytes, and then the error.
static void becomes_after_a_reset(struct peer *p, const char *what, char *const *environment) {
    await_bytes(p->fd, 3000);
    recv_pattern(p->fd, 0, 1000, 1000);
    meet(p);
    hear(p);
    execve(p->self, again(p, what, 1000), environment);
    die("exec");
}

static void becomes_itself_after_a_reset(struct peer *p) { becomes_after_a_reset(p, "cut", environ); }
static void becomes_a_writer_after_a_reset(struct peer *p) { becomes_after_a_reset(p, "floods", environ); }

static void becomes_plain_after_a_reset(struct peer *p) {
    char *const nothing[] = {NULL};
    becomes_after_a_reset(p, "cut", nothing);
}

static void sends_and_resets(struct peer *p) {
    struct linger none = {.l_onoff = 1, .l_linger = 0};
    send_pattern(p->fd, 0, 3000, 3000);
    meet(p);
    MUST(setsockopt(p->fd, SOL_SOCKET, SO_LINGER, &none, sizeof none));
    CALL(close(p->fd));
    tell(p, 0);
}

// Closes with bytes unread, and so resets the connection.
static void sends_and_leaves_unread(struct peer *p) {
    send_pattern(p->fd, 0, 3000, 3000);
    meet(p);
    await_bytes(p->fd, 700);
    CALL(close(p->fd));
    tell(p, 0);
}

static void sends_and_becomes_after_a_reset(struct peer *p) {
    await_bytes(p->fd, 3000);
    recv_pattern(p->fd, 0, 1000, 1000);
    meet(p);
    send_pattern(p->fd, 0, 700, 700);
    hear(p);
    execv(p->self, again(p, "cut", 1000));
    die("exec");
}

// Leaves as many bytes unread as the path takes, while the peer sends more
static void becomes_itself_with_much_unread(struct peer *p) {
    await_bytes(p->fd, 3000);
    recv_pattern(p->fd, 0, 1000, 1000);
    meet(p);
    nap(500);
    execv(p->self, again(p, "drain", 1000));
    die("exec");
}

// The peer makes no call during the exec: it is stopped, or computes.
static void becomes_itself_alone(struct peer *p) {
    await_bytes(p->fd, 3000);
    recv_pattern(p->fd, 0, 1000, 1000);
    meet(p);
    nap(100);
    execv(p->self, again(p, "take", 1000));
    die("exec");
}

static void becomes_plain_alone(struct peer *p) {
    await_bytes(p->fd, 3000);
    recv_pattern(p->fd, 0, 1000, 1000);
    meet(p);
    nap(100);
    char *nothing[] = {NULL};
    execve(p->self, again(p, "take", 1000), nothing);
    die("exec");
}

static void sends_and_stops(struct peer *p) {
    pid_t self = getpid();
    send_pattern(p->fd, 0, 3000, 3000);
    if (MUST(fork()) == 0) {
        close(p->fd);
        meet(p);
        MUST(kill(self, SIGSTOP));
        nap(2000);
        MUST(kill(self, SIGCONT));
        _exit(0);
    }
    nap(1000); // the test stops the process here
    send_pattern(p->fd, 3000, 50000, 10000);
    CALL(shutdown(p->fd, SHUT_WR));
    CALL(recv(p->fd, buffer, 1, 0));
}

static void sends_and_computes(struct peer *p) {
    send_pattern(p->fd, 0, 3000, 3000);
    meet(p);
    int64_t start = now_ms();
    while (now_ms() < start + 2000)
        ;
    send_pattern(p->fd, 3000, 50000, 10000);
    CALL(shutdown(p->fd, SHUT_WR));
    CALL(recv(p->fd, buffer, 1, 0));
}

// A super-server: accepted connections belong to another program from the first byte on.
static void inetd(struct peer *p) {
    int listener = listen_on(p, AF_INET, "inetd");
    for (int i = 0; i < 3; i++) {
        int fd = accept_one(listener);
        pid_t child = MUST(fork());
        if (child == 0) {
            dup2(fd, 0);
            dup2(fd, 1);
            close(fd);
            execlp("cat", "cat", NULL);
            _exit(99);
        }
        close(fd);
        reap("cat", child);
    }
}

static void visits_inetd(struct peer *p) {
    for (int i = 0; i < 3; i++) {
        int fd = connect_to(p, AF_INET, "inetd");
        converse(fd, false, 200);
        MUST(shutdown(fd, SHUT_WR));
        CALL(recv(fd, buffer, 1, 0));
        close(fd);
    }
}

// The new program runs without the library, because its environment is empty.
static void becomes_plain(struct peer *p) {
    converse(p->fd, false, 10);
    char *nothing[] = {NULL};
    execve(p->self, again(p, "client", 0), nothing);
    die("exec");
}

static void becomes_plain_unread(struct peer *p) {
    await_bytes(p->fd, 3000);
    recv_pattern(p->fd, 0, 1000, 1000);
    meet(p);
    char *nothing[] = {NULL};
    execve(p->self, again(p, "drain", 1000), nothing);
    die("exec");
}

static void sends_more_than_fits(struct peer *p) {
    send_pattern(p->fd, 0, 3000, 3000);
    meet(p);
    send_pattern(p->fd, 3000, 40000000, 10000);
    CALL(shutdown(p->fd, SHUT_WR));
    CALL(recv(p->fd, buffer, 1, 0));
}

// More bytes are unread than the sockets can hold, and the sender waits for room.
static void lets_it_fill(struct peer *p) {
    await_bytes(p->fd, 3000);
    recv_pattern(p->fd, 0, 1000, 1000);
    meet(p);
    nap(300);
}

static void becomes_plain_with_much_unread(struct peer *p) {
    char *nothing[] = {NULL};
    lets_it_fill(p);
    execve(p->self, again(p, "drain", 1000), nothing);
    die("exec");
}

static void becomes_plain_and_reads_late(struct peer *p) {
    char *nothing[] = {NULL};
    lets_it_fill(p);
    execve(p->self, again(p, "late", 1000), nothing);
    die("exec");
}

static void a_plain_child_reads_it(struct peer *p, bool by_vfork) {
    char *nothing[] = {NULL}, **arguments = again(p, "drain", 1000);
    lets_it_fill(p);
    pid_t child = by_vfork ? vfork() : MUST(fork());
    if (child == 0) {
        execve(p->self, arguments, nothing);
        _exit(99);
    }
    CALL(close(p->fd));
    reap("child", child);
}

static void a_forked_plain_child_reads_it(struct peer *p) { a_plain_child_reads_it(p, false); }
static void a_vforked_plain_child_reads_it(struct peer *p) { a_plain_child_reads_it(p, true); }

static void a_receiver_reads_it(struct peer *p) {
    int ways[2];
    MUST(socketpair(AF_UNIX, SOCK_STREAM, 0, ways));
    lets_it_fill(p);
    fflush(stdout);
    pid_t receiver = MUST(fork());
    if (receiver == 0) {
        close(p->fd);
        drain_to_eof(take_over(ways[1], 0), 1000);
        fflush(stdout);
        _exit(0);
    }
    hand_over(ways[0], p->fd);
    CALL(close(p->fd));
    reap("receiver", receiver);
}

static void runs_a_command_amid_it(struct peer *p) {
    lets_it_fill(p);
    CALL(system("true"));
    drain_to_eof(p->fd, 1000);
}

// Bytes that were sent and not yet read arrive, although the sender executes another program.
static void sends_then_becomes(struct peer *p) {
    send_pattern(p->fd, 0, 2000000, 50000);
    execlp("true", "true", NULL);
    die("exec");
}

static void reads_after_a_while(struct peer *p) {
    nap(200);
    drain_to_eof(p->fd, 0);
}

static void closes_on_exec(struct peer *p) {
    MUST(fcntl(p->fd, F_SETFD, FD_CLOEXEC));
    execv(p->self, again(p, "closed", 0));
    die("exec");
}

static void fails_to_exec(struct peer *p) {
    CALL(execl("/nonexistent/program", "program", NULL));
    CALL(execlp("no-such-program-anywhere", "program", NULL));
    char *bad[] = {"x", NULL};
    CALL(execve("/dev/null", bad, environ));
    converse(p->fd, false, 50);
    say("still in order");
}

// A child becomes another program while its parent keeps the stream.
static void child_becomes(struct peer *p) {
    pid_t child = MUST(fork());
    if (child == 0) {
        execv(p->self, again(p, "client", 0));
        _exit(99);
    }
    reap("child", child);
    converse(p->fd, false, 100);
    say("parent is done");
}

static void child_becomes_plain(struct peer *p) {
    char *nothing[] = {NULL};
    pid_t child = MUST(fork());
    if (child == 0) {
        execve(p->self, again(p, "client", 0), nothing);
        _exit(99);
    }
    reap("child", child);
    converse(p->fd, false, 100);
    say("parent is done");
}

// The peer is stopped from before the exec until after it. The exec must not wait for it.
static void becomes_meanwhile(struct peer *p, bool by_vfork) {
    pid_t stopped = hear(p);
    recv_pattern(p->fd, 0, 1000, 1000);
    await_stopped(stopped);
    int done[2];
    MUST(pipe2(done, O_CLOEXEC));
    char **arguments = again(p, "drain", 1000);
    pid_t child = by_vfork ? vfork() : MUST(fork());
    if (child == 0) {
        execv(p->self, arguments);
        _exit(99);
    }
    close(done[1]);
    // The end comes with the exec.
    CALL(read(done[0], buffer, 1));
    CALL(close(p->fd));
    MUST(kill(stopped, SIGCONT));
    reap("child", child);
}

static void child_becomes_meanwhile(struct peer *p) { becomes_meanwhile(p, false); }
static void vforked_child_becomes_meanwhile(struct peer *p) { becomes_meanwhile(p, true); }

static void is_stopped_meanwhile(struct peer *p) {
    send_pattern(p->fd, 0, 3000, 3000);
    tell(p, getpid());
    MUST(raise(SIGSTOP));
    send_pattern(p->fd, 3000, 50000, 10000);
    CALL(shutdown(p->fd, SHUT_WR));
    CALL(recv(p->fd, buffer, 1, 0));
}

static void vforks(struct peer *p) {
    char **arguments = again(p, "client", 0);
    pid_t child = vfork();
    if (child == 0) {
        execv(p->self, arguments);
        _exit(99);
    }
    reap("child", child);
    converse(p->fd, false, 50);
    // The child of a vfork closes and moves descriptors of its own.
    int keep = p->fd;
    child = vfork();
    if (child == 0) {
        dup2(keep, 0);
        close(keep);
        execlp("true", "true", NULL);
        _exit(99);
    }
    reap("child", child);
    converse(p->fd, false, 50);
    child = vfork();
    if (child == 0)
        _exit(7);
    reap("child", child);
    converse(p->fd, false, 50);
    say("parent is done");
}

static void spawns(struct peer *p) {
    pid_t child;
    int status = posix_spawn(&child, p->self, NULL, NULL, again(p, "client", 0), environ);
    reap("child", child);
    say("posix_spawn = %d", status);
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, p->fd, 0);
    posix_spawn_file_actions_adddup2(&actions, p->fd, 1);
    posix_spawn_file_actions_addclose(&actions, p->fd);
    char *shell[] = {"sh", "-c", "echo hello; read back; test \"$back\" = hello", NULL};
    status = posix_spawnp(&child, "sh", &actions, NULL, shell, environ);
    say("posix_spawnp = %d", status);
    reap("shell", child);
    converse(p->fd, false, 50);
    say("parent is done");
}

static void systems(struct peer *p) {
    int status = system("exit 3");
    say_status("system", status);
    converse(p->fd, false, 50);
    FILE *pipe = popen("echo from a pipe", "r");
    char line[50] = "";
    if (!fgets(line, sizeof line, pipe))
        die("nothing from popen");
    say("popen: %.11s", line);
    converse(p->fd, false, 50);
    say_status("pclose", pclose(pipe));
    converse(p->fd, false, 50);
    // A command that lives on, with the stream open
    say_status("system", system("sleep 0.3 &"));
    converse(p->fd, false, 50);
    say("parent is done");
}

// The program that inherits a stream takes its time, and the kernel's buffers hold only a part of the
// bytes that its predecessor has left. The sender is done long before.
enum { LEFT_BEHIND = 400000 };

static void has_small_buffers(struct peer *p) {
    int size = 32 << 10;
    MUST(setsockopt(p->fd, SOL_SOCKET, SO_SNDBUF, &size, sizeof size));
    MUST(setsockopt(p->fd, SOL_SOCKET, SO_RCVBUF, &size, sizeof size));
    meet(p);
}

static void becomes_a_late_reader(struct peer *p) {
    has_small_buffers(p);
    await_bytes(p->fd, 2000);
    nap(300);
    execv(p->self, again(p, "late", 0));
    die("exec");
}

static void sends_into_small_buffers(struct peer *p) {
    has_small_buffers(p);
    send_pattern(p->fd, 0, LEFT_BEHIND, 10000);
    nap(500);
}

static void sends_much_and_closes(struct peer *p) {
    sends_into_small_buffers(p);
    CALL(close(p->fd));
}

static void sends_much_and_exits(struct peer *p) {
    sends_into_small_buffers(p);
    say("done");
}

static void sends_much_and_becomes_itself(struct peer *p) {
    sends_into_small_buffers(p);
    execv(p->self, again(p, "goes_on", LEFT_BEHIND));
    die("exec");
}

static void sends_more_and_closes(struct peer *p) {
    sends_into_small_buffers(p);
    send_pattern(p->fd, LEFT_BEHIND, 1000, 100);
    CALL(close(p->fd));
}

static const struct scenario scenarios[] = {
    {"a_client_becomes_itself", answers, becomes_itself},
    {"a_server_becomes_itself", serves_after_exec, client_alone},
    {"both_become_themselves", both_become_themselves, both_become_themselves},
    {"unread_bytes_cross_an_exec", sends_across_exec, becomes_itself_unread},
    {"a_sender_closes_before_a_successor_reads", sends_much_and_closes, becomes_a_late_reader},
    {"a_sender_exits_before_a_successor_reads", sends_much_and_exits, becomes_a_late_reader},
    {"a_sender_execs_before_a_successor_reads", sends_much_and_becomes_itself, becomes_a_late_reader},
    {"a_sender_goes_on_before_a_successor_reads", sends_more_and_closes, becomes_a_late_reader},
    {"a_reset_before_an_exec", sends_and_resets, becomes_itself_after_a_reset},
    {"a_reset_before_a_successor_writes", sends_and_resets, becomes_a_writer_after_a_reset},
    {"a_reset_before_leaving_the_library", sends_and_resets, becomes_plain_after_a_reset},
    {"a_close_with_unread_before_an_exec", sends_and_leaves_unread, sends_and_becomes_after_a_reset},
    {"many_unread_bytes_cross_an_exec", sends_across_exec, becomes_itself_with_much_unread},
    {"an_exec_while_the_peer_is_stopped", sends_and_stops, becomes_itself_alone},
    {"an_exec_while_the_peer_computes", sends_and_computes, becomes_itself_alone},
    {"leaving_the_library_while_the_peer_is_stopped", sends_and_stops, becomes_plain_alone},
    {"leaving_the_library_while_the_peer_computes", sends_and_computes, becomes_plain_alone},
    {"a_super_server_hands_streams_to_cat", inetd, visits_inetd, RAW},
    {"becoming_a_program_without_the_library", answers, becomes_plain},
    {"unread_bytes_for_a_program_without_the_library", sends_across_exec, becomes_plain_unread},
    {"much_unread_for_a_program_without_the_library", sends_more_than_fits, becomes_plain_with_much_unread},
    {"much_unread_for_a_program_that_begins_late", sends_more_than_fits, becomes_plain_and_reads_late},
    {"much_unread_for_a_child_without_the_library", sends_more_than_fits, a_forked_plain_child_reads_it},
    {"much_unread_for_a_vforked_child_without_the_library", sends_more_than_fits, a_vforked_plain_child_reads_it},
    {"much_unread_for_a_process_that_receives_the_stream", sends_more_than_fits, a_receiver_reads_it},
    {"a_command_runs_amid_much_unread", sends_more_than_fits, runs_a_command_amid_it},
    {"what_was_sent_before_an_exec_arrives", reads_after_a_while, sends_then_becomes},
    {"close_on_exec_ends_the_stream", answers, closes_on_exec},
    {"an_exec_that_fails", answers, fails_to_exec},
    {"a_child_becomes_another_program", answers, child_becomes},
    {"a_child_leaves_the_library", answers, child_becomes_plain},
    {"a_child_becomes_another_program_while_the_peer_is_stopped", is_stopped_meanwhile,
     child_becomes_meanwhile},
    {"a_vforked_child_becomes_another_program_while_the_peer_is_stopped", is_stopped_meanwhile,
     vforked_child_becomes_meanwhile},
    {"vfork_and_exec", answers, vforks},
    {"posix_spawn_with_and_without_the_stream", answers, spawns},
    {"system_and_popen", answers, systems},
};

int main(int argc, char **argv) {
    if (argc > 3 && strcmp(argv[1], "--inherited") == 0)
        return inherited(argc, argv);
    return scenario_main(argc, argv, scenarios, sizeof scenarios / sizeof scenarios[0]);
}
