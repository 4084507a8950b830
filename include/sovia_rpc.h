/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Sun RPC over SOVIA: a transport named "via" for programs that use libtirpc, with or without rpcgen's stubs.
 *
 *     CLIENT *client = clnt_create(host, PROGRAM, VERSION, "via");
 *     int made = svc_create(dispatch, PROGRAM, VERSION, "via");
 *
 * Nothing else in a program changes, and the program need not include this file. Link with
 *
 *     cc ... $(pkg-config --cflags --libs sovia-rpc)
 *
 * This puts -lsovia-rpc before -ltirpc. libsovia-rpc has its own clnt_create, clnt_create_timed,
 * clnt_create_vers, clnt_create_vers_timed, rpc_call, svc_create and svc_run. For transports other than "via",
 * they call libtirpc.
 *
 * A connection is a TCP connection with records as on TCP. Its bytes move over a Virtual Interface if the other
 * end is on this host and uses Sovia too. So either end may be a program that uses "tcp", and rpcbind registers a
 * service under TCP.
 *
 * The functions below are for programs without rpcbind. docs/develop/rpc.md is the guide. */
#ifndef SOVIA_RPC_H
#define SOVIA_RPC_H

#include <rpc/rpc.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Makes a client like clnt_vc_create, over a socket of sov_socket(AF_INET or AF_INET6, SOCK_VIA, 0). Connects the
 * socket to `address` if it is not connected yet. RPC_ANYFD makes a socket. The sizes are those of the buffers at
 * first; 0 is a good choice. Returns NULL on failure: see clnt_pcreateerror.
 *
 * CLGET_FD gets the socket, which only sov_ functions may use. As in libtirpc, each wait within a call may last as
 * long as the call's timeout. */
CLIENT *clnt_via_create(int fd, const struct netbuf *address, rpcprog_t program, rpcvers_t version,
                        u_int send_size, u_int receive_size);

/* Makes a transport like svc_vc_create, over a listening socket of libsovia; RPC_ANYFD makes one at any port. Pass
 * the transport to svc_reg, with a struct netconfig of TCP or NULL, or to svc_register.
 *
 * svc_pollfd lists its sockets like those of any other transport. A program that waits for them itself, instead of in
 * svc_run, must use sov_poll: libc's poll does not see the bytes on a Virtual Interface. */
SVCXPRT *svc_via_create(int fd, u_int send_size, u_int receive_size);

#ifdef __cplusplus
}
#endif

#endif
