/* attune: devices, kernels, run, compare, bench, tune, db. */
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "commands.h"
#include "fail.h"

/* The options of a plan, which several commands share. */
#define KERNEL_OPTIONS "[--kernel GLOB] [--engine vector|simt|matrix] [--reproducible] [--tf32]"
#define PLAN_OPTIONS KERNEL_OPTIONS " [--deterministic]"
#define ABOUT_KERNEL_OPTIONS                                                                       \
    "  --engine        no other engine will do\n"                                                  \
    "  --reproducible  only kernels whose bits depend on no tile, batch or chunk\n"                \
    "  --tf32          f32 may be read as tf32 (--engine matrix implies it)\n"
#define ABOUT_PLAN_OPTIONS                                                                         \
    ABOUT_KERNEL_OPTIONS "  --deterministic what was measured on this device has no say\n"

#define ABOUT_ROWS                                                                                 \
    "  run backend device platform device_class driver compute_units version text_hash compiler "  \
    "problem options\n"                                                                            \
    "  default_kernel started finished kernel rung invalid (why it must not be used) "             \
    "milliseconds (the median)\n"                                                                  \
    "  milliseconds_q1 milliseconds_q3 milliseconds_min samples bound_ratio bits registers "       \
    "spill_bytes resident_warps\n"                                                                 \
    "  measured."

typedef struct command_row {
    const char *name, *summary, *usage;
    int (*run)(const options *o);
} command_row;

