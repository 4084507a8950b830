/* Calls functions of libtirpc whose names this library exports too. */
#ifndef SOVIA_RPC_PASS_ON_H
#define SOVIA_RPC_PASS_ON_H

/* Returns the next function `name` after this library's. Ends the process if there is none. Then the program was
 * linked without libtirpc, or with its archive. */
void *next_function(const char *name);

/* Expression for libtirpc's function `name`, with the type of this library's function. */
#define PASS_ON(name) ((__typeof__(&name))next_function(#name))

#endif
