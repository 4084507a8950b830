/* Records of RFC 5531, section 11, over a stream of libsovia. A record is a sequence of fragments. Each fragment
 * begins with a mark of four bytes: its length, and a bit that is set in the last fragment.
 *
 * libtirpc's own records (xdrrec_create) have two faults. They ask for the bytes of a record one after the other, so
 * a server waits for its slowest client. And they send a record that could not be encoded. */
#ifndef SOVIA_RPC_RECORD_H
#define SOVIA_RPC_RECORD_H

#include <rpc/rpc.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Outcome of a request for bytes. */
enum got {
    GOT_ALL,    /* all bytes */
    GOT_PART,   /* fewer: no more have arrived yet */
    GOT_LATE,   /* fewer: nothing arrived in time */
    GOT_END,    /* the peer has ended the stream */
    GOT_ERROR,  /* the stream has failed: `error` */
    GOT_NONSENSE /* the bytes are no record */
};

/* --- receiving
 *
 * Collects a record without blocking until it is whole. Decoding of a record longer than the largest buffer begins
 * when the buffer is full. The rest is received during decoding, so no record is too long. */
struct record_in {
    int fd;
    int patience;        /* milliseconds that decoding waits for bytes; negative: no limit */
    uint64_t most;       /* longest record in bytes; 0: no limit */
    unsigned char *bytes;
    size_t size, first;  /* the buffer; its first size, if set */
    size_t at, end;      /* bytes that have been received and not been read */
    size_t scan;         /* next mark to examine, maybe beyond `end` */
    uint64_t scanned;    /* bytes of the record up to `scan` */
    bool whole;          /* the record ends at `scan` */
    bool inside;         /* a record is being read */
    bool last;           /* the current fragment is the last */
    uint32_t left;       /* unread bytes of the fragment */
    uint64_t total;      /* bytes of the record's fragments so far */
    enum got trouble;    /* failure of the stream that made decoding fail; GOT_ALL if there was none */
    int error;
};

/* Prepares `in`. `size` is the first size of the buffer; 0 means the default. */
void record_in_start(struct record_in *in, int fd, u_int size);
void record_in_stop(struct record_in *in);
/* Makes an XDR stream that decodes the record. */
void record_in_xdr(struct record_in *in, XDR *xdrs);
/* Goes to the next record, without waiting. */
enum got record_in_next(struct record_in *in);
/* Like record_in_next, but waits up to `patience` milliseconds for bytes (negative: no limit). */
enum got record_in_await(struct record_in *in, int patience);
/* Returns true if record_in_next would find a record without receiving anything. */
bool record_in_is_there(struct record_in *in);

/* --- sending
 *
 * Collects a record, and sends it in one piece if the buffer may become that long. */
struct record_out {
    int fd;
    int patience;        /* milliseconds that a send waits for room; negative: no limit */
    unsigned char *bytes;
    size_t size, used;
    size_t start;        /* mark of the current fragment; whole records lie before it */
    uint64_t sent;       /* bytes of the record that have been sent */
    bool broken;         /* a send has failed: `error` */
    int error;
};

void record_out_start(struct record_out *out, int fd, u_int size);
void record_out_stop(struct record_out *out);
/* Makes an XDR stream that encodes into the record. */
void record_out_xdr(struct record_out *out, XDR *xdrs);
/* Begins a record. */
bool record_out_begin(struct record_out *out);
/* Ends the record, and sends it now or together with the next one. */
bool record_out_end(struct record_out *out, bool now);
/* Cancels the record. If a part has been sent, the record ends here, and its reader finds it too
 * short. */
void record_out_cancel(struct record_out *out);

/* --- for both */

/* xdr_void, of the type that libtirpc takes. */
bool_t xdr_nothing(XDR *xdrs, ...);


/* Returns 1 if an event occurred on `fd`, 0 after `milliseconds` (negative: no limit), -1 with errno. Signals do not
 * end the wait. */
int wait_for(int fd, short events, int milliseconds);

#endif
