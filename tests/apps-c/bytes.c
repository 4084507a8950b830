#include "common.h"

static unsigned char pattern(uint64_t offset) {
    return (unsigned char)((offset * 0x9E3779B97F4A7C15ull) >> 56);
}

void fill(void *buffer, size_t count, uint64_t offset) {
    unsigned char *bytes = buffer;
    for (size_t i = 0; i < count; i++)
        bytes[i] = pattern(offset + i);
}

bool matches(const void *buffer, size_t count, uint64_t offset) {
    const unsigned char *bytes = buffer;
    for (size_t i = 0; i < count; i++)
        if (bytes[i] != pattern(offset + i))
            return false;
    return true;
}

void die_of_wrong_bytes(const void *buffer, size_t count, uint64_t offset) {
    enum { ENOUGH = 32, AROUND = 64 << 20 };
    const unsigned char *bytes = buffer;
    size_t first = 0;
    while (first < count && bytes[first] == pattern(offset + first))
        first++;
    size_t known = count - first < ENOUGH ? count - first : ENOUGH;
    uint64_t from = offset + first, place = from > AROUND ? from - AROUND : 0, end = from + AROUND;
    while (place < end && !matches(bytes + first, known, place))
        place++;
    char whose[64] = "are nowhere in the stream";
    if (place < end)
        snprintf(whose, sizeof whose, "are those from %llu on", (unsigned long long)place);
    die("wrong bytes in the %zu from %llu on: the %zu from %llu on %s", count,
        (unsigned long long)offset, known, (unsigned long long)from, whose);
}

uint32_t checksum(uint32_t sum, const void *buffer, size_t count) {
    const unsigned char *bytes = buffer;
    for (size_t i = 0; i < count; i++)
        sum = (sum ^ bytes[i]) * 16777619u;
    return sum;
}

void send_all(int fd, const void *buffer, size_t count) {
    const char *bytes = buffer;
    while (count) {
        ssize_t sent = send(fd, bytes, count, MSG_NOSIGNAL);
        if (sent < 0 && errno == EINTR)
            continue;
        if (sent <= 0)
            die("send of %zu bytes: %s", count, strerrorname_np(errno));
        bytes += sent;
        count -= sent;
    }
}

void recv_all(int fd, void *buffer, size_t count) {
    char *bytes = buffer;
    while (count) {
        ssize_t got = recv(fd, bytes, count, 0);
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            die("recv with %zu bytes to come: %s", count,
                got ? strerrorname_np(errno) : "end of stream");
        bytes += got;
        count -= got;
    }
}

void send_pattern(int fd, uint64_t offset, uint64_t count, size_t piece) {
    char *buffer = malloc(piece);
    while (count) {
        size_t step = count < piece ? count : piece;
        fill(buffer, step, offset);
        send_all(fd, buffer, step);
        offset += step;
        count -= step;
    }
    free(buffer);
}

void recv_pattern(int fd, uint64_t offset, uint64_t count, size_t piece) {
    char *buffer = malloc(piece);
    while (count) {
        size_t step = count < piece ? count : piece;
        ssize_t got = recv(fd, buffer, step, 0);
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            die("recv at %llu: %s", (unsigned long long)offset,
                got ? strerrorname_np(errno) : "end of stream");
        if (!matches(buffer, got, offset))
            die_of_wrong_bytes(buffer, got, offset);
        offset += got;
        count -= got;
    }
    free(buffer);
}

void drain_to_eof(int fd, uint64_t offset) {
    static char buffer[65536];
    uint64_t total = 0;
    bool right = true;
    ssize_t got;
    while ((got = recv(fd, buffer, sizeof buffer, 0)) > 0) {
        for (ssize_t i = 0; right && i < got; i++) {
            right = (unsigned char)buffer[i] == pattern(offset + total + i);
            if (!right)
                note("the first wrong byte is that at %llu", (unsigned long long)(offset + total + i));
        }
        total += got;
    }
    say("drained %llu bytes, %s, then %s", (unsigned long long)total,
        right ? "right" : "WRONG", got ? strerrorname_np(errno) : "end of stream");
}

void say_alive(int fd, bool server, const char *when) {
    char text[8] = "ping";
    if (server) {
        recv_all(fd, text, 4);
        send_all(fd, "pong", 4);
    } else {
        send_all(fd, text, 4);
        recv_all(fd, text, 4);
    }
    say("%s: alive, %.4s", when, text);
}
