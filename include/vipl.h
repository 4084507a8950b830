/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * vipl.h: the VI Provider Library, version 1.0 of the Virtual Interface Architecture.
 *
 * Names, values, structures and calls are those that programs written for VIA between 1998 and
 * 2003 use. Where their libraries differed in the spelling of a descriptor's fields, both
 * spellings name the same bytes. What this library does differently is in docs/reference/vipl.md.
 *
 * C99 and C++; 64-bit.
 */
#ifndef SOVIA_VIPL_H
#define SOVIA_VIPL_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Parameters carry these, which mean nothing to the compiler. */
#ifndef IN
#define IN
#endif
#ifndef OUT
#define OUT
#endif

/* Unions without a name are C11 and C++ extensions that compilers have had for longer. */
#if defined(__GNUC__)
#define VIP_ANONYMOUS __extension__
#else
#define VIP_ANONYMOUS
#endif

/* ---- plain types -------------------------------------------------------------------------- */

typedef uint64_t VIP_UINT64;
typedef uint32_t VIP_UINT32;
typedef uint16_t VIP_UINT16;
typedef uint8_t VIP_UINT8;

typedef unsigned char VIP_UCHAR;
typedef char VIP_CHAR;
typedef unsigned short VIP_USHORT;
typedef short VIP_SHORT;
typedef unsigned long VIP_ULONG;
typedef long VIP_LONG;

typedef int VIP_BOOLEAN;
#define VIP_TRUE (1)
#define VIP_FALSE (0)

typedef void *VIP_PVOID;

/* Handles are numbers in the guise of pointers: nothing lies where they seem to point. */
typedef VIP_PVOID VIP_QOS;
typedef VIP_PVOID VIP_NIC_HANDLE;
typedef VIP_PVOID VIP_VI_HANDLE;
typedef VIP_PVOID VIP_CQ_HANDLE;
typedef VIP_PVOID VIP_PROTECTION_HANDLE;
typedef VIP_PVOID VIP_CONN_HANDLE;

/* A descriptor of the operating system: (int)(intptr_t)handle can be given to poll(). */
typedef VIP_PVOID VIP_EVENT_HANDLE;

/* Never 0 for a registered region. */
typedef VIP_UINT32 VIP_MEM_HANDLE;

/* Timeouts are milliseconds. */
#define VIP_INFINITE ((VIP_ULONG)0xFFFFFFFFUL)

/* ---- what calls return -------------------------------------------------------------------- */

typedef enum _VIP_RETURN {
    VIP_SUCCESS = 0,
    VIP_NOT_DONE = 1,
    VIP_INVALID_PARAMETER = 2,
    VIP_ERROR_RESOURCE = 3,
    VIP_TIMEOUT = 4,
    VIP_REJECT = 5,
    VIP_INVALID_RELIABILITY_LEVEL = 6,
    VIP_INVALID_MTU = 7,
    VIP_INVALID_QOS = 8,
    VIP_INVALID_PTAG = 9,
    VIP_INVALID_RDMAREAD = 10,
    VIP_DESCRIPTOR_ERROR = 11,
    VIP_INVALID_STATE = 12,
    VIP_ERROR_NAMESERVICE = 13,
    VIP_NO_MATCH = 14,
    VIP_NOT_REACHABLE = 15,
    VIP_ERROR_NOT_SUPPORTED = 16,
    VIP_ERROR = 17
} VIP_RETURN;

/* Younger than the others: programs ask the preprocessor for it, and else give it a value. */
#define VIP_ERROR_NOT_SUPPORTED VIP_ERROR_NOT_SUPPORTED

/* ---- descriptors -------------------------------------------------------------------------- */

#define VIP_DESCRIPTOR_ALIGNMENT 64

/* Control: what a descriptor asks for. */
#define VIP_CONTROL_OP_SENDRECV 0x0000
#define VIP_CONTROL_OP_RDMAWRITE 0x0001
#define VIP_CONTROL_OP_RDMAREAD 0x0002
#define VIP_CONTROL_OP_RESERVED 0x0003
#define VIP_CONTROL_OP_MASK 0x0003
#define VIP_CONTROL_IMMEDIATE 0x0004
#define VIP_CONTROL_QFENCE 0x0008
#define VIP_CONTROL_RESERVED 0xFFF0

