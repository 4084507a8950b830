#include "end.h"

int server;
const char *name;

volatile int errors;
volatile unsigned kinds;
volatile VIP_ERROR_DESCRIPTOR told;
void on_error(VIP_PVOID context, VIP_ERROR_DESCRIPTOR *e)
{
    (void)context;
    memcpy((void *)&told, e, sizeof told);
    kinds |= 1u << e->ErrorCode;
    errors++;
}

void address_there(end_t *e, const char *discriminator)
{
    address_t own;
    VIP_NET_ADDRESS *there = address(&e->remote, e->nic, "");
    RETURNS(VIP_SUCCESS, VipNSInit(e->nic, NULL));
    /* A name that the file does not have means the host of both ends. */
    if (VipNSGetHostByName(e->nic, server ? "client" : "server", there, 0) != VIP_SUCCESS)
        memcpy(there, address(&own, e->nic, ""), sizeof own);
    there->DiscriminatorLen = (VIP_UINT16)strlen(discriminator);
    memcpy(there->HostAddress + there->HostAddressLen, discriminator, strlen(discriminator));
    RETURNS(VIP_SUCCESS, VipNSShutdown(e->nic));
}

void open_end(end_t *e, VIP_CQ_HANDLE send, VIP_CQ_HANDLE recv)
{
    VIP_MEM_ATTRIBUTES region = {NULL, VIP_TRUE, VIP_TRUE};
    if (!e->nic) {
        /* Both names mean the same NIC. */
        MUST(VIP_SUCCESS, VipOpenNic(server ? "/dev/via_lo" : "VINIC0", &e->nic));
        MUST(VIP_SUCCESS, VipErrorCallback(e->nic, NULL, on_error));
    }
    if (!e->attributes.ReliabilityLevel) e->attributes.ReliabilityLevel = VIP_SERVICE_RELIABLE_DELIVERY;
    if (!e->attributes.MaxTransferSize) e->attributes.MaxTransferSize = 65536;
    MUST(VIP_SUCCESS, VipCreateVi(e->nic, &e->attributes, send, recv, &e->vi));
    e->memory = aligned_alloc(64, SIZE);
    memset(e->memory, 0, SIZE);
    MUST(VIP_SUCCESS, VipRegisterMem(e->nic, e->memory, SIZE, &region, &e->mem));
    address(&e->local, e->nic, server ? name : "client");
    address_there(e, name);
}

VIP_RETURN try_connect(end_t *e)
{
    VIP_VI_ATTRIBUTES far;
    if (server) {
        VIP_CONN_HANDLE c;
        address_t from;
        MUST(VIP_SUCCESS, VipConnectWait(e->nic, &e->local.net, SECONDS(20), &from.net, &far, &c));
        HOLDS(from.net.DiscriminatorLen == 6 && from.net.HostAddressLen == e->local.net.HostAddressLen);
        HOLDS(memcmp(from.net.HostAddress + from.net.HostAddressLen, "client", 6) == 0);
        return VipConnectAccept(c, e->vi);
    }
    VIP_RETURN got;
    int tries = 0;
    do {
        got = VipConnectRequest(e->vi, &e->local.net, &e->remote.net, SECONDS(20), &far);
        if (got != VIP_NO_MATCH) break;
        pause_ms(1);
    } while (tries++ < 20000);
    if (got == VIP_SUCCESS) HOLDS(far.ReliabilityLevel == e->attributes.ReliabilityLevel);
    return got;
}

void connect_end(end_t *e)
{
    VIP_VI_STATE state;
    MUST(VIP_SUCCESS, try_connect(e));
    MUST(VIP_SUCCESS, VipQueryVi(e->vi, &state, NULL, NULL, NULL));
    HOLDS(state == VIP_STATE_CONNECTED || state == VIP_STATE_ERROR);
}

void close_end(end_t *e)
{
    RETURNS(VIP_SUCCESS, VipDisconnect(e->vi));
    RETURNS(VIP_SUCCESS, VipDestroyVi(e->vi));
    RETURNS(VIP_SUCCESS, VipDeregisterMem(e->nic, e->memory, e->mem));
    RETURNS(VIP_SUCCESS, VipCloseNic(e->nic));
    free(e->memory);
}

VIP_DESCRIPTOR *at(end_t *e, int i)
{
    return (VIP_DESCRIPTOR *)(e->memory + 64 * i);
}

unsigned char *data(end_t *e, int i)
{
    return e->memory + 65536 + DATA * i;
}

VIP_DESCRIPTOR *prepare(end_t *e, int i, VIP_UINT32 length)
{
    VIP_DESCRIPTOR *d = at(e, i);
    memset(d, 0, sizeof *d);
    d->CS.SegCount = 1;
    d->CS.Control = VIP_CONTROL_OP_SENDRECV;
    d->CS.Length = length;
    d->DS[0].Local.Data.Address = data(e, i);
    d->DS[0].Local.Handle = e->mem;
    d->DS[0].Local.Length = length;
    return d;
}

void post_recv(end_t *e, int i, VIP_UINT32 length)
{
    MUST(VIP_SUCCESS, VipPostRecv(e->vi, prepare(e, i, length), e->mem));
}

VIP_DESCRIPTOR *take_recv(end_t *e)
{
    VIP_DESCRIPTOR *d;
    MUST(VIP_SUCCESS, VipRecvWait(e->vi, SECONDS(20), &d));
    HOLDS((d->CS.Status & (VIP_STATUS_DONE | VIP_STATUS_ERROR_MASK)) == VIP_STATUS_DONE);
    return d;
}

void send_now(end_t *e, VIP_DESCRIPTOR *d)
{
    VIP_DESCRIPTOR *got;
    MUST(VIP_SUCCESS, VipPostSend(e->vi, d, e->mem));
    MUST(VIP_SUCCESS, VipSendWait(e->vi, SECONDS(20), &got));
    HOLDS(got == d);
}

void say(end_t *e, int i, const void *what, VIP_UINT32 length)
{
    VIP_DESCRIPTOR *d = prepare(e, i, length);
    if (length) memcpy(data(e, i), what, length);
    send_now(e, d);
}

unsigned char pattern(int round, VIP_UINT32 i) { return (unsigned char)(round * 31 + i * 7); }
