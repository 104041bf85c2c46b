/* Devices that fail, for tests of the command. TEST_FAULT says how a run goes wrong, TEST_FAULT_KERNEL for which kernel alone:
 *
 *     (unset)   it writes nothing          error    it reports an error
 *     hang      it never ends              crash    it ends the process
 *     wrong     it says that it took a microsecond, and an element of o is wrong
 *     bits      likewise, and only the last bit of an element is another
 *     slow      it is right and says that it took a second more
 *     late      it is right and says that it took a microsecond, ten times, and then ends the process
 *     busier    it is right and says that it took a microsecond until it has been screened, and then a second more than it did: of all kernels */
#define _GNU_SOURCE /* RTLD_NEXT */
#include "attune/device.h"

#include <dlfcn.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef attune_status time_function(const attune_plan *plan, const attune_forward_tensors *tensors,
                                    attune_stream stream, double *milliseconds);

/* The library's own function of this name. */
static time_function *real_time(void)
{
    time_function *function;
    void *const symbol = dlsym(RTLD_NEXT, "attune_plan_time");
    memcpy(&function, &symbol, sizeof symbol);
    return function;
}

/* On cpu, where a handle is a host pointer, and for f32. */
static void spoil(const attune_forward_tensors *tensors, bool last_bit_only)
{
    char *const first = (char *)tensors->o.handle + tensors->o.offset;
    uint32_t bits;
    float value;
    memcpy(&bits, first, sizeof bits);
    bits ^= 1;
    memcpy(&value, &bits, sizeof value);
    if (!last_bit_only) value += 0.25F;
    memcpy(first, &value, sizeof value);
}

/* Runs that a tuner asks of a kernel before it times it in turns: of judge and bits six, and three samples. */
enum { SCREENED = 9 };

/* How often the kernel of this id has been asked before. */
static int calls_before(const char *id)
{
    enum { MOST = 64 };
    static struct {
        char id[96];
        int calls;
    } asked[MOST];
    int at = 0;
    while (at < MOST - 1 && asked[at].id[0] != '\0' && strcmp(asked[at].id, id) != 0) at++;
    snprintf(asked[at].id, sizeof asked[at].id, "%s", id);
    return asked[at].calls++;
}

attune_status attune_plan_time(const attune_plan *plan, const attune_forward_tensors *tensors,
                               attune_stream stream, double *milliseconds)
{
    const char *const kernel = getenv("TEST_FAULT_KERNEL"), *const said = getenv("TEST_FAULT"),
                      *const fault = said ? said : "";
    if (kernel && strcmp(kernel, attune_plan_kernel(plan)) != 0)
        return real_time()(plan, tensors, stream, milliseconds);
    const int calls = calls_before(attune_plan_kernel(plan));
    *milliseconds = 1.0;
    if (strcmp(fault, "error") == 0) return ATTUNE_DEVICE_ERROR;
    while (strcmp(fault, "hang") == 0) pause();
    if (strcmp(fault, "crash") == 0 || (strcmp(fault, "late") == 0 && calls >= 10)) raise(SIGSEGV);
    if (strcmp(fault, "busier") == 0) {
        const attune_status status = real_time()(plan, tensors, stream, milliseconds);
        *milliseconds = calls < SCREENED ? 1e-3 : *milliseconds + 1e3;
        return status;
    }
    if (!kernel) return ATTUNE_OK;
    const attune_status status = real_time()(plan, tensors, stream, milliseconds);
    if (strcmp(fault, "slow") == 0) {
        *milliseconds += 1e3;
        return status;
    }
    if (status == ATTUNE_OK && strcmp(fault, "late") != 0)
        spoil(tensors, strcmp(fault, "bits") == 0);
    *milliseconds = 1e-3;
    return status;
}
