/* wm_account.c - see wm_account.h.  */
#include "ops/ask/wm_account.h"
#include "ops/ask/wm_ask.h"
#include "ops/ask/wm_show.h"
#include "ops/process/wm_command.h"
#include "ops/process/wm_spawn.h"
#include "schema/base/wm_folder.h"
#include "schema/base/wm_url.h"
#include "schema/wm_batch.h"

#include <fcntl.h>
#include <limits.h>
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define FILES_MAX 32   /* named where not all are, and their outputs read for the reasons */
#define OUTPUTS_MAX 64 /* that one producer reads */

typedef struct {
    json_t *files, *held; /* held NULL: only files are taken */
    size_t rows_max;      /* of each */
    int64_t n_left_out;   /* of files */
} taken_t;

/* An entry of "held" for an input that is held or changed as a whole, as the status has it.  */
static void add_input (json_t *held, const json_t *file)
{
    const bool is_held = strcmp (wm_ask_text (file, "state"), "held") == 0;
    json_array_append_new (held, json_pack ("{s:s, s:I, s:O?, s:n, s:n, s:n, s:n, s:I, s:O?}",
                                            "state", is_held ? "input" : "changed", "input",
                                            (json_int_t) wm_ask_int (file, "input"), "path",
                                            json_object_get (file, "path"), "run", "subrun",
                                            "event", "batch", "hits",
                                            (json_int_t) (is_held ? wm_ask_int (file, "held") : 0),
                                            "reason", json_object_get (file, "why")));
}

static bool take (void *argument, const json_t *file)
{
    taken_t *self = argument;
    const char *state = wm_ask_text (file, "state");
    if (json_array_size (self->held) < self->rows_max && self->held &&
        (strcmp (state, "held") == 0 || strcmp (state, "changed") == 0))
        add_input (self->held, file);
    if (!wm_ask_int (file, "held"))
        return true; /* held as a whole, or changed: in the list "held" */
    if (json_array_size (self->files) < self->rows_max)
        json_array_append (self->files, (json_t *) (uintptr_t) file);
    else
        self->n_left_out++;
    return true;
}

/* Asks a producer, by a mode of it, of the outputs that are written among the files from `first`
   on, whose rows take what it answers. Returns the place of the next file.  */
static size_t ask_producer (json_t *files, size_t first, const char *folder, const char *verb,
                            const char *mode)
{
    const char *argv[OUTPUTS_MAX + 3] = { "wiremill-producer", mode };
    json_t *of[OUTPUTS_MAX];
    size_t i, n = 0;
    int fd;
    for (i = first; i < json_array_size (files) && n < OUTPUTS_MAX; i++) {
        json_t *file = json_array_get (files, i);
        char *path = NULL;
        if (strcmp (wm_ask_text (file, "state"), "open") == 0 ||
            asprintf (&path, "%s/%s", folder, wm_ask_text (file, "output")) < 0)
            continue;
        of[n] = file;
        argv[2 + n++] = path;
    }
    const size_t next = i;
    const pid_t pid = n ? wm_spawn_reader (verb, argv, &fd) : -1;
    if (pid > 0) {
        FILE *from = fdopen (fd, "r");
        for (i = 0; from && i < n; i++) {
            json_t *answer = json_loadf (from, JSON_DISABLE_EOF_CHECK | JSON_DECODE_ANY, NULL);
            if (!json_is_object (answer) || json_object_update (of[i], answer))
                json_object_set_new (of[i], "reasons", json_null ());
            json_decref (answer);
        }
        if (from)
            fclose (from);
        wm_spawn_code (verb, argv[0], pid);
    }
    for (i = 0; i < n; i++)
        free ((char *) (uintptr_t) argv[2 + i]);
    return next;
}

/* Of a URL a copy of each would have to be made.  */
static void add_reasons (json_t *files, const json_t *status, const char *verb)
{
    const char *folder = wm_ask_text (status, "campaign.output");
    if (wm_url_of (folder) || (*wm_ask_text (status, "endpoint") &&
                               !wm_ask_has_folder (status))) /* no broker: read here */
        return;
    for (size_t at = 0; at < json_array_size (files);)
        at = ask_producer (files, at, folder, verb, "held");
}

