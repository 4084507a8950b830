/* A message passing library in the style of those written over VIA around the year 2000, and its test.
   It follows no particular program. It is C of that time (gnu89), compiled for M-VIA or, with -DGIGANET,
   for cLAN:

   - two nodes, found by the name service; one NIC handle, a protection tag, an error handler;
   - one VI with reliable reception, its queues on two completion queues, which are polled for a
     while and then waited for;
   - small messages go into receives posted beforehand, as many as there are credits, with their kind
     in the immediate data;
   - large messages go by RDMA writes into memory registered for one message. The last write has
     immediate data.

   period NODE HOSTS PEERNODE NUMBER: node 0 accepts, node 1 requests, by a discriminator of that NUMBER. */
#include <vipl.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifdef GIGANET
#define DEVICE "/dev/clanvi0"
#define CONTROL(d) ((d)->Control)
#define LOCAL(d) ((d)->Data[0])
#define TARGET(d) (*(VIP_ADDRESS_SEGMENT *)&(d)->Data[0])
#define SOURCE(d) ((d)->Data[1])
#else
#define DEVICE "/dev/via_eth0"
#define CONTROL(d) ((d)->CS)
#define LOCAL(d) ((d)->DS[0].Local)
#define TARGET(d) ((d)->DS[0].Remote)
#define SOURCE(d) ((d)->DS[1].Local)
#endif

#define SLOTS 32
#define SLOT 4096
#define CREDITS 16
#define SPINS 2000
#define PATIENCE 20000

/* Kinds in the immediate data's high byte. The other bytes hold a length or a count. */
#define K_DATA 1
#define K_CREDIT 2
#define K_CLEAR 3
#define K_DONE 4
#define IMM(k, n) ((VIP_UINT32)(k) << 24 | (VIP_UINT32)(n))

#define CHECK(call) check((call), #call, __LINE__)

/* Receive buffer for a large message, as the receiver announces it. */
typedef struct {
    VIP_UINT64 addr;
    VIP_UINT64 len;
    VIP_MEM_HANDLE handle;
} clear_t;

typedef struct {
    VIP_DESCRIPTOR *desc;
    VIP_MEM_HANDLE handle;
    char *buf;
} slot_t;

int mynode;
VIP_NIC_HANDLE nic;
VIP_NIC_ATTRIBUTES nic_attr;
VIP_PROTECTION_HANDLE ptag;
VIP_CQ_HANDLE send_cq, recv_cq;
VIP_VI_HANDLE vi;
VIP_MEM_HANDLE pool_handle;
char *pool;
slot_t sends[SLOTS], recvs[SLOTS];
int nextsend, busysends, nextrecv;
int credits = CREDITS, owed;

/* Messages that have arrived and that the program has not asked for yet. */
struct { int slot; VIP_UINT32 len; } ready[SLOTS];
int firstready, nready;
clear_t clear;
int cleared, written;

void check(VIP_RETURN rc, const char *what, int line)
{
    if (rc == VIP_SUCCESS) return;
    fprintf(stdout, "node %d, line %d: %s: %d\n", mynode, line, what, (int)rc);
    exit(1);
}

void error_handler(VIP_PVOID context, VIP_ERROR_DESCRIPTOR *e)
{
    /* The peer may have ended before this side has disconnected. */
    if (e->ErrorCode == VIP_ERROR_CONN_LOST) return;
    fprintf(stdout, "node %d: error %d of %s\n", *(int *)context, (int)e->ErrorCode, DEVICE);
    exit(1);
}

void post_recv(int i)
{
    VIP_DESCRIPTOR *d = recvs[i].desc;
    CONTROL(d).Control = VIP_CONTROL_OP_SENDRECV;
    CONTROL(d).Length = SLOT;
    CONTROL(d).SegCount = 1;
    CONTROL(d).Reserved = 0;
    CONTROL(d).Status = 0;
    LOCAL(d).Data.Address = recvs[i].buf;
    LOCAL(d).Handle = pool_handle;
    LOCAL(d).Length = SLOT;
    CHECK(VipPostRecv(vi, d, pool_handle));
}

