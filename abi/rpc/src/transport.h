/* Shared by the server's files. */
#ifndef SOVIA_RPC_TRANSPORT_H
#define SOVIA_RPC_TRANSPORT_H

#include <rpc/rpc.h>
#include <rpc/svc_mt.h>
#include <stdbool.h>
#include <stdint.h>

struct handle {
    SVCXPRT xprt;
    /* Holds the caller's authentication for libtirpc. */
    SVCXPRT_EXT extension;
    struct sockaddr_storage here, there;
};

/* Fills in the fields that every transport has. */
bool handle_start(struct handle *handle, int fd, const struct xp_ops *operations, const struct xp_ops2 *further);
/* Removes it from libtirpc, and closes its socket. */
void handle_stop(struct handle *handle);
/* Adds it to libtirpc. Returns false if libtirpc's table of descriptors is full. */
bool handle_register(struct handle *handle);

/* Makes a transport on an accepted connection; closes the connection on failure. `most` is the longest record in
 * bytes; 0 means no limit. */
void connection_start(int fd, u_int send_size, u_int receive_size, uint64_t most);

#endif
