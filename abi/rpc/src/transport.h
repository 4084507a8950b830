/* Shared by the server's files. */
#ifndef SOVIA_RPC_TRANSPORT_H
#define SOVIA_RPC_TRANSPORT_H

#include <rpc/rpc.h>
#include <rpc/svc_mt.h>
#include <stdbool.h>
#include <stdint.h>

struct handle {
    SVCXPRT xprt;
    /* libtirpc keeps the caller's authentication there. */
    SVCXPRT_EXT extension;
    struct sockaddr_storage here, there;
};

/* Fills in what every transport has. */
bool handle_start(struct handle *handle, int fd, const struct xp_ops *operations, const struct xp_ops2 *further);
/* Takes it from libtirpc, and closes its socket. */
void handle_stop(struct handle *handle);
/* Gives it to libtirpc, which knows only so many descriptors: whether it knows this one now. */
bool handle_register(struct handle *handle);

/* A transport on an accepted connection; closes it if it cannot be served. `most`: bytes of a record, 0 for any. */
void connection_start(int fd, u_int send_size, u_int receive_size, uint64_t most);

#endif
