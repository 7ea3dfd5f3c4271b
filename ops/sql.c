/* sql.c - `wiremill sql`: asks a campaign's ledger in SQL, whether a broker serves it or not.

   A broker has the ledger for itself, so it is asked for a copy; with none running wiremill-broker
   reads the ledger under the campaign's lock. Both are read by wiremill-broker.  */
#include "ops/ask/wm_ask.h"
#include "ops/process/wm_complain.h"
#include "ops/process/wm_spawn.h"
#include "ops/verbs.h"

#include <limits.h>
#include <string.h>
#include <unistd.h>

/* clang-format off */
static const wm_option_t options[] = {
    WHERE_OPTIONS,
    {.name = "json", .task = "how", .help = "the rows as a JSON array of objects"},
    {.name = NULL},
};

static const char text[] =
    "  wiremill sql out/\n"
    "  wiremill sql out/ \"select * from progress\"\n"
    "  wiremill sql out/ \"select path, why from held\" --json\n\n"
    "Without a QUERY it lists the views and their columns: progress, inputs, held, workers,\n"
    "rates, faults and marks. They are a stable interface. A query only reads. Times are UTC.\n";

static int sql_main (const wm_args_t *args);
const wm_verb_t wm_verb_sql = {
    .name = "sql", .task = WATCH_TASK, .rest = "[DIR] [QUERY]",
    .summary = "ask a campaign's ledger in SQL", .text = text, .options = options,
    .run = sql_main };
/* clang-format on */

static int sql_main (const wm_args_t *args)
{
    char endpoint[256], campaign[PATH_MAX];
    wm_error_t error;
    bool of_copy;
    const char *folder = wm_args_text (args, "campaign"), *query = wm_args_rest (args, 0);
    if (!folder && query && (wm_args_rest (args, 1) || !strchr (query, ' '))) { /* DIR */
        folder = query;
        query = wm_args_rest (args, 1);
    }
    if (wm_ask_at (args, folder, endpoint, campaign, &error))
        return wm_complain ("sql", &error);
    if (!*campaign)
        return wm_args_refuse (args, "it reads the campaign's folder: give it as DIR");
    const int code = wm_ask_copy ("sql", endpoint, campaign, &of_copy);
    if (code)
        return code;
    const char *argv[8] = { "wiremill-broker", "--campaign", campaign, "--sql",
                            query ? query : "" };
    size_t n = 5;
    if (of_copy)
        argv[n++] = "--copy";
    if (wm_args_given (args, "json"))
        argv[n] = "--json";
    return wm_spawn_code ("sql", argv[0], wm_spawn ("sql", argv, STDIN_FILENO, STDOUT_FILENO));
}
