/* Shared by listeners and connections. */
#include "client.h"
#include "transport.h"

#include <sovia.h>
#include <stdlib.h>
#include <string.h>

static void note_address(struct netbuf *address, struct sockaddr_storage *storage, socklen_t length) {
    address->buf = storage;
    address->len = length;
    address->maxlen = sizeof *storage;
}

bool handle_start(struct handle *handle, int fd, const struct xp_ops *operations, const struct xp_ops2 *further) {
    SVCXPRT *xprt = &handle->xprt;
    socklen_t length = sizeof handle->here;
    xprt->xp_netid = strdup(VIA);
    xprt->xp_tp = strdup("-");
    if (!xprt->xp_netid || !xprt->xp_tp)
        return false;
    xprt->xp_fd = fd;
    xprt->xp_ops = operations;
    xprt->xp_ops2 = further;
    xprt->xp_p3 = &handle->extension;
    if (sov_getsockname(fd, (struct sockaddr *)&handle->here, &length) < 0)
        return false;
    note_address(&xprt->xp_ltaddr, &handle->here, length);
    length = sizeof handle->there;
    if (sov_getpeername(fd, (struct sockaddr *)&handle->there, &length) == 0) {
        note_address(&xprt->xp_rtaddr, &handle->there, length);
        xprt->xp_addrlen = (int)(length < sizeof xprt->xp_raddr ? length : sizeof xprt->xp_raddr);
        memcpy(&xprt->xp_raddr, &handle->there, (size_t)xprt->xp_addrlen);
    }
    return true;
}

void handle_stop(struct handle *handle) {
    SVCXPRT *xprt = &handle->xprt;
    xprt_unregister(xprt);
    if (SVC_XP_AUTH(xprt).svc_ah_ops && SVC_XP_AUTH(xprt).svc_ah_private) {
        SVCAUTH_DESTROY(&SVC_XP_AUTH(xprt));
        SVC_XP_AUTH(xprt).svc_ah_private = NULL;
    }
    sov_close(xprt->xp_fd);
    free(xprt->xp_netid);
    free(xprt->xp_tp);
}

bool handle_register(struct handle *handle) {
    xprt_register(&handle->xprt);
    for (int i = 0; i < svc_max_pollfd; i++)
        if (svc_pollfd[i].fd == handle->xprt.xp_fd)
            return true;
    return false;
}
