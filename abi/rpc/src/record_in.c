/* Receives records. */
#include "record.h"

#include <errno.h>
#include <sovia.h>
#include <stdlib.h>
#include <string.h>

enum {
    MARK = 4,
    USUAL = 8 << 10,
    /* Largest part of a record that is collected before decoding begins, and most memory for a peer's
     * record. */
    MOST = 1 << 20,
    /* Largest size of a buffer that is kept when it is empty. */
    KEPT = 64 << 10,
    /* Least size of an argument that is received directly into the program's memory. */
    DIRECT = 16 << 10
};

void record_in_start(struct record_in *in, int fd, u_int size) {
    memset(in, 0, sizeof *in);
    in->fd = fd;
    in->patience = -1;
    in->first = size < USUAL ? USUAL : size > KEPT ? KEPT : size;
}

void record_in_stop(struct record_in *in) { free(in->bytes); }

static uint32_t word(const unsigned char *at) {
    uint32_t word;
    memcpy(&word, at, sizeof word);
    return ntohl(word);
}

/* Adds a fragment's length to `total`. Returns false for a record that is too long. Returns false also for an empty
 * fragment that is not the last, because such fragments could follow each other without end. */
static bool counted(const struct record_in *in, uint32_t mark, uint64_t *total) {
    *total += mark & 0x7fffffff;
    return mark != 0 && (!in->most || *total <= in->most);
}

/* Resets the buffer once everything has been read. */
static void tidy(struct record_in *in) {
    if (in->at < in->end)
        return;
    in->at = in->end = in->scan = 0;
    if (in->size > KEPT) {
        free(in->bytes);
        in->bytes = NULL;
        in->size = 0;
    }
}

/* Makes room at the end of the buffer. */
static bool make_room(struct record_in *in) {
    if (in->end < in->size)
        return true;
    if (in->at > 0) {
        memmove(in->bytes, in->bytes + in->at, in->end - in->at);
        in->end -= in->at;
        in->scan = in->scan > in->at ? in->scan - in->at : 0;
        in->at = 0;
        return true;
    }
    size_t size = in->size ? in->size * 2 : in->first;
    unsigned char *bytes = realloc(in->bytes, size);
    if (!bytes)
        return false;
    in->bytes = bytes;
    in->size = size;
    return true;
}

/* Receives the bytes that have arrived into `place`. Returns GOT_ALL if there were any. */
static enum got receive(struct record_in *in, void *place, size_t length, size_t *count) {
    ssize_t got;
    do
        got = sov_recv(in->fd, place, length, MSG_DONTWAIT);
    while (got < 0 && errno == EINTR);
    if (got > 0) {
        *count = (size_t)got;
        return GOT_ALL;
    }
    if (got == 0)
        return GOT_END;
    if (errno == EAGAIN)
        return GOT_PART;
    in->error = errno;
    return GOT_ERROR;
}

static enum got fill(struct record_in *in, size_t *count) {
    if (!make_room(in)) {
        in->error = ENOMEM;
        return GOT_ERROR;
    }
    enum got got = receive(in, in->bytes + in->end, in->size - in->end, count);
    if (got == GOT_ALL)
        in->end += *count;
    return got;
}

/* Skips the unread rest of a record. */
static enum got skip(struct record_in *in) {
    for (;;) {
        size_t there = in->end - in->at;
        size_t count = there < in->left ? there : in->left;
        in->at += count;
        in->left -= (uint32_t)count;
        if (!in->left && in->last)
            break;
        if (in->left || in->end - in->at < MARK)
            return GOT_PART;
        uint32_t mark = word(in->bytes + in->at);
        if (!counted(in, mark, &in->total))
            return GOT_NONSENSE;
        in->at += MARK;
        in->last = mark >> 31;
        in->left = mark & 0x7fffffff;
    }
    in->inside = in->whole = false;
    in->scan = in->at;
    in->scanned = 0;
    return GOT_ALL;
}

/* Returns GOT_ALL if the next record can be decoded. */
static enum got look(struct record_in *in) {
    enum got got = in->inside ? skip(in) : GOT_ALL;
    tidy(in);
    if (got != GOT_ALL)
        return got;
    while (!in->whole && in->scan + MARK <= in->end) {
        uint32_t mark = word(in->bytes + in->scan);
        if (!counted(in, mark, &in->scanned))
            return GOT_NONSENSE;
        in->scan += MARK + (size_t)(mark & 0x7fffffff);
        in->whole = mark >> 31;
    }
    bool there = (in->whole && in->scan <= in->end) || in->end - in->at >= MOST;
    return there ? GOT_ALL : GOT_PART;
}

enum got record_in_next(struct record_in *in) {
    size_t taken = 0;
    if (in->trouble == GOT_LATE)
        in->trouble = GOT_ALL;
    for (;;) {
        enum got got = in->trouble == GOT_ALL ? look(in) : in->trouble;
        if (got == GOT_ALL) {
            in->inside = true;
            in->last = false;
            in->left = 0;
            in->total = 0;
            return GOT_ALL;
        }
        size_t count = 0;
        /* Let other clients have their turn before a peer that sends without end. */
        if (got == GOT_PART && taken < MOST)
            got = fill(in, &count);
        else if (got == GOT_PART)
            return GOT_PART;
        taken += count;
        if (got == GOT_PART)
            return GOT_PART;
        if (got != GOT_ALL) {
            /* Keep the failure: a stream without its bytes' order has no records. */
            in->trouble = got;
            return got;
        }
    }
}

