/* Records measurements until it is killed, and says of each that it is committed.
 *
 *     record_rows DATABASE NAME      prints "NAME_0", "NAME_1", …, the kernels of rows that a reader must find */
#include "attune/device.h"
#include "attune/tuning.h"

#include <stdio.h>
#include <stdlib.h>

static void check(attune_status status)
{
    if (status == ATTUNE_OK) return;
    fprintf(stderr, "%s\n", attune_error_detail());
    exit(1);
}

int main(int count, char **arguments)
{
    if (count != 3) return 2;
    attune_problem problem;
    attune_context *context;
    attune_tuning_db *db;
    int64_t run;
    int32_t resume = 0;
    attune_problem_init(&problem, ATTUNE_F32, 1, 1, 1, 8, 8, 8, 8);
    check(attune_context_open("cpu", NULL, &context));
    check(attune_tuning_open(arguments[1], 1, &db));
    check(attune_tuning_run_begin(db, context, &problem, NULL, "default", &resume, &run));
    for (int i = 0;; i++) {
        char kernel[64];
        attune_measurement m;
        attune_measurement_init(&m);
        snprintf(kernel, sizeof kernel, "%s_%d", arguments[2], i);
        m.kernel = kernel;
        m.milliseconds = m.milliseconds_q1 = m.milliseconds_q3 = m.milliseconds_min = 1.0 + i;
        m.samples = 1;
        check(attune_tuning_record(db, run, &m));
        puts(kernel);
        fflush(stdout);
    }
}
