/* Makes clients: clnt_create and the other functions that take a transport's name. */
#include "client.h"
#include "pass_on.h"
#include "record.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <netinet/tcp.h>
#include <sovia.h>
#include <sovia_rpc.h>
#include <string.h>
#include <strings.h>

bool is_via(const char *nettype) { return nettype && strcasecmp(nettype, VIA) == 0; }

CLIENT *cannot_create(enum clnt_stat status, int error) {
    memset(&rpc_createerr, 0, sizeof rpc_createerr);
    rpc_createerr.cf_stat = status;
    rpc_createerr.cf_error.re_status = status;
    rpc_createerr.cf_error.re_errno = error;
    return NULL;
}

/* Connects within `patience` milliseconds (negative: as long as the kernel tries). */
static bool connect_to(int fd, const struct netbuf *address, int patience) {
    int flags = patience < 0 ? 0 : sov_fcntl(fd, F_GETFL), error = 0;
    socklen_t length = sizeof error;
    if (patience >= 0)
        sov_fcntl(fd, F_SETFL, flags | O_NONBLOCK);
    if (sov_connect(fd, address->buf, address->len) < 0) {
        if (errno != EINPROGRESS && errno != EINTR)
            return false;
        int news = wait_for(fd, POLLOUT, patience);
        if (news <= 0) {
            errno = news == 0 ? ETIMEDOUT : errno;
            return false;
        }
        if (sov_getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &length) == 0 && error) {
            errno = error;
            return false;
        }
    }
    if (patience >= 0)
        sov_fcntl(fd, F_SETFL, flags);
    return true;
}

static bool is_connected(int fd) {
    struct sockaddr_storage peer;
    socklen_t length = sizeof peer;
    return sov_getpeername(fd, (struct sockaddr *)&peer, &length) == 0;
}

static CLIENT *create(int fd, const struct netbuf *address, rpcprog_t program, rpcvers_t version,
                      u_int send_size, u_int receive_size, int patience) {
    bool made = fd == RPC_ANYFD;
    if (!address || !address->buf || address->len < sizeof(struct sockaddr_in))
        return cannot_create(RPC_UNKNOWNADDR, EINVAL);
    if (made) {
        /* Close on exec: a new program would inherit only the kernel's socket, without the bytes on the VI. */
        fd = sov_socket(((struct sockaddr *)address->buf)->sa_family, SOCK_VIA | SOCK_CLOEXEC, 0);
        if (fd < 0)
            return cannot_create(RPC_SYSTEMERROR, errno);
        /* libtirpc binds such a port too: services may require a port that only root can have. */
        bindresvport(fd, NULL);
    }
    /* Send calls at once: they are single packets. */
    int on = 1;
    sov_setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    CLIENT *client = NULL;
    if (!is_connected(fd) && !connect_to(fd, address, patience))
        cannot_create(RPC_SYSTEMERROR, errno);
    else
        client = client_on(fd, made, address, program, version, send_size, receive_size);
    if (!client && made)
        sov_close(fd);
    return client;
}

CLIENT *clnt_via_create(int fd, const struct netbuf *address, rpcprog_t program, rpcvers_t version,
                        u_int send_size, u_int receive_size) {
    return create(fd, address, program, version, send_size, receive_size, -1);
}

/* Makes a client of the service that the host's rpcbind has registered under the TCP transport
 * `netid`. */
static CLIENT *create_by(const char *netid, const char *host, rpcprog_t program, rpcvers_t version, int patience) {
    struct sockaddr_storage storage;
    struct netbuf address = {sizeof storage, 0, &storage};
    struct netconfig *transport = getnetconfigent(netid);
    if (!transport)
        return cannot_create(RPC_UNKNOWNPROTO, 0);
    CLIENT *client = NULL;
    /* On failure, rpcb_getaddr sets rpc_createerr. */
    if (rpcb_getaddr(program, version, transport, &address, host))
        client = create(RPC_ANYFD, &address, program, version, 0, 0, patience);
    freenetconfigent(transport);
    return client;
}