/* Takes the next entry of a completion queue: first polls, then waits. */
int next_entry(VIP_CQ_HANDLE cq)
{
    VIP_VI_HANDLE which;
    VIP_BOOLEAN isrecv;
    VIP_RETURN rc = VIP_NOT_DONE;
    int i;
    for (i = 0; i < SPINS && rc == VIP_NOT_DONE; i++) rc = VipCQDone(cq, &which, &isrecv);
    if (rc == VIP_NOT_DONE) rc = VipCQWait(cq, PATIENCE, &which, &isrecv);
    CHECK(rc);
    if (which != vi || isrecv != (cq == recv_cq)) check(VIP_ERROR, "an entry of this VI", __LINE__);
    return isrecv;
}

void reap_send()
{
    VIP_DESCRIPTOR *d;
    next_entry(send_cq);
    CHECK(VipSendDone(vi, &d));
    if (!(CONTROL(d).Status & VIP_STATUS_DONE)) check(VIP_ERROR, "a send that is done", __LINE__);
    busysends--;
}

slot_t *send_slot()
{
    slot_t *s = &sends[nextsend];
    while (busysends == SLOTS) reap_send();
    nextsend = (nextsend + 1) % SLOTS;
    return s;
}

void post_send(slot_t *s, VIP_UINT32 imm, VIP_UINT32 len)
{
    VIP_DESCRIPTOR *d = s->desc;
    CONTROL(d).Control = VIP_CONTROL_OP_SENDRECV | VIP_CONTROL_IMMEDIATE;
    CONTROL(d).ImmediateData = imm;
    CONTROL(d).Length = len;
    CONTROL(d).SegCount = len ? 1 : 0;
    CONTROL(d).Reserved = 0;
    CONTROL(d).Status = 0;
    LOCAL(d).Data.Address = s->buf;
    LOCAL(d).Handle = pool_handle;
    LOCAL(d).Length = len;
    busysends++;
    CHECK(VipPostSend(vi, d, pool_handle));
}

/* Records that a receive was used up. Half of all credits are returned at a time, in messages for
 * which receives are kept free. */
void give_back(int i)
{
    post_recv(i);
    if (++owed < CREDITS / 2) return;
    post_send(send_slot(), IMM(K_CREDIT, owed), 0);
    owed = 0;
}

/* Handles the next message. */
void progress()
{
    VIP_DESCRIPTOR *d;
    VIP_UINT32 imm, op;
    int i = nextrecv;
    next_entry(recv_cq);
    CHECK(VipRecvDone(vi, &d));
    if (d != recvs[i].desc) check(VIP_ERROR, "receives in order", __LINE__);
    nextrecv = (nextrecv + 1) % SLOTS;
    imm = CONTROL(d).ImmediateData;
    op = CONTROL(d).Status & VIP_STATUS_OP_MASK;
    switch (imm >> 24) {
    case K_DATA:
        ready[(firstready + nready) % SLOTS].slot = i;
        ready[(firstready + nready) % SLOTS].len = CONTROL(d).Length;
        nready++;
        return;
    case K_CREDIT:
        credits += imm & 0xffffff;
        post_recv(i);
        return;
    case K_CLEAR:
        memcpy(&clear, recvs[i].buf, sizeof clear);
        cleared = 1;
        give_back(i);
        return;
    case K_DONE:
        if (op != VIP_STATUS_OP_REMOTE_RDMA_WRITE) check(VIP_ERROR, "an RDMA write", __LINE__);
        written = 1;
        give_back(i);
        return;
    }
    check(VIP_ERROR, "a kind of message", __LINE__);
}

void take_credit()
{
    while (credits == 0) progress();
    credits--;
}

void rdma_write(char *buf, VIP_UINT32 len, VIP_MEM_HANDLE handle, VIP_UINT64 to, int last)
{
    slot_t *s = send_slot();
    VIP_DESCRIPTOR *d = s->desc;
    CONTROL(d).Control = VIP_CONTROL_OP_RDMAWRITE | (last ? VIP_CONTROL_IMMEDIATE : 0);
    CONTROL(d).ImmediateData = IMM(K_DONE, 0);
    CONTROL(d).Length = len;
    CONTROL(d).SegCount = 2;
    CONTROL(d).Reserved = 0;
    CONTROL(d).Status = 0;
    TARGET(d).Data.AddressBits = to;
    TARGET(d).Handle = clear.handle;
    TARGET(d).Reserved = 0;
    SOURCE(d).Data.Address = buf;
    SOURCE(d).Handle = handle;
    SOURCE(d).Length = len;
    busysends++;
    CHECK(VipPostSend(vi, d, pool_handle));
}

