#include "pass_on.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

void *next_function(const char *name) {
    void *found = dlsym(RTLD_NEXT, name);
    if (!found) {
        fprintf(stderr, "libsovia-rpc: there is no %s of libtirpc's behind this library: link with -lsovia-rpc -ltirpc\n", name);
        abort();
    }
    return found;
}