/* Status: what became of it. */
#define VIP_STATUS_DONE 0x00000001
#define VIP_STATUS_FORMAT_ERROR 0x00000002
#define VIP_STATUS_PROTECTION_ERROR 0x00000004
#define VIP_STATUS_LENGTH_ERROR 0x00000008
#define VIP_STATUS_PARTIAL_ERROR 0x00000010
#define VIP_STATUS_DESC_FLUSHED_ERROR 0x00000020
#define VIP_STATUS_TRANSPORT_ERROR 0x00000040
#define VIP_STATUS_RDMA_PROT_ERROR 0x00000080
#define VIP_STATUS_REMOTE_DESC_ERROR 0x00000100
#define VIP_STATUS_ERROR_MASK 0x000001FE
#define VIP_STATUS_OP_SEND 0x00000000
#define VIP_STATUS_OP_RECEIVE 0x00010000
#define VIP_STATUS_OP_RDMA_WRITE 0x00020000
#define VIP_STATUS_OP_REMOTE_RDMA_WRITE 0x00030000
#define VIP_STATUS_OP_RDMA_READ 0x00040000
#define VIP_STATUS_OP_MASK 0x00070000
#define VIP_STATUS_IMMEDIATE 0x00080000
#define VIP_STATUS_RESERVED 0xFFF0FE00

struct _VIP_DESCRIPTOR;

/* An address that takes 64 bits on every machine. */
typedef union _VIP_PVOID64 {
    VIP_UINT64 AddressBits;
    VIP_PVOID Address;
    struct _VIP_DESCRIPTOR *Descriptor;
} VIP_PVOID64;

/* Segments are volatile: a program may watch Status while it changes. */
typedef volatile struct _VIP_CONTROL_SEGMENT {
    VIP_PVOID64 Next;          /* the program's own; never looked at */
    VIP_MEM_HANDLE NextHandle; /* likewise */
    VIP_UINT16 SegCount;       /* all that follow, the address segment included */
    VIP_UINT16 Control;
    VIP_UINT32 Reserved;
    VIP_UINT32 ImmediateData;
    VIP_UINT32 Length; /* bytes transferred, once done */
    VIP_UINT32 Status; /* stored last */
} VIP_CONTROL_SEGMENT;

/* Segment 0 of an RDMA: where in the far side's memory. */
typedef volatile struct _VIP_ADDRESS_SEGMENT {
    VIP_PVOID64 Data;
    VIP_MEM_HANDLE Handle;
    VIP_UINT32 Reserved;
} VIP_ADDRESS_SEGMENT;

typedef volatile struct _VIP_DATA_SEGMENT {
    VIP_PVOID64 Data;
    VIP_MEM_HANDLE Handle;
    VIP_UINT32 Length;
} VIP_DATA_SEGMENT;

typedef volatile union _VIP_DESCRIPTOR_SEGMENT {
    VIP_ADDRESS_SEGMENT Remote;
    VIP_DATA_SEGMENT Local;
} VIP_DESCRIPTOR_SEGMENT;

/*
 * `CS` and `DS[i].Local`, `DS[i].Remote` (Intel, M-VIA), or `Control` and `Data[i]` (Giganet).
 * A descriptor with more than two segments takes more memory than this structure.
 */
VIP_ANONYMOUS typedef struct _VIP_DESCRIPTOR {
    union {
        VIP_CONTROL_SEGMENT CS;
        VIP_CONTROL_SEGMENT Control;
    };
    union {
        VIP_DESCRIPTOR_SEGMENT DS[2];
        VIP_DATA_SEGMENT Data[2];
    };
} VIP_DESCRIPTOR;

/* ---- addresses and attributes ------------------------------------------------------------- */

/*
 * HostAddressLen bytes of a NIC's address, then DiscriminatorLen bytes. VIPL declares one byte of
 * them and has programs make room for NicAddressLen + MaxDiscriminatorLen. Some declare a plain
 * variable of this type instead; so it has the room that a NIC of this library asks for (6 + 16).
 */