void mp_send(char *buf, int len)
{
    VIP_MEM_ATTRIBUTES attr;
    VIP_MEM_HANDLE handle;
    slot_t *s;
    int at, n;
    if (len <= SLOT) {
        take_credit();
        s = send_slot();
        memcpy(s->buf, buf, len);
        post_send(s, IMM(K_DATA, 0), len);
        return;
    }
    attr.Ptag = ptag;
    attr.EnableRdmaWrite = VIP_FALSE;
    attr.EnableRdmaRead = VIP_FALSE;
    CHECK(VipRegisterMem(nic, buf, len, &attr, &handle));
    while (!cleared) progress();
    cleared = 0;
    if (clear.len != len) check(VIP_ERROR, "a receive of this length", __LINE__);
    take_credit();
    for (at = 0; at < len; at += n) {
        n = len - at < 65536 ? len - at : 65536;
        rdma_write(buf + at, n, handle, clear.addr + at, at + n == len);
    }
    while (busysends) reap_send();
    CHECK(VipDeregisterMem(nic, buf, handle));
}

void mp_recv(char *buf, int len)
{
    VIP_MEM_ATTRIBUTES attr;
    clear_t *mine;
    slot_t *s;
    if (len <= SLOT) {
        while (!nready) progress();
        if (ready[firstready].len != len) check(VIP_ERROR, "a message of this length", __LINE__);
        memcpy(buf, recvs[ready[firstready].slot].buf, len);
        give_back(ready[firstready].slot);
        firstready = (firstready + 1) % SLOTS;
        nready--;
        return;
    }
    take_credit();
    s = send_slot();
    mine = (clear_t *)s->buf;
    mine->addr = (VIP_UINT64)(unsigned long)buf;
    mine->len = len;
    attr.Ptag = ptag;
    attr.EnableRdmaWrite = VIP_TRUE;
    attr.EnableRdmaRead = VIP_FALSE;
    CHECK(VipRegisterMem(nic, buf, len, &attr, &mine->handle));
    post_send(s, IMM(K_CLEAR, 0), sizeof *mine);
    while (!written) progress();
    written = 0;
    CHECK(VipDeregisterMem(nic, buf, mine->handle));
}

VIP_NET_ADDRESS *node_address(char *name, int discrim)
{
    VIP_NET_ADDRESS *a = calloc(1, sizeof(VIP_NET_ADDRESS) + 64);
    CHECK(VipNSGetHostByName(nic, name, a, 0));
    a->DiscriminatorLen = sizeof discrim;
    memcpy(a->HostAddress + a->HostAddressLen, &discrim, sizeof discrim);
    return a;
}