/* Waits until bytes arrive. */
static enum got wait_for_bytes(struct record_in *in, int patience) {
    int news = wait_for(in->fd, POLLIN, patience);
    if (news < 0)
        in->error = errno;
    return news > 0 ? GOT_ALL : news == 0 ? GOT_LATE : GOT_ERROR;
}

enum got record_in_await(struct record_in *in, int patience) {
    for (;;) {
        enum got got = record_in_next(in);
        if (got != GOT_PART)
            return got;
        got = wait_for_bytes(in, patience);
        if (got != GOT_ALL)
            return got;
    }
}

bool record_in_is_there(struct record_in *in) {
    return in->trouble == GOT_ALL && look(in) == GOT_ALL;
}

/* --- decoding */

/* Waits for more bytes of a record whose decoding has begun. */
static enum got wait_and(struct record_in *in, void *place, size_t length, size_t *count) {
    for (;;) {
        enum got got = place ? receive(in, place, length, count) : fill(in, count);
        if (got != GOT_PART)
            return got;
        got = wait_for_bytes(in, in->patience);
        if (got != GOT_ALL)
            return got;
    }
}

static bool_t failed(struct record_in *in, enum got why) {
    in->trouble = why;
    return FALSE;
}

static bool_t next_fragment(struct record_in *in) {
    if (in->last)
        return FALSE;
    while (in->end - in->at < MARK) {
        size_t count;
        enum got got = wait_and(in, NULL, 0, &count);
        if (got != GOT_ALL)
            return failed(in, got);
    }
    uint32_t mark = word(in->bytes + in->at);
    if (!counted(in, mark, &in->total))
        return failed(in, GOT_NONSENSE);
    in->at += MARK;
    in->last = mark >> 31;
    in->left = mark & 0x7fffffff;
    return TRUE;
}

static bool_t get_bytes(XDR *xdrs, char *to, u_int length) {
    struct record_in *in = xdrs->x_private;
    while (length) {
        if (!in->left) {
            if (!next_fragment(in))
                return FALSE;
            continue;
        }
        size_t count = length < in->left ? length : in->left, there = in->end - in->at;
        if (!there) {
            bool direct = count >= DIRECT;
            enum got got = wait_and(in, direct ? to : NULL, count, &there);
            if (got != GOT_ALL)
                return failed(in, got);
            if (direct) {
                to += there;
                length -= (u_int)there;
                in->left -= (uint32_t)there;
                continue;
            }
        }
        count = count < there ? count : there;
        memcpy(to, in->bytes + in->at, count);
        in->at += count;
        in->left -= (uint32_t)count;
        to += count;
        length -= (u_int)count;
        if (in->at == in->end)
            in->at = in->end = 0;
    }
    return TRUE;
}

/* Decodes four bytes without sign extension for every type, as libtirpc does. */
static bool_t get_long(XDR *xdrs, long *number) {
    struct record_in *in = xdrs->x_private;
    unsigned char bytes[MARK];
    if (in->left >= MARK && in->end - in->at >= MARK) {
        *number = (long)word(in->bytes + in->at);
        in->at += MARK;
        in->left -= MARK;
        return TRUE;
    }
    if (!get_bytes(xdrs, (char *)bytes, sizeof bytes))
        return FALSE;
    *number = (long)word(bytes);
    return TRUE;
}

static u_int position(XDR *xdrs) {
    const struct record_in *in = xdrs->x_private;
    return (u_int)(in->total - in->left);
}

static bool_t set_position(XDR *xdrs, u_int wanted) { return position(xdrs) == wanted; }

/* Returns a pointer to words in the buffer, or NULL if they do not lie together. */
static int32_t *in_place(XDR *xdrs, u_int length) {
    struct record_in *in = xdrs->x_private;
    if (in->left < length || in->end - in->at < length || in->at % sizeof(int32_t))
        return NULL;
    int32_t *words = (int32_t *)(void *)(in->bytes + in->at);
    in->at += length;
    in->left -= length;
    return words;
}

static bool_t put_long(XDR *xdrs, const long *number) {
    (void)xdrs, (void)number;
    return FALSE;
}

static bool_t put_bytes(XDR *xdrs, const char *from, u_int length) {
    (void)xdrs, (void)from, (void)length;
    return FALSE;
}

static void destroy(XDR *xdrs) { (void)xdrs; }

void record_in_xdr(struct record_in *in, XDR *xdrs) {
    static const struct xdr_ops operations = {
        .x_getlong = get_long,
        .x_putlong = put_long,
        .x_getbytes = get_bytes,
        .x_putbytes = put_bytes,
        .x_getpostn = position,
        .x_setpostn = set_position,
        .x_inline = in_place,
        .x_destroy = destroy,
    };
    memset(xdrs, 0, sizeof *xdrs);
    xdrs->x_op = XDR_DECODE;
    xdrs->x_ops = &operations;
    xdrs->x_private = in;
}
