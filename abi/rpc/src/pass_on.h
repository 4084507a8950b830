/* Functions of libtirpc's that have a name which this library has as well. */
#ifndef SOVIA_RPC_PASS_ON_H
#define SOVIA_RPC_PASS_ON_H

/* The next function of that name after this library's. Ends the process if there is none: then it was linked without
 * libtirpc, or with an archive of it. */
void *next_function(const char *name);

/* Calls it with the type of this library's function. */
#define PASS_ON(name) ((__typeof__(&name))next_function(#name))

#endif
