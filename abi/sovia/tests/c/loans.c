/* Lent buffers, in correct use and in misuse. */
#include "check.h"
#include <sys/wait.h>

static void misuse(void) {
    struct pair pair = warmed();
    char local[64];
    FAILS(sov_return(NULL), EINVAL);
    FAILS(sov_return(local), EINVAL);
    FAILS(sov_return((void *)(intptr_t)-1), EINVAL);
    FAILS(sov_in_place(local), EINVAL);
    FAILS(sov_commit(pair.one, local, 1, 0), EINVAL);
    errno = 0;
    CHECK(sov_lend(pair.one, 0) == NULL && errno == EINVAL);
    errno = 0;
    CHECK(sov_lend(pair.one, SOV_LEND_MAX + 1) == NULL && errno == EMSGSIZE);
    FAILS(sov_borrow(pair.one, NULL, 0), EFAULT);
    char *buffer = sov_lend(pair.one, 1000);
    CHECK(buffer && sov_in_place(buffer) == 1);
    FAILS(sov_return(buffer + 1), EINVAL);
    FAILS(sov_commit(pair.one, buffer, 1001, 0), EINVAL);
    CHECK(sov_return(buffer) == 0);
    FAILS(sov_return(buffer), EINVAL);
    FAILS(sov_commit(pair.one, buffer, 10, 0), EINVAL);
    /* Borrowed buffers cannot be committed. */
    const void *bytes;
    memset(local, 'l', sizeof local);
    CHECK(sov_send(pair.one, local, sizeof local, 0) == sizeof local);
    CHECK(sov_borrow(pair.other, &bytes, 0) == sizeof local);
    FAILS(sov_commit(pair.other, (void *)(uintptr_t)bytes, 5, 0), EINVAL);
    CHECK(memcmp(bytes, local, sizeof local) == 0);
    CHECK(sov_return(bytes) == 0);
    FAILS(sov_return(bytes), EINVAL);
    FAILS(sov_borrow(pair.other, &bytes, MSG_DONTWAIT), EAGAIN);
    CHECK(sov_shutdown(pair.one, SHUT_WR) == 0);
    CHECK(sov_borrow(pair.other, &bytes, 0) == 0 && bytes == NULL);
    FAILS(sov_borrow(-1, &bytes, 0), EBADF);
    end(pair);
}

/* A buffer of another stream is refused. */
static void strangers(void) {
    struct pair one = warmed(), other = warmed();
    char *buffer = sov_lend(one.one, 1000);
    CHECK(sov_in_place(buffer) == 1);
    FAILS(sov_commit(other.one, buffer, 1000, 0), EBADF);
    /* So is a buffer in ordinary memory, even if another stream now has the descriptor number. */
    char *first = sov_lend(one.one, 1000), *second = sov_lend(one.one, 1000);
    CHECK(sov_in_place(first) == 1 && sov_in_place(second) == 0);
    FAILS(sov_commit(other.one, second, 1000, 0), EBADF);
    second = sov_lend(one.one, 1000);
    CHECK(sov_in_place(second) == 0);
    int number = one.one;
    end(one);
    struct pair later = warmed();
    CHECK(later.one == number || later.other == number);
    FAILS(sov_commit(number, second, 1000, 0), EBADF);
    CHECK(sov_return(first) == 0);
    errno = 0;
    CHECK(sov_lend(-1, 10) == NULL && errno == EBADF);
    int pipes[2];
    CHECK(pipe(pipes) == 0);
    errno = 0;
    CHECK(sov_lend(pipes[1], 10) == NULL && errno == ENOTSOCK);
    close(pipes[0]);
    close(pipes[1]);
    end(other);
    end(later);
}

/* A forked child has none of its parent's buffers. */
static void forked(void) {
    struct pair pair = warmed();
    char *buffer = sov_lend(pair.one, 1000);
    int status;
    pid_t child = fork();
    if (child == 0) {
        FAILS(sov_return(buffer), EINVAL);
        FAILS(sov_commit(pair.one, buffer, 10, 0), EINVAL);
        _exit(0);
    }
    CHECK(waitpid(child, &status, 0) == child && status == 0);
    memset(buffer, 'p', 1000);
    CHECK(sov_commit(pair.one, buffer, 1000, 0) == 1000);
    end(pair);
}

/* Bytes that no buffer can hold stay in the stream. */
static void no_buffers_left(size_t size) {
    static const void *out[5000];
    struct pair pair = warmed();
    unsigned char bytes[200];
    ssize_t got;
    int count = 0;
    for (;; count++) {
        memset(bytes, count, sizeof bytes);
        CHECK(sov_send(pair.one, bytes, size, 0) == (ssize_t)size);
        if ((got = sov_borrow(pair.other, &out[count], 0)) < 0)
            break;
        CHECK(got == (ssize_t)size && memcmp(out[count], bytes, size) == 0);
    }
    CHECK(errno == ENOBUFS && count == 4096);
    CHECK(sov_recv(pair.other, bytes, sizeof bytes, 0) == (ssize_t)size);
    CHECK(bytes[0] == (unsigned char)count && bytes[size - 1] == (unsigned char)count);
    while (count > 0) {
        count--;
        CHECK(*(const unsigned char *)out[count] == (unsigned char)count);
        CHECK(sov_return(out[count]) == 0);
    }
    end(pair);
}

