// Wide characters by one function alone, of which glibc has another name.
#include "common.h"

#include <wchar.h>

static void reads_unlocked(struct peer *p) {
    FILE *in = fdopen(p->fd, "r");
    for (int i = 0; i < 3; i++)
        say("getwc %d", (int)getwc_unlocked(in));
    CALL(fclose(in));
}

static void writes_two(struct peer *p) {
    send_all(p->fd, "ab", 2);
    close(p->fd);
}

static const struct scenario scenarios[] = {
    {"wide_characters_without_locks", reads_unlocked, writes_two},
};

SCENARIO_MAIN(scenarios)