/* Puts the inputs before the batches of "held", of which the status has the latest.  */
static void put_held (json_t *status, json_t *inputs)
{
    size_t i;
    const json_t *one;
    json_array_foreach (json_object_get (status, "held"), i, one)
    {
        if (strcmp (wm_ask_text (one, "state"), "batch") == 0)
            json_array_append (inputs, (json_t *) (uintptr_t) one);
    }
    json_object_set_new (status, "held", inputs);
}

static int add_to (json_t *status, const char *verb, const char *endpoint, const char *campaign,
                   bool has_inputs, size_t rows_max)
{
    taken_t taken = { json_array (), has_inputs ? json_array () : NULL, rows_max, 0 };
    const bool any = wm_ask_int (status, "hits.held") > 0 ||
                     (has_inputs && wm_ask_int (status, "held_total") > 0);
    const int code = any ? wm_ask_files (verb, endpoint, campaign, NULL, take, &taken) : WM_EXIT_OK;
    if (code == WM_EXIT_OK)
        add_reasons (taken.files, status, verb);
    if (code == WM_EXIT_OK && has_inputs)
        put_held (status, taken.held);
    else
        json_decref (taken.held);
    json_object_set_new (status, "held_files", taken.files);
    json_object_set_new (status, "held_files_left_out", json_integer (taken.n_left_out));
    return code;
}

int wm_account_add (json_t *status, const char *verb, const char *endpoint, const char *campaign,
                    bool is_whole)
{
    return add_to (status, verb, endpoint, campaign, is_whole, is_whole ? SIZE_MAX : FILES_MAX);
}

int wm_account_add_up_to (json_t *status, const char *verb, const char *endpoint,
                          const char *campaign, size_t rows_max)
{
    return add_to (status, verb, endpoint, campaign, true, rows_max);
}

/* Outputs that are written, evenly spaced.  */
typedef struct {
    json_t *files;
    int64_t n, n_written, n_changed; /* changed: no longer what was written, and left out */
} spaced_t;

static bool take_spaced (void *argument, const json_t *file)
{
    spaced_t *self = argument;
    self->n_changed += strcmp (wm_ask_text (file, "state"), "changed") == 0;
    if (strcmp (wm_ask_text (file, "state"), "written") != 0)
        return true;
    if (self->n++ * OUTPUTS_MAX % self->n_written < OUTPUTS_MAX &&
        json_array_size (self->files) < OUTPUTS_MAX)
        json_array_append (self->files, (json_t *) (uintptr_t) file);
    return true;
}

int wm_account_add_worst (json_t *status, const char *verb, const char *endpoint,
                          const char *campaign)
{
    const char *folder = wm_ask_text (status, "campaign.output");
    spaced_t spaced = { json_array (), 0, wm_ask_int (status, "inputs.written"), 0 };
    const bool is_here =
        !wm_url_of (folder) && (!*wm_ask_text (status, "endpoint") || wm_ask_has_folder (status));
    const int code = is_here && spaced.n_written
                         ? wm_ask_files (verb, endpoint, campaign, "", take_spaced, &spaced)
                         : WM_EXIT_OK;
    if (code == WM_EXIT_OK)
        ask_producer (spaced.files, 0, folder, verb, "worst");
    json_object_set_new (status, "worst_files", spaced.files);
    json_object_set_new (status, "worst_is_here", json_boolean (is_here));
    json_object_set_new (status, "worst_changed", json_integer (spaced.n_changed));
    return code;
}

void wm_account_name (const json_t *status, char name[64])
{
    char folder[PATH_MAX];
    wm_folder_output (wm_ask_text (status, "dir"), folder);
    const char *slash = strrchr (folder, '/');
    const char *base = slash ? slash + 1 : folder;
    snprintf (name, 64, "%.63s", *base ? base : "-");
}

