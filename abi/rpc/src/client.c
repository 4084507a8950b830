/* Calls over a connection: the operations of a CLIENT. */
#include "client.h"
#include "record.h"

#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <sovia.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

struct client {
    /* Serializes calls. Recursive, because authentication may make a call of its own while a call waits for
     * it. */
    pthread_mutex_t turn;
    struct record_in in;
    struct record_out out;
    XDR decode, encode;
    struct rpc_err error;
    struct sockaddr_storage storage;
    struct netbuf address;
    bool owned;            /* the socket is closed with the client */
    bool told;             /* set once CLSET_TIMEOUT sets `timeout`; then the timeouts of calls do not count */
    struct timeval timeout;
    uint32_t xid;          /* xid of the last call */
    rpcprog_t program;
    rpcvers_t version;
};

static bool is_time(struct timeval time) {
    return time.tv_sec >= 0 && time.tv_usec >= 0 && time.tv_usec < 1000000;
}

static int milliseconds(struct timeval time) {
    if (time.tv_sec >= INT_MAX / 1000)
        return INT_MAX;
    return (int)(time.tv_sec * 1000 + (time.tv_usec + 999) / 1000);
}

static enum clnt_stat failed(struct client *client, enum clnt_stat status, int error) {
    client->error.re_status = status;
    client->error.re_errno = error;
    return status;
}

/* Sets the client's error for `got`, and returns its status. */
static enum clnt_stat not_received(struct client *client, enum got got) {
    switch (got) {
    case GOT_LATE:
        return failed(client, RPC_TIMEDOUT, ETIMEDOUT);
    case GOT_END:
        return failed(client, RPC_CANTRECV, ECONNRESET);
    case GOT_NONSENSE:
        return failed(client, RPC_CANTRECV, EBADMSG);
    default:
        return failed(client, RPC_CANTRECV, client->in.error);
    }
}

static bool put_header(struct client *client, rpcproc_t procedure) {
    const uint32_t words[] = {client->xid, CALL, RPC_MSG_VERSION, client->program, client->version, procedure};
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
        long word = words[i];
        if (!XDR_PUTLONG(&client->encode, &word))
            return false;
    }
    return true;
}

/* Sends a call; unless `now`, leaves it to be sent with the next one. */
static enum clnt_stat ask(CLIENT *handle, rpcproc_t procedure, xdrproc_t encode, void *arguments, bool now) {
    struct client *client = handle->cl_private;
    client->xid--;
    bool put = record_out_begin(&client->out);
    if (put && !(put_header(client, procedure) && AUTH_MARSHALL(handle->cl_auth, &client->encode) &&
                 AUTH_WRAP(handle->cl_auth, &client->encode, encode, arguments))) {
        record_out_cancel(&client->out);
        put = false;
        if (!client->out.broken)
            return failed(client, RPC_CANTENCODEARGS, 0);
    }
    if (!put || !record_out_end(&client->out, now))
        return failed(client, RPC_CANTSEND, client->out.broken ? client->out.error : ENOMEM);
    return failed(client, RPC_SUCCESS, 0);
}

static void free_verifier(struct rpc_msg *reply) {
    if (reply->rm_reply.rp_stat == MSG_ACCEPTED && reply->acpted_rply.ar_verf.oa_base)
        xdr_free((xdrproc_t)xdr_opaque_auth, &reply->acpted_rply.ar_verf);
}

/* Waits for the reply to the last call. Skips replies to earlier calls that timed out. */
static enum clnt_stat find_reply(struct client *client, struct rpc_msg *reply) {
    for (;;) {
        enum got got = record_in_await(&client->in, client->in.patience);
        if (got != GOT_ALL)
            return not_received(client, got);
        memset(reply, 0, sizeof *reply);
        reply->acpted_rply.ar_verf = _null_auth;
        reply->acpted_rply.ar_results.proc = xdr_nothing;
        bool is_reply = xdr_replymsg(&client->decode, reply);
        if (is_reply && reply->rm_xid == client->xid)
            return RPC_SUCCESS;
        free_verifier(reply);
        if (client->in.trouble != GOT_ALL)
            return not_received(client, client->in.trouble);
    }
}