static void fill(unsigned char *bytes, size_t count, unsigned seed) {
    for (size_t i = 0; i < count; i++)
        bytes[i] = (unsigned char)(seed + i * 7);
}

static int filled(const unsigned char *bytes, size_t count, unsigned seed) {
    for (size_t i = 0; i < count; i++)
        if (bytes[i] != (unsigned char)(seed + i * 7))
            return 0;
    return 1;
}

/* Commits and ordinary sends of all sizes, in turn; borrows and ordinary receives. */
static void in_turn(void) {
    struct pair pair = warmed();
    static unsigned char bytes[SOV_LEND_MAX];
    static const size_t sizes[] = {1, 48, 112, 113, 4096, 32768, 32769, SOV_LEND_MAX};
    for (unsigned round = 0; round < 400; round++) {
        size_t size = sizes[round % 8];
        unsigned char *buffer = sov_lend(pair.one, size);
        CHECK(buffer && sov_in_place(buffer) == 1);
        /* Another send comes first. While a buffer is on loan, that send may take another path. */
        size_t before = sizes[round * 5 % 8];
        fill(bytes, before, round);
        CHECK(sov_send(pair.one, bytes, before, 0) == (ssize_t)before);
        fill(buffer, size, round + 1);
        CHECK(sov_commit(pair.one, buffer, size, 0) == (ssize_t)size);
        size_t got = 0;
        while (got < before) {
            ssize_t n = sov_recv(pair.other, bytes + got, before - got, 0);
            CHECK(n > 0);
            got += (size_t)n;
        }
        CHECK(filled(bytes, before, round));
        for (got = 0; got < size;) {
            const void *place;
            ssize_t n = sov_borrow(pair.other, &place, 0);
            CHECK(n > 0 && got + (size_t)n <= size);
            memcpy(bytes + got, place, (size_t)n);
            CHECK(sov_return(place) == 0);
            got += (size_t)n;
        }
        CHECK(filled(bytes, size, round + 1));
    }
    end(pair);
}

/* A borrowed message does not change while other messages are sent and received. */
static void held_for_long(void) {
    struct pair pair = warmed();
    static unsigned char bytes[8192];
    const void *first, *second;
    fill(bytes, 5000, 1);
    CHECK(sov_send(pair.one, bytes, 5000, 0) == 5000);
    CHECK(sov_borrow(pair.other, &first, 0) == 5000 && sov_in_place(first) == 1);
    for (unsigned round = 0; round < 2000; round++) {
        fill(bytes, sizeof bytes, round);
        CHECK(sov_send(pair.one, bytes, sizeof bytes, 0) == sizeof bytes);
        if (round % 100 == 0) {
            ssize_t n = sov_borrow(pair.other, &second, 0);
            CHECK(n > 0 && filled(second, (size_t)n, round));
            CHECK(sov_return(second) == 0);
            CHECK(sov_recv(pair.other, bytes, sizeof bytes - (size_t)n, MSG_WAITALL | MSG_DONTWAIT) ==
                  (ssize_t)sizeof bytes - n || n == sizeof bytes);
        } else {
            CHECK(sov_recv(pair.other, bytes, sizeof bytes, MSG_WAITALL) == sizeof bytes);
            CHECK(filled(bytes, sizeof bytes, round));
        }
    }
    CHECK(filled(first, 5000, 1));
    CHECK(sov_return(first) == 0);
    end(pair);
}

/* Streams close while their buffers are on loan, and other streams use the same slots. */
static void closed_under_buffers(void) {
    for (unsigned round = 0; round < 50; round++) {
        struct pair pair = warmed(), next;
        unsigned char *lent = sov_lend(pair.one, 3000), *late = NULL;
        static unsigned char bytes[3000];
        const void *borrowed;
        fill(bytes, sizeof bytes, round);
        CHECK(sov_send(pair.other, bytes, sizeof bytes, 0) == sizeof bytes);
        CHECK(sov_borrow(pair.one, &borrowed, 0) == sizeof bytes);
        end(pair);
        next = warmed();
        /* A late write to the old buffer harms no stream. */
        memset(lent, 0xee, 3000);
        late = sov_lend(next.one, 3000);
        fill(late, 3000, round + 9);
        memset(lent, 0xdd, 3000);
        CHECK(sov_commit(next.one, late, 3000, 0) == 3000);
        memset(lent, 0xcc, 3000);
        CHECK(sov_recv(next.other, bytes, 3000, MSG_WAITALL) == 3000);
        CHECK(filled(bytes, 3000, round + 9));
        CHECK(filled(borrowed, 3000, round));
        FAILS(sov_commit(pair.one, lent, 3000, 0), EBADF);
        FAILS(sov_return(lent), EINVAL);
        CHECK(sov_return(borrowed) == 0);
        end(next);
    }
}