double wm_account_share (const json_t *s)
{
    const double done = (double) wm_ask_settled (s), announced = wm_ask_real (s, "hits.announced");
    double all = wm_ask_real (s, "hits.expected");
    if (wm_ask_int (s, "inputs.open") && all <= done && (done > 0 || !*wm_ask_text (s, "endpoint")))
        return -1; /* how many hits are open is not known yet */
    all = all > announced ? all : announced;
    return all > 0 ? done / all : 0;
}

const char *wm_account_all (const json_t *s, char text[48])
{
    char n[32];
    const double known = fmax (wm_ask_real (s, "hits.announced"), (double) wm_ask_settled (s)),
                 expected = wm_ask_real (s, "hits.expected");
    const bool is_open = wm_ask_int (s, "inputs.open") > 0,
               is_about = is_open && expected > known && wm_account_share (s) >= 0;
    snprintf (text, 48, "%s%s",
              is_about                              ? "about "
              : is_open && wm_account_share (s) < 0 ? "at least "
                                                    : "",
              wm_show_count ((int64_t) (is_about ? expected : known), n));
    return text;
}

double wm_account_percent (const json_t *status)
{
    const double share = wm_account_share (status);
    return share < 1 && share > 0.999 ? 99.9 : 100 * share;
}

void wm_account_hits (FILE *out, const json_t *status)
{
    char n[32];
    const int64_t empty = wm_ask_int (status, "hits.empty");
    fprintf (out, "%s scored", wm_show_count (wm_ask_int (status, "hits.done"), n));
    if (empty)
        fprintf (out, " (%s of them with an empty patch)", wm_show_count (empty, n));
    fprintf (out, ", %s held", wm_show_count (wm_ask_int (status, "hits.held"), n));
}

static void show_file (FILE *to, const json_t *status, const json_t *file)
{
    char n[32], rows[64], *text = NULL;
    size_t bytes = 0;
    const char *reason, *before = ": ";
    json_t *count;
    FILE *out = open_memstream (&text, &bytes);
    if (!out)
        return;
    const int64_t held = wm_ask_int (file, "held"), missing = wm_ask_int (file, "events_missing");
    fprintf (out, "held: %s of %s", wm_show_rows (held, wm_ask_rows (status), rows),
             wm_ask_text (file, "path"));
    json_object_foreach (json_object_get (file, "reasons"), reason, count)
    {
        fprintf (out, "%s%s %s", before, wm_show_count (json_integer_value (count), n), reason);
        before = ", ";
        if (!strcmp (reason, wm_hit_status_text (WM_HIT_NO_EVENT)) && missing)
            fprintf (out, " (%s event%s)", wm_show_count (missing, n), missing == 1 ? "" : "s");
    }
    if (strcmp (wm_ask_text (file, "state"), "open") == 0) {
        size_t i;
        json_array_foreach (json_object_get (file, "known_reasons"), i, count)
        {
            fprintf (out, "%s%s", i ? ", " : before, json_string_value (count));
        }
        fprintf (out, "; %s known once its output is written",
                 i ? "others, and how many of each, are" : "the reason is");
    } else
        fprintf (out, "; named in the table \"held\" of %s/%s",
                 wm_ask_text (status, "campaign.output"), wm_ask_text (file, "output"));
    fclose (out);
    wm_words_print (to, "%s", text);
    free (text);
}

/* What a hit without a place mostly is, if files have such.  */
static void explain_places (FILE *out, const json_t *files)
{
    static const struct {
        uint8_t status;
        const char *text;
    } places[] = {
        { WM_HIT_BAD_WIRE, "its wire is not in its plane: wires count from 0 in each plane, and "
                           "a channel number is not a wire number" },
        { WM_HIT_BAD_TIME, "its time is not finite, or far outside the readout: times are in ticks "
                           "unless their column is in us" },
    };
    size_t i;
    const json_t *file;
    for (size_t p = 0; p < sizeof places / sizeof *places; p++) {
        const char *reason = wm_hit_status_text (places[p].status);
        bool any = false;
        json_array_foreach (files, i, file)
        {
            any |= json_object_get (json_object_get (file, "reasons"), reason) != NULL;
        }
        if (any)
            wm_words_print (out, "%s: %s", reason, places[p].text);
    }
}

