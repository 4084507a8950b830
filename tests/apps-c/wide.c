// Wide characters on streams of connections.
#include "common.h"

#include <wchar.h>

static char buffer[1000];

static void reads_wide(struct peer *p) {
    FILE *in = fdopen(p->fd, "r");
    wchar_t line[100];
    int number = 0;
    say("fwide %d", fwide(in, 1) > 0);
    say("fwscanf %d", fwscanf(in, L"%d\n", &number));
    say("number %d", number);
    say("fgetws %d", fgetws(line, 100, in) != NULL);
    say("length %zu", wcslen(line));
    say("getwc %d", (int)getwc_unlocked(in));
    CALL(fclose(in));
}

static void writes_for_wide(struct peer *p) {
    send_all(p->fd, "42\na line\nx", 11);
    MUST(shutdown(p->fd, SHUT_WR));
    CALL(recv(p->fd, buffer, 1, 0));
}

static void writes_wide(struct peer *p) {
    FILE *out = fdopen(p->fd, "w");
    say("fputws %d", fputws(L"wide\n", out) >= 0);
    say("fwprintf %d", fwprintf(out, L"number %d\n", 7));
    CALL(fclose(out));
}

static void hears_wide(struct peer *p) {
    ssize_t got = recv(p->fd, buffer, sizeof buffer, MSG_WAITALL);
    say_text("received", buffer, got);
}

static const struct scenario scenarios[] = {
    {"wide_characters_are_read", reads_wide, writes_for_wide},
    {"wide_characters_are_written", writes_wide, hears_wide},
};

SCENARIO_MAIN(scenarios)