/* The stream leaves its VI while its buffers are on loan. */
static void to_tcp_under_buffers(void) {
    for (int side = 0; side < 2; side++) {
        struct pair pair = warmed();
        static unsigned char bytes[6000];
        const void *borrowed;
        int off = 0;
        unsigned char *lent = sov_lend(pair.one, 4000);
        CHECK(sov_in_place(lent) == 1);
        fill(lent, 4000, 3);
        fill(bytes, 6000, 4);
        CHECK(sov_send(pair.other, bytes, 6000, 0) == 6000);
        CHECK(sov_borrow(pair.one, &borrowed, 0) == 6000 && sov_in_place(borrowed) == 1);
        fill(bytes, 5000, 5);
        CHECK(sov_send(pair.other, bytes, 5000, 0) == 5000);
        CHECK(sov_send(pair.one, bytes, 5000, 0) == 5000);
        CHECK(sov_setsockopt(side ? pair.one : pair.other, SOL_SOVIA, SOV_ACCELERATE, &off,
                             sizeof off) == 0);
        CHECK(filled(borrowed, 6000, 4));
        CHECK(sov_commit(pair.one, lent, 4000, 0) == 4000);
        CHECK(sov_return(borrowed) == 0);
        CHECK(sov_recv(pair.one, bytes, 5000, MSG_WAITALL) == 5000 && filled(bytes, 5000, 5));
        CHECK(sov_recv(pair.other, bytes, 5000, MSG_WAITALL) == 5000 && filled(bytes, 5000, 5));
        CHECK(sov_recv(pair.other, bytes, 4000, MSG_WAITALL) == 4000 && filled(bytes, 4000, 3));
        CHECK(option(side ? pair.one : pair.other, SOL_SOVIA, SOV_ON_VIA) == 0);
        /* On TCP the same calls have the same results. */
        lent = sov_lend(pair.one, 4000);
        CHECK(lent && sov_in_place(lent) == 0);
        fill(lent, 4000, 6);
        CHECK(sov_commit(pair.one, lent, 4000, 0) == 4000);
        size_t got = 0;
        while (got < 4000) {
            ssize_t n = sov_borrow(pair.other, &borrowed, 0);
            CHECK(n > 0 && sov_in_place(borrowed) == 0);
            memcpy(bytes + got, borrowed, (size_t)n);
            got += (size_t)n;
            CHECK(sov_return(borrowed) == 0);
        }
        CHECK(filled(bytes, 4000, 6));
        end(pair);
    }
}

/* On a full stream, a commit stops, keeps the buffer, and continues later. */
static void nonblocking(int on_via) {
    struct pair pair = on_via ? warmed() : connected(SOCK_STREAM);
    static unsigned char bytes[SOV_LEND_MAX];
    int on = 1;
    unsigned sent = 0;
    unsigned char *lent;
    CHECK(sov_ioctl(pair.one, FIONBIO, &on) == 0);
    for (;;) {
        lent = sov_lend(pair.one, 50000);
        CHECK(lent);
        fill(lent, 50000, sent);
        errno = 0;
        if (sov_commit(pair.one, lent, 50000, 0) != 50000)
            break;
        CHECK(++sent < 10000);
    }
    CHECK(errno == EAGAIN && sent > 20);
    for (unsigned got = 0; got <= sent; got++) {
        for (size_t done = 0; done < 50000;) {
            /* Only a part of the last message has been sent. Repeat the commit. */
            ssize_t n = sov_recv(pair.other, bytes + done, 50000 - done, got < sent ? 0 : MSG_DONTWAIT);
            if (n < 0) {
                CHECK(errno == EAGAIN);
                n = 0;
            }
            done += (size_t)n;
            if (got == sent && lent && sov_commit(pair.one, lent, 50000, 0) == 50000)
                lent = NULL;
        }
        CHECK(filled(bytes, 50000, got));
    }
    CHECK(lent == NULL);
    end(pair);
}

/* More buffers than the table of loans can hold. */
static void thousands(void) {
    struct pair pair = connected(SOCK_STREAM);
    static void *out[5000];
    int count = 0;
    while (count < 5000 && (out[count] = sov_lend(pair.one, 10)) != NULL)
        count++;
    CHECK(count > 500 && count < 5000 && errno == ENOBUFS);
    for (int i = 0; i < count; i++)
        CHECK(sov_return(out[i]) == 0);
    out[0] = sov_lend(pair.one, 10);
    CHECK(out[0] && sov_return(out[0]) == 0);
    end(pair);
}

int main(void) {
    misuse();
    strangers();
    forked();
    no_buffers_left(20);
    no_buffers_left(200);
    in_turn();
    held_for_long();
    closed_under_buffers();
    to_tcp_under_buffers();
    nonblocking(1);
    nonblocking(0);
    thousands();
    puts("as it should be");
    return 0;
}