static enum clnt_stat take_results(CLIENT *handle, struct rpc_msg *reply, xdrproc_t decode, void *results) {
    struct client *client = handle->cl_private;
    struct opaque_auth *verifier = &reply->acpted_rply.ar_verf;
    if (!AUTH_VALIDATE(handle->cl_auth, verifier)) {
        client->error.re_status = RPC_AUTHERROR;
        client->error.re_why = AUTH_INVALIDRESP;
    } else if (!AUTH_UNWRAP(handle->cl_auth, &client->decode, decode, results)) {
        if (client->in.trouble != GOT_ALL)
            not_received(client, client->in.trouble);
        else
            failed(client, RPC_CANTDECODERES, 0);
    }
    return client->error.re_status;
}

static enum clnt_stat call_in_turn(CLIENT *handle, rpcproc_t procedure, xdrproc_t encode, void *arguments,
                                   xdrproc_t decode, void *results, struct timeval timeout) {
    struct client *client = handle->cl_private;
    bool no_wait = timeout.tv_sec == 0 && timeout.tv_usec == 0;
    if (!client->told && is_time(timeout))
        client->timeout = timeout;
    int patience = milliseconds(client->timeout);
    /* Refresh twice, because the first refreshed credentials may be out of date too. */
    for (int refreshes = 2;; refreshes--) {
        /* Set again, because a refresh may make calls that change it. */
        client->in.patience = patience;
        bool batched = no_wait && !decode;
        enum clnt_stat status = ask(handle, procedure, encode, arguments, !batched);
        if (status != RPC_SUCCESS || batched)
            return status;
        if (no_wait)
            return failed(client, RPC_TIMEDOUT, 0);
        struct rpc_msg reply;
        status = find_reply(client, &reply);
        if (status != RPC_SUCCESS)
            return status;
        _seterr_reply(&reply, &client->error);
        if (client->error.re_status == RPC_SUCCESS) {
            status = take_results(handle, &reply, decode, results);
            free_verifier(&reply);
            return status;
        }
        struct rpc_err refused = client->error;
        bool again = refreshes > 0 && AUTH_REFRESH(handle->cl_auth, &reply);
        free_verifier(&reply);
        if (!again) {
            client->error = refused;
            return refused.re_status;
        }
    }
}

static enum clnt_stat call(CLIENT *handle, rpcproc_t procedure, xdrproc_t encode, void *arguments,
                           xdrproc_t decode, void *results, struct timeval timeout) {
    struct client *client = handle->cl_private;
    pthread_mutex_lock(&client->turn);
    enum clnt_stat status = call_in_turn(handle, procedure, encode, arguments, decode, results, timeout);
    pthread_mutex_unlock(&client->turn);
    return status;
}

/* Does nothing, because no work is under way between calls. */
static void abort_call(CLIENT *handle) { (void)handle; }

static void get_error(CLIENT *handle, struct rpc_err *error) {
    struct client *client = handle->cl_private;
    *error = client->error;
}

static bool_t free_results(CLIENT *handle, xdrproc_t decode, void *results) {
    (void)handle;
    xdr_free(decode, results);
    return TRUE;
}

static void destroy(CLIENT *handle) {
    struct client *client = handle->cl_private;
    /* Wait for the call of another thread. */
    pthread_mutex_lock(&client->turn);
    pthread_mutex_unlock(&client->turn);
    pthread_mutex_destroy(&client->turn);
    if (client->owned)
        sov_close(client->in.fd);
    record_in_stop(&client->in);
    record_out_stop(&client->out);
    free(client);
    free(handle->cl_netid);
    free(handle->cl_tp);
    free(handle);
}

