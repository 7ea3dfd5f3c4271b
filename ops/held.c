/* held.c - `wiremill held`, `why` and `kick`: what holds a campaign back, and how to continue.

   held and why only read: the running broker's status, or with none running the ledger's. kick asks
   the running broker to have an input scored again; with none running `wiremill run --retry-held`
   does the same, so kick starts nothing.  */

#include "ops/ask/wm_account.h"
#include "ops/ask/wm_ask.h"
#include "ops/ask/wm_show.h"
#include "ops/process/wm_command.h"
#include "ops/process/wm_complain.h"
#include "ops/verbs.h"
#include "ops/view/wm_waits.h"
#include "schema/base/wm_path.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define LINES_MAX 1000 /* that `held` prints of inputs and batches, and of files, without --all */
#define LINES_MAX_TEXT "1,000"
#define RESUME "`wiremill resume`" /* in the table of waits */

/* clang-format off */
static const wm_option_t held_options[] = {
    WHERE_OPTIONS,
    {.name = "all", .task = "how", 
     .help = "every line, not the first " LINES_MAX_TEXT " of each kind"},
    {.name = "json", .help = "the list as JSON, always whole"},
    {.name = NULL},
};
static const wm_option_t why_options[] = { WHERE_OPTIONS, {.name = NULL} };
static const wm_option_t kick_options[] = {
    WHERE_OPTIONS,
    {.name = "all-held", .task = "what",
     .help = "every input that is held or changed, whole or in part"},
    {.name = "dry-run", .letter = 'n', .help = "only print what would be kicked"},
    {.name = NULL},
};

static const char kick_text[] =
    "  wiremill kick --campaign out/ data/events-7.h5\n\n"
    "Name inputs by path or number. The broker discards their results, and the whole input is\n"
    "scored again from the file as it is then; an existing output stays until the new one is\n"
    "written.\n"
    "Where no broker runs, `wiremill run --retry-held` does this for what is held or changed.\n";

static int held_main (const wm_args_t *args);
static int why_main (const wm_args_t *args);
static int kick_main (const wm_args_t *args);

const wm_verb_t wm_verb_held = {
    .name = "held", .task = WATCH_TASK, .rest = "[DIR]", .summary = "list what is held, and why",
    .text = "  wiremill held out/\n",
    .options = held_options, .run = held_main };
const wm_verb_t wm_verb_why = {
    .name = "why", .task = WATCH_TASK, .rest = "[DIR] [INPUT]",
    .summary = "what holds a campaign or an input back",
    .text = "  wiremill why out/ data/events-7.h5\n\n"
            "INPUT is the path of an input, the last parts of the path, the input's number, or\n"
            "the name of its output.\n",
    .options = why_options, .run = why_main };
const wm_verb_t wm_verb_kick = {
    .name = "kick", .task = STEER_TASK, .rest = "[DIR] INPUT...",
    .summary = "score inputs again that are held, changed or written", .text = kick_text,
    .options = kick_options, .run = kick_main };
/* clang-format on */

/* ---- held ------------------------------------------------------------------------------------ */

/* All that is held, as "wiremill-held-1".  */
static void print_json (const json_t *status, int64_t n_unnamed)
{
    json_t *out =
        json_pack ("{s:s, s:I, s:I, s:I, s:I, s:O, s:I, s:O, s:i}", "schema", "wiremill-held-1",
                   "total", (json_int_t) wm_ask_int (status, "held_total"), "hits",
                   (json_int_t) wm_ask_int (status, "hits.held"), "scored",
                   (json_int_t) wm_ask_int (status, "hits.done"), "empty",
                   (json_int_t) wm_ask_int (status, "hits.empty"), "held",
                   json_object_get (status, "held"), "batches_left_out", (json_int_t) n_unnamed,
                   "held_files", json_object_get (status, "held_files"), "held_files_left_out", 0);
    json_dumpf (out, stdout, JSON_INDENT (2));
    putchar ('\n');
    json_decref (out);
}

