/* truth.c - `wiremill-producer truth`: how well scores agree with the truth of synthetic events
   (agreement.h), as a text or as JSON.  */
#include "producer/verbs.h"

#include "producer/results/agreement.h"
#include "producer/session/wm_produce_confine.h"
#include "schema/base/wm_file.h"
#include "schema/base/wm_log.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* clang-format off */
static const wm_option_t options[] = {
    {.name = "threshold", .value = "SCORE", .fallback = "0.5", .real_least = 0, .real_most = 1,
     .task = "how", .help = "the michel score from which a hit is called michel"},
    {.name = "by", .value = "plane|tpc", .one_of = true,
     .help = "also for the hits of each plane, or of each TPC, alone"},
    {.name = "json", .help = "the result as JSON, schema wiremill-truth-1"},
    {.name = NULL},
};

static int truth_main (const wm_args_t *args);
const wm_verb_t wm_verb_truth = {
    .name = "truth", .task = "files", .rest = "EVENTS... SCORES...",
    .summary = "compare scores with the truth of synthetic events",
    .text = "  wiremill truth events.h5 out/events.scores.h5\n"
            "  wiremill truth data/*.h5 out/*.scores.h5 --by plane\n\n"
            "EVENTS are files of `wiremill synth`, which have a truth label for each hit. Prints\n"
            "how many hits have each label, how many the scores call so, which share of either is\n"
            "both (found, right), and how well the scores separate a label from the rest (AUC; 1:\n"
            "entirely, 0.5: not at all). Exit 5: a file cannot be read, or no hit has both.\n",
    .options = options, .run = truth_main };
/* clang-format on */

static void print_head (const char *part, int width)
{
    printf ("%-*s%-8s  %10s  %10s  %7s  %7s  %7s  %s\n", width, part, "label", "true", "called so",
            "found", "right", "AUC", width ? "found with 5 %" : "found with 5 % of the rest");
}

static void print_labels (const wm_agreement_t *self, const char *part, int width)
{
    char a[16], b[16], c[16], d[16];
    for (int k = 0; k < WM_TRUTH_END; k++) {
        const uint64_t is = wm_agreement_of_truth (self, k), as = wm_agreement_of_scores (self, k);
        const uint64_t both = self->n_called[k][k];
        const double found = self->label[k].found;
        printf ("%-*s%-8s  %10" PRIu64 "  %10" PRIu64 "  %7s  %7s  %7s  %s\n", width, part,
                wm_agreement_name[k], is, as, wm_agreement_share (both, is, a),
                wm_agreement_share (both, as, b), wm_agreement_number (self->label[k].auc, c),
                isfinite (found) ? wm_agreement_share ((uint64_t) (found * 1e6), 1000000, d) : "-");
    }
}

/* How parts are printed.  */
typedef struct {
    wm_agreement_by_t by;
    int width; /* of a name */
    const char *comma;
} parts_t;

static void print_part (void *arg, const wm_agreement_t *part)
{
    const parts_t *parts = arg;
    char name[48];
    print_labels (part, wm_agreement_part_name (part, parts->by, name), parts->width);
}

static void print_people (const wm_agreement_t *self)
{
    char a[16], b[16];
    printf ("%" PRIu64 " hits with truth and scores\n", self->n);
    print_head ("", 0);
    print_labels (self, "", 0);
    printf ("found: %" PRIu64 " track, %" PRIu64 " em, %" PRIu64 " none and %" PRIu64
            " michel hits (michel score at least %g)\n",
            wm_agreement_of_scores (self, WM_TRACK), wm_agreement_of_scores (self, WM_EM),
            wm_agreement_of_scores (self, WM_NONE), wm_agreement_of_scores (self, WM_MICHEL),
            self->call.least);
    printf ("truth: %s of the hits are called what they are, %s where a michel electron may be "
            "called em\n",
            wm_agreement_share (self->n_right, self->n, a),
            wm_agreement_share (self->n_right + self->n_em_or_michel, self->n, b));
    printf ("em against track: AUC %s; michel against the rest: AUC %s (1: separate, 0.5: mixed)\n",
            wm_agreement_number (self->auc_em_track, a),
            wm_agreement_number (self->label[WM_MICHEL].auc, b));
}

