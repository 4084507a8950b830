/* Runs one of two communicating programs: `pairs server|client CASE NAME`. NAME is a discriminator
   that no other test uses. */
#include "end.h"

static const case_t *const all[] = {transfers, queues, notices, tags, rdmas, connecting, failing, levels};

int main(int argc, char **argv)
{
    if (argc != 4) return 2;
    server = strcmp(argv[1], "server") == 0;
    name = argv[3];
    setvbuf(stdout, NULL, _IOLBF, 0);
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        for (const case_t *one = all[i]; one->name; one++)
            if (strcmp(one->name, argv[2]) == 0) {
                one->run();
                return result();
            }
    printf("no case %s\n", argv[2]);
    return 2;
}