/* Prints what scores again what is held: `kick` while a broker runs.  */
static void advise_retry (const json_t *status, const char *campaign, const char *kick,
                          const char *path)
{
    if (*wm_ask_text (status, "endpoint")) {
        fputs ("type ", stdout);
        wm_command_verb (stdout, kick, path, "");
    } else
        wm_command_retry (stdout, campaign);
}

static void print_text (const json_t *status, const char *campaign, size_t lines_max,
                        int64_t n_unnamed)
{
    const json_t *one, *held = json_object_get (status, "held");
    size_t i;
    char n[32];
    json_array_foreach (held, i, one)
    {
        if (i < lines_max)
            wm_ask_held (stdout, one);
    }
    if (json_array_size (held) > lines_max) {
        printf ("held: %s more; ",
                wm_show_count ((int64_t) (json_array_size (held) - lines_max), n));
        wm_command_verb (stdout, "held --all", "", " lists them");
    }
    if (n_unnamed > 0)
        printf ("held: %s more batches, whose reasons are no longer in the broker's memory; their "
                "files are among these\n",
                wm_show_count (n_unnamed, n));
    wm_account_held (stdout, status, lines_max);
    if (wm_account_is_clean (status))
        printf ("nothing is held\n");
    printf ("%s: ", wm_ask_rows (status));
    wm_account_hits (stdout, status);
    putchar ('\n');
    if (json_array_size (held)) {
        fputs ("once what the reasons name is repaired, ", stdout);
        advise_retry (status, campaign, "kick --all-held", "");
    }
}

static int held_main (const wm_args_t *args)
{
    char endpoint[256], campaign[PATH_MAX];
    wm_error_t error;
    int code;
    if (wm_ask_where (args, endpoint, campaign, &error))
        return wm_complain ("held", &error);
    json_t *status = wm_ask_anyhow ("held", endpoint, campaign, &code);
    if (!status)
        return code;
    code = wm_account_add (status, "held", endpoint, campaign, true);
    const int64_t n_unnamed = wm_ask_int (status, "held_total") -
                              (int64_t) json_array_size (json_object_get (status, "held"));
    if (code != WM_EXIT_OK)
        ; /* a part would look like all */
    else if (wm_args_given (args, "json"))
        print_json (status, n_unnamed > 0 ? n_unnamed : 0);
    else
        print_text (status, campaign, wm_args_given (args, "all") ? SIZE_MAX : LINES_MAX,
                    n_unnamed);
    json_decref (status);
    return code;
}

/* ---- inputs by name -------------------------------------------------------------------------- */

/* The real path of a file, or of one that was removed from its folder. false: neither.  */
static bool real_path (const char *file, char real[PATH_MAX])
{
    char folder[PATH_MAX];
    const char *slash = strrchr (file, '/'), *base = slash ? slash + 1 : file;
    if (realpath (file, real))
        return true;
    snprintf (folder, sizeof folder, "%.*s.", (int) (base - file), file);
    const size_t room = realpath (folder, real) ? PATH_MAX - strlen (real) : 0;
    return room && (size_t) snprintf (real + strlen (real), room, "/%s", base) < room;
}

/* The path an input is known by: real, with ":/dataset" where it has one. Numbers stay as they
   are.  */
static void input_name (const char *given, char name[PATH_MAX])
{
    char file[PATH_MAX], real[PATH_MAX];
    const size_t length = wm_path_length (given);
    snprintf (name, PATH_MAX, "%s", given);
    if (length >= sizeof file || !given[strspn (given, "0123456789")])
        return;
    memcpy (file, given, length);
    file[length] = 0;
    if (!real_path (file, real) || strlen (real) + strlen (given + length) >= PATH_MAX)
        return;
    strcpy (name, real);
    strcat (name, given + length);
}

/* ---- why ------------------------------------------------------------------------------------- */

