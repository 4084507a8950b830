/* Sends records. */
#include "record.h"

#include <errno.h>
#include <sovia.h>
#include <stdlib.h>
#include <string.h>

enum {
    MARK = 4,
    USUAL = 4 << 10,
    /* Longest fragment: longer records are sent in several fragments. */
    MOST = 64 << 10
};

void record_out_start(struct record_out *out, int fd, u_int size) {
    memset(out, 0, sizeof *out);
    out->fd = fd;
    out->patience = -1;
    out->size = size < USUAL ? USUAL : size > MOST ? MOST : size;
    out->bytes = malloc(out->size);
    if (!out->bytes)
        out->size = 0;
}

void record_out_stop(struct record_out *out) { free(out->bytes); }

/* Sends the first `length` bytes of the buffer. */
static bool send_all(struct record_out *out, size_t length) {
    size_t done = 0;
    while (done < length && !out->broken) {
        /* MSG_NOSIGNAL: a peer that is gone must be an error and not a signal. */
        ssize_t count = sov_send(out->fd, out->bytes + done, length - done, MSG_DONTWAIT | MSG_NOSIGNAL);
        if (count >= 0) {
            done += (size_t)count;
            continue;
        }
        out->error = errno;
        if (errno == EINTR)
            continue;
        if (errno == EAGAIN) {
            int news = wait_for(out->fd, POLLOUT, out->patience);
            if (news > 0)
                continue;
            out->error = news == 0 ? ETIMEDOUT : errno;
        }
        out->broken = true;
    }
    return !out->broken;
}

/* Writes the mark of the fragment that ends here. */
static void mark(struct record_out *out, bool last) {
    uint32_t length = (uint32_t)(out->used - out->start - MARK);
    uint32_t word = htonl(length | (last ? 0x80000000 : 0));
    memcpy(out->bytes + out->start, &word, MARK);
}

/* Sends the whole records before this one. */
static bool send_earlier(struct record_out *out) {
    if (!send_all(out, out->start))
        return false;
    memmove(out->bytes, out->bytes + out->start, out->used - out->start);
    out->used -= out->start;
    out->start = 0;
    return true;
}

/* Makes room for up to `wanted` bytes, and returns how many fit. */
static size_t room(struct record_out *out, size_t wanted) {
    for (;;) {
        size_t there = out->size - out->used;
        if (out->broken)
            return 0;
        if (there >= wanted)
            return wanted;
        if (out->start > 0) {
            if (!send_earlier(out))
                return 0;
        } else if (out->size < MOST) {
            size_t size = out->size ? out->size * 2 : USUAL;
            size = size < MOST ? size : MOST;
            unsigned char *bytes = realloc(out->bytes, size);
            if (!bytes)
                return there;
            out->bytes = bytes;
            out->size = size;
        } else if (there > 0) {
            return there;
        } else {
            mark(out, false);
            out->sent += out->used - MARK;
            if (!send_all(out, out->used))
                return 0;
            out->used = MARK;
        }
    }
}

bool record_out_begin(struct record_out *out) {
    out->start = out->used;
    out->sent = 0;
    if (out->broken)
        return false;
    if (room(out, MARK) < MARK) {
        out->used = out->start;
        return false;
    }
    out->used = out->start + MARK;
    return true;
}

bool record_out_end(struct record_out *out, bool now) {
    mark(out, true);
    out->start = out->used;
    if (!now)
        return !out->broken;
    return send_earlier(out);
}

void record_out_cancel(struct record_out *out) {
    if (out->sent > 0)
        record_out_end(out, true);
    else
        out->used = out->start;
}

/* --- encoding */

static bool_t put_bytes(XDR *xdrs, const char *from, u_int length) {
    struct record_out *out = xdrs->x_private;
    while (length) {
        size_t count = room(out, length);
        if (!count)
            return FALSE;
        memcpy(out->bytes + out->used, from, count);
        out->used += count;
        from += count;
        length -= (u_int)count;
    }
    return TRUE;
}

static bool_t put_long(XDR *xdrs, const long *number) {
    struct record_out *out = xdrs->x_private;
    uint32_t word = htonl((uint32_t)*number);
    if (out->size - out->used < sizeof word)
        return put_bytes(xdrs, (const char *)&word, sizeof word);
    memcpy(out->bytes + out->used, &word, sizeof word);
    out->used += sizeof word;
    return TRUE;
}

/* Returns the number of bytes of the record so far. */
static u_int position(XDR *xdrs) {
    const struct record_out *out = xdrs->x_private;
    return (u_int)(out->sent + (out->used - out->start - MARK));
}

/* Goes back to bytes that have not been sent yet, to write them again. Authentication fills in a length this
 * way. */
static bool_t set_position(XDR *xdrs, u_int wanted) {
    struct record_out *out = xdrs->x_private;
    if (wanted < out->sent || wanted - out->sent > out->size - out->start - MARK)
        return FALSE;
    out->used = out->start + MARK + (size_t)(wanted - out->sent);
    return TRUE;
}

/* Returns a pointer to room for words in the buffer, or NULL if there is not enough. */
static int32_t *in_place(XDR *xdrs, u_int length) {
    struct record_out *out = xdrs->x_private;
    if (out->size - out->used < length || out->used % sizeof(int32_t))
        return NULL;
    int32_t *words = (int32_t *)(void *)(out->bytes + out->used);
    out->used += length;
    return words;
}

static bool_t get_long(XDR *xdrs, long *number) {
    (void)xdrs, (void)number;
    return FALSE;
}

static bool_t get_bytes(XDR *xdrs, char *to, u_int length) {
    (void)xdrs, (void)to, (void)length;
    return FALSE;
}

static void destroy(XDR *xdrs) { (void)xdrs; }

void record_out_xdr(struct record_out *out, XDR *xdrs) {
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
    xdrs->x_op = XDR_ENCODE;
    xdrs->x_ops = &operations;
    xdrs->x_private = out;
}
