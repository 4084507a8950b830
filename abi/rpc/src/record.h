/* Records of RFC 5531, section 11, over a stream of libsovia's: fragments, each behind a mark of four bytes that says
 * how long it is and whether it is the last.
 *
 * libtirpc's own (xdrrec_create) would do, but for two things. It asks for the bytes of a record one after the other,
 * and so a server waits for the slowest of its clients; and it sends what it could not encode. */
#ifndef SOVIA_RPC_RECORD_H
#define SOVIA_RPC_RECORD_H

#include <rpc/rpc.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* What has come of a wish for bytes. */
enum got {
    GOT_ALL,    /* what was asked for */
    GOT_PART,   /* less: there is no more now */
    GOT_LATE,   /* less: nothing came for as long as one was ready to wait */
    GOT_END,    /* the peer has ended the stream */
    GOT_ERROR,  /* the stream has failed: `error` */
    GOT_NONSENSE /* what came is no record */
};

/* --- receiving
 *
 * A record is waited for, without blocking, until it is whole. One that is longer than the buffer may become is begun
 * when that is full, and its rest is waited for while it is decoded: no record is too long. */
struct record_in {
    int fd;
    int patience;        /* milliseconds that decoding waits for bytes; negative: for ever */
    uint64_t most;       /* bytes of a record; 0: as many as it has */
    unsigned char *bytes;
    size_t size, first;  /* the buffer; what it begins with, if asked for */
    size_t at, end;      /* what has been received and not been read */
    size_t scan;         /* the next mark that has not been looked at, maybe beyond `end` */
    uint64_t scanned;    /* bytes of the record up to there */
    bool whole;          /* the record ends at `scan` */
    bool inside;         /* a record is being read */
    bool last;           /* its fragment is the last */
    uint32_t left;       /* bytes of the fragment that are still to be read */
    uint64_t total;      /* bytes of its fragments so far */
    enum got trouble;    /* why decoding has failed, if that was the stream's fault; GOT_ALL: it was not */
    int error;
};

/* `size`: what the buffer begins with, 0 for a usual one. */
void record_in_start(struct record_in *in, int fd, u_int size);
void record_in_stop(struct record_in *in);
/* An XDR stream that decodes the record. */
void record_in_xdr(struct record_in *in, XDR *xdrs);
/* Goes to the next record, without waiting. */
enum got record_in_next(struct record_in *in);
/* The same, and waits for so many milliseconds if nothing comes (negative: for ever). */
enum got record_in_await(struct record_in *in, int patience);
/* Whether record_in_next would find one without receiving anything. */
bool record_in_is_there(struct record_in *in);

/* --- sending
 *
 * A record is gathered, and sent in one piece if the buffer may become so long. */
struct record_out {
    int fd;
    int patience;        /* milliseconds that a send waits for room; negative: for ever */
    unsigned char *bytes;
    size_t size, used;
    size_t start;        /* the mark of the fragment that is being gathered; before it lie whole records */
    uint64_t sent;       /* bytes of the record that have been sent */
    bool broken;         /* a send has failed: `error` */
    int error;
};

void record_out_start(struct record_out *out, int fd, u_int size);
void record_out_stop(struct record_out *out);
/* An XDR stream that encodes into the record. */
void record_out_xdr(struct record_out *out, XDR *xdrs);
/* Begins one. */
bool record_out_begin(struct record_out *out);
/* Ends it; it is sent now, or together with the next. */
bool record_out_end(struct record_out *out, bool now);
/* Takes it back. If a part has been sent, it ends here, and its reader finds it too short. */
void record_out_cancel(struct record_out *out);

/* --- for both */

/* xdr_void, of the type that libtirpc takes. */
bool_t xdr_nothing(XDR *xdrs, ...);


/* 1: there is news on `fd`; 0: none in so many milliseconds (negative: for ever); -1: errno. Signals end no wait. */
int wait_for(int fd, short events, int milliseconds);

#endif
