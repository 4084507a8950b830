/* Shared by the functions that make clients. */
#ifndef SOVIA_RPC_CLIENT_H
#define SOVIA_RPC_CLIENT_H

#include <rpc/rpc.h>
#include <stdbool.h>

/* The transport's name. */
#define VIA "via"

/* Returns true if `nettype` selects this transport. */
bool is_via(const char *nettype);

/* Sets rpc_createerr, and returns NULL for the caller to return. */
CLIENT *cannot_create(enum clnt_stat status, int error);

/* Makes a client on a connected socket of libsovia, which the client closes if `owned`. */
CLIENT *client_on(int fd, bool owned, const struct netbuf *address, rpcprog_t program, rpcvers_t version,
                  u_int send_size, u_int receive_size);

#endif
