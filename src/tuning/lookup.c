#include "lookup.h"

#include "../context.h"
#include "../log.h"
#include "../problem.h"
#include "../status.h"
#include "database.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

bool tuning_lookup_init(tuning_lookup *lookup, const char *path)
{
    const size_t size = 1 + (path == NULL ? attune_tuning_path(NULL, 0) : strlen(path));
    *lookup = (tuning_lookup){.path = malloc(size)};
    pthread_mutex_init(&lookup->lock, NULL);
    if (lookup->path != NULL && path == NULL)
        attune_tuning_path(lookup->path, size);
    else if (lookup->path != NULL)
        strcpy(lookup->path, strcmp(path, "off") == 0 ? "" : path);
    return lookup->path != NULL;
}

void tuning_lookup_clear(tuning_lookup *lookup)
{
    pthread_mutex_destroy(&lookup->lock);
    free(lookup->winners);
    free(lookup->path);
}

/* A row that this library cannot read, as an import may bring, is as good as none. */
static bool read_winner(sqlite3_stmt *statement, measured_winner *winner)
{
    const char *const problem = column_word(statement, 0),
                      *const options = column_word(statement, 1),
                      *const kernel = column_word(statement, 2);
    attune_problem parsed;
    if (strlen(options) >= sizeof winner->options || strlen(kernel) >= sizeof winner->kernel ||
        attune_problem_parse(problem, &parsed) != ATTUNE_OK ||
        problem_normalise(&parsed, &winner->problem) != ATTUNE_OK)
        return false;
    strcpy(winner->options, options);
    strcpy(winner->kernel, kernel);
    winner->milliseconds = column_real(statement, 3);
    winner->default_milliseconds = column_real(statement, 4); /* NaN where it was not timed */
    return true;
}

typedef struct winner_list {
    measured_winner *at;
    int count, room;
    bool full; /* no memory for more */
} winner_list;

static int take_winner(sqlite3_stmt *statement, void *user)
{
    winner_list *const list = user;
    if (list->count == list->room) {
        const int room = list->room + 64;
        measured_winner *const more = realloc(list->at, (size_t)room * sizeof *more);
        list->full = more == NULL;
        if (list->full) return 1;
        list->at = more;
        list->room = room;
    }
    list->count += read_winner(statement, &list->at[list->count]);
    return 0;
}

static attune_status read_winners(tuning_lookup *lookup, attune_tuning_db *db,
                                  const attune_context *context)
{
    database_value key[KEY_COLUMNS];
    context_key(context, key);
    winner_list list = {.at = NULL};
    sqlite3_stmt *const statement = database_prepare(
        db,
        "SELECT problem, options, kernel, milliseconds, default_milliseconds FROM winner WHERE "
        "backend = ?1 AND device = ?2 AND platform = ?3 AND device_class = ?4 AND driver = ?5 AND "
        "compute_units = ?6 AND version = ?7 AND text_hash = ?8 AND compiler = ?9",
        key, KEY_COLUMNS);
    const attune_status status = database_each(db, statement, take_winner, &list);
    lookup->winners = list.at;
    lookup->count = list.count;
    return status == ATTUNE_OK && list.full
               ? attune_fail(ATTUNE_OUT_OF_MEMORY, "no memory for measurements")
               : status;
}

static void read_database(tuning_lookup *lookup, const attune_context *context)
{
    attune_tuning_db *db;
    if (lookup->path == NULL || lookup->path[0] == '\0') {
        snprintf(lookup->reason, sizeof lookup->reason, "no database is used");
        return;
    }
    if (context->caps->untimed) {
        snprintf(lookup->reason, sizeof lookup->reason, "times of %s say nothing",
                 context->caps->info.id);
        return;
    }
    attune_status status = attune_tuning_open(lookup->path, 0, &db);
    if (status == ATTUNE_OK) {
        status = read_winners(lookup, db, context);
        attune_tuning_close(db);
    }
    if (status != ATTUNE_OK) {
        lookup->count = 0;
        snprintf(lookup->reason, sizeof lookup->reason, "%s", attune_error_detail());
    } else if (lookup->count == 0) {
        snprintf(lookup->reason, sizeof lookup->reason,
                 "nothing was measured on this device by this build");
    }
}

void tuning_lookup_read(attune_context *context)
{
    tuning_lookup *const lookup = &context->tuning;
    pthread_mutex_lock(&lookup->lock);
    if (!lookup->done) {
        const attune_kernel_table *const table = context->backend->table;
        read_database(lookup, context);
        lookup->state = (attune_tuning_state){
            .path = lookup->path == NULL ? "" : lookup->path,
            .reason = lookup->reason,
            .winners = lookup->count,
            .untimed = context->caps->untimed,
            .backend = context->backend->name,
            .device_class = context->caps->device_class,
            .family = context->caps->family,
            .text_hash = table->text_hash,
            .compiler = context->caps->compiler,
        };
        if (context->verbose && lookup->state.path[0] != '\0')
            log_tuning(lookup->path, lookup->count, lookup->reason);
        lookup->done = true;
    }
    pthread_mutex_unlock(&lookup->lock);
}

attune_status attune_context_tuning(attune_context *context, const attune_tuning_state **state)
{
    RETURN_IF_NULL(context);
    RETURN_IF_NULL(state);
    tuning_lookup_read(context);
    *state = &context->tuning.state;
    return ATTUNE_OK;
}
