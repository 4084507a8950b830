// Shared by the client's files.
#include "service.h"

void calls(CLIENT *client, int count); // sums; says how many were right
void say(const char *what, enum clnt_stat status);
enum clnt_stat late(CLIENT *client, int milliseconds, int patience);
long send_raw(CLIENT *client, const void *bytes, size_t length); // bytes that are no call

void handle(CLIENT *client);
void errors(CLIENT *client);
int hostile(CLIENT *client, const char *name); // 0: there is no such case
