/* Devices that fail, for tests of the command: runs that write nothing, and runs that report an error. */
#include "attune/device.h"

#include <stdlib.h>
#include <string.h>

attune_status attune_plan_time(const attune_plan *plan, const attune_forward_tensors *tensors,
                               attune_stream stream, double *milliseconds)
{
    (void)plan;
    (void)tensors;
    (void)stream;
    *milliseconds = 1.0;
    const char *const fault = getenv("TEST_FAULT");
    return fault && strcmp(fault, "error") == 0 ? ATTUNE_DEVICE_ERROR : ATTUNE_OK;
}
