/* Requests over a connection: the operations of a SVCXPRT. */
#include "record.h"
#include "transport.h"

#include <sovia.h>
#include <stdlib.h>
#include <string.h>

/* Milliseconds that a server waits for a client in the middle of a long record or of a reply. It then closes the
 * connection. The server serves no other client meanwhile. */
enum { PATIENCE = 35000 };

struct connection {
    struct handle handle;
    struct record_in in;
    struct record_out out;
    XDR decode, encode;
    uint32_t xid;
    bool dead;
};

static struct connection *connection_of(SVCXPRT *xprt) { return xprt->xp_p1; }

static bool_t receive(SVCXPRT *xprt, struct rpc_msg *message) {
    struct connection *connection = connection_of(xprt);
    enum got got = record_in_next(&connection->in);
    if (got == GOT_ALL && xdr_callmsg(&connection->decode, message)) {
        connection->xid = message->rm_xid;
        return TRUE;
    }
    /* A message that is no call shows that the peer does not speak this protocol. */
    connection->dead = got != GOT_PART;
    return FALSE;
}

static enum xprt_stat state(SVCXPRT *xprt) {
    struct connection *connection = connection_of(xprt);
    if (connection->dead)
        return XPRT_DIED;
    /* No event reports bytes that have been received already. */
    return record_in_is_there(&connection->in) ? XPRT_MOREREQS : XPRT_IDLE;
}

static bool_t get_arguments(SVCXPRT *xprt, xdrproc_t decode, void *arguments) {
    struct connection *connection = connection_of(xprt);
    bool_t got = SVCAUTH_UNWRAP(&SVC_XP_AUTH(xprt), &connection->decode, decode, arguments);
    connection->dead |= connection->in.trouble != GOT_ALL;
    return got;
}

static bool_t free_arguments(SVCXPRT *xprt, xdrproc_t decode, void *arguments) {
    (void)xprt;
    xdr_free(decode, arguments);
    return TRUE;
}

/* Encodes results by the caller's authentication, outside of the message. */
static bool encode(SVCXPRT *xprt, struct rpc_msg *message) {
    XDR *xdrs = &connection_of(xprt)->encode;
    if (message->rm_reply.rp_stat != MSG_ACCEPTED || message->acpted_rply.ar_stat != SUCCESS)
        return xdr_replymsg(xdrs, message);
    xdrproc_t results = message->acpted_rply.ar_results.proc;
    caddr_t where = message->acpted_rply.ar_results.where;
    message->acpted_rply.ar_results.proc = xdr_nothing;
    message->acpted_rply.ar_results.where = NULL;
    return xdr_replymsg(xdrs, message) && SVCAUTH_WRAP(&SVC_XP_AUTH(xprt), xdrs, results, where);
}

static bool_t reply(SVCXPRT *xprt, struct rpc_msg *message) {
    struct connection *connection = connection_of(xprt);
    bool done = false;
    message->rm_xid = connection->xid;
    if (record_out_begin(&connection->out)) {
        done = encode(xprt, message);
        if (done)
            done = record_out_end(&connection->out, true);
        else
            record_out_cancel(&connection->out);
    }
    connection->dead |= connection->out.broken;
    return done;
}

static void destroy(SVCXPRT *xprt) {
    struct connection *connection = connection_of(xprt);
    handle_stop(&connection->handle);
    record_in_stop(&connection->in);
    record_out_stop(&connection->out);
    free(connection);
}

static bool_t control(SVCXPRT *xprt, const u_int request, void *value) {
    struct connection *connection = connection_of(xprt);
    switch (request) {
    case SVCGET_CONNMAXREC:
        *(int *)value = (int)connection->in.most;
        return TRUE;
    case SVCSET_CONNMAXREC:
        connection->in.most = *(int *)value > 0 ? (uint64_t)*(int *)value : 0;
        return TRUE;
    default:
        return FALSE;
    }
}

void connection_start(int fd, u_int send_size, u_int receive_size, uint64_t most) {
    static const struct xp_ops operations = {
        .xp_recv = receive,
        .xp_stat = state,
        .xp_getargs = get_arguments,
        .xp_reply = reply,
        .xp_freeargs = free_arguments,
        .xp_destroy = destroy,
    };
    static const struct xp_ops2 further = {.xp_control = control};
    struct connection *connection = calloc(1, sizeof *connection);
    if (!connection) {
        sov_close(fd);
        return;
    }
    connection->handle.xprt.xp_p1 = connection;
    record_in_start(&connection->in, fd, receive_size);
    record_in_xdr(&connection->in, &connection->decode);
    record_out_start(&connection->out, fd, send_size);
    record_out_xdr(&connection->out, &connection->encode);
    connection->in.patience = connection->out.patience = PATIENCE;
    connection->in.most = most;
    bool started = handle_start(&connection->handle, fd, &operations, &further);
    if (!started || !handle_register(&connection->handle))
        destroy(&connection->handle.xprt);
}
