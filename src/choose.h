/* Which kernel computes a problem. Pure: everything it looks at is handed in, so made-up devices
 * and tables will do. */
#ifndef ATTUNE_CHOOSE_H
#define ATTUNE_CHOOSE_H

#include "backend.h"

#include <stdbool.h>

enum {
    KERNEL_REASON_SIZE = 256,
    KERNEL_PREFERENCE_SIZE = 640,
    KERNEL_ID_SIZE = 96,
    REQUEST_OPTIONS_SIZE = 512
};

/* What won on this device for a problem: see attune/tuning.h. */
typedef struct measured_winner {
    attune_problem problem;
    char options[REQUEST_OPTIONS_SIZE]; /* request_options of the plans that it was sought for */
    char kernel[KERNEL_ID_SIZE];
    double milliseconds, default_milliseconds; /* the second NaN where it was not timed */
} measured_winner;

typedef struct kernel_request {
    const attune_problem *problem; /* normalised; NULL: only the device is judged */
    const attune_device_caps *caps;
    const attune_kernel_table *table;
    const char *glob;                /* over ids, '*' and '?'; NULL: any kernel */
    const char *engine;              /* NULL: any */
    bool reproducible;               /* nothing else will do */
    bool tf32;                       /* f32 may be read as tf32 */
    const char *hint;                /* an id; NULL: none */
    const measured_winner *measured; /* in any order */
    int measured_count;              /* 0: only the built-in table decides */
} kernel_request;

/* The options of a plan that confine its choice, as one text for the database of measurements:
 * "", "reproducible", "engine=matrix,reproducible", "tf32", "kernel=GLOB". Returns the length of the whole, which may be cut. */
size_t request_options(const kernel_request *request, char text[REQUEST_OPTIONS_SIZE]);

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

/* Why a kernel is preferred, the strongest reason first. */
typedef enum kernel_level {
    LEVEL_HINT,     /* the caller's */
    LEVEL_MEASURED, /* the winner of a near problem on this device */
    LEVEL_CLASS,    /* a tuned row of the device's class, */
    LEVEL_FAMILY,   /* of its family, */
    LEVEL_ANY,      /* of any device */
    LEVEL_NONE
} kernel_level;

typedef struct ranked_kernel {
    const attune_kernel_row *row;
    bool computes; /* op and dtype are the problem's, and head_dim suffices */
    kernel_level level;
    double
        place; /* in its level, the least first: octaves from the measured problem, or the tuned row's number */
    const measured_winner *winner; /* of LEVEL_MEASURED, else NULL */
} ranked_kernel;

/* The table's kernels in order of preference for the problem, accepted or not: the hint, then the
 * smallest head_dim that suffices, then by level, place, and the table's order. Tuned rows count
 * where their limit of seqlen_q holds, a low limit before a high one.
 * An array of row_count to be freed; NULL without memory. */
ranked_kernel *kernels_ranked(const kernel_request *request);

/* How far apart two problems are for what is measured, in octaves: seqlen_q counts twice, seqlen_k and batch · heads_q once, heads that share a
 * key head, head_dim and another mask half. Infinite where they have nothing to do with each other: another op or dtype, seqlen_q more than 3 times
 * as long or short, or more than 4 in all. */
double problem_distance(const attune_problem *a, const attune_problem *b);

/* Why the kernel stands where it stands, in a clause. */
void kernel_preference(const kernel_request *request, const ranked_kernel *kernel,
                       char text[KERNEL_PREFERENCE_SIZE]);

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