void wm_account_held (FILE *out, const json_t *status, size_t lines_max)
{
    char n[32];
    size_t i;
    const json_t *file, *files = json_object_get (status, "held_files");
    int64_t more = wm_ask_int (status, "held_files_left_out");
    json_array_foreach (files, i, file)
    {
        if (i < lines_max)
            show_file (out, status, file);
        else
            more++;
    }
    if (more) {
        fprintf (out, "held: %s of %s more files; ", wm_ask_rows (status), wm_show_count (more, n));
        wm_command_verb (out, "held --all", "", " lists them");
    }
    explain_places (out, files);
    if (wm_account_misses (status))
        wm_words_print (out, "no such event: the file of the hits, or that of --planes, lacks the "
                             "event; with a file that has it in the same place, --retry-held "
                             "scores the hits");
}

bool wm_account_misses (const json_t *status)
{
    size_t i;
    const json_t *file;
    json_array_foreach (json_object_get (status, "held_files"), i, file)
    {
        if (wm_ask_int (file, "events_missing"))
            return true;
    }
    return false;
}

void wm_account_file (FILE *out, const json_t *status, json_t *file, const char *verb)
{
    if (!wm_ask_int (file, "held"))
        return;
    json_t *files = json_pack ("[O]", file);
    add_reasons (files, status, verb);
    json_decref (files);
    show_file (out, status, file);
}

/* Inputs that hold scores that were not compared, of a worker whose scores were wrong.  */
static void show_earlier (FILE *out, const json_t *status, const json_t *named)
{
    char n[32];
    size_t i;
    const json_t *one, *list = json_object_get (named, "earlier");
    const int64_t total = wm_ask_int (named, "earlier_total");
    if (!json_array_size (list))
        return;
    fprintf (out,
             "  its scores from before its last good check stay in %s more inputs; to score them "
             "again:\n  wiremill kick %s",
             wm_show_count (total, n), wm_ask_text (status, "campaign.output"));
    json_array_foreach (list, i, one)
    {
        fprintf (out, " %lld", (long long) json_integer_value (one));
    }
    fputc ('\n', out);
    if (total > (int64_t) json_array_size (list)) {
        fprintf (out, "  (the first %zu of %s; then ", json_array_size (list), n);
        wm_command_verb (out, "status", "", " lists the next)");
    }
}

void wm_account_checks (FILE *out, const json_t *status, const char *head)
{
    char n[32], of[32];
    size_t i;
    const json_t *one, *named = json_object_get (json_object_get (status, "checks"), "named");
    const int64_t sampled = wm_ask_int (status, "checks.sampled"),
                  done = wm_ask_int (status, "checks.good") + wm_ask_int (status, "checks.differ");
    if (sampled)
        fprintf (out, "%s%s of %s sampled batches by a second machine", head,
                 wm_show_count (done, n), wm_show_count (sampled, of));
    if (sampled && wm_ask_int (status, "checks.differ"))
        fprintf (out, "; %s differed", wm_show_count (wm_ask_int (status, "checks.differ"), n));
    if (sampled)
        fputs (done < sampled ? "; the others were not compared\n" : "\n", out);
    if (*wm_ask_text (status, "checks.suspects"))
        fprintf (out,
                 "SCORES DIFFER: %s gave different scores for one batch, and which is wrong is not "
                 "known; keep workers of at least three machines connected\n",
                 wm_ask_text (status, "checks.suspects"));
    json_array_foreach (named, i, one)
    {
        fprintf (out, "WRONG SCORES: worker %s, %s: %s\n", wm_ask_text (one, "worker"),
                 wm_ask_text (one, "signature"), wm_ask_text (one, "why"));
        show_earlier (out, status, one);
        fprintf (out,
                 "  the broker gives it no work; when its machine is repaired:\n"
                 "  wiremill trust %s --worker %s\n",
                 wm_ask_text (status, "campaign.output"), wm_ask_text (one, "worker"));
    }
}

bool wm_account_is_clean (const json_t *status)
{
    return !wm_ask_int (status, "hits.held") && !wm_ask_int (status, "held_total");
}
