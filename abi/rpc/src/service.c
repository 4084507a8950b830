/* Makes services and waits for requests: svc_create and svc_run. */
#include "client.h"
#include "pass_on.h"
#include "transport.h"

#include <errno.h>
#include <netinet/in.h>
#include <pthread.h>
#include <rpc/rpcb_clnt.h>
#include <sovia.h>
#include <sovia_rpc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Listeners of the two TCP transports, which all programs and versions share. */
static struct {
    const char *netid;
    sa_family_t family;
    SVCXPRT *xprt;
} listeners[] = {{"tcp", AF_INET, NULL}, {"tcp6", AF_INET6, NULL}};
static pthread_mutex_t turn = PTHREAD_MUTEX_INITIALIZER;

enum { LISTENERS = sizeof listeners / sizeof listeners[0] };

/* Listens at any port of all addresses of the host. Returns NULL if the host does not support the
 * family. */
static SVCXPRT *listen_on(sa_family_t family) {
    union {
        struct sockaddr any;
        struct sockaddr_in six_less;
        struct sockaddr_in6 six;
    } address;
    int on = 1;
    memset(&address, 0, sizeof address);
    address.any.sa_family = family;
    socklen_t length = family == AF_INET6 ? sizeof address.six : sizeof address.six_less;
    int fd = sov_socket(family, SOCK_VIA | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return NULL;
    /* The other family has a listener of its own. */
    if (family == AF_INET6)
        sov_setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &on, sizeof on);
    SVCXPRT *xprt = NULL;
    if (sov_bind(fd, &address.any, length) == 0 && sov_listen(fd, SOMAXCONN) == 0)
        xprt = svc_via_create(fd, 0, 0);
    if (!xprt)
        sov_close(fd);
    return xprt;
}

/* Registers the service under TCP, so that clients that ask rpcbind for TCP reach it too. */
static bool offer(int which, rpcprog_t program, rpcvers_t version, void (*dispatch)(struct svc_req *, SVCXPRT *)) {
    struct netconfig *transport = getnetconfigent(listeners[which].netid);
    if (!transport)
        return false;
    if (!listeners[which].xprt)
        listeners[which].xprt = listen_on(listeners[which].family);
    bool done = false;
    if (listeners[which].xprt) {
        /* Remove the registration of an earlier process. */
        rpcb_unset(program, version, transport);
        done = svc_reg(listeners[which].xprt, program, version, dispatch, transport);
        if (!done)
            fprintf(stderr, "svc_create: cannot register program %u version %u on %s: rpcbind refused %s (is rpcbind running?)\n",
                    program, version, VIA, listeners[which].netid);
    }
    freenetconfigent(transport);
    return done;
}

int svc_create(void (*dispatch)(struct svc_req *, SVCXPRT *), const rpcprog_t program, const rpcvers_t version,
               const char *nettype) {
    if (!is_via(nettype))
        return PASS_ON(svc_create)(dispatch, program, version, nettype);
    int made = 0;
    pthread_mutex_lock(&turn);
    for (int i = 0; i < LISTENERS; i++)
        made += offer(i, program, version, dispatch);
    pthread_mutex_unlock(&turn);
    return made;
}

/* Serves all transports that libtirpc knows, until svc_exit. */
void svc_run(void) {
    struct pollfd *wanted = NULL;
    int room = 0;
    while (svc_pollfd || svc_max_pollfd > 0) {
        int count = svc_max_pollfd;
        if (count > room) {
            struct pollfd *larger = realloc(wanted, (size_t)count * sizeof *wanted);
            if (!larger) {
                perror("svc_run");
                break;
            }
            wanted = larger;
            room = count;
        }
        for (int i = 0; i < count; i++)
            wanted[i] = (struct pollfd){.fd = svc_pollfd[i].fd, .events = svc_pollfd[i].events};
        int ready = sov_poll(wanted, (nfds_t)count, -1);
        if (ready > 0) {
            svc_getreq_poll(wanted, ready);
        } else if (ready < 0 && errno != EINTR) {
            perror("svc_run");
            break;
        }
    }
    free(wanted);
}
