/* How a function of src hands on the failure of another, and reads the structs that callers may
 * have compiled long ago. */
#ifndef ATTUNE_STATUS_H
#define ATTUNE_STATUS_H

#include "backend.h"

#define RETURN_IF_FAILED(call)                                                                     \
    do {                                                                                           \
        const attune_status status_of_call = (call);                                               \
        if (status_of_call != ATTUNE_OK) return status_of_call;                                    \
    } while (0)

/* INVALID_ARGUMENT where `pointer` is NULL. */
#define RETURN_IF_NULL(pointer)                                                                    \
    do {                                                                                           \
        if ((pointer) == NULL)                                                                     \
            return attune_fail(ATTUNE_INVALID_ARGUMENT, "%s: %s is NULL", __func__, #pointer);     \
    } while (0)

/* Copies a public struct, which starts with its struct_size, into to[size]. A struct of another
 * size is one of another header: a shorter one is refused, since every version so far has `size`
 * bytes; a longer one is accepted while everything beyond `size` is 0, so that nothing the
 * caller asked for is overlooked. `name` is the struct's, for the detail. */
attune_status struct_copy(void *to, size_t size, const void *from, const char *name);

#endif