/* Prints what to do about the thing that a campaign waits for; ends the line.  */
static void advise (const json_t *status, const char *waiting_for, const char *campaign)
{
    const char *endpoint = wm_ask_text (status, "endpoint");
    const wm_wait_t wait = wm_wait_find (waiting_for);
    const char *advice = wm_waits[wait].advice, *resume = strstr (advice, RESUME);
    if (wait == WM_WAIT_NO_BROKER)
        wm_ask_advise (stdout, status, campaign);
    else if (wait == WM_WAIT_NO_PRODUCER)
        printf ("type the same %s command to continue\n", wm_command_sender (campaign));
    else if (wait == WM_WAIT_NO_WORKER)
        printf ("start one with `wiremill work --broker %s`\n", endpoint); /* of any machine */
    else if (resume) {
        printf ("%.*s", (int) (resume - advice), advice);
        wm_command_verb (stdout, "resume", "", resume + strlen (RESUME));
    } else
        puts (advice);
}

static void why_campaign (const json_t *status, const char *campaign)
{
    const char *waiting = wm_ask_text (status, "waiting_for");
    const char *paused = wm_ask_text (status, "paused");
    const json_t *one;
    size_t i;
    if (*paused)
        printf ("paused: %s\n", paused);
    json_array_foreach (json_object_get (status, "producers"), i, one)
    {
        wm_ask_late (stdout, one);
    }
    wm_waits_print (stdout, status);
    if (*waiting) {
        printf ("waiting for: %s; ", waiting);
        advise (status, waiting, campaign);
    } else if (wm_ask_int (status, "inputs.open"))
        printf ("nothing holds the campaign back; inputs open: %lld, batches running: %lld\n",
                (long long) wm_ask_int (status, "inputs.open"),
                (long long) wm_ask_int (status, "batches.running"));
    else
        puts (wm_account_is_clean (status) ? "nothing is left to do"
                                           : "nothing is left to do but what is held or changed");
    const int64_t n_fail = wm_ask_int (status, "counters.n_fail"),
                  n_lost = wm_ask_int (status, "counters.n_lost"),
                  n_alarm = wm_ask_int (status, "counters.alarm");
    if (n_fail || n_lost || n_alarm)
        printf ("failures: %lld refused by an engine, %lld lost with their worker, %lld alarms\n",
                (long long) n_fail, (long long) n_lost, (long long) n_alarm);
}

/* Whether a line names this, and not something longer: it ends there, or a space or ": "
   follows.  */
static bool names (const char *text, const char *what)
{
    const size_t length = strlen (what);
    for (const char *at = text; *what && (at = strstr (at, what)); at++) {
        const char *end = at + length;
        end += *end == ':';
        if ((at == text || at[-1] == ' ') && (!*end || *end == ' '))
            return true;
    }
    return false;
}

/* Whether it names a batch of this input: "batch 12.3.4".  */
static bool names_batch (const char *text, int64_t input)
{
    char batch[32];
    snprintf (batch, sizeof batch, "batch %lld.", (long long) input);
    return strstr (text, batch) != NULL;
}

/* What was logged last; of one input, where it or a batch of it is named.  */
static void print_log (const json_t *status, const char *path, int64_t input)
{
    char ago[32];
    const json_t *one;
    size_t i;
    json_array_foreach (json_object_get (status, "said"), i, one)
    {
        const char *text = wm_ask_text (one, "text");
        if (!path || names (text, path) || names_batch (text, input))
            printf ("%s ago: %s\n", wm_show_time (wm_ask_real (one, "ago_s"), ago), text);
    }
}

#define FOUND_MAX 16

typedef struct {
    const char *typed, *real; /* the name, and the path that it has from here */
    json_t *found[FOUND_MAX]; /* the caller's */
    size_t n_found;
    bool is_exact; /* found[0] is this path, or has this number */
} find_t;

static bool take_found (void *argument, const json_t *file)
{
    find_t *self = argument;
    const char *path = wm_ask_text (file, "path");
    char number[24];
    snprintf (number, sizeof number, "%lld", (long long) wm_ask_int (file, "input"));
    self->is_exact = strcmp (path, self->real) == 0 || strcmp (number, self->typed) == 0;
    for (size_t i = 0; self->is_exact && i < self->n_found; i++)
        json_decref (self->found[i]);
    if (self->is_exact)
        self->n_found = 0;
    if (self->n_found < FOUND_MAX)
        self->found[self->n_found++] = json_incref ((json_t *) (uintptr_t) file);
    return !self->is_exact;
}

