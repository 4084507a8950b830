/* Program whose instructions steps.py counts. One thread has both ends of its connections. */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

/* Runs before the count, until the library knows the usual length of connections, and locks are biased to their
 * thread. */
enum { CONNECTIONS = 2000, MESSAGES = 200000 };

static int listener;
static struct sockaddr_in address;

static void check(int is_fine, const char *call) {
    if (!is_fine) {
        perror(call);
        exit(1);
    }
}

/* Notifies steps.py that the next part begins, or that the last one has ended. */
static void mark(void) { raise(SIGUSR1); }

static int connected(void) {
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    check(fd >= 0, "socket");
    check(connect(fd, (struct sockaddr *)&address, sizeof address) == 0, "connect");
    return fd;
}

static int accepted(void) {
    int fd = accept(listener, NULL, NULL);
    check(fd >= 0, "accept");
    return fd;
}

static void put(int fd) { check(write(fd, "abc", 4) == 4, "write"); }

static void get(int fd) {
    char bytes[4];
    check(read(fd, bytes, 4) == 4, "read");
}

/* Makes a connection with so many messages each way. Marks each end's parts if asked to. */
static void connection(int messages, int is_marked) {
    int from, to;
    if (is_marked) mark();
    from = connected();
    if (is_marked) mark();
    to = accepted();
    if (is_marked) mark();
    for (int i = 0; i < messages; i++) {
        put(from);
        if (is_marked && i == 0) mark();
        get(to);
        if (is_marked && i == 0) mark();
        put(to);
        get(from);
    }
    if (is_marked) mark();
    close(from);
    if (is_marked) mark();
    close(to);
    if (is_marked) mark();
}

int main(int count, char **words) {
    socklen_t len = sizeof address;
    int messages = count > 1 ? atoi(words[1]) : 0, from, to;
    /* Wait until steps.py traces this process. */
    raise(SIGSTOP);
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    listener = socket(AF_INET, SOCK_STREAM, 0);
    check(listener >= 0, "socket");
    check(bind(listener, (struct sockaddr *)&address, sizeof address) == 0, "bind");
    check(listen(listener, 16) == 0, "listen");
    check(getsockname(listener, (struct sockaddr *)&address, &len) == 0, "getsockname");
    if (messages > 0) {
        for (int i = 0; i < CONNECTIONS; i++) connection(messages, 0);
        connection(messages, 1);
        return 0;
    }
    from = connected();
    to = accepted();
    for (int i = 0; i < MESSAGES; i++) {
        put(from);
        get(to);
        put(to);
        get(from);
    }
    mark();
    put(from);
    mark();
    get(to);
    mark();
    return 0;
}
