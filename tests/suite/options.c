#include "options.h"

#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char usage[] =
    "  --devices ID,ID,...    default: every device of the machine, none emulated; the first one "
    "is what the "
    "others\n"
    "                         are compared with\n"
    "  --require ID,...       of --devices: missing ones are errors instead of SKIPPED\n"
    "  --problem STRING       (repeatable)\n"
    "  --problem-file FILE    (repeatable)\n"
    "  --fill NAME,...|all    default: normal\n"
    "  --dtype NAME,...|all   default: what each problem says\n"
    "  --kernel GLOB|tiles    default: what the plan chooses; tiles: several kernels of each "
    "device\n"
    "  --engine NAME          vector, simt or matrix; default: what the plan chooses\n"
    "                         (a glob and an engine confine every device but the first, unless it\n"
    "                         is alone)\n"
    "  --reproducible         reproducible kernels only\n"
    "  --tf32                 f32 may be read as tf32\n"
    "  --seed N               default: 1\n"
    "  --shard I/N            problems I, I + N, I + 2N ... (I from 0)\n"
    "  --thin                 suite: a third of all combinations; over all dtypes, each problem\n"
    "                         meets every fill and every dtype, and each fill every dtype\n"
    "  --hash                 same_bits: print a hash for each problem instead of comparing\n"
    "  --test GLOB            identities, hygiene: the tests of that name. Of the other options "
    "those\n"
    "                         two take --devices to --require and --kernel to --tf32.\n";

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

options options_parse(int argc, char **argv, const char *about)
{
    enum {
        DEVICES,
        REQUIRE,
        PROBLEM,
        PROBLEM_FILE,
        FILL,
        DTYPE,
        KERNEL,
        ENGINE,
        REPRODUCIBLE,
        TF32,
        SEED,
        SHARD,
        THIN,
        HASH,
        TEST,
        HELP
    };
    static const struct option known[] = {
        {"devices", required_argument, NULL, DEVICES},
        {"require", required_argument, NULL, REQUIRE},
        {"problem", required_argument, NULL, PROBLEM},
        {"problem-file", required_argument, NULL, PROBLEM_FILE},
        {"fill", required_argument, NULL, FILL},
        {"dtype", required_argument, NULL, DTYPE},
        {"kernel", required_argument, NULL, KERNEL},
        {"engine", required_argument, NULL, ENGINE},
        {"reproducible", no_argument, NULL, REPRODUCIBLE},
        {"tf32", no_argument, NULL, TF32},
        {"seed", required_argument, NULL, SEED},
        {"shard", required_argument, NULL, SHARD},
        {"thin", no_argument, NULL, THIN},
        {"hash", no_argument, NULL, HASH},
        {"test", required_argument, NULL, TEST},
        {"help", no_argument, NULL, HELP},
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
        case ENGINE:
            o.engine = optarg;
            break;
        case REPRODUCIBLE:
            o.reproducible = true;
            break;
        case TF32:
            o.tf32 = true;
            break;
        case SEED:
            o.seed = strtoull(optarg, NULL, 10);
            break;
        case SHARD:
            if (sscanf(optarg, "%d/%d", &o.shard, &o.shards) != 2 || o.shard < 0 ||
                o.shard >= o.shards)
                refuse("--shard takes I/N", optarg);
            break;
        case THIN:
            o.thin = true;
            break;
        case HASH:
            o.hash = true;
            break;
        case TEST:
            o.test = optarg;
            break;
        case HELP:
            printf("%s\n%s", about, usage);
            exit(0);
        default:
            exit(2);
        }
    }
    if (optind < argc) refuse("what is this", argv[optind]);
    int fills = 0;
    for (int i = 0; i < ATTUNE_FILL_COUNT; i++) fills += o.fills[i];
    if (o.thin && fills < DTYPES) refuse("--thin needs three fills", "");
    return o;
}

options options_parse_problems(int argc, char **argv, const char *about)
{
    const options o = options_parse(argc, argv, about);
    if (o.problems.count == 0) refuse("nothing to do", "give --problem or --problem-file");
    return o;
}

attune_plan_options options_of_plan(const options *o, int index, int devices)
{
    const bool confined = index > 0 || devices == 1;
    attune_plan_options plan;
    attune_plan_options_init(&plan);
    plan.kernel = confined ? o->kernel : NULL;
    plan.engine = confined ? o->engine : NULL;
    plan.reproducible = o->reproducible;
    plan.allow_tf32 = o->tf32;
    return plan;
}