/* The input that a person means, by any name; NULL: none or several, *code is the exit code, and an
   error was printed.  */
static json_t *find_input (const char *typed, const char *endpoint, const char *campaign, int *code)
{
    char real[PATH_MAX];
    find_t self = { .typed = typed, .real = real };
    const char *slash = strrchr (typed, '/'), *base = slash ? slash + 1 : typed;
    input_name (typed, real);
    *code = wm_ask_files ("why", endpoint, campaign, real, take_found, &self);
    const char *end =
        typed; /* of an output, its name; of an input, as much of the path as was typed */
    if (strlen (base) > strlen (".scores.h5") &&
        strcmp (base + strlen (base) - strlen (".scores.h5"), ".scores.h5") == 0)
        end = base;
    while (strncmp (end, "./", 2) == 0)
        end += 2;
    if (!*code && !self.n_found)
        *code = wm_ask_files ("why", endpoint, campaign, end, take_found, &self);
    if (*code || self.n_found == 1)
        return *code ? NULL : self.found[0];
    *code = WM_EXIT_FAILURE;
    if (!self.n_found) {
        fprintf (stderr, "wiremill why: no input or output of this campaign is called '%s'; ",
                 typed);
        wm_command_verb (stderr, "status --files", "", " lists them");
        return NULL;
    }
    fprintf (stderr,
             "wiremill why: '%s' is the name of several inputs; give more of the path, or the "
             "number:\n",
             typed);
    for (size_t i = 0; i < self.n_found; i++) {
        fprintf (stderr, "  %lld  %s\n", (long long) wm_ask_int (self.found[i], "input"),
                 wm_ask_text (self.found[i], "path"));
        json_decref (self.found[i]);
    }
    if (self.n_found == FOUND_MAX)
        fputs ("  and perhaps more\n", stderr);
    return NULL;
}

/* Explains an input that is not held itself; some of its hits may be.  */
static void why_sound (const json_t *status, const json_t *file, const char *campaign)
{
    const json_t *one;
    size_t i;
    char scored[32], held[32];
    const char *path = wm_ask_text (file, "path"), *why = wm_ask_text (file, "why");
    wm_show_count (wm_ask_int (file, "scored"), scored);
    wm_show_count (wm_ask_int (file, "held"), held);
    if (strcmp (wm_ask_text (file, "state"), "written") == 0) {
        printf ("written: %s: %s/%s has its %s: %s scored, %s held\n", path,
                wm_ask_text (status, "campaign.output"), wm_ask_text (file, "output"),
                wm_ask_rows (status), scored, held);
        return;
    }
    printf ("open: %s: %s%s%s %s are scored, %s held\n", path, why, *why ? "; " : "", scored,
            wm_ask_rows (status), held);
    json_array_foreach (json_object_get (status, "producers"), i, one)
    {
        if (strcmp (wm_ask_text (one, "input"), path) == 0)
            printf ("producer %s works on it\n", wm_ask_text (one, "label"));
    }
    why_campaign (status, campaign);
}

static void why_input (const json_t *status, json_t *file, const char *campaign)
{
    const json_t *one, *found = NULL;
    size_t i;
    const int64_t input = wm_ask_int (file, "input");
    const char *path = wm_ask_text (file, "path"), *state = wm_ask_text (file, "state");
    json_array_foreach (json_object_get (status, "held"), i, one)
    {
        if (wm_ask_int (one, "input") != input)
            continue;
        wm_ask_held (stdout, one);
        found = one;
    }
    if (!found && (strcmp (state, "held") == 0 || strcmp (state, "changed") == 0)) {
        printf ("%s: %s: %s\n", state, path, wm_ask_text (file, "why"));
        found = file; /* the status names a part of what is held */
    }
    if (found) {
        printf ("%s, then ",
                strcmp (wm_ask_text (found, "state"), "batch") == 0
                    ? "repair what the reason names (an engine: choose another with --engine)"
                    : "repair, convert or restore the file, under its name");
        advise_retry (status, campaign, "kick", path);
    } else
        why_sound (status, file, campaign);
    wm_account_file (stdout, status, file, "why");
    print_log (status, path, input);
}

