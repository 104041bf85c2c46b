/* How many groups of a kernel a multiprocessor holds at once: a model, by what the device and the kernel say of themselves. Pure. */
#ifndef ATTUNE_OCCUPANCY_H
#define ATTUNE_OCCUPANCY_H

#include "backend.h"

/* Fills resident_groups and resident_warps from the rest. What is not known limits nothing; -1 where nothing is known. */
void occupancy_model(const attune_device_caps *caps, attune_kernel_resources *resources);

#endif