typedef struct _VIP_NET_ADDRESS {
    VIP_UINT16 HostAddressLen;
    VIP_UINT16 DiscriminatorLen;
    VIP_UINT8 HostAddress[22];
} VIP_NET_ADDRESS;

/* One of these, or a set. */
typedef VIP_UINT16 VIP_RELIABILITY_LEVEL;
#define VIP_SERVICE_UNRELIABLE ((VIP_RELIABILITY_LEVEL)0x01)
#define VIP_SERVICE_RELIABLE_DELIVERY ((VIP_RELIABILITY_LEVEL)0x02)
#define VIP_SERVICE_RELIABLE_RECEPTION ((VIP_RELIABILITY_LEVEL)0x04)
/* The three levels of the specification, as a mask. */
#define VIP_BASE_SERVICES ((VIP_RELIABILITY_LEVEL)0x07)
/* cLAN's further services. A NIC offers what ReliabilityLevelSupport has; this one neither. */
#define VIP_SERVICE_ACK ((VIP_RELIABILITY_LEVEL)0x4000)
#define VIP_SERVICE_DFC ((VIP_RELIABILITY_LEVEL)0x8000)

typedef struct _VIP_NIC_ATTRIBUTES {
    VIP_CHAR Name[64];
    VIP_ULONG HardwareVersion;
    VIP_ULONG ProviderVersion;
    VIP_UINT16 NicAddressLen;
    const VIP_UINT8 *LocalNicAddress; /* good while the NIC is open */
    VIP_BOOLEAN ThreadSafe;
    VIP_UINT16 MaxDiscriminatorLen;
    VIP_ULONG MaxRegisterBytes;
    VIP_ULONG MaxRegisterRegions;
    VIP_ULONG MaxRegisterBlockBytes;
    VIP_ULONG MaxVI;
    VIP_ULONG MaxDescriptorsPerQueue;
    VIP_ULONG MaxSegmentsPerDesc;
    VIP_ULONG MaxCQ;
    VIP_ULONG MaxCQEntries;
    VIP_ULONG MaxTransferSize;
    VIP_ULONG NativeMTU;
    VIP_ULONG MaxPtags;
    VIP_RELIABILITY_LEVEL ReliabilityLevelSupport;
    VIP_RELIABILITY_LEVEL RDMAReadSupport;
} VIP_NIC_ATTRIBUTES;

typedef struct _VIP_VI_ATTRIBUTES {
    VIP_RELIABILITY_LEVEL ReliabilityLevel;
    VIP_ULONG MaxTransferSize;
    VIP_QOS QoS;
    VIP_PROTECTION_HANDLE Ptag; /* NULL: the NIC's default one */
    VIP_BOOLEAN EnableRdmaWrite;
    VIP_BOOLEAN EnableRdmaRead;
} VIP_VI_ATTRIBUTES;

typedef struct _VIP_MEM_ATTRIBUTES {
    VIP_PROTECTION_HANDLE Ptag; /* NULL: the NIC's default one */
    VIP_BOOLEAN EnableRdmaWrite;
    VIP_BOOLEAN EnableRdmaRead;
} VIP_MEM_ATTRIBUTES;

typedef enum _VIP_VI_STATE {
    VIP_STATE_IDLE = 0,
    VIP_STATE_CONNECTED = 1,
    VIP_STATE_CONNECT_PENDING = 2,
    VIP_STATE_ERROR = 3
} VIP_VI_STATE;

/* ---- errors that belong to no call -------------------------------------------------------- */

typedef enum _VIP_RESOURCE_CODE {
    VIP_RESOURCE_NIC = 0,
    VIP_RESOURCE_VI = 1,
    VIP_RESOURCE_CQ = 2,
    VIP_RESOURCE_DESCRIPTOR = 3
} VIP_RESOURCE_CODE;