static int why_main (const wm_args_t *args)
{
    char endpoint[256], campaign[PATH_MAX];
    wm_error_t error;
    struct stat st;
    const json_t *one;
    size_t i;
    int code;
    const char *folder = wm_args_text (args, "campaign"), *input = wm_args_rest (args, 0);
    if (!folder && input && stat (input, &st) == 0 && S_ISDIR (st.st_mode)) { /* no input is one */
        folder = input;
        input = wm_args_rest (args, 1);
    }
    if (wm_ask_at (args, folder, endpoint, campaign, &error))
        return wm_complain ("why", &error);
    json_t *file = input ? find_input (input, endpoint, campaign, &code) : NULL;
    json_t *status = file || !input ? wm_ask_anyhow ("why", endpoint, campaign, &code) : NULL;
    if (status && !file)
        wm_account_add (status, "why", endpoint, campaign, false);
    if (status && file)
        why_input (status, file, campaign);
    else if (status) {
        why_campaign (status, campaign);
        json_array_foreach (json_object_get (status, "held"), i, one) wm_ask_held (stdout, one);
        wm_account_held (stdout, status, SIZE_MAX);
        print_log (status, NULL, 0);
    }
    json_decref (file);
    json_decref (status);
    return status ? WM_EXIT_OK : code;
}

/* ---- kick ------------------------------------------------------------------------------------ */

typedef struct {
    wm_client_t *client;
    const char *campaign; /* its folder; "" */
    bool dry_run;
    uint32_t n_kicked, n_refused;
} kick_t;

/* One input, by path or number; a refusal ends the session, so each opens it where it is needed.
   WM_OK: kicked or refused, and printed; WM_EKEY: this key only reads; else the broker is gone.  */
static wm_fault_t kick_one (kick_t *self, const char *name, wm_error_t *error)
{
    wm_msg_t msg;
    wm_msg_init (&msg, WM_MSG_CONTROL);
    snprintf (msg.name, sizeof msg.name, "kick");
    if (strlen (name) >= sizeof msg.text)
        return wm_fault (error, WM_EBATCH, "%.100s...: too long a path; give the input's number",
                         name);
    memcpy (msg.text, name, strlen (name) + 1);
    if (self->dry_run) {
        printf ("would kick %s\n", name);
        self->n_kicked++;
        return WM_OK;
    }
    wm_fault_t fault = WM_OK;
    if (!wm_client_is_open (self->client))
        fault = wm_ask_open (self->client, self->campaign, error);
    if (!fault && wm_client_send (self->client, &msg, NULL, 0))
        fault = wm_fault (error, WM_EAGAIN, "%s", wm_client_error (self->client)->text);
    if (fault)
        return fault;
    const wm_client_event_t event = wm_client_wait (self->client, wm_times ()->answer_ms);
    if (event == WM_CLIENT_MESSAGE && wm_client_msg (self->client)->type == WM_MSG_ACK) {
        printf ("kicked %s\n", name);
        self->n_kicked++;
        return WM_OK;
    }
    if (event == WM_CLIENT_CLOSED && wm_client_reason (self->client) == WM_REASON_STALE) {
        fprintf (stderr, "wiremill kick: %s\n", wm_client_error (self->client)->text);
        self->n_refused++;
        return WM_OK;
    }
    if (event == WM_CLIENT_CLOSED && wm_client_reason (self->client) == WM_REASON_ROLE)
        return wm_fault (error, WM_EKEY, "%s", wm_client_error (self->client)->text);
    return wm_fault (error, WM_EAGAIN, "%s",
                     event == WM_CLIENT_CLOSED ? wm_client_error (self->client)->text
                                               : "the broker did not answer");
}