void mp_init(char *hosts, char *peer, int discrim)
{
    VIP_VI_ATTRIBUTES attr, remote_attr;
    VIP_MEM_ATTRIBUTES mem;
    VIP_NET_ADDRESS *local, *remote;
    VIP_CONN_HANDLE conn;
    VIP_RETURN rc;
    char *memory;
    long tries;
    int i;
    CHECK(VipOpenNic(DEVICE, &nic));
    CHECK(VipErrorCallback(nic, &mynode, error_handler));
    CHECK(VipQueryNic(nic, &nic_attr));
    CHECK(VipNSInit(nic, hosts));
    CHECK(VipCreatePtag(nic, &ptag));
    CHECK(VipCreateCQ(nic, 1024, &send_cq));
    CHECK(VipCreateCQ(nic, 1024, &recv_cq));
    memset(&attr, 0, sizeof attr);
    attr.ReliabilityLevel = VIP_SERVICE_RELIABLE_RECEPTION;
    attr.MaxTransferSize = 65536;
    attr.Ptag = ptag;
    attr.EnableRdmaWrite = VIP_TRUE;
    CHECK(VipCreateVi(nic, &attr, send_cq, recv_cq, &vi));

    memory = malloc(2 * SLOTS * (SLOT + sizeof(VIP_DESCRIPTOR)) + VIP_DESCRIPTOR_ALIGNMENT);
    pool = (char *)(((unsigned long)memory + VIP_DESCRIPTOR_ALIGNMENT - 1)
                    & ~(unsigned long)(VIP_DESCRIPTOR_ALIGNMENT - 1));
    mem.Ptag = ptag;
    mem.EnableRdmaWrite = VIP_FALSE;
    mem.EnableRdmaRead = VIP_FALSE;
    CHECK(VipRegisterMem(nic, pool, 2 * SLOTS * (SLOT + sizeof(VIP_DESCRIPTOR)), &mem, &pool_handle));
    for (i = 0; i < SLOTS; i++) {
        sends[i].desc = (VIP_DESCRIPTOR *)pool + 2 * i;
        recvs[i].desc = (VIP_DESCRIPTOR *)pool + 2 * i + 1;
        sends[i].buf = pool + 2 * SLOTS * sizeof(VIP_DESCRIPTOR) + 2 * i * SLOT;
        recvs[i].buf = sends[i].buf + SLOT;
        post_recv(i);
    }

    local = node_address("localhost", discrim);
    remote = node_address(peer, discrim);
    if (mynode == 0) {
        CHECK(VipConnectWait(nic, local, PATIENCE, remote, &remote_attr, &conn));
        CHECK(VipConnectAccept(conn, vi));
    } else {
        for (tries = 0; tries < 100000000; tries++) {
            rc = VipConnectRequest(vi, local, remote, PATIENCE, &remote_attr);
            if (rc != VIP_NO_MATCH) break;
        }
        CHECK(rc);
    }
    free(local);
    free(remote);
}

void mp_finish()
{
    char bye = 0;
    /* Neither node ends before the other has everything. */
    if (mynode) mp_send(&bye, 1);
    mp_recv(&bye, 1);
    if (!mynode) mp_send(&bye, 1);
    while (busysends) reap_send();
    CHECK(VipDisconnect(vi));
    CHECK(VipDestroyVi(vi));
    CHECK(VipDestroyCQ(send_cq));
    CHECK(VipDestroyCQ(recv_cq));
    CHECK(VipDeregisterMem(nic, pool, pool_handle));
    CHECK(VipDestroyPtag(nic, ptag));
    CHECK(VipNSShutdown(nic));
    CHECK(VipCloseNic(nic));
}

void fill(char *buf, int len, int seed)
{
    int i;
    for (i = 0; i < len; i++) buf[i] = (char)(i * 7 + seed);
}

void verify(char *buf, int len, int seed)
{
    int i;
    for (i = 0; i < len; i++)
        if (buf[i] != (char)(i * 7 + seed)) check(VIP_ERROR, "the bytes that were sent", __LINE__);
}

int main(int argc, char **argv)
{
    static int sizes[] = {1, 4, 63, 64, 1000, 4095, 4096, 4097, 65536, 65537, 300000, 1000000};
    int n, i, round, seed = 0;
    char *out = malloc(1000000), *in = malloc(1000000);
    if (argc != 5) return 2;
    mynode = atoi(argv[1]);
    mp_init(argv[2], argv[3], atoi(argv[4]));
    for (n = 0; n < sizeof sizes / sizeof *sizes; n++)
        for (round = 0; round < 20; round++, seed++) {
            fill(out, sizes[n], seed + mynode);
            if (mynode) mp_send(out, sizes[n]);
            mp_recv(in, sizes[n]);
            verify(in, sizes[n], seed + !mynode);
            if (!mynode) mp_send(out, sizes[n]);
        }
    /* Sends both ways at once, as many messages as there are always credits for. */
    for (round = 0; round < 50; round++) {
        for (i = 0; i <= CREDITS / 2; i++) {
            fill(out, 100 + i, round + i);
            mp_send(out, 100 + i);
        }
        for (i = 0; i <= CREDITS / 2; i++) {
            mp_recv(in, 100 + i);
            verify(in, 100 + i, round + i);
        }
    }
    mp_finish();
    printf("node %d: ok\n", mynode);
    return 0;
}