typedef enum _VIP_ERROR_CODE {
    VIP_ERROR_POST_DESC = 0,
    VIP_ERROR_CONN_LOST = 1,
    VIP_ERROR_RECVQ_EMPTY = 2,
    VIP_ERROR_VI_OVERRUN = 3,
    VIP_ERROR_RDMAW_PROT = 4,
    VIP_ERROR_RDMAW_DATA = 5,
    VIP_ERROR_RDMAW_ABORT = 6,
    VIP_ERROR_RDMAR_PROT = 7,
    VIP_ERROR_COMP_PROT = 8,
    VIP_ERROR_RDMA_TRANSPORT = 9,
    VIP_ERROR_CATASTROPHIC = 10
} VIP_ERROR_CODE;

typedef struct _VIP_ERROR_DESCRIPTOR {
    VIP_NIC_HANDLE NicHandle;
    VIP_VI_HANDLE ViHandle;        /* NULL where it concerns none */
    VIP_CQ_HANDLE CQHandle;        /* likewise */
    VIP_DESCRIPTOR *DescriptorPtr; /* likewise */
    VIP_ULONG OpCode;              /* VIP_CONTROL_OP_* */
    VIP_RESOURCE_CODE ResourceCode;
    VIP_ERROR_CODE ErrorCode;
} VIP_ERROR_DESCRIPTOR;

/* ---- system management -------------------------------------------------------------------- */

#define VIP_SMI_AUTODISCOVERY ((VIP_ULONG)1)

typedef struct _VIP_AUTODISCOVERY_LIST {
    VIP_ULONG NumberOfHops;
    VIP_NET_ADDRESS *ADAddrArray; /* good while the NIC is open */
    VIP_ULONG NumAdAddrs;
} VIP_AUTODISCOVERY_LIST;

/* ---- callbacks; they run in a thread of the library --------------------------------------- */

typedef void (*VIP_VI_CALLBACK)(IN VIP_PVOID Context, IN VIP_NIC_HANDLE NicHandle,
                                IN VIP_VI_HANDLE ViHandle, IN VIP_DESCRIPTOR *Descriptor);
typedef void (*VIP_CQ_CALLBACK)(IN VIP_PVOID Context, IN VIP_NIC_HANDLE NicHandle,
                                IN VIP_VI_HANDLE ViHandle, IN VIP_BOOLEAN RecvQueue);
typedef void (*VIP_ERROR_HANDLER)(IN VIP_PVOID Context, IN VIP_ERROR_DESCRIPTOR *ErrorDesc);

/* ---- NICs --------------------------------------------------------------------------------- */

VIP_RETURN VipOpenNic(IN const VIP_CHAR *DeviceName, OUT VIP_NIC_HANDLE *NicHandle);
VIP_RETURN VipCloseNic(IN VIP_NIC_HANDLE NicHandle);
VIP_RETURN VipQueryNic(IN VIP_NIC_HANDLE NicHandle, OUT VIP_NIC_ATTRIBUTES *Attributes);

/* ---- VIs ---------------------------------------------------------------------------------- */

VIP_RETURN VipCreateVi(IN VIP_NIC_HANDLE NicHandle, IN VIP_VI_ATTRIBUTES *Attributes,
                       IN VIP_CQ_HANDLE SendCQHandle, IN VIP_CQ_HANDLE RecvCQHandle,
                       OUT VIP_VI_HANDLE *ViHandle);
VIP_RETURN VipDestroyVi(IN VIP_VI_HANDLE ViHandle);
VIP_RETURN VipQueryVi(IN VIP_VI_HANDLE ViHandle, OUT VIP_VI_STATE *State,
                      OUT VIP_VI_ATTRIBUTES *Attributes, OUT VIP_BOOLEAN *SendQueueEmpty,
                      OUT VIP_BOOLEAN *RecvQueueEmpty);
VIP_RETURN VipSetViAttributes(IN VIP_VI_HANDLE ViHandle, IN VIP_VI_ATTRIBUTES *Attributes);

/* ---- connecting, client to server --------------------------------------------------------- */