static bool_t control_in_turn(struct client *client, u_int request, void *value) {
    switch (request) {
    case CLSET_FD_CLOSE:
        client->owned = true;
        return TRUE;
    case CLSET_FD_NCLOSE:
        client->owned = false;
        return TRUE;
    default:
        break;
    }
    if (!value)
        return FALSE;
    switch (request) {
    case CLSET_TIMEOUT:
        if (!is_time(*(struct timeval *)value))
            return FALSE;
        client->timeout = *(struct timeval *)value;
        client->told = true;
        return TRUE;
    case CLGET_TIMEOUT:
        *(struct timeval *)value = client->timeout;
        return TRUE;
    case CLGET_SERVER_ADDR:
        memcpy(value, client->address.buf, client->address.len);
        return TRUE;
    case CLGET_SVC_ADDR:
        *(struct netbuf *)value = client->address;
        return TRUE;
    case CLGET_FD:
        *(int *)value = client->in.fd;
        return TRUE;
    case CLGET_XID:
        *(uint32_t *)value = client->xid;
        return TRUE;
    case CLSET_XID:
        /* Each call decrements the xid before it is sent. */
        client->xid = *(uint32_t *)value + 1;
        return TRUE;
    case CLGET_VERS:
        *(uint32_t *)value = client->version;
        return TRUE;
    case CLSET_VERS:
        client->version = *(uint32_t *)value;
        return TRUE;
    case CLGET_PROG:
        *(uint32_t *)value = client->program;
        return TRUE;
    case CLSET_PROG:
        client->program = *(uint32_t *)value;
        return TRUE;
    default:
        return FALSE;
    }
}

static bool_t control(CLIENT *handle, u_int request, void *value) {
    struct client *client = handle->cl_private;
    pthread_mutex_lock(&client->turn);
    bool_t done = control_in_turn(client, request, value);
    pthread_mutex_unlock(&client->turn);
    return done;
}

/* Returns an xid that differs from those of the process's earlier connections, and of other
 * processes. */
static uint32_t first_xid(void) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return (uint32_t)getpid() * 2654435761u ^ (uint32_t)now.tv_sec ^ (uint32_t)now.tv_nsec;
}

CLIENT *client_on(int fd, bool owned, const struct netbuf *address, rpcprog_t program, rpcvers_t version,
                  u_int send_size, u_int receive_size) {
    static struct clnt_ops operations = {
        .cl_call = call,
        .cl_abort = abort_call,
        .cl_geterr = get_error,
        .cl_freeres = free_results,
        .cl_destroy = destroy,
        .cl_control = control,
    };
    CLIENT *handle = calloc(1, sizeof *handle);
    struct client *client = calloc(1, sizeof *client);
    char *netid = strdup(VIA), *device = strdup("-");
    if (!handle || !client || !netid || !device || address->len > sizeof client->storage) {
        free(handle);
        free(client);
        free(netid);
        free(device);
        return cannot_create(RPC_SYSTEMERROR, ENOMEM);
    }
    pthread_mutexattr_t kind;
    pthread_mutexattr_init(&kind);
    pthread_mutexattr_settype(&kind, PTHREAD_MUTEX_RECURSIVE);
    pthread_mutex_init(&client->turn, &kind);
    pthread_mutexattr_destroy(&kind);
    record_in_start(&client->in, fd, receive_size);
    record_in_xdr(&client->in, &client->decode);
    record_out_start(&client->out, fd, send_size);
    record_out_xdr(&client->out, &client->encode);
    memcpy(&client->storage, address->buf, address->len);
    client->address = (struct netbuf){sizeof client->storage, address->len, &client->storage};
    client->owned = owned;
    client->timeout = (struct timeval){25, 0};
    client->xid = first_xid();
    client->program = program;
    client->version = version;
    handle->cl_ops = &operations;
    handle->cl_private = client;
    handle->cl_auth = authnone_create();
    handle->cl_netid = netid;
    handle->cl_tp = device;
    return handle;
}
