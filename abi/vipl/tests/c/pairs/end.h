/* One end of a pair of communicating programs, and its common operations. */
#ifndef END_H
#define END_H

#define _DEFAULT_SOURCE
#include "../check.h"

#define DATA 8192
#define SIZE (1 << 20)

/* One end: a NIC, a VI, and a region with descriptors and data. */
typedef struct {
    VIP_NIC_HANDLE nic;
    VIP_VI_HANDLE vi;
    VIP_MEM_HANDLE mem;
    unsigned char *memory;
    address_t local, remote;
    VIP_VI_ATTRIBUTES attributes;
} end_t;

/* Side of this program, and a discriminator that no other test uses. */
extern int server;
extern const char *name;

/* Errors that the error handler received: their number, a bit for each code, and the last one. */
extern volatile int errors;
extern volatile unsigned kinds;
extern volatile VIP_ERROR_DESCRIPTOR told;
void on_error(VIP_PVOID context, VIP_ERROR_DESCRIPTOR *e);

/* Address of the other end's NIC: on this host, unless a hosts file names the hosts of `server` and `client`. */
void address_there(end_t *e, const char *discriminator);

/* Creates a VI on these completion queues, with a new NIC if there is none yet. */
void open_end(end_t *e, VIP_CQ_HANDLE send, VIP_CQ_HANDLE recv);
VIP_RETURN try_connect(end_t *e);
void connect_end(end_t *e);
void close_end(end_t *e);

/* Descriptors and their data, by number. */
VIP_DESCRIPTOR *at(end_t *e, int i);
unsigned char *data(end_t *e, int i);
VIP_DESCRIPTOR *prepare(end_t *e, int i, VIP_UINT32 length);
void post_recv(end_t *e, int i, VIP_UINT32 length);
VIP_DESCRIPTOR *take_recv(end_t *e);
void send_now(end_t *e, VIP_DESCRIPTOR *d);
unsigned char pattern(int round, VIP_UINT32 i);

/* Waits until both sides have come here. Uses a receive that was posted for it. */
void say(end_t *e, int i, const void *what, VIP_UINT32 length);

/* A case, and the list of cases in each file, which ends with an entry without a name. */
typedef struct {
    const char *name;
    void (*run)(void);
} case_t;
extern const case_t transfers[], queues[], notices[], tags[], rdmas[], connecting[], failing[], levels[];

#endif