VIP_RETURN VipConnectWait(IN VIP_NIC_HANDLE NicHandle, IN VIP_NET_ADDRESS *LocalAddr,
                          IN VIP_ULONG Timeout, OUT VIP_NET_ADDRESS *RemoteAddr,
                          OUT VIP_VI_ATTRIBUTES *RemoteAttributes,
                          OUT VIP_CONN_HANDLE *ConnHandle);
VIP_RETURN VipConnectAccept(IN VIP_CONN_HANDLE ConnHandle, IN VIP_VI_HANDLE ViHandle);
VIP_RETURN VipConnectReject(IN VIP_CONN_HANDLE ConnHandle);
VIP_RETURN VipConnectRequest(IN VIP_VI_HANDLE ViHandle, IN VIP_NET_ADDRESS *LocalAddr,
                             IN VIP_NET_ADDRESS *RemoteAddr, IN VIP_ULONG Timeout,
                             OUT VIP_VI_ATTRIBUTES *RemoteAttributes);
VIP_RETURN VipDisconnect(IN VIP_VI_HANDLE ViHandle);

/* ---- connecting, peer to peer ------------------------------------------------------------- */

VIP_RETURN VipConnectPeerRequest(IN VIP_VI_HANDLE ViHandle, IN VIP_NET_ADDRESS *LocalAddr,
                                 IN VIP_NET_ADDRESS *RemoteAddr, IN VIP_ULONG Timeout);
VIP_RETURN VipConnectPeerDone(IN VIP_VI_HANDLE ViHandle,
                              OUT VIP_VI_ATTRIBUTES *RemoteAttributes);
VIP_RETURN VipConnectPeerWait(IN VIP_VI_HANDLE ViHandle,
                              OUT VIP_VI_ATTRIBUTES *RemoteAttributes);

/* ---- memory ------------------------------------------------------------------------------- */

VIP_RETURN VipCreatePtag(IN VIP_NIC_HANDLE NicHandle, OUT VIP_PROTECTION_HANDLE *Ptag);
VIP_RETURN VipDestroyPtag(IN VIP_NIC_HANDLE NicHandle, IN VIP_PROTECTION_HANDLE Ptag);
VIP_RETURN VipRegisterMem(IN VIP_NIC_HANDLE NicHandle, IN VIP_PVOID VirtualAddress,
                          IN VIP_ULONG Length, IN VIP_MEM_ATTRIBUTES *Attributes,
                          OUT VIP_MEM_HANDLE *MemHandle);
VIP_RETURN VipDeregisterMem(IN VIP_NIC_HANDLE NicHandle, IN VIP_PVOID VirtualAddress,
                            IN VIP_MEM_HANDLE MemHandle);
VIP_RETURN VipQueryMem(IN VIP_NIC_HANDLE NicHandle, IN VIP_PVOID VirtualAddress,
                       IN VIP_MEM_HANDLE MemHandle, OUT VIP_MEM_ATTRIBUTES *Attributes);
VIP_RETURN VipSetMemAttributes(IN VIP_NIC_HANDLE NicHandle, IN VIP_PVOID VirtualAddress,
                               IN VIP_MEM_HANDLE MemHandle, IN VIP_MEM_ATTRIBUTES *Attributes);

/* ---- transfer ----------------------------------------------------------------------------- */

VIP_RETURN VipPostSend(IN VIP_VI_HANDLE ViHandle, IN VIP_DESCRIPTOR *Descriptor,
                       IN VIP_MEM_HANDLE MemHandle);
VIP_RETURN VipPostRecv(IN VIP_VI_HANDLE ViHandle, IN VIP_DESCRIPTOR *Descriptor,
                       IN VIP_MEM_HANDLE MemHandle);
VIP_RETURN VipSendDone(IN VIP_VI_HANDLE ViHandle, OUT VIP_DESCRIPTOR **Descriptor);
VIP_RETURN VipRecvDone(IN VIP_VI_HANDLE ViHandle, OUT VIP_DESCRIPTOR **Descriptor);
VIP_RETURN VipSendWait(IN VIP_VI_HANDLE ViHandle, IN VIP_ULONG Timeout,
                       OUT VIP_DESCRIPTOR **Descriptor);
