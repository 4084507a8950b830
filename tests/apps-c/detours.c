// Unusual ways to use a stream: each puts bytes between a first and a last part, or takes some.
#include "common.h"

#include <aio.h>
#include <linux/aio_abi.h>
#include <sched.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/syscall.h>
#include <sys/uio.h>

extern char **environ;

static char buffer[1000];
static const char question[] = "question";

enum { ASKED = sizeof question - 1 };

// The other end: sends a question, and prints the answer.
static void asks(struct peer *p) {
    send_all(p->fd, question, ASKED);
    meet(p);
    size_t length = 0;
    ssize_t got;
    while ((got = recv(p->fd, buffer + length, sizeof buffer - length, 0)) > 0)
        length += got;
    say_text("got", buffer, length);
    say("then %zd", got);
    meet(p);
}

static void begin(struct peer *p) {
    await_bytes(p->fd, ASKED);
    meet(p);
    send_all(p->fd, "<", 1);
}

static void end(struct peer *p) {
    send_all(p->fd, ">", 1);
    // A close with unread bytes would be a reset.
    while (recv(p->fd, buffer, sizeof buffer, MSG_DONTWAIT) > 0)
        ;
    CALL(close(p->fd));
    meet(p);
}

static void say_request(const char *what, struct aiocb *request) {
    const struct aiocb *list[1] = {request};
    MUST(aio_suspend(list, 1, NULL));
    int error = aio_error(request);
    say("%s: %s, %zd", what, error ? strerrorname_np(error) : "done", aio_return(request));
}

static void asynchronously(struct peer *p) {
    begin(p);
    struct aiocb in = {.aio_fildes = p->fd, .aio_buf = buffer, .aio_nbytes = 4};
    MUST(aio_read(&in));
    say_request("read", &in);
    say_text("read", buffer, 4);
    struct aiocb out = {.aio_fildes = p->fd, .aio_buf = "written", .aio_nbytes = 7};
    MUST(aio_write(&out));
    say_request("write", &out);
    struct aiocb more = {
        .aio_fildes = p->fd, .aio_buf = " listed", .aio_nbytes = 7, .aio_lio_opcode = LIO_WRITE};
    struct aiocb *list[1] = {&more};
    MUST(lio_listio(LIO_WAIT, list, 1, NULL));
    end(p);
}

static void by_the_kernel(struct peer *p) {
    begin(p);
    aio_context_t context = 0;
    struct io_event event;
    MUST(syscall(SYS_io_setup, 2, &context));
    struct iocb wait = {
        .aio_fildes = p->fd, .aio_lio_opcode = IOCB_CMD_POLL, .aio_buf = POLLIN};
    struct iocb write = {.aio_fildes = p->fd,
                         .aio_lio_opcode = IOCB_CMD_PWRITE,
                         .aio_buf = (uintptr_t) "written",
                         .aio_nbytes = 7};
    struct iocb *lists[] = {&wait, &write};
    for (int i = 0; i < 2; i++) {
        CALL(syscall(SYS_io_submit, context, 1, &lists[i]));
        CALL(syscall(SYS_io_getevents, context, 1, 1, &event, NULL));
        say("event: %lld", (long long)event.res);
    }
    struct iocb *bad = (struct iocb *)8;
    CALL(syscall(SYS_io_submit, context, 1, &bad));
    MUST(syscall(SYS_io_destroy, context));
    end(p);
}

static void with_offsets(struct peer *p) {
    begin(p);
    struct iovec in = {buffer, 4}, out = {"vector", 6};
    CALL(preadv2(p->fd, &in, 1, -1, 0));
    say_text("read", buffer, 4);
    CALL(preadv64v2(p->fd, &in, 1, -1, 0));
    say_text("read", buffer, 4);
    CALL(pwritev2(p->fd, &out, 1, -1, 0));
    CALL(pwritev64v2(p->fd, &out, 1, -1, 0));
    CALL(pwritev64v2(p->fd, &out, 1, 0, 0));
    end(p);
}

static void shell(struct peer *p, char *command, size_t size) {
    snprintf(command, size, "echo by a child >&%d", p->fd);
}

static void await_child(pid_t child) {
    int status;
    MUST(waitpid(child, &status, 0));
    say_status("child", status);
}

static void execveat_of_a_child(struct peer *p) {
    begin(p);
    char command[50];
    shell(p, command, sizeof command);
    char *arguments[] = {"sh", "-c", command, NULL};
    MUST(fcntl(p->fd, F_SETFD, 0));
    pid_t child = MUST(fork());
    if (child == 0) {
        execveat(AT_FDCWD, "/bin/sh", arguments, environ, 0);
        _exit(99);
    }
    await_child(child);
    end(p);
}

