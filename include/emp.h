/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* EMP: messages with tags between nodes. The receiving NIC itself puts each message into its posted receive.
 * C99, C++. Link with -lsovia-emp.
 *
 *     struct emp_config config = { .place = "eth:eth0", .nodes = table, .count = 2, .key = 42 };
 *     struct emp *emp;
 *     emp_init(&config, &emp);
 *     emp_post_recv(emp, EMP_ANY_SOURCE, 7, &iov, 1, &handle);
 *     emp_wait(emp, handle, &status, -1);
 *     emp_finish(emp);
 *
 * Each function returns 0 or an error number of errno.h, and does not change errno. Any thread may call any
 * function. A forked child must not use its parent's stations.
 *
 * docs/develop/emp.md is the guide. */
#ifndef EMP_H
#define EMP_H

#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

#ifdef __cplusplus
extern "C" {
#endif

/* A station: this node's end of EMP. */
struct emp;

/* A thread does all of the NIC's work, and polls without pause. Give it a processor of its own. Without this
 * flag, calls do the work, and a thread does it while no call runs. */
#define EMP_NIC_THREAD 1u
/* Locks all memory of this process, as the paper's programs do (mlockall). The NIC does not need it. */
#define EMP_LOCK_MEMORY 2u

struct emp_config {
    /* Network that carries frames: udp:ADDRESS:PORT, eth:DEVICE or xdp:DEVICE. */
    const char *place;
    /* Addresses of the nodes, in the order of their numbers: ADDRESS:PORT, or 02:00:00:00:00:01. The table may
     * contain this node's own address. */
    const char *const *nodes;
    /* Number of nodes, at most 65534. */
    unsigned count;
    /* Secret that all nodes share. */
    uint64_t key;
    unsigned flags;
    /* Processor of the NIC's thread; a negative number means any processor. */
    int processor;
    /* Number of frames acknowledged together, up to 8; 0 means 3, as in the paper. */
    unsigned collection;
    /* Microseconds without work after which a thread sleeps; 0 means 50. */
    unsigned spin;
};

/* Outcome of a send or a receive. */
struct emp_status {
    /* 0, or an error number. EMSGSIZE: the message was longer than its receive. EHOSTUNREACH: the peer does not
     * answer. ECONNRESET: another process has taken the peer's place. ECANCELED: emp_cancel ended the receive.
     * ENETDOWN: the device no longer exists. */
    int error;
    /* Node that the message was for, or that it came from. */
    uint16_t node;
    /* Tag of the message. */
    uint32_t tag;
    /* Length of the message in bytes; with EMSGSIZE, the length that it would have had. */
    uint32_t length;
};

#define EMP_ANY_SOURCE ((uint16_t)0xffff)
#define EMP_ANY_TAG (-1)

/* Opens a station. EINVAL: the configuration is invalid. Other errors come from the kernel. */
int emp_init(const struct emp_config *config, struct emp **emp);

/* Writes this node's address to `room`, in the form that the other nodes' tables need. ENOSPC:
 * `room` is too small. */
int emp_address(const struct emp *emp, char *room, size_t length);

/* Posts a send of all pieces, in their order, to a node. The memory must not change until the send has ended. EAGAIN:
 * no descriptors are free until a call reports the end of another send or receive. ENXIO: no such node. EMSGSIZE:
 * more than 30 MB, or more than 512 pieces of 60 KB. */
int emp_post_send(const struct emp *emp, uint16_t node, uint32_t tag,
                  const struct iovec *pieces, int count, uint32_t *handle);

/* Posts a receive into all pieces, in their order, of a message from `node` (or EMP_ANY_SOURCE) with `tag` (or
 * EMP_ANY_TAG). The NIC owns the memory until the receive has ended. Messages match receives in the order in which
 * the receives were posted. */
int emp_post_recv(const struct emp *emp, uint16_t node, int64_t tag,
                  const struct iovec *pieces, int count, uint32_t *handle);

/* Returns 0 if a send or a receive has ended, and writes its outcome to `status`, which may be NULL. Returns
 * EINPROGRESS if it has not ended. Each end is reported once. Then the handle is invalid (EINVAL). */
int emp_test(const struct emp *emp, uint32_t handle, struct emp_status *status);

/* Like emp_test, but waits for the end, for at most `milliseconds` (negative: without limit), else returns
 * ETIMEDOUT. */
int emp_wait(const struct emp *emp, uint32_t handle, struct emp_status *status, int milliseconds);

/* Cancels a receive that no message has matched. Test the receive afterwards: it ends in either
 * case. */
int emp_cancel(const struct emp *emp, uint32_t handle);

/* Closes a station. Posted sends and receives end, and the program owns their memory again. No other call may use the
 * station, now or later. */
int emp_finish(struct emp *emp);

#ifdef __cplusplus
}
#endif

#endif
