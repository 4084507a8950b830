/* Connections to a service: a transport whose only events are new connections. */
#include "record.h"
#include "transport.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <rpc/rpc_com.h>
#include <sovia.h>
#include <sovia_rpc.h>
#include <stdlib.h>
#include <string.h>

struct listener {
    struct handle handle;
    u_int send_size, receive_size;
    uint64_t most;
};

/* Accepts one connection at a time, as libtirpc does. Returns FALSE, because there is no request
 * yet. */
static bool_t receive(SVCXPRT *xprt, struct rpc_msg *message) {
    struct listener *listener = xprt->xp_p1;
    (void)message;
    /* Close on exec: a new program would inherit only the kernel's socket, without the bytes on the VI. */
    int fd = sov_accept4(xprt->xp_fd, NULL, NULL, SOCK_CLOEXEC);
    if (fd < 0)
        return FALSE;
    int on = 1;
    sov_setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    connection_start(fd, listener->send_size, listener->receive_size, listener->most);
    return FALSE;
}

static enum xprt_stat state(SVCXPRT *xprt) {
    (void)xprt;
    return XPRT_IDLE;
}

/* Fails: a listener has neither arguments nor replies. */
static bool_t no_value(SVCXPRT *xprt, xdrproc_t procedure, void *value) {
    (void)xprt, (void)procedure, (void)value;
    return FALSE;
}

static bool_t no_reply(SVCXPRT *xprt, struct rpc_msg *message) {
    (void)xprt, (void)message;
    return FALSE;
}

static void destroy(SVCXPRT *xprt) {
    struct listener *listener = xprt->xp_p1;
    handle_stop(&listener->handle);
    free(listener);
}

/* Settings apply to later connections. */
static bool_t control(SVCXPRT *xprt, const u_int request, void *value) {
    struct listener *listener = xprt->xp_p1;
    switch (request) {
    case SVCGET_CONNMAXREC:
        *(int *)value = (int)listener->most;
        return TRUE;
    case SVCSET_CONNMAXREC:
        listener->most = *(int *)value > 0 ? (uint64_t)*(int *)value : 0;
        return TRUE;
    default:
        return FALSE;
    }
}

static int listen_anywhere(void) {
    struct sockaddr_in any;
    memset(&any, 0, sizeof any);
    any.sin_family = AF_INET;
    int fd = sov_socket(AF_INET, SOCK_VIA | SOCK_CLOEXEC, 0);
    if (fd >= 0 && (sov_bind(fd, (struct sockaddr *)&any, sizeof any) < 0 || sov_listen(fd, SOMAXCONN) < 0)) {
        sov_close(fd);
        return -1;
    }
    return fd;
}

SVCXPRT *svc_via_create(int fd, u_int send_size, u_int receive_size) {
    static const struct xp_ops operations = {
        .xp_recv = receive,
        .xp_stat = state,
        .xp_getargs = no_value,
        .xp_reply = no_reply,
        .xp_freeargs = no_value,
        .xp_destroy = destroy,
    };
    static const struct xp_ops2 further = {.xp_control = control};
    struct listener *listener = calloc(1, sizeof *listener);
    bool made = fd == RPC_ANYFD;
    int most = 0;
    if (made)
        fd = listen_anywhere();
    if (!listener || fd < 0 || !handle_start(&listener->handle, fd, &operations, &further)) {
        if (made && fd >= 0)
            sov_close(fd);
        if (listener) {
            free(listener->handle.xprt.xp_netid);
            free(listener->handle.xprt.xp_tp);
        }
        free(listener);
        return NULL;
    }
    SVCXPRT *xprt = &listener->handle.xprt;
    xprt->xp_p1 = listener;
    /* Both address families have the port at the same offset. */
    xprt->xp_port = ntohs(((struct sockaddr_in *)&listener->handle.here)->sin_port);
    listener->send_size = send_size;
    listener->receive_size = receive_size;
    if (rpc_control(RPC_SVC_CONNMAXREC_GET, &most) && most > 0)
        listener->most = (uint64_t)most;
    /* Non-blocking: a client may close its connection before accept, which must not block other
     * clients. */
    sov_fcntl(fd, F_SETFL, sov_fcntl(fd, F_GETFL) | O_NONBLOCK);
    if (!handle_register(&listener->handle)) {
        destroy(xprt);
        return NULL;
    }
    return xprt;
}