VIP_RETURN VipRecvWait(IN VIP_VI_HANDLE ViHandle, IN VIP_ULONG Timeout,
                       OUT VIP_DESCRIPTOR **Descriptor);
VIP_RETURN VipSendNotify(IN VIP_VI_HANDLE ViHandle, IN VIP_PVOID Context,
                         IN VIP_VI_CALLBACK Callback);
VIP_RETURN VipRecvNotify(IN VIP_VI_HANDLE ViHandle, IN VIP_PVOID Context,
                         IN VIP_VI_CALLBACK Callback);

/* ---- completion queues -------------------------------------------------------------------- */

VIP_RETURN VipCreateCQ(IN VIP_NIC_HANDLE NicHandle, IN VIP_ULONG EntryCount,
                       OUT VIP_CQ_HANDLE *CQHandle);
VIP_RETURN VipDestroyCQ(IN VIP_CQ_HANDLE CQHandle);
VIP_RETURN VipResizeCQ(IN VIP_CQ_HANDLE CQHandle, IN VIP_ULONG EntryCount);
VIP_RETURN VipCQDone(IN VIP_CQ_HANDLE CQHandle, OUT VIP_VI_HANDLE *ViHandle,
                     OUT VIP_BOOLEAN *RecvQueue);
VIP_RETURN VipCQWait(IN VIP_CQ_HANDLE CQHandle, IN VIP_ULONG Timeout, OUT VIP_VI_HANDLE *ViHandle,
                     OUT VIP_BOOLEAN *RecvQueue);
VIP_RETURN VipCQNotify(IN VIP_CQ_HANDLE CQHandle, IN VIP_PVOID Context,
                       IN VIP_CQ_CALLBACK Callback);

/* ---- errors and management ---------------------------------------------------------------- */

VIP_RETURN VipErrorCallback(IN VIP_NIC_HANDLE NicHandle, IN VIP_PVOID Context,
                            IN VIP_ERROR_HANDLER Handler);
/* SysManInfo for VIP_SMI_AUTODISCOVERY: a VIP_AUTODISCOVERY_LIST, which is filled in. */
VIP_RETURN VipQuerySystemManagementInfo(IN VIP_NIC_HANDLE NicHandle, IN VIP_ULONG InfoType,
                                        OUT VIP_PVOID SysManInfo);

/* ---- names -------------------------------------------------------------------------------- */

/* NSInitInfo: the path of a hosts file, or NULL. */
VIP_RETURN VipNSInit(IN VIP_NIC_HANDLE NicHandle, IN VIP_PVOID NSInitInfo);
VIP_RETURN VipNSShutdown(IN VIP_NIC_HANDLE NicHandle);
VIP_RETURN VipNSGetHostByName(IN VIP_NIC_HANDLE NicHandle, IN VIP_CHAR *Name,
                              OUT VIP_NET_ADDRESS *Address, IN VIP_ULONG NameIndex);
VIP_RETURN VipNSGetHostByAddr(IN VIP_NIC_HANDLE NicHandle, IN VIP_NET_ADDRESS *Address,
                              OUT VIP_CHAR *Name, IN OUT VIP_ULONG *NameLen);

/* ---- what cLAN has beyond ----------------------------------------------------------------- */

VIP_RETURN VipAddTagCQ(IN VIP_CQ_HANDLE CQHandle, IN OUT VIP_EVENT_HANDLE *Event,
                       IN VIP_ULONG Tag, IN VIP_ULONG Priority);
VIP_RETURN VipRemoveTagCQ(IN VIP_CQ_HANDLE CQHandle, IN VIP_EVENT_HANDLE Event,
                          IN VIP_ULONG Tag);
VIP_RETURN VipPostDeferredSends(IN VIP_VI_HANDLE ViHandle, IN VIP_BOOLEAN EnableInterrupt,
                                IN OUT VIP_BOOLEAN *SendsDeferred);
VIP_PVOID VipGetUserData(IN VIP_VI_HANDLE ViHandle);
void VipSetUserData(IN VIP_VI_HANDLE ViHandle, IN VIP_PVOID Data);

#ifdef __cplusplus
}
#endif

#endif