static const command_row commands[] = {
    {"devices", "the devices of this machine, and why a backend has none",
     "[--json]\n"
     "  --json: device backend name platform driver compute_units global_memory fast_memory "
     "reason (null: it can be opened).",
     command_devices},
    {"kernels", "the kernels of a device in order of preference",
     "[--device ID] [--problem P] [--why] [--json]\n"
     "  " PLAN_OPTIONS "\n"
     "  --problem P     judge each kernel for this problem\n"
     "  --why           list those that cannot run too, with the reason, and say why each stands "
     "where it does\n" ABOUT_PLAN_OPTIONS
     "  Each with its engine, and whether it is reproducible or usual.\n"
     "  --json: kernel engine reproducible preference reason (null: it can run).",
     command_kernels},
    {"run", "attention of NumPy files",
     "--q Q.npy --k K.npy --v V.npy --out O.npy [--lse L.npy]\n"
     "  [--layout bshd|bhsd] [--dtype f32|f16|bf16] [--mask none|causal|causal-top-left] [--scale "
     "X]\n"
     "  [--device ID] [--threads N] [--json]\n"
     "  " PLAN_OPTIONS "\n" ABOUT_PLAN_OPTIONS
     "  Files hold float32 or float16, four dimensions in the order of --layout (default bshd: "
     "batch, seq, head, dim).\n"
     "  --dtype rounds to nearest even on load; bf16 results are written as float32. --lse is "
     "float32 (batch, head, seq).\n"
     "  --json: problem device kernel engine reproducible milliseconds gflops peak_rss_bytes.",
     command_run},
    {"compare", "devices against the oracle, standard attention and each other",
     "[--devices ID,ID,...] [--problem P]... [--problem-file F] [--fill NAME|all] [--seed N]\n"
     "  [--q Q.npy --k K.npy --v V.npy [--layout L]] [--dtype T] [--mask M] [--scale X]\n"
     "  [--threads N] [--json]\n"
     "  " PLAN_OPTIONS "\n"
     "  --devices       default: every device of the machine, none emulated\n"
     "  --problem-file  one problem in a line, # starts a comment\n"
     "  --fill, --seed  the numbers that problems are filled with; default normal, "
     "1\n" ABOUT_PLAN_OPTIONS
     "  Judged against the exact answer (double precision): max_abs, rms_rel (over rms of the "
     "output), max_ulp, ratio\n"
     "  (largest error over its bound), bias (mean over rms of the error), lse_abs. 'standard' is "
     "attention in three\n"
     "  steps in the working precision. Pairs of devices: 'identical' where no bit differs.\n"
     "  --json: problem fill seed device against kernel engine reproducible max_abs rms_rel "
     "max_ulp bound_ratio bias\n"
     "  lse_max_abs lse_bound_ratio differ verdict reason milliseconds gflops, null where it means "
     "nothing or "
     "is infinite.\n"
     "  Exit status 1 when a device FAILs, when two differ by more than the sum of their bounds, "
     "or when all were\n"
     "  SKIPPED (no kernel or no memory for the problem).",
     command_compare},
    {"bench", "time, speed and share of the processor's FMA peak",
     "--problem P... [--problem-file F] [--device ID] [--threads N]\n"
     "  [--fill NAME] [--seed N] [--against-default] [--json]\n"
     "  " PLAN_OPTIONS "\n"
     "  --against-default  in turns with the kernel that is chosen without measurements\n"
     "  --threads       of cpu; default: every processor that this process may "
     "use\n" ABOUT_PLAN_OPTIONS
     "  Times include packing K and V. GFLOP/s count 2 (d + dv) operations for each pair that the "
     "mask leaves.\n"
     "  --json: problem fill seed device kernel engine reproducible threads milliseconds (the "
     "median) milliseconds_min\n"
     "  milliseconds_q1 milliseconds_q3 runs gflops peak_gflops peak_share peak_rss_bytes, null "
     "where it is not "
     "known;\n  with --against-default also default_kernel default_milliseconds "
     "default_milliseconds_q1 "
     "default_milliseconds_q3.",
     command_bench},
    {"tune", "find the best kernel for problems on a device, and keep it in a database",
     "--problem P... [--problem-file F] [--device ID] [--threads N] [--seed N]\n"
     "  [--budget SECONDS] [--timeout SECONDS] [--db FILE] [--resume] [--json]\n"
     "  " KERNEL_OPTIONS "\n"
     "  --budget        for all problems together; default 60 for each; the default kernel is "
     "tried "
     "whatever it takes\n"
     "  --timeout       what one step of a kernel (compiling, judging, a run) may take; default "
     "60\n"
     "  --db            default: $ATTUNE_DB, else attune/tuning.db in $XDG_DATA_HOME, else in "
     "~/.local/share\n"
     "  --resume        go on where the last run of the same device, build, problem and options "
     "ended\n" ABOUT_KERNEL_OPTIONS
     "  Every candidate is compiled, judged against the exact answer, and only then timed, in "
     "turns with the others, in a\n"
     "  child process. The default stays unless another beats it by 3 % and not by noise. "
     "Ctrl-C keeps what was measured.\n"
     "  --json: problem device default_kernel default_milliseconds kernel milliseconds candidates "
     "refused pruned rejected\n"
     "  judged same_bits timed known untried untimed_device already_tuned interrupted.",
     command_tune},
    {"db show", "what was measured, and what became of each kernel",
     "[--db FILE] [--json | --tsv]\n" ABOUT_ROWS, command_db_show},
    {"db best", "what won for each device, build and problem",
     "[--db FILE] [--json | --tsv]\n"
     "  --json, --tsv: backend device platform device_class driver compute_units version text_hash "
     "compiler problem options\n"
     "  default_kernel default_milliseconds kernel milliseconds run started finished.",
     command_db_best},
    {"db export", "every measurement, for another machine; or a table for the library's next build",
     "[--db FILE] [--tsv | --tuned [--device ID] [--file TABLE]]\n"
     "  --tuned         backends/<x>/tuned.tsv with the winners of the class of --device put in "
     "before its other lines\n"
     "  --file          the table that they are put into; default the built-in one, which has no "
     "lines of other processors\n"
     "  One JSON object a line, or with --tsv a line of names and then tab-separated "
     "values:\n" ABOUT_ROWS,
     command_db_export},
    {"db import", "what db export wrote, all or nothing",
     "--file FILE [--db FILE]\n"
     "  --file          JSON lines or TSV; - is standard input. What is there already stays.",
     command_db_import},
};

/* What `attune tune` starts. */
static const command_row worker_command = {
    "tune-worker", "", "--device ID --problem P --seed N --threads N", command_tune_worker};
enum { COMMANDS = sizeof commands / sizeof *commands };

