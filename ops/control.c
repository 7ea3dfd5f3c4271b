/* control.c - `wiremill pause`, `resume`, `drain`, `trust`: an operator's orders to a broker.

   Each asks for the status first, to print what it changes; with --dry-run it does only that.  */
#include "ops/ask/wm_ask.h"
#include "ops/ask/wm_show.h"
#include "ops/process/wm_command.h"
#include "ops/process/wm_complain.h"
#include "ops/verbs.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define GO_ON (-1) /* no exit code yet */

/* clang-format off */
#define CONTROL_OPTIONS \
    WHERE_OPTIONS, \
    {.name = "dry-run", .letter = 'n', .task = "how", \
     .help = "print what would happen, and do nothing"}

static const wm_option_t pause_options[] = {
    CONTROL_OPTIONS,
    {.name = "why", .value = "TEXT", .help = "shown by wiremill status"},
    {.name = NULL},
};
static const wm_option_t resume_options[] = { CONTROL_OPTIONS, {.name = NULL} };
static const wm_option_t drain_options[] = {
    CONTROL_OPTIONS,
    {.name = "worker", .letter = 'w', .value = "NAME",
     .help = "only this one, as wiremill status names it (default: all)"},
    {.name = NULL},
};

static const wm_option_t trust_options[] = {
    CONTROL_OPTIONS,
    {.name = "worker", .letter = 'w', .value = "NAME", .is_needed = true,
     .help = "the worker, its host or its key, as wiremill status names them"},
    {.name = NULL},
};

static const char pause_text[] =
    "  wiremill pause --campaign out/ --why 'the disk is being moved'\n\n"
    "Workers finish the batches they have, then wait. The broker records the pause in the\n"
    "campaign's journal: it lasts, also over a restart of the broker, until `wiremill resume`.\n";

static const char drain_text[] =
    "  wiremill drain --campaign out/ --worker node7:4711\n\n"
    "A worker finishes the batch it executes, gives back the rest and ends; nothing counts as\n"
    "failed. Without --worker all workers are drained and new ones are sent away too, until\n"
    "`wiremill resume` or until the broker is started again.\n";

static const char trust_text[] =
    "  wiremill trust --campaign out/ --worker node7:4711\n\n"
    "A worker whose scores were wrong, as two other machines agree (`--check-share` of run and\n"
    "broker), gets no more work in the campaign. Mend its machine first; `wiremill doctor` there\n"
    "tells what it can.\n";

static int trust_main (const wm_args_t *args);
static int pause_main (const wm_args_t *args);
static int resume_main (const wm_args_t *args);
static int drain_main (const wm_args_t *args);

const wm_verb_t wm_verb_pause = {
    .name = "pause", .task = STEER_TASK, .rest = "[DIR]",
    .summary = "hand out nothing until wiremill resume", .text = pause_text,
    .options = pause_options, .run = pause_main };
const wm_verb_t wm_verb_resume = {
    .name = "resume", .task = STEER_TASK, .rest = "[DIR]",
    .summary = "hand out work again, after pause or drain",
    .text = "  wiremill resume --campaign out/\n",
    .options = resume_options, .run = resume_main };
const wm_verb_t wm_verb_drain = {
    .name = "drain", .task = STEER_TASK, .rest = "[DIR]",
    .summary = "let workers finish and leave", .text = drain_text,
    .options = drain_options, .run = drain_main };
const wm_verb_t wm_verb_trust = {
    .name = "trust", .task = STEER_TASK, .rest = "[DIR]",
    .summary = "give work again to a machine whose scores were wrong", .text = trust_text,
    .options = trust_options, .run = trust_main };
/* clang-format on */

typedef struct {
    const char *order; /* name in CONTROL */
    const char *text;  /* of CONTROL */
    bool dry_run;
    FILE *effect; /* what it changes: printed when the broker has done it */
} control_t;

/* ---- what it changes ------------------------------------------------------------------------- */

/* Names the workers that would be drained. false: the one that is named is not connected.  */
static bool show_workers (const control_t *self, const json_t *status)
{
    const json_t *list = json_object_get (status, "workers"), *one;
    char rows[64];
    size_t i;
    int n = 0;
    json_array_foreach (list, i, one)
    {
        const char *label = wm_ask_text (one, "label");
        if (*self->text && strcmp (label, self->text) != 0)
            continue;
        fprintf (self->effect, "%s %s (%s, %s in hand)\n",
                 self->dry_run ? "would drain" : "draining", label, wm_ask_text (one, "state"),
                 wm_show_rows (wm_ask_int (one, "running"), "batches", rows));
        n++;
    }
    const int64_t total = wm_ask_int (status, "workers_total");
    if (total > (int64_t) json_array_size (list)) {
        if (!*self->text)
            fprintf (self->effect, "and %lld more\n",
                     (long long) (total - (int64_t) json_array_size (list)));
        return true;
    }
    if (*self->text && !n) {
        fprintf (stderr, "wiremill drain: no worker is called '%s'; run ", self->text);
        wm_command_verb (stderr, "status", "", " for their names");
    }
    if (!*self->text && !n)
        fprintf (self->effect, "no worker is connected; one that connects %s sent away\n",
                 self->dry_run ? "would be" : "is");
    return n || !*self->text;
}

