/* Tests two stations in one program: transfers of every kind, and misuse. */
#include "check.h"

#define MUCH 200000

static char out[MUCH], in[MUCH];

static struct iovec piece(void *base, size_t length) {
    struct iovec iov;
    iov.iov_base = base;
    iov.iov_len = length;
    return iov;
}

static struct emp *opened(const char *place, const char *const *nodes, unsigned count, unsigned flags) {
    struct emp_config config;
    struct emp *emp = NULL;
    memset(&config, 0, sizeof config);
    config.place = place;
    config.nodes = nodes;
    config.count = count;
    config.key = 42;
    config.flags = flags;
    config.processor = -1;
    GIVES(0, emp_init(&config, &emp));
    CHECK(emp != NULL);
    return emp;
}

static void play(unsigned flags) {
    char names[2][40] = {"udp:", "udp:"};
    const char *table[2];
    struct emp *one, *other;
    struct iovec gather[3], scatter[2], all;
    struct emp_status status;
    char address[64];
    uint32_t send, receive, late, many[640];
    unsigned i, posted;

    for (i = 0; i < 2; i++)
        table[i] = node_at(names[i] + 4, sizeof names[i] - 4, i);
    one = opened(names[0], table, 2, flags);
    other = opened(names[1], table, 2, flags);
    GIVES(0, emp_address(one, address, sizeof address));
    CHECK(strcmp(address, table[0]) == 0);
    GIVES(ENOSPC, emp_address(one, address, 5));

    for (i = 0; i < MUCH; i++)
        out[i] = (char)(i * 7 + i / 251);
    gather[0] = piece(out, 1);
    gather[1] = piece(out + 1, 70000);
    gather[2] = piece(out + 70001, MUCH - 70001);
    scatter[0] = piece(in, 100001);
    scatter[1] = piece(in + 100001, MUCH - 100001);
    GIVES(0, emp_post_recv(other, EMP_ANY_SOURCE, EMP_ANY_TAG, scatter, 2, &receive));
    GIVES(EINPROGRESS, emp_test(other, receive, &status));
    GIVES(ETIMEDOUT, emp_wait(other, receive, &status, 10));
    GIVES(0, emp_post_send(one, 1, 77, gather, 3, &send));
    GIVES(0, emp_wait(other, receive, &status, -1));
    CHECK(status.error == 0 && status.node == 0 && status.tag == 77 && status.length == MUCH);
    CHECK(memcmp(in, out, MUCH) == 0);
    GIVES(0, emp_wait(one, send, &status, -1));
    CHECK(status.error == 0 && status.node == 1 && status.tag == 77 && status.length == MUCH);
    GIVES(EINVAL, emp_test(one, send, &status));

    /* Sends a message that is longer than its receive. */
    all = piece(in, 10);
    GIVES(0, emp_post_recv(other, 0, 5, &all, 1, &receive));
    all = piece(out, 11);
    GIVES(0, emp_post_send(one, 1, 5, &all, 1, &send));
    GIVES(0, emp_wait(one, send, &status, -1));
    CHECK(status.error == EMSGSIZE);
    GIVES(0, emp_wait(other, receive, &status, -1));
    CHECK(status.error == EMSGSIZE && status.length == 11);

    /* Cancels a receive. */
    GIVES(0, emp_post_recv(other, 0, 6, NULL, 0, &late));
    GIVES(0, emp_cancel(other, late));
    GIVES(0, emp_wait(other, late, &status, -1));
    CHECK(status.error == ECANCELED);
    GIVES(EINVAL, emp_cancel(other, late));

    /* Fills all descriptors, and frees them again. */
    all = piece(out, 4);
    for (posted = 0; posted < 640; posted++)
        GIVES(0, emp_post_send(one, 1, 8, &all, 1, &many[posted]));
    GIVES(EAGAIN, emp_post_send(one, 1, 8, &all, 1, &send));
    for (i = 0; i < posted; i++) {
        all = piece(in, 4);
        GIVES(0, emp_post_recv(other, 0, 8, &all, 1, &receive));
        GIVES(0, emp_wait(other, receive, NULL, -1));
    }
    for (i = 0; i < posted; i++)
        GIVES(0, emp_wait(one, many[i], NULL, -1));

    GIVES(ENXIO, emp_post_send(one, 2, 8, &all, 1, &send));
    GIVES(ENXIO, emp_post_send(one, EMP_ANY_SOURCE, 8, &all, 1, &send));
    GIVES(EINVAL, emp_post_recv(one, 1, -2, &all, 1, &send));
    GIVES(EINVAL, emp_post_recv(one, 1, (int64_t)1 << 32, &all, 1, &send));
    GIVES(EINVAL, emp_post_send(one, 1, 8, NULL, 1, &send));
    GIVES(EINVAL, emp_post_send(one, 1, 8, &all, -1, &send));
    GIVES(EINVAL, emp_post_send(one, 1, 8, &all, 1, NULL));
    GIVES(EMSGSIZE, emp_post_send(one, 1, 8, &all, 513, &send));
    all = piece(out, (size_t)1 << 40);
    GIVES(EMSGSIZE, emp_post_send(one, 1, 8, &all, 1, &send));
    all = piece((void *)~(uintptr_t)0, 2);
    GIVES(EFAULT, emp_post_send(one, 1, 8, &all, 1, &send));
    GIVES(EINVAL, emp_test(NULL, send, &status));
    GIVES(EINVAL, emp_test(one, 0xffffffffu, &status));

    GIVES(0, emp_finish(other));
    GIVES(0, emp_finish(one));
    GIVES(0, emp_finish(NULL));
}

static void bad_configurations(void) {
    char name[40] = "udp:";
    const char *table[] = {node_at(name + 4, sizeof name - 4, 2)}, *bad[] = {"nowhere"};
    struct emp_config good, config;
    struct emp *emp;
    memset(&good, 0, sizeof good);
    good.place = name;
    good.nodes = table;
    good.count = 1;
#define BAD(errno_, change)                                                          \
    do {                                                                             \
        config = good;                                                               \
        change;                                                                      \
        GIVES(errno_, emp_init(&config, &emp));                                      \
        CHECK(emp == NULL);                                                          \
    } while (0)
    BAD(EINVAL, config.place = NULL);
    BAD(EINVAL, config.place = "somewhere");
    BAD(EINVAL, config.nodes = NULL);
    BAD(EINVAL, config.nodes = bad);
    BAD(EINVAL, config.count = 65535);
    BAD(EINVAL, config.flags = 4);
    BAD(EINVAL, config.collection = 9);
    BAD(EADDRNOTAVAIL, config.place = "udp:192.0.2.1:7000");
    BAD(ENODEV, config.place = "eth:no-such-device");
    BAD(EOPNOTSUPP, config.place = "agent:none");
    GIVES(EINVAL, emp_init(NULL, &emp));
    GIVES(EINVAL, emp_init(&good, NULL));
}

int main(void) {
    play(0);
    play(EMP_NIC_THREAD);
    bad_configurations();
    puts("as it should be");
    return 0;
}
