/* Shared by the parts of the program: one NIC, one VI, one region, and the records of its handlers. */
#ifndef ARGUMENTS_H
#define ARGUMENTS_H

#define _DEFAULT_SOURCE
#include "../check.h"

#include <poll.h>
#include <pthread.h>
#include <sys/mman.h>

extern VIP_NIC_HANDLE nic, other;
extern VIP_VI_HANDLE vi;
extern VIP_CQ_HANDLE cq;
extern VIP_MEM_HANDLE mem;
extern unsigned char *memory;
#define LENGTH 65536UL

/* Fills `all` with values that are not handles of the expected kind. */
void strangers(VIP_PVOID *all, int count, VIP_PVOID valid);

#define STRANGERS 8
#define WITH_STRANGERS(valid, call)                                                              \
    do {                                                                                         \
        VIP_PVOID all_[STRANGERS];                                                               \
        strangers(all_, STRANGERS, (valid));                                                     \
        for (int i_ = 0; i_ < STRANGERS; i_++) {                                                 \
            VIP_PVOID it = all_[i_];                                                             \
            RETURNS(VIP_INVALID_PARAMETER, call);                                                \
        }                                                                                        \
    } while (0)

void on_vi(VIP_PVOID c, VIP_NIC_HANDLE n, VIP_VI_HANDLE v, VIP_DESCRIPTOR *d);
void on_cq(VIP_PVOID c, VIP_NIC_HANDLE n, VIP_VI_HANDLE v, VIP_BOOLEAN recv);

/* Last error that the error handler received, and the number of errors. */
extern volatile VIP_ERROR_DESCRIPTOR told;
extern volatile int errors;
void on_error(VIP_PVOID c, VIP_ERROR_DESCRIPTOR *e);

/* Descriptor `i` of the region, for 64 bytes of it. */
VIP_DESCRIPTOR *descriptor(int i);

/* The parts, in the order in which they run. */
void nics(void);
void regions(void);
void queues(void);
void vis(void);
void transfers(void);
void full_queue(void);
void full_completion_queue(void);
void callbacks(void);
void tags(void);
void connections(void);
void names(void);
void management(void);
void threads(void);

#endif
