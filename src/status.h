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
            return attune_fail(ATTUNE_INVALID_ARGUMENT, "%s is NULL", #pointer);                   \
    } while (0)

/* Copies a public struct, which starts with its struct_size, over the defaults in to[size]. A struct
 * of another size is one of another header: one of `first` bytes, the size of the struct's first
 * version, leaves the rest at its defaults; a longer one than `size` is accepted while everything
 * beyond is 0, so that nothing the caller asked for is overlooked; no other size ever was.
 * `name` is the struct's, for the detail. */
attune_status struct_copy(void *to, size_t size, size_t first, const void *from, const char *name);

#endif
