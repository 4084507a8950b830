// Operations of a handle besides calls, and errors in calls.
#include "client.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct timeval minute = {60, 0};

static void control(CLIENT *client) {
    struct timeval given = {3, 500000}, wrong = {1, 2000000}, got;
    uint32_t number = 0;
    struct sockaddr_in address;
    struct netbuf place;
    printf("timeout refused: %d\n", !clnt_control(client, CLSET_TIMEOUT, (char *)&wrong));
    clnt_control(client, CLSET_TIMEOUT, (char *)&given);
    clnt_control(client, CLGET_TIMEOUT, (char *)&got);
    printf("timeout %ld.%06ld\n", (long)got.tv_sec, (long)got.tv_usec);
    clnt_control(client, CLGET_PROG, (char *)&number);
    printf("program %x\n", number);
    clnt_control(client, CLGET_VERS, (char *)&number);
    printf("version %u\n", number);
    number = 0x1234;
    printf("a number for calls: %d\n", clnt_control(client, CLSET_XID, (char *)&number));
    calls(client, 1);
    clnt_control(client, CLGET_XID, (char *)&number);
    uint32_t last = number;
    calls(client, 1);
    clnt_control(client, CLGET_XID, (char *)&number);
    printf("another one for the next: %d\n", number != last);
    memset(&address, 0, sizeof address);
    clnt_control(client, CLGET_SERVER_ADDR, (char *)&address);
    printf("a server's address: %d\n", address.sin_family == AF_INET && address.sin_addr.s_addr == htonl(INADDR_LOOPBACK));
    clnt_control(client, CLGET_SVC_ADDR, (char *)&place);
    printf("the same: %d\n", place.len == sizeof address && !memcmp(place.buf, &address, 8));
    printf("no such wish: %d %d\n", !clnt_control(client, 77, (char *)&number), !clnt_control(client, CLGET_VERS, NULL));
}

// Calls without an answer, sent together with one that has an answer.
static void batched(CLIENT *client) {
    struct timeval none = {0, 0};
    pair given = {1, 2};
    for (int i = 0; i < 500; i++) {
        enum clnt_stat status = clnt_call(client, SUM, (xdrproc_t)xdr_pair, (caddr_t)&given, NULL, NULL, none);
        if (status != RPC_SUCCESS)
            say("NO: a call without an answer", status);
    }
    calls(client, 3);
}

// Signed numbers, by functions for other types than the server's.
static void signs(CLIENT *client) {
    pair given = {-8, 3};
    long got = 0;
    say("a long", clnt_call(client, SUM, (xdrproc_t)xdr_pair, (caddr_t)&given, (xdrproc_t)xdr_long, (caddr_t)&got, minute));
    printf("%ld\n", got);
    u_long without = 0;
    say("one without a sign", clnt_call(client, SUM, (xdrproc_t)xdr_pair, (caddr_t)&given, (xdrproc_t)xdr_u_long, (caddr_t)&without, minute));
    printf("%lu\n", without);
}

void handle(CLIENT *client) {
    batched(client);
    signs(client);
    client->cl_auth = authunix_create("host", 1, 2, 0, NULL);
    calls(client, 10);
    auth_destroy(client->cl_auth);
    client->cl_auth = authnone_create();
    control(client);
    blob given = {3, "abc"}, got = {0, NULL};
    say("reversed", clnt_call(client, REVERSED, (xdrproc_t)xdr_blob, (caddr_t)&given, (xdrproc_t)xdr_blob, (caddr_t)&got, minute));
    printf("%.*s\n", (int)got.blob_len, got.blob_val);
    printf("freed: %d", clnt_freeres(client, (xdrproc_t)xdr_blob, (caddr_t)&got));
    printf(" %d\n", got.blob_val == NULL);
}

static bool_t half_encoded(XDR *xdrs, void *count) {
    long word = 7;
    for (int i = 0; i < *(int *)count; i++)
        if (!xdrs->x_ops->x_putlong(xdrs, &word))
            printf("NO: cannot be put\n");
    return FALSE;
}

// Credentials that no server knows, until they have been refreshed often enough.
static long flavour, refreshes, wanted;

static int marshal(AUTH *auth, XDR *xdrs) {
    long words[] = {flavour, 0, AUTH_NONE, 0};
    int done = 1;
    (void)auth;
    for (int i = 0; i < 4; i++)
        done &= xdrs->x_ops->x_putlong(xdrs, &words[i]);
    return done;
}

static int refresh(AUTH *auth, void *message) {
    (void)auth, (void)message;
    if (++refreshes >= wanted)
        flavour = AUTH_NONE;
    return 1;
}

static void credentials(CLIENT *client) {
    AUTH *usual = client->cl_auth, own = *usual;
    struct auth_ops operations = *usual->ah_ops;
    operations.ah_marshal = marshal;
    operations.ah_refresh = refresh;
    own.ah_ops = &operations;
    client->cl_auth = &own;
    for (wanted = 1; wanted <= 4; wanted++) {
        flavour = 77;
        refreshes = 0;
        enum clnt_stat status = late(client, 1, 60000);
        printf("refreshed %ld times: %s\n", refreshes, clnt_sperrno(status));
        if (status != RPC_SUCCESS)
            printf("%s\n", clnt_sperror(client, "it says"));
    }
    client->cl_auth = usual;
    calls(client, 10);
}

void errors(CLIENT *client) {
    int number = 1, words = 5;
    uint32_t version = 9, program = SERVICE, other = 0x20000fff;
    char *text = "far too long to be no integer";
    clnt_control(client, CLSET_VERS, (char *)&version);
    say("a version", late(client, 1, 60000));
    printf("%s\n", clnt_sperror(client, "it says"));
    version = FIRST;
    clnt_control(client, CLSET_VERS, (char *)&version);
    clnt_control(client, CLSET_PROG, (char *)&other);
    say("a program", late(client, 1, 60000));
    clnt_control(client, CLSET_PROG, (char *)&program);
    say("a procedure", clnt_call(client, 99, (xdrproc_t)xdr_void, NULL, (xdrproc_t)xdr_void, NULL, minute));
    say("no arguments", clnt_call(client, SUM, (xdrproc_t)xdr_void, NULL, (xdrproc_t)xdr_int, (caddr_t)&number, minute));
    say("other arguments", clnt_call(client, REVERSED, (xdrproc_t)xdr_int, (caddr_t)&words, (xdrproc_t)xdr_int, (caddr_t)&number, minute));
    say("more arguments", clnt_call(client, LATE, (xdrproc_t)xdr_wrapstring, (caddr_t)&text, (xdrproc_t)xdr_int, (caddr_t)&number, minute));
    blob got = {0, NULL};
    say("other results", clnt_call(client, LATE, (xdrproc_t)xdr_int, (caddr_t)&number, (xdrproc_t)xdr_blob, (caddr_t)&got, minute));
    say("half a call", clnt_call(client, SUM, (xdrproc_t)half_encoded, (caddr_t)&words, (xdrproc_t)xdr_int, (caddr_t)&number, minute));
    calls(client, 10);
    words = 100000;
    say("half a long call", clnt_call(client, SUM, (xdrproc_t)half_encoded, (caddr_t)&words, (xdrproc_t)xdr_int, (caddr_t)&number, minute));
    credentials(client);
}
