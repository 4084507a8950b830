// Clients that send no calls. A server must cope with each of their connections.
#include "client.h"
#include <arpa/inet.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static void send_words(CLIENT *client, const uint32_t *words, int count) {
    uint32_t sent[16];
    for (int i = 0; i < count; i++)
        sent[i] = htonl(words[i]);
    send_raw(client, sent, (size_t)count * 4);
}

int hostile(CLIENT *client, const char *name) {
    static char fragment[1 << 16];
    if (!strcmp(name, "leaves")) {
        // Does not wait for the answer.
        say("a call without an answer", late(client, 100, 0));
    } else if (!strcmp(name, "endless")) {
        // A record in which no fragment is the last one.
        *(uint32_t *)fragment = htonl(sizeof fragment - 4);
        for (int i = 0; i < 100; i++)
            if (send_raw(client, fragment, sizeof fragment) < 0)
                break;
        printf("no record\n");
    } else if (!strcmp(name, "flood")) {
        // Do the same for longer than any buffer could hold.
        *(uint32_t *)fragment = htonl(sizeof fragment - 4);
        for (int i = 0; i < 6000; i++)
            if (send_raw(client, fragment, sizeof fragment) < 0)
                break;
        printf("no record for long\n");
    } else if (!strcmp(name, "garbage")) {
        const char *text = "GET / HTTP/1.0\r\n\r\n";
        send_raw(client, text, strlen(text));
        printf("no mark\n");
    } else if (!strcmp(name, "empties")) {
        // Marks of a million empty fragments.
        for (int i = 0; i < 64; i++)
            if (send_raw(client, fragment, sizeof fragment) < 0)
                break;
        printf("no bytes\n");
    } else if (!strcmp(name, "huge")) {
        send_words(client, (uint32_t[]){0xffffffff, 1, 0, 2}, 4);
        printf("a record of two gigabytes begins\n");
    } else if (!strcmp(name, "partial")) {
        send_words(client, (uint32_t[]){0x80000000 | 400, 1, 0, 2}, 4);
        printf("a record without its end\n");
    } else if (!strcmp(name, "no-call")) {
        // An answer, and then a call.
        send_words(client, (uint32_t[]){0x80000000 | 24, 1, 1, 0, 0, 0, 0}, 7);
        say("a call on that connection", late(client, 1, 60000));
    } else if (!strcmp(name, "large-claim")) {
        // An argument of half a gigabyte, announced in a whole record.
        send_words(client, (uint32_t[]){0x80000000 | 44, 5, 0, 2, SERVICE, FIRST, REVERSED, 0, 0, 0, 0, 0x20000000}, 12);
        printf("an argument that is not there\n");
    } else if (!strcmp(name, "stays")) {
        // The beginning of a record, whose rest does not come during the test.
        send_words(client, (uint32_t[]){0x80000000 | 400, 1, 0, 2}, 4);
        printf("waiting\n");
        fflush(stdout);
        sleep(600);
    } else {
        return 0;
    }
    return 1;
}