/* Everything that the status names, and again while there is more than it could name.  */
static wm_fault_t kick_all (kick_t *self, wm_error_t *error)
{
    wm_fault_t fault = wm_ask_open (self->client, self->campaign, error);
    for (uint32_t before = UINT32_MAX; !fault && before != self->n_kicked;) {
        const json_t *one;
        size_t i;
        before = self->n_kicked;
        json_t *status = wm_ask_status (self->client, wm_times ()->answer_ms, NULL);
        if (!status)
            return wm_fault (error, WM_EAGAIN, "the broker did not answer");
        int64_t last = 0; /* its batches follow each other */
        json_array_foreach (json_object_get (status, "held"), i, one)
        {
            char number[24];
            const int64_t input = wm_ask_int (one, "input");
            snprintf (number, sizeof number, "%lld", (long long) input);
            if (fault || input == last)
                continue;
            wm_ask_held (stdout, one);
            fault = kick_one (self, number, error);
            last = input;
        }
        json_decref (status);
        if (self->dry_run)
            break;
    }
    return fault;
}

static int no_broker (const char *why, const char *campaign)
{
    const char *sender = wm_command_sender (campaign);
    fprintf (stderr,
             "wiremill kick: no broker answers (%s): start the campaign's, %s let the same %s "
             "command with --retry-held score again what is held or changed\n",
             why, strcmp (sender, "wiremill produce") == 0 ? "and" : "or", sender);
    return WM_EXIT_UNREACHABLE;
}

/* The campaign's folder, by option or before the inputs, which are files; *first: the first of
   them.  */
static const char *kick_folder (const wm_args_t *args, int *first)
{
    struct stat st;
    const char *folder = wm_args_text (args, "campaign"), *given = wm_args_rest (args, 0);
    *first = !folder && !wm_args_text (args, "broker") && given && stat (given, &st) == 0 &&
             S_ISDIR (st.st_mode);
    return *first ? given : folder;
}

static int kick_main (const wm_args_t *args)
{
    char endpoint[256], label[64], campaign[PATH_MAX], name[PATH_MAX];
    wm_error_t error;
    const char *given;
    kick_t self = { .campaign = campaign, .dry_run = wm_args_given (args, "dry-run") };
    const bool all = wm_args_given (args, "all-held");
    int first;
    const char *folder = kick_folder (args, &first);
    if (all == (wm_args_rest (args, first) != NULL))
        return wm_args_refuse (args, "name inputs by path or number, or give --all-held");
    wm_fault_t fault = wm_ask_at (args, folder, endpoint, campaign, &error);
    if (fault)
        return wm_complain ("kick", &error);
    if (!*endpoint) {
        const int code = wm_ask_no_broker (campaign, error.text);
        if (code == WM_EXIT_UNREACHABLE)
            return no_broker ("none is running", campaign);
        fprintf (stderr, "wiremill kick: %s\n", error.text);
        return code;
    }
    self.client =
        wm_client_new (endpoint, WM_ROLE_OPERATOR, wm_ask_operator ("kick", label), NULL, NULL);
    if (all)
        fault = kick_all (&self, &error);
    for (int i = first; !all && !fault && (given = wm_args_rest (args, i)); i++) {
        input_name (given, name);
        fault = kick_one (&self, name, &error);
    }
    if (wm_client_is_open (self.client))
        wm_client_close (self.client, WM_REASON_DONE, "");
    wm_client_destroy (&self.client);
    if (self.n_kicked && !self.dry_run)
        printf ("%u will be scored again, by the producer that runs; if none runs, type the "
                "same %s command\n",
                self.n_kicked, wm_command_sender (campaign));
    else if (all && !fault && !self.n_kicked)
        printf ("nothing is held\n");
    if (fault == WM_EAGAIN)
        return no_broker (error.text, campaign);
    return fault ? wm_complain ("kick", &error) : self.n_refused ? WM_EXIT_FAILURE : WM_EXIT_OK;
}
