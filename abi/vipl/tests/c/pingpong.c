/*
 * A first program: `pingpong -s NAME` and `pingpong NAME` send 1000 messages back and forth.
 * Written in C of 1999 that is also C++. Like programs of VIA's time, it destroys everything that
 * it has created.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <vipl.h>

#define SIZE 1024
#define ROUNDS 1000
#define MUST(call)                                             \
    do {                                                       \
        VIP_RETURN code_ = (call);                             \
        if (code_ != VIP_SUCCESS) {                            \
            fprintf(stderr, "%s: %d\n", #call, (int)code_);    \
            exit(1);                                           \
        }                                                      \
    } while (0)

/* Room for a NIC's address and any discriminator. */
typedef union {
    VIP_NET_ADDRESS net;
    char room[64];
} address_t;

static void address(address_t *made, const VIP_NIC_ATTRIBUTES *nic, const char *discriminator)
{
    memset(made, 0, sizeof *made);
    made->net.HostAddressLen = nic->NicAddressLen;
    memcpy(made->net.HostAddress, nic->LocalNicAddress, nic->NicAddressLen);
    made->net.DiscriminatorLen = (VIP_UINT16)strlen(discriminator);
    memcpy(made->net.HostAddress + nic->NicAddressLen, discriminator, strlen(discriminator));
}

static void describe(VIP_DESCRIPTOR *descriptor, char *data, VIP_MEM_HANDLE memory)
{
    memset((void *)descriptor, 0, sizeof *descriptor);
    descriptor->CS.Control = VIP_CONTROL_OP_SENDRECV;
    descriptor->CS.SegCount = 1;
    descriptor->CS.Length = SIZE;
    descriptor->DS[0].Local.Data.Address = data;
    descriptor->DS[0].Local.Handle = memory;
    descriptor->DS[0].Local.Length = SIZE;
}

/*
 * A thread of the library calls this at each asynchronous error. The end that disconnects last loses
 * its connection, which is the normal end here. Before that, a lost connection makes a call fail.
 */
static void on_error(VIP_PVOID context, VIP_ERROR_DESCRIPTOR *error)
{
    (void)context;
    if (error->ErrorCode != VIP_ERROR_CONN_LOST)
        fprintf(stderr, "asynchronous error %d\n", (int)error->ErrorCode);
}

int main(int argc, char **argv)
{
    int server = argc > 2 && strcmp(argv[1], "-s") == 0;
    const char *name = argc > 1 ? argv[argc - 1] : "pingpong";
    size_t length = VIP_DESCRIPTOR_ALIGNMENT * 3 + SIZE * 2;
    char *memory = (char *)malloc(length);
    char *aligned = memory + VIP_DESCRIPTOR_ALIGNMENT - (size_t)memory % VIP_DESCRIPTOR_ALIGNMENT;
    VIP_DESCRIPTOR *out = (VIP_DESCRIPTOR *)aligned, *in = out + 1, *done;
    char *sent = (char *)(in + 1), *received = sent + SIZE;
    VIP_NIC_HANDLE nic;
    VIP_NIC_ATTRIBUTES about;
    VIP_PROTECTION_HANDLE tag;
    VIP_MEM_HANDLE handle;
    VIP_VI_HANDLE vi;
    VIP_CONN_HANDLE request;
    VIP_MEM_ATTRIBUTES rights = {NULL, VIP_FALSE, VIP_FALSE};
    VIP_VI_ATTRIBUTES wanted, theirs;
    address_t own, other;
    VIP_RETURN code;
    int round;

    MUST(VipOpenNic("/dev/via_lo", &nic));
    MUST(VipErrorCallback(nic, NULL, on_error));
    MUST(VipQueryNic(nic, &about));
    MUST(VipCreatePtag(nic, &tag));
    rights.Ptag = tag;
    MUST(VipRegisterMem(nic, memory, length, &rights, &handle));
    memset(&wanted, 0, sizeof wanted);
    wanted.ReliabilityLevel = VIP_SERVICE_RELIABLE_DELIVERY;
    wanted.MaxTransferSize = SIZE;
    wanted.Ptag = tag;
    MUST(VipCreateVi(nic, &wanted, NULL, NULL, &vi));

    /* Post the receive before the connection exists, so that the first message finds it. */
    describe(in, received, handle);
    MUST(VipPostRecv(vi, in, handle));
    address(&own, &about, server ? name : "");
    address(&other, &about, name);
    if (server) {
        MUST(VipConnectWait(nic, &own.net, VIP_INFINITE, &other.net, &theirs, &request));
        MUST(VipConnectAccept(request, vi));
    } else {
        do
            code = VipConnectRequest(vi, &own.net, &other.net, VIP_INFINITE, &theirs);
        while (code == VIP_NO_MATCH);
        MUST(code);
    }

    for (round = 0; round < ROUNDS * 2; round++) {
        if (round % 2 == server) {
            memset(sent, round, SIZE);
            describe(out, sent, handle);
            MUST(VipPostSend(vi, out, handle));
            MUST(VipSendWait(vi, VIP_INFINITE, &done));
        } else {
            MUST(VipRecvWait(vi, VIP_INFINITE, &done));
            if (done->CS.Length != SIZE || received[0] != (char)round || received[SIZE - 1] != (char)round)
                return 2;
            describe(in, received, handle);
            MUST(VipPostRecv(vi, in, handle));
        }
    }

    MUST(VipDisconnect(vi));
    /* The receive that is still posted is flushed. */
    do
        VipRecvDone(vi, &done);
    while (done != NULL);
    MUST(VipDestroyVi(vi));
    MUST(VipDeregisterMem(nic, memory, handle));
    MUST(VipDestroyPtag(nic, tag));
    MUST(VipCloseNic(nic));
    free(memory);
    printf("%d messages\n", ROUNDS * 2);
    return 0;
}
