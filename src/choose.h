/* Which kernel computes a problem. Pure: everything it looks at is handed in, so made-up devices
 * and tables will do. */
#ifndef ATTUNE_CHOOSE_H
#define ATTUNE_CHOOSE_H

#include "backend.h"

#include <stdbool.h>

enum { KERNEL_REASON_SIZE = 256 };

typedef struct kernel_request {
    const attune_problem *problem; /* normalised; NULL: only the device is judged */
    const attune_device_caps *caps;
    const attune_kernel_table *table;
    const char *glob;   /* over ids, '*' and '?'; NULL: any kernel */
    const char *engine; /* NULL: any */
    bool reproducible;  /* nothing else will do */
    bool tf32;          /* f32 may be read as tf32 */
} kernel_request;

/* A kernel and its launch. Without a problem the launch is empty. */
typedef struct kernel_choice {
    const attune_kernel_row *row;
    int64_t groups, pack_groups; /* of attune_launch */
    int64_t workspace;           /* bytes */
} kernel_choice;

/* The one predicate: whether the kernel computes the problem on the device, and how it is then
 * launched. What is accepted here can be launched. `reason` says why not and may be NULL. */
bool kernel_accepts(const kernel_request *request, const attune_kernel_row *row,
                    kernel_choice *choice, char reason[KERNEL_REASON_SIZE]);

typedef struct ranked_kernel {
    const attune_kernel_row *row;
    bool computes; /* op and dtype are the problem's, and head_dim suffices */
    int tuned;     /* place of the first tuned row that names it; INT_MAX where none does */
} ranked_kernel;

/* The table's kernels in order of preference for the problem, accepted or not: the smallest
 * head_dim that suffices, then the kernels that tuned rows name for this seqlen_q, in the order of
 * the rows (the device's class before any, a low limit before a high one), then the table's order.
 * An array of row_count to be freed; NULL without memory. */
ranked_kernel *kernels_ranked(const kernel_request *request);

/* The first accepted kernel of ranked[first..]: its place, or -1. */
int plan_choose(const kernel_request *request, const ranked_kernel *ranked, int first,
                kernel_choice *choice);

/* Whether a kernel of the glob is one kernel: it has no '*' and no '?'. */
bool glob_is_id(const char *glob);

/* Whether a device has a feature. */
bool device_has(const attune_device_caps *caps, const char *feature);

/* One sentence with the reason against every kernel of the problem's op and dtype, cut to fit. */
void kernels_explain(const kernel_request *request, const ranked_kernel *ranked, char *text,
                     size_t size);

#endif