/* JSON has no NAN.  */
static void print_number (const char *name, double value)
{
    printf (", \"%s\": ", name);
    printf (isfinite (value) ? "%.6f" : "null", value);
}

static void json_labels (const wm_agreement_t *self)
{
    fputs (", \"labels\": [", stdout);
    for (int k = 0; k < WM_TRUTH_END; k++) {
        printf ("%s{\"name\": \"%s\", \"true\": %" PRIu64 ", \"called\": %" PRIu64
                ", \"right\": %" PRIu64,
                k ? ", " : "", wm_agreement_name[k], wm_agreement_of_truth (self, k),
                wm_agreement_of_scores (self, k), self->n_called[k][k]);
        print_number ("auc", self->label[k].auc);
        print_number ("found_at_5", self->label[k].found);
        putchar ('}');
    }
    putchar (']');
}

static void json_part (void *arg, const wm_agreement_t *part)
{
    parts_t *parts = arg;
    const wm_agreement_place_t *place = part->place;
    fputs (parts->comma, stdout);
    parts->comma = ",\n ";
    if (parts->by == WM_AGREEMENT_BY_PLANE)
        printf ("{\"plane\": %d", place->plane);
    else
        printf ("{\"cryostat\": %d, \"tpc\": %d", place->cryostat < 0 ? 0 : place->cryostat,
                place->tpc);
    printf (", \"hits\": %" PRIu64 ", \"right\": %" PRIu64, part->n, part->n_right);
    json_labels (part);
    putchar ('}');
}

/* Prints the numbers of each part, too.  */
static wm_fault_t print_parts (const wm_agreement_t *self, const char *by, bool is_json,
                               wm_error_t *error)
{
    const bool is_tpc = !strcmp (by, "tpc");
    parts_t parts = { is_tpc ? WM_AGREEMENT_BY_TPC : WM_AGREEMENT_BY_PLANE, is_tpc ? 20 : 10, "" };
    if (is_json)
        printf (", \"by\": \"%s\", \"parts\": [", by);
    else
        print_head (is_tpc ? "TPC" : "plane", parts.width);
    error->fault = WM_OK;
    const size_t n =
        wm_agreement_parts (self, parts.by, is_json ? json_part : print_part, &parts, error);
    if (is_json)
        putchar (']');
    else if (n > WM_AGREEMENT_PARTS_MAX)
        printf ("%zu more\n", n - WM_AGREEMENT_PARTS_MAX);
    else if (!n)
        puts ("the events do not state where hits are");
    return error->fault;
}

static void print_json (const wm_agreement_t *self)
{
    printf ("{\"schema\": \"wiremill-truth-1\", \"hits\": %" PRIu64 ", \"right\": %" PRIu64
            ", \"michel_as_em\": %" PRIu64,
            self->n, self->n_right, self->n_em_or_michel);
    print_number ("auc_em_track", self->auc_em_track);
    json_labels (self);
}

static int truth_main (const wm_args_t *args)
{
    static wm_agreement_t truth;
    const char *by = wm_args_text (args, "by");
    const bool is_json = wm_args_given (args, "json");
    size_t n;
    wm_error_t error;
    if (!wm_args_rest (args, 1))
        return wm_args_refuse (args, "name events and their scores: events.h5 events.scores.h5");
    const char **path = wm_produce_confine_rest (args, &n);
    if (!path)
        return WM_EXIT_FAILURE;
    wm_fault_t fault = wm_file_exist (path, n, &error);
    if (!fault)
        fault = wm_agreement_add (&truth, path, n, NULL, &error);
    if (!fault)
        fault = wm_agreement_count (&truth, wm_args_real (args, "threshold"), &error);
    if (fault) {
        wm_log_sanitize (error.text);
        fprintf (stderr, "wiremill truth: %s\n", error.text);
    } else {
        (is_json ? print_json : print_people) (&truth);
        if (by && (fault = print_parts (&truth, by, is_json, &error)))
            fprintf (stderr, "wiremill truth: %s\n", error.text);
        fputs (is_json ? "}\n" : "", stdout);
    }
    wm_agreement_clear (&truth);
    free (path);
    return wm_exit_of (fault);
}
