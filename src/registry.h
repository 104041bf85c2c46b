/* The backends and their devices: one list a backend, for the whole process. */
#ifndef ATTUNE_REGISTRY_H
#define ATTUNE_REGISTRY_H

#include "backend.h"

/* A device; of a backend without devices one entry, whose reason says why there are none. */
typedef struct registry_entry {
    const attune_backend *backend;
    int index;               /* of the device in its backend */
    attune_device_caps caps; /* info.reason is "" where the device can be opened */
} registry_entry;

/* The device that a name means (attune_context_open says how), lasting as long as the process,
 * or NO_DEVICE with a reason. */
attune_status registry_find(const char *name, const registry_entry **entry);

#endif
