/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* EMP: messages with tags between nodes, received where they belong by a NIC that knows what is awaited.
 * C99, C++. Link with -lsovia-emp.
 *
 *     struct emp_config config = { .place = "eth:eth0", .nodes = table, .count = 2, .key = 42 };
 *     struct emp *emp;
 *     emp_init(&config, &emp);
 *     emp_post_recv(emp, EMP_ANY_SOURCE, 7, &iov, 1, &handle);
 *     emp_wait(emp, handle, &status, -1);
 *     emp_finish(emp);
 *
 * Each function returns 0, or what errno would be; errno itself it leaves alone. All may be called by any
 * thread. A forked child must not use its parent's stations.
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

/* A station: this node's end. */
struct emp;

/* The NIC's thread does all of its work, and looks for it all the time: for a processor of its own. Without it
 * calls do the work, and the thread while there are none. */
#define EMP_NIC_THREAD 1u
/* Locks all memory of this process, as the paper's programs do (mlockall). The NIC does not need it. */
#define EMP_LOCK_MEMORY 2u

struct emp_config {
    /* Where this node is: udp:ADDRESS:PORT, eth:DEVICE or xdp:DEVICE. */
    const char *place;
    /* The nodes' addresses, in the order of their numbers: ADDRESS:PORT, or 02:00:00:00:00:01. This node's own may
     * be among them. */
    const char *const *nodes;
    /* How many there are; at most 65534. */
    unsigned count;
    /* What all of them know, and nobody else is to. */
    uint64_t key;
    unsigned flags;
    /* The processor of the NIC's thread; below 0: any. */
    int processor;
    /* Frames that are acknowledged together, up to 8; 0: the paper's 3. */
    unsigned collection;
    /* Microseconds for which a thread looks before it sleeps; 0: 50. */
    unsigned spin;
};

/* What has come of a send or a receive. */
struct emp_status {
    /* 0; EMSGSIZE: the message was longer than its receive; EHOSTUNREACH: the peer does not answer; ECONNRESET: the peer is
     * another process by now; ECANCELED; ENETDOWN: the device has gone. */
    int error;
    /* The node that the message was for, or that it came from. */
    uint16_t node;
    /* Its tag. */
    uint32_t tag;
    /* Its bytes; with EMSGSIZE those that it would have had. */
    uint32_t length;
};

#define EMP_ANY_SOURCE ((uint16_t)0xffff)
#define EMP_ANY_TAG (-1)

/* Opens a station. EINVAL: the configuration; else what the kernel says of the place. */
int emp_init(const struct emp_config *config, struct emp **emp);

/* This node's address, as the others' tables are to have it. ENOSPC: it is longer than the room. */
int emp_address(const struct emp *emp, char *room, size_t length);

/* Posts a send of the bytes of all pieces, one behind the other, to a node. The memory must stay as it is until the
 * send has ended. EAGAIN: no descriptors are free, until others have ended and have been told; ENXIO: no such node; EMSGSIZE:
 * more than 30 MB, or more than 512 pieces of 60 KB. */
int emp_post_send(const struct emp *emp, uint16_t node, uint32_t tag,
                  const struct iovec *pieces, int count, uint32_t *handle);

/* Posts a receive into all pieces, one behind the other, of a message from that node (or EMP_ANY_SOURCE) with that tag (or
 * EMP_ANY_TAG). The memory is the NIC's until the receive has ended. Messages meet receives in the order in which
 * these were posted. */
int emp_post_recv(const struct emp *emp, uint16_t node, int64_t tag,
                  const struct iovec *pieces, int count, uint32_t *handle);

/* Whether a send or a receive has ended: EINPROGRESS if not. It is told once; then the handle names nothing any more (EINVAL).
 * `status` may be NULL. */
int emp_test(const struct emp *emp, uint32_t handle, struct emp_status *status);

/* Waits until it has ended, for so many milliseconds at most (below 0: for ever): ETIMEDOUT if it has not. */
int emp_wait(const struct emp *emp, uint32_t handle, struct emp_status *status, int milliseconds);

/* Gives a receive up that has met no message. It ends either way, and is to be tested. */
int emp_cancel(const struct emp *emp, uint32_t handle);

/* Closes a station. What is posted ends, and memory is the program's again. No other call may use the station, now or
 * later. */
int emp_finish(struct emp *emp);

#ifdef __cplusplus
}
#endif

#endif
