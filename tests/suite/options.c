#include "options.h"

#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void refuse(const char *what, const char *value)
{
    fprintf(stderr, "%s: %s\n", what, value);
    exit(2);
}

bool in_list(const char *list, const char *name)
{
    const size_t length = strlen(name);
    for (const char *at = list; at != NULL && *at != '\0';) {
        const size_t item = strcspn(at, ",");
        if (item == length && strncmp(at, name, length) == 0) return true;
        at += item + (at[item] == ',');
    }
    return false;
}

static void parse_fills(options *o, char *names)
{
    const bool all = strcmp(names, "all") == 0;
    for (int i = 0; i < ATTUNE_FILL_COUNT; i++) o->fills[i] = all;
    for (char *name = all ? NULL : strtok(names, ","); name != NULL; name = strtok(NULL, ",")) {
        const int fill = attune_fill_find(name);
        if (fill < 0) refuse("no such fill", name);
        o->fills[fill] = true;
    }
}

static void parse_dtypes(options *o, char *names)
{
    const bool all = strcmp(names, "all") == 0;
    o->dtype_count = 0;
    for (int dtype = 0; attune_dtype_name((attune_dtype)dtype) != NULL; dtype++)
        if (all || in_list(names, attune_dtype_name((attune_dtype)dtype)))
            o->dtypes[o->dtype_count++] = dtype;
    if (o->dtype_count == 0) refuse("no such dtype", names);
}

options options_parse(int argc, char **argv)
{
    enum { DEVICES, REQUIRE, PROBLEM, PROBLEM_FILE, FILL, DTYPE, KERNEL, SEED, SHARD, HASH };
    static const struct option known[] = {
        {"devices", required_argument, NULL, DEVICES},
        {"require", required_argument, NULL, REQUIRE},
        {"problem", required_argument, NULL, PROBLEM},
        {"problem-file", required_argument, NULL, PROBLEM_FILE},
        {"fill", required_argument, NULL, FILL},
        {"dtype", required_argument, NULL, DTYPE},
        {"kernel", required_argument, NULL, KERNEL},
        {"seed", required_argument, NULL, SEED},
        {"shard", required_argument, NULL, SHARD},
        {"hash", no_argument, NULL, HASH},
        {NULL, 0, NULL, 0},
    };
    options o = {.dtypes = {OWN_DTYPE}, .dtype_count = 1, .seed = 1, .shards = 1};
    o.fills[ATTUNE_FILL_normal] = true;
    for (int name; (name = getopt_long(argc, argv, "", known, NULL)) != -1;) {
        switch (name) {
        case DEVICES:
            o.devices = optarg;
            break;
        case REQUIRE:
            o.require = optarg;
            break;
        case PROBLEM:
            if (!problem_list_add(&o.problems, optarg)) exit(2);
            break;
        case PROBLEM_FILE:
            if (!problem_list_read(&o.problems, optarg)) exit(2);
            break;
        case FILL:
            parse_fills(&o, optarg);
            break;
        case DTYPE:
            parse_dtypes(&o, optarg);
            break;
        case KERNEL:
            o.tiles = strcmp(optarg, "tiles") == 0;
            o.kernel = o.tiles ? NULL : optarg;
            break;
        case SEED:
            o.seed = strtoull(optarg, NULL, 10);
            break;
        case SHARD:
            if (sscanf(optarg, "%d/%d", &o.shard, &o.shards) != 2 || o.shard < 0 ||
                o.shard >= o.shards)
                refuse("--shard takes I/N", optarg);
            break;
        case HASH:
            o.hash = true;
            break;
        default:
            exit(2);
        }
    }
    if (optind < argc) refuse("what is this", argv[optind]);
    if (o.problems.count == 0) refuse("nothing to do", "give --problem or --problem-file");
    return o;
}
