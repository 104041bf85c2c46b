/* What tests may ask of tests/hip/fake_hip.c, a libamdhip64 without any hardware, and of fake_hiprtc.c, its compiler: what they were asked for is
 * recorded, and they fail on demand. A test finds `fake_hip` and `fake_hiprtc` with dlsym; FAKE_HIP="devices=1,hipDeviceGet=101" sets up the first
 * by the environment: its version, devices and architecture, or the code that all calls of one function give. */
#ifndef ATTUNE_TESTS_FAKE_HIP_H
#define ATTUNE_TESTS_FAKE_HIP_H

#include "kernel_abi.h"

/* The code objects of the fake compiler: this, the architecture and a line break, the text. */
#define FAKE_CODE_OBJECT "\177ELF of the fake compiler\n"

enum { FAKE_NAME = 64, FAKE_LAUNCHES = 4 };

typedef struct fake_launch {
    char kernel[FAKE_NAME];
    unsigned grid, block, shared;
    int64_t first_group;
} fake_launch;

typedef struct fake_hip_state {
    int version, devices;
    char architecture[FAKE_NAME]; /* of all devices, as they call themselves */
    char failing[FAKE_NAME];      /* all calls of this function give `code` */
    int code;
    int modules;                         /* that were loaded */
    int work_device;                     /* that was current when something was last done */
    fake_launch launches[FAKE_LAUNCHES]; /* the first ones */
    int launch_count;
    int *(*current)(void); /* the current device of the only thread */
    void (*reset)(void);
} fake_hip_state;

typedef struct fake_hiprtc_state {
    int compilations;
    char options[256]; /* of the last one, each with a blank before it */
} fake_hiprtc_state;

#endif
