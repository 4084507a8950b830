/* Programs from the time of VIA declared these names of structures in vipl.h, and queried these
   attributes of a NIC. This file is only compiled, as each of several languages. */

/* Forward declarations before the header, as in programs whose headers do not include vipl.h. */
struct _VIP_DESCRIPTOR;
struct _VIP_NET_ADDRESS;

typedef struct {
    struct _VIP_DESCRIPTOR *first;
    struct _VIP_NET_ADDRESS *where;
} queue_t;

#include <string.h>
#include <vipl.h>

/* A table of functions, filled in by their declarations: the tags name the types of the header. */
typedef struct {
    VIP_RETURN (*post_send)(void *, struct _VIP_DESCRIPTOR *, VIP_UINT32);
    VIP_RETURN (*send_done)(void *, struct _VIP_DESCRIPTOR **);
    VIP_RETURN (*query_nic)(void *, struct _VIP_NIC_ATTRIBUTES *);
    VIP_RETURN (*query_vi)(void *, enum _VIP_VI_STATE *, struct _VIP_VI_ATTRIBUTES *, int *, int *);
    VIP_RETURN (*query_mem)(void *, void *, VIP_UINT32, struct _VIP_MEM_ATTRIBUTES *);
    VIP_RETURN (*request)(void *, struct _VIP_NET_ADDRESS *, struct _VIP_NET_ADDRESS *,
                          unsigned long, struct _VIP_VI_ATTRIBUTES *);
} calls_t;

void fill_in(calls_t *calls)
{
    calls->post_send = VipPostSend;
    calls->send_done = VipSendDone;
    calls->query_nic = VipQueryNic;
    calls->query_vi = VipQueryVi;
    calls->query_mem = VipQueryMem;
    calls->request = VipConnectRequest;
}

/* Returns the highest reliability level of the specification that a NIC has, whatever else it
 * reports. */
VIP_RELIABILITY_LEVEL level(const VIP_NIC_ATTRIBUTES *nic)
{
    VIP_RELIABILITY_LEVEL base = nic->ReliabilityLevelSupport & VIP_BASE_SERVICES;
    if (base & VIP_SERVICE_RELIABLE_RECEPTION) return VIP_SERVICE_RELIABLE_RECEPTION;
    return base & VIP_SERVICE_RELIABLE_DELIVERY ? VIP_SERVICE_RELIABLE_DELIVERY
                                                : VIP_SERVICE_UNRELIABLE;
}

int has_flow_control(const VIP_NIC_ATTRIBUTES *nic)
{
    return (nic->ReliabilityLevelSupport & (VIP_SERVICE_DFC | VIP_SERVICE_ACK)) != 0;
}

void say(struct _VIP_ERROR_DESCRIPTOR *error, enum _VIP_ERROR_CODE *code,
         enum _VIP_RESOURCE_CODE *resource)
{
    *code = error->ErrorCode;
    *resource = error->ResourceCode;
}

/* An address in a plain variable. */
VIP_RETURN ask(VIP_VI_HANDLE vi, VIP_NIC_ATTRIBUTES *nic, const char *service)
{
    VIP_NET_ADDRESS address;
    VIP_VI_ATTRIBUTES theirs;
    int i;
    address.HostAddressLen = nic->NicAddressLen;
    address.DiscriminatorLen = (VIP_UINT16)strlen(service);
    for (i = 0; i < 6; i++) address.HostAddress[i] = nic->LocalNicAddress[i];
    memcpy(address.HostAddress + 6, service, strlen(service));
    return VipConnectRequest(vi, &address, &address, 1000, &theirs);
}

void *next_of(queue_t *queue)
{
    struct _VIP_DESCRIPTOR *next = queue->first->CS.Next.Descriptor;
    queue->first = next;
    return queue->where;
}