/* Prints what the order changes in this state. GO_ON: send it; else the exit code.  */
static int print_effect (const control_t *self, const json_t *status)
{
    const char *state = wm_ask_text (status, "campaign.state");
    const char *paused = wm_ask_text (status, "paused");
    const char *would = self->dry_run ? "would be " : "";
    const int go = self->dry_run ? WM_EXIT_OK : GO_ON;
    if (strcmp (self->order, "drain") == 0)
        return show_workers (self, status) ? go : WM_EXIT_FAILURE;
    if (strcmp (self->order, "pause") == 0) {
        if (*paused && !*self->text)
            fprintf (self->effect, "the campaign is already paused: %s; run ", paused);
        else
            fprintf (self->effect, "%spaused: workers finish the batches they have; run ", would);
        wm_command_verb (self->effect, "resume", "", " to continue");
        return go;
    }
    if (strcmp (self->order, "trust") == 0) {
        fprintf (self->effect, "%s: the broker %s it work again\n", self->text,
                 self->dry_run ? "would give" : "gives");
        return go;
    }
    if (!*paused && strcmp (state, "draining") != 0) {
        fprintf (self->effect, "the campaign is neither paused nor draining\n");
        return WM_EXIT_OK;
    }
    fprintf (self->effect, "%sresumed: it was %s%s%s\n", would, *paused ? "paused" : "draining",
             *paused ? " " : "", paused);
    return go;
}

/* ---- asking ---------------------------------------------------------------------------------- */

/* Whether a broker that has ended left a pause.  */
static bool is_paused (const char *campaign)
{
    int code;
    json_t *status = *campaign ? wm_ask_ledger ("resume", "--status", campaign, NULL, &code) : NULL;
    const bool is = *wm_ask_text (status, "paused") != 0;
    json_decref (status);
    return is;
}

static int control (const wm_args_t *args, const char *order, const char *text)
{
    char endpoint[256], campaign[PATH_MAX], label[64], *effect = NULL;
    size_t bytes = 0;
    wm_error_t error;
    if (wm_ask_where (args, endpoint, campaign, &error))
        return wm_complain (order, &error);
    const control_t self = { order, text ? text : "", wm_args_given (args, "dry-run"),
                             open_memstream (&effect, &bytes) };
    if (!self.effect)
        return WM_EXIT_FAILURE;
    wm_client_t *client =
        wm_client_new (endpoint, WM_ROLE_OPERATOR, wm_ask_operator (order, label), NULL, NULL);
    json_t *status = NULL;
    int code = WM_EXIT_UNREACHABLE;
    wm_fault (&error, WM_OK, "no broker answers at %s", endpoint);
    if (!*endpoint)
        code = wm_ask_no_broker (campaign, error.text);
    else if (wm_ask_open (client, campaign, &error) == WM_OK &&
             (status = wm_ask_status (client, wm_times ()->answer_ms, NULL)))
        code = print_effect (&self, status);
    if (error.fault == WM_EKEY)
        code = WM_EXIT_REFUSED;
    if (code != GO_ON) {
        if (status)
            error.text[0] = 0; /* all is printed */
    } else if (!wm_ask_order (client, self.order, self.text, &error))
        code = WM_EXIT_OK;
    else
        code = wm_client_reason (client) == WM_REASON_ROLE ? WM_EXIT_REFUSED : WM_EXIT_FAILURE;
    fclose (self.effect);
    if (code == WM_EXIT_OK && effect)
        fputs (effect, stdout);
    free (effect);
    if (code != WM_EXIT_OK && *error.text)
        fprintf (stderr, "wiremill %s: %s\n", order, error.text);
    if (code == WM_EXIT_UNREACHABLE && strcmp (order, "resume") == 0 && !*endpoint &&
        is_paused (campaign)) {
        fputs ("a pause lasts until wiremill resume reaches a broker; ", stderr);
        wm_command_advise (stderr, campaign, "to start one");
    }
    json_decref (status);
    if (wm_client_is_open (client))
        wm_client_close (client, WM_REASON_DONE, "");
    wm_client_destroy (&client);
    return code;
}

static int pause_main (const wm_args_t *args)
{
    return control (args, "pause", wm_args_text (args, "why"));
}

static int resume_main (const wm_args_t *args)
{
    return control (args, "resume", NULL);
}

static int trust_main (const wm_args_t *args)
{
    return control (args, "trust", wm_args_text (args, "worker"));
}

static int drain_main (const wm_args_t *args)
{
    return control (args, "drain", wm_args_text (args, "worker"));
}
