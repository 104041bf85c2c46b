/* What a set of times comes to. */
#ifndef ATTUNE_COMMAND_STATISTICS_H
#define ATTUNE_COMMAND_STATISTICS_H

typedef struct quartiles {
    double least, lower, median, upper;
} quartiles;

/* Sorts the times; `count` is 1 or more. */
quartiles quartiles_of(double *times, int count);

/* Of a clock that only goes forward. */
double seconds_now(void);

#endif
