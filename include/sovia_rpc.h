/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Sun RPC over SOVIA: a transport named "via" for programs of libtirpc's, with rpcgen's stubs or without.
 *
 *     CLIENT *client = clnt_create(host, PROGRAM, VERSION, "via");
 *     int made = svc_create(dispatch, PROGRAM, VERSION, "via");
 *
 * Nothing else of a program changes, and it need not include this file. It is linked with
 *
 *     cc ... $(pkg-config --cflags --libs sovia-rpc)
 *
 * that is, with -lsovia-rpc before -ltirpc: libsovia-rpc has functions of these names, and passes on to libtirpc what
 * is not "via": clnt_create, clnt_create_timed, clnt_create_vers, clnt_create_vers_timed, rpc_call, svc_create and
 * svc_run.
 *
 * A connection is TCP's, with records as on TCP, and its bytes move over a Virtual Interface if the other end is on this
 * host and speaks Sovia too. So either end may be a program that uses "tcp", and a service is known to rpcbind as one of
 * TCP's.
 *
 * Here are the functions below those, for programs without rpcbind. docs/develop/rpc.md is the guide. */
#ifndef SOVIA_RPC_H
#define SOVIA_RPC_H

#include <rpc/rpc.h>

#ifdef __cplusplus
extern "C" {
#endif

/* As clnt_vc_create, over a socket of sov_socket(AF_INET or AF_INET6, SOCK_VIA, 0). It is connected to `address` if it
 * is not connected yet; RPC_ANYFD makes one. The sizes are those of the buffers at first; 0 is a good choice.
 * NULL: see clnt_pcreateerror.
 *
 * CLGET_FD tells the socket, for sov_ functions only. A call's timeout is how long it waits for news each time, as
 * libtirpc has it. */
CLIENT *clnt_via_create(int fd, const struct netbuf *address, rpcprog_t program, rpcvers_t version,
                        u_int send_size, u_int receive_size);

/* As svc_vc_create, over a socket of libsovia's that listens; RPC_ANYFD makes one at any port. It is for svc_reg, with a
 * struct netconfig of TCP's or NULL, or for svc_register.
 *
 * Its sockets are in svc_pollfd like any other transport's. A program that waits for them itself, instead of in
 * svc_run, does so by sov_poll: libc's poll knows nothing of the bytes on a Virtual Interface. */
SVCXPRT *svc_via_create(int fd, u_int send_size, u_int receive_size);

#ifdef __cplusplus
}
#endif

#endif