// The child gets the descriptor that a file action duplicates, although the original descriptor is closed
// in the child.
static void spawn_with(struct peer *p, int to, char *command) {
    begin(p);
    MUST(fcntl(p->fd, F_SETFD, FD_CLOEXEC));
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, p->fd, to < 0 ? p->fd : to);
    char *arguments[] = {"sh", "-c", command, NULL};
    pid_t child;
    int status = posix_spawn(&child, "/bin/sh", &actions, NULL, arguments, environ);
    say("posix_spawn = %d", status);
    posix_spawn_file_actions_destroy(&actions);
    await_child(child);
    end(p);
}

static void spawned_output(struct peer *p) { spawn_with(p, 1, "echo by a child"); }
static void spawned_input(struct peer *p) { spawn_with(p, 0, "test \"$(head -c 8)\" = question"); }
static void spawned_number(struct peer *p) { spawn_with(p, 7, "echo by a child >&7"); }

static void spawned_same_number(struct peer *p) {
    char command[50];
    shell(p, command, sizeof command);
    spawn_with(p, -1, command);
}

// By numbers of system calls, through libc's syscall.
static void by_number(struct peer *p) {
    begin(p);
    struct iovec in = {buffer, 4}, out = {"vector ", 7};
    struct pollfd one = {.fd = p->fd, .events = POLLIN};
    struct timespec soon = {5, 0};
    CALL((int)syscall(SYS_ppoll, &one, 1, &soon, NULL, 8));
    int set = MUST((int)syscall(SYS_epoll_create1, 0));
    struct epoll_event event = {.events = EPOLLIN};
    CALL((int)syscall(SYS_epoll_ctl, set, EPOLL_CTL_ADD, p->fd, &event));
    CALL((int)syscall(SYS_epoll_pwait, set, &event, 1, 5000, NULL, 8));
    CALL((int)syscall(SYS_preadv2, p->fd, &in, 1, -1, -1, 0));
    say_text("read", buffer, 4);
    int there = 0;
    CALL((int)syscall(SYS_ioctl, p->fd, FIONREAD, &there));
    say("%d there", there);
    CALL((int)syscall(SYS_pwritev2, p->fd, &out, 1, -1, -1, 0));
    int file = MUST(memfd_create("file", MFD_CLOEXEC));
    MUST(write(file, "file ", 5));
    off_t from = 0;
    CALL((int)syscall(SYS_sendfile, p->fd, file, &from, 5));
    struct mmsghdr messages[1] = {{.msg_hdr = {.msg_iov = &out, .msg_iovlen = 1}}};
    CALL((int)syscall(SYS_sendmmsg, p->fd, messages, 1, 0));
    MUST(close(set));
    end(p);
}

static void by_another_descriptor(struct peer *p) {
    begin(p);
    int self = MUST((int)syscall(SYS_pidfd_open, getpid(), 0));
    int again = MUST((int)syscall(SYS_pidfd_getfd, self, p->fd, 0));
    CALL(write(again, "again", 5));
    MUST(close(again));
    end(p);
}

// The program's close is the last one, even with a descriptor table of its own.
static void with_a_table_of_its_own(struct peer *p) {
    begin(p);
    int cold = connect_to(p, AF_INET, "cold");
    MUST(unshare(CLONE_FILES));
    CALL(write(cold, "cold", 4));
    MUST(close(cold));
    CALL(write(p->fd, "own", 3));
    end(p);
}

static void asks_and_takes_another(struct peer *p) {
    p->listener = listen_on(p, AF_INET, "cold");
    send_all(p->fd, question, ASKED);
    meet(p);
    int cold = accept_one(p->listener);
    CALL(recv(cold, buffer, 100, MSG_WAITALL));
    CALL(recv(p->fd, buffer, 100, MSG_WAITALL));
    say_text("got", buffer, 5);
    meet(p);
}

static const struct scenario scenarios[] = {
    {"asynchronous_reads_and_writes", asks, asynchronously},
    {"requests_to_the_kernel", asks, by_the_kernel},
    {"vectors_with_an_offset", asks, with_offsets},
    {"execveat_in_a_child", asks, execveat_of_a_child},
    {"a_spawned_childs_output", asks, spawned_output},
    {"a_spawned_childs_input", asks, spawned_input},
    {"a_number_of_a_spawned_childs", asks, spawned_number},
    {"the_same_number_in_a_spawned_child", asks, spawned_same_number},
    {"system_calls_by_their_numbers", asks, by_number},
    {"a_descriptor_by_way_of_the_process", asks, by_another_descriptor},
    {"a_table_of_descriptors_of_its_own", asks_and_takes_another, with_a_table_of_its_own},
};
SCENARIO_MAIN(scenarios)