CLIENT *clnt_create_timed(const char *host, const rpcprog_t program, const rpcvers_t version, const char *nettype,
                          const struct timeval *timeout) {
    if (!is_via(nettype))
        return PASS_ON(clnt_create_timed)(host, program, version, nettype, timeout);
    int patience = -1;
    if (timeout && timeout->tv_sec < INT_MAX / 1000)
        patience = (int)(timeout->tv_sec * 1000 + timeout->tv_usec / 1000);
    CLIENT *client = create_by("tcp", host, program, version, patience);
    if (client)
        return client;
    /* Try IPv6 for a host without an IPv4 address. Otherwise the first error says more. */
    __typeof__(rpc_createerr) first = rpc_createerr;
    client = create_by("tcp6", host, program, version, patience);
    if (!client && first.cf_stat != RPC_UNKNOWNHOST)
        rpc_createerr = first;
    return client;
}

CLIENT *clnt_create(const char *host, const rpcprog_t program, const rpcvers_t version, const char *nettype) {
    if (!is_via(nettype))
        return PASS_ON(clnt_create)(host, program, version, nettype);
    return clnt_create_timed(host, program, version, nettype, NULL);
}

/* Finds the highest version that the server supports in the range, by calls of NULLPROC. */
CLIENT *clnt_create_vers_timed(const char *host, const rpcprog_t program, rpcvers_t *found, const rpcvers_t low,
                               const rpcvers_t high, const char *nettype, const struct timeval *timeout) {
    if (!is_via(nettype))
        return PASS_ON(clnt_create_vers_timed)(host, program, found, low, high, nettype, timeout);
    struct timeval patience = timeout ? *timeout : (struct timeval){10, 0};
    rpcvers_t least = low, version = high;
    CLIENT *client = clnt_create_timed(host, program, version, nettype, timeout);
    if (!client)
        return NULL;
    for (;;) {
        struct rpc_err error;
        enum clnt_stat status =
            CLNT_CALL(client, NULLPROC, xdr_nothing, NULL, xdr_nothing, NULL, patience);
        if (status == RPC_SUCCESS) {
            *found = version;
            return client;
        }
        CLNT_GETERR(client, &error);
        bool other = status == RPC_PROGVERSMISMATCH && version > least;
        if (other) {
            least = error.re_vers.low > least ? error.re_vers.low : least;
            version = error.re_vers.high < version ? error.re_vers.high : version - 1;
        }
        if (!other || version < least) {
            CLNT_DESTROY(client);
            cannot_create(status, 0);
            rpc_createerr.cf_error = error;
            return NULL;
        }
        CLNT_CONTROL(client, CLSET_VERS, &version);
    }
}

CLIENT *clnt_create_vers(const char *host, const rpcprog_t program, rpcvers_t *found, const rpcvers_t low,
                         const rpcvers_t high, const char *nettype) {
    if (!is_via(nettype))
        return PASS_ON(clnt_create_vers)(host, program, found, low, high, nettype);
    return clnt_create_vers_timed(host, program, found, low, high, nettype, NULL);
}

/* Makes one call with a client of its own. */
enum clnt_stat rpc_call(const char *host, const rpcprog_t program, const rpcvers_t version, const rpcproc_t procedure,
                        const xdrproc_t encode, const char *arguments, const xdrproc_t decode, char *results,
                        const char *nettype) {
    if (!is_via(nettype))
        return PASS_ON(rpc_call)(host, program, version, procedure, encode, arguments, decode, results, nettype);
    CLIENT *client = clnt_create(host, program, version, nettype);
    if (!client)
        return rpc_createerr.cf_stat;
    struct timeval patience = {25, 0};
    enum clnt_stat status =
        CLNT_CALL(client, procedure, encode, (void *)(uintptr_t)arguments, decode, results, patience);
    CLNT_DESTROY(client);
    return status;
}
