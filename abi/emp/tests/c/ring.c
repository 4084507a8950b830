/* Runs four nodes in separate processes. A message travels around the ring, grows, and returns complete. */
#include "check.h"
#include <sys/wait.h>

#define NODES 4
#define ROUNDS 200

static char names[NODES][40];
static const char *table[NODES];

static void node(unsigned self) {
    struct emp_config config;
    struct emp *emp;
    char place[64], word[ROUNDS * NODES];
    struct iovec iov;
    struct emp_status status;
    uint32_t handle;
    unsigned round, left = (self + NODES - 1) % NODES, right = (self + 1) % NODES;

    snprintf(place, sizeof place, "udp:%s", table[self]);
    memset(&config, 0, sizeof config);
    config.place = place;
    config.nodes = table;
    config.count = NODES;
    config.key = 7;
    GIVES(0, emp_init(&config, &emp));
    for (round = 0; round < ROUNDS; round++) {
        size_t length = round * NODES + self;
        if (self != 0 || round != 0) {
            iov.iov_base = word;
            iov.iov_len = sizeof word;
            GIVES(0, emp_post_recv(emp, (uint16_t)left, 1, &iov, 1, &handle));
            GIVES(0, emp_wait(emp, handle, &status, -1));
            CHECK(status.error == 0 && status.node == left && status.length == length);
        }
        word[length] = (char)length;
        iov.iov_base = word;
        iov.iov_len = length + 1;
        GIVES(0, emp_post_send(emp, (uint16_t)right, 1, &iov, 1, &handle));
        GIVES(0, emp_wait(emp, handle, &status, -1));
        /* The last node sends its last message to the first node, which receives the message below. */
        CHECK(status.error == 0);
    }
    if (self == 0) {
        size_t at;
        iov.iov_base = word;
        iov.iov_len = sizeof word;
        GIVES(0, emp_post_recv(emp, (uint16_t)left, 1, &iov, 1, &handle));
        GIVES(0, emp_wait(emp, handle, &status, -1));
        CHECK(status.error == 0 && status.length == sizeof word);
        for (at = 0; at < sizeof word; at++)
            CHECK(word[at] == (char)at);
        /* emp_finish sends the last acknowledgement, and the last node waits for it in its last emp_wait. */
    }
    GIVES(0, emp_finish(emp));
}

int main(void) {
    unsigned i;
    for (i = 0; i < NODES; i++)
        table[i] = node_at(names[i], sizeof names[i], i);
    for (i = 0; i < NODES; i++) {
        pid_t child = fork();
        CHECK(child >= 0);
        if (child == 0) {
            node(i);
            _exit(0);
        }
    }
    for (i = 0; i < NODES; i++) {
        int status;
        CHECK(wait(&status) > 0);
        CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    }
    puts("as it should be");
    return 0;
}
