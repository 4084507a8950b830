#include "pass_on.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

void *next_function(const char *name) {
    void *found = dlsym(RTLD_NEXT, name);
    if (!found) {
        fprintf(stderr, "libsovia-rpc: cannot find %s in libtirpc; link with -lsovia-rpc -ltirpc in this order\n", name);
        abort();
    }
    return found;
}