static int help(void)
{
    printf(
        "attune %s: exact tiled attention on every device\n\nusage: attune COMMAND [options]\n\n",
        attune_version());
    for (int i = 0; i < COMMANDS; i++) printf("  %-9s %s\n", commands[i].name, commands[i].summary);
    puts("\nattune COMMAND --help lists the options of one.\n"
         "\n"
         "A device is an id ('cpu', 'cuda:0') or backend and a part of a name ('opencl:pocl').\n"
         "A problem is a string such as "
         "op=forward,b=2,hq=8,hkv=2,sq=128,sk=1024,d=64,dtype=f16,mask=causal\n"
         "\n"
         "Environment: ATTUNE_CACHE    folder of kernels compiled at run time; off: none are kept\n"
         "             ATTUNE_DB       database of measurements; off: none is used\n"
         "             ATTUNE_DEVICE   device where none is given (default cpu)\n"
         "             ATTUNE_EMULATED seed=N: the random order in which an emulated device runs; "
         "conflicts: it counts those\n"
         "                             of local memory's banks (AMD); seed=N,conflicts: both\n"
         "             ATTUNE_KERNEL   glob that the choice of a kernel is confined to where none "
         "is given\n"
         "             ATTUNE_VERBOSE  1: one line on stderr for each plan and each run\n"
         "\n"
         "Exit status: 0 done and every check passed, 1 a check failed, 2 bad usage or input, 3 no "
         "such device");
    return EXIT_DONE;
}

static int finish(int result)
{
    if (fflush(stdout) != 0 || ferror(stdout))
        return fail(EXIT_BAD_INPUT, "standard output cannot be written");
    return result;
}

static void print_usage(const command_row *command)
{
    printf("attune %s: %s\n\nusage: attune %s %s\n", command->name, command->summary, command->name,
           command->usage);
}

static int run(const command_row *command, int count, char **arguments)
{
    options o;
    int code = options_parse(count, arguments, command->name, command->usage, &o);
    if (code == EXIT_DONE && o.help)
        print_usage(command);
    else if (code == EXIT_DONE)
        code = command->run(&o);
    options_free(&o);
    return code;
}

/* The row of a command whose name may be of two words, `used` of the given ones; NULL where there is none. */
static const command_row *find_command(int count, char **words, int *used)
{
    char name[32];
    const bool is_pair = strcmp(words[0], "db") == 0 && count > 1;
    snprintf(name, sizeof name, "%s%s%.20s", words[0], is_pair ? " " : "", is_pair ? words[1] : "");
    *used = is_pair ? 2 : 1;
    if (strcmp(name, worker_command.name) == 0) return &worker_command;
    for (int i = 0; i < COMMANDS; i++)
        if (strcmp(name, commands[i].name) == 0) return &commands[i];
    return NULL;
}

/* `attune help db` and `attune db --help`: the help of each of its commands. */
static bool is_help_of_db(int count, char **arguments, bool is_help)
{
    return is_help ? count == 3
                   : count == 3 &&
                         (strcmp(arguments[2], "--help") == 0 || strcmp(arguments[2], "-h") == 0);
}

static int help_of_db(void)
{
    for (int i = 0; i < COMMANDS; i++) {
        if (strncmp(commands[i].name, "db ", 3) != 0) continue;
        print_usage(&commands[i]);
        putchar('\n');
    }
    return EXIT_DONE;
}

int main(int count, char **arguments)
{
    if (count < 2) return fail(EXIT_BAD_INPUT, "no command is given (attune help lists them)");
    const char *const name = arguments[1];
    const bool is_help =
        strcmp(name, "help") == 0 || strcmp(name, "--help") == 0 || strcmp(name, "-h") == 0;
    if (is_help && count == 2) return finish(help());
    if (strcmp(name, "--version") == 0) {
        printf("attune %s\n", attune_version());
        return finish(EXIT_DONE);
    }
    int used;
    const int first = is_help ? 2 : 1;
    const command_row *const command = find_command(count - first, arguments + first, &used);
    if (!command && strcmp(arguments[first], "db") == 0 && is_help_of_db(count, arguments, is_help))
        return finish(help_of_db());
    if (!command && strcmp(arguments[first], "db") == 0)
        return fail(EXIT_BAD_INPUT, "db: show, best, export or import (attune help lists them)");
    if (!command)
        return fail(EXIT_BAD_INPUT, "no command '%s' (attune help lists them)", arguments[first]);
    if (!is_help) return finish(run(command, count - first - used, arguments + first + used));
    print_usage(command);
    return finish(EXIT_DONE);
}
