/* truth.c - `wiremill-producer truth`: how well scores agree with the truth of synthetic events.

   Events of `wiremill synth` have a truth label for each hit; rows are joined with it by run,
   subrun, event and hit_id. A hit is called as wm_called.h has it: the softmax does not know of
   michel electrons, so that to call one em is right as far as it can tell. AUC: the chance that a
   hit of a label has a higher score of it than another hit; equal scores count half (Fawcett,
   Pattern Recognition Letters 27 (2006) 861).  */
#include "producer/verbs.h"

#include "producer/files/wm_called.h"
#include "producer/files/wm_h5.h"
#include "producer/files/wm_scores.h"
#include "producer/session/wm_produce_confine.h"
#include "producer/synth/wm_synth.h"
#include "schema/base/wm_file.h"
#include "schema/base/wm_log.h"
#include "schema/wm_batch.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* clang-format off */
static const wm_option_t options[] = {
    {.name = "threshold", .value = "SCORE", .fallback = "0.5", .real_least = 0, .real_most = 1,
     .task = "how", .help = "the michel score from which a hit is called michel"},
    {.name = "json", .help = "the result as JSON, schema wiremill-truth-1"},
    {.name = NULL},
};

static int truth_main (const wm_args_t *args);
const wm_verb_t wm_verb_truth = {
    .name = "truth", .task = "files", .rest = "EVENTS... SCORES...",
    .summary = "compare scores with the truth of synthetic events",
    .text = "  wiremill truth events.h5 out/events.scores.h5\n"
            "  wiremill truth data/*.h5 out/*.scores.h5\n\n"
            "EVENTS are files of `wiremill synth`, which have a truth label for each hit. Prints\n"
            "how many hits have each label, how many the scores call so, which share of either is\n"
            "both (found, right), and how well the scores separate a label from the rest (AUC; 1:\n"
            "entirely, 0.5: not at all). Exit 5: a file cannot be read, or no hit has both.\n",
    .options = options, .run = truth_main };
/* clang-format on */

#define PIECE_ROWS 65536u
#define REST_TAKEN 0.05

static const char name_of[WM_TRUTH_END][48] = { "track", "em", "none", "michel" };

typedef struct {
    double value;
    bool is_signal;
} ranked_t;

typedef struct {
    wm_scores_t truth, score; /* truth: its `status` is the label */
    uint32_t n_file[2];       /* of truth, of scores */
    wm_called_t call;
    int column[WM_TRUTH_END]; /* of `score`; -1: it has none of that name */
    uint64_t n, n_right;      /* hits that have both; the scores call them by their label */
    uint64_t n_em_or_michel;  /* a michel that is called em */
    uint64_t n_called[WM_TRUTH_END][WM_TRUTH_END]; /* (truth, called) */
    uint32_t *pair[2];                             /* (n) places in truth and in scores */
    ranked_t *ranked;                              /* (n) */
    struct {
        double auc, found; /* found: where REST_TAKEN of the rest are taken for it, too */
    } label[WM_TRUTH_END]; /* NAN: no such hits, or no such score */
    double auc_em_track;
} truth_t;

/* ---- the files ------------------------------------------------------------------------------- */

/* Reads hits first .. first+n-1 behind those that are there.  */
static wm_fault_t piece_read (wm_scores_t *to, const wm_column_t c[3], uint64_t first, uint32_t n,
                              wm_error_t *error)
{
    static int32_t event[3 * PIECE_ROWS], label[PIECE_ROWS];
    static int64_t key[PIECE_ROWS];
    wm_fault_t fault;
    if ((fault = wm_h5_read (&c[0], first, n, WM_H5_I32, event, error)) ||
        (fault = wm_h5_read (&c[1], first, n, WM_H5_I64, key, error)) ||
        (fault = wm_h5_read (&c[2], first, n, WM_H5_I32, label, error)))
        return fault;
    for (uint32_t i = 0; i < n; i++) {
        const int32_t *id = &event[3 * i];
        if (label[i] < 0 || label[i] >= WM_TRUTH_END)
            return wm_fault (error, WM_EBATCH,
                             "%.300s: hit_table/truth has the label %d in row %" PRIu64
                             "; those of wiremill synth are 0 to %d",
                             wm_h5_path (c[2].file), label[i], first + i, WM_TRUTH_END - 1);
        to->key[to->n_row] = (wm_scores_key_t){ { id[0], id[1], id[2], key[i] }, to->n_row };
        to->status[to->n_row++] = (uint8_t) label[i];
    }
    return WM_OK;
}

static wm_fault_t columns_read (wm_scores_t *to, const wm_column_t c[3], wm_error_t *error)
{
    const uint64_t n = c[0].n_row, all = to->n_row + n;
    if (c[1].n_row != n || c[2].n_row != n)
        return wm_fault (error, WM_EBATCH,
                         "%.300s: the columns of hit_table have %" PRIu64 ", %" PRIu64
                         " and %" PRIu64 " rows",
                         wm_h5_path (c[0].file), n, c[1].n_row, c[2].n_row);
    if (all >= UINT32_MAX)
        return wm_fault (error, WM_EBATCH, "%" PRIu64 " hits are too many to be compared at once",
                         all);
    wm_scores_key_t *key = realloc (to->key, (all + 1) * sizeof *key);
    to->key = key ? key : to->key;
    uint8_t *status = realloc (to->status, all + 1);
    to->status = status ? status : to->status;
    if (!key || !status)
        return wm_fault (error, WM_EHOST, "out of memory for %" PRIu64 " hits", all);
    wm_fault_t fault = WM_OK;
    for (uint64_t row = 0; row < n && !fault; row += PIECE_ROWS)
        fault = piece_read (to, c, row, n - row < PIECE_ROWS ? (uint32_t) (n - row) : PIECE_ROWS,
                            error);
    return fault;
}

/* Reads the truth of a file; *is_truth false: it has none.  */
static wm_fault_t truth_read (wm_scores_t *to, const char *path, bool *is_truth, wm_error_t *error)
{
    static const char *const name[3] = { "hit_table/event_id", "hit_table/key", "hit_table/truth" };
    wm_column_t column[3] = { 0 };
    wm_h5_t *file = wm_h5_open (path, error);
    if (!file)
        return error->fault;
    wm_fault_t fault = WM_OK;
    *is_truth = wm_h5_has (file, name[2]);
    for (int k = 0; k < 3 && *is_truth && !fault; k++)
        fault = wm_h5_column (file, name[k], WM_H5_INTEGER, k ? 1 : 3, &column[k], error);
    if (*is_truth && !fault)
        fault = columns_read (to, column, error);
    for (int k = 0; k < 3; k++)
        wm_h5_column_close (&column[k]);
    wm_h5_close (&file);
    return fault;
}

static void missing (void *arg, const char *path, const char *label)
{
    (void) arg, (void) path, (void) label; /* is_there knows */
}

/* Reads files of both kinds; those of scores are moved to the front of `path`.  */
static wm_fault_t files_read (truth_t *self, const char **path, size_t n, wm_error_t *error)
{
    wm_fault_t fault = WM_OK;
    for (size_t i = 0; i < n && !fault; i++) {
        bool is_truth = false;
        fault = truth_read (&self->truth, path[i], &is_truth, error);
        if (!is_truth)
            path[self->n_file[1]++] = path[i];
        self->n_file[0] += is_truth;
    }
    if (fault)
        return fault;
    if (!self->n_file[0])
        return wm_fault (
            error, WM_EBATCH,
            "%.200s and the other files have no hit_table/truth: name the events, too, "
            "which must be of wiremill synth",
            path[0]);
    if (!self->n_file[1])
        return wm_fault (error, WM_EBATCH,
                         "all of the files are events: name their scores, too (*.scores.h5)");
    wm_scores_t *score = &self->score;
    fault = wm_scores_labels (score, path[0], error);
    if (!fault && !score->n_label) { /* not of wiremill: the labels of the truth */
        score->n_label = WM_TRUTH_END;
        for (int k = 0; k < WM_TRUTH_END; k++)
            memcpy (score->label[k], name_of[k], sizeof *score->label);
        fault = wm_scores_keep (score, path[0], NULL, missing, self, error);
    }
    return fault ? fault : wm_scores_read (score, path, self->n_file[1], NULL, error);
}

/* ---- joining --------------------------------------------------------------------------------- */

/* Whether a hit of the scores is scored; a table of others may have anything in its columns.  */
static bool is_scored (const wm_scores_t *score, uint32_t at)
{
    bool is_finite = score->status[at] == WM_HIT_SCORED;
    for (uint32_t k = 0; k < score->n_label; k++)
        is_finite &= isfinite (score->score[(size_t) k * score->n_row_max + at]) != 0;
    return is_finite;
}

/* Scores of one hit in two outputs would be those of one of them only.  */
static wm_fault_t twice (const wm_scores_t *score, wm_error_t *error)
{
    for (uint32_t i = 1; i < score->n_row; i++) {
        const wm_scores_key_t *key = &score->key[i];
        if (!wm_scores_order (key - 1, key))
            return wm_fault (error, WM_EUSAGE,
                             "the hit %" PRId64 ":%" PRId64 ":%" PRId64 ":%" PRId64
                             " has scores twice: give one output of "
                             "each event, or compare two by `wiremill compare`",
                             key->id[0], key->id[1], key->id[2], key->id[3]);
    }
    return WM_OK;
}

static wm_fault_t join (truth_t *self, wm_error_t *error)
{
    wm_scores_t *truth = &self->truth, *score = &self->score;
    for (int k = 0; k < WM_TRUTH_END; k++) {
        self->column[k] = -1;
        for (uint32_t i = 0; i < score->n_label; i++)
            if (strcmp (score->label[i], name_of[k]) == 0)
                self->column[k] = (int) i;
    }
    if (self->column[WM_TRACK] < 0 || self->column[WM_EM] < 0)
        return wm_fault (error, WM_EBATCH,
                         "the scores are not called track and em, as the truth is: give `wiremill "
                         "run` a specification that states the labels");
    self->pair[0] = malloc ((truth->n_row + 1ul) * sizeof *self->pair[0]);
    self->pair[1] = malloc ((truth->n_row + 1ul) * sizeof *self->pair[1]);
    self->ranked = malloc ((truth->n_row + 1ul) * sizeof *self->ranked);
    if (!self->pair[0] || !self->pair[1] || !self->ranked)
        return wm_fault (error, WM_EHOST, "out of memory for %u hits", truth->n_row);
    wm_scores_sort (truth);
    wm_scores_sort (score);
    const wm_fault_t fault = twice (score, error);
    if (fault)
        return fault;
    for (uint32_t i = 0, j = 0; i < truth->n_row && j < score->n_row;) {
        const int order = wm_scores_order (&truth->key[i], &score->key[j]);
        if (!order && is_scored (score, score->key[j].at)) {
            self->pair[0][self->n] = truth->key[i].at;
            self->pair[1][self->n++] = score->key[j].at;
        }
        i += order <= 0;
        j += order >= 0;
    }
    if (!self->n)
        return wm_fault (error, WM_EBATCH,
                         "no hit of the events (%u) has scores in the other files (%u): run, "
                         "subrun, event or hit_id differ",
                         truth->n_row, score->n_row);
    return WM_OK;
}

/* ---- counting -------------------------------------------------------------------------------- */

static double score_of (const truth_t *self, uint64_t i, int label)
{
    const int column = self->column[label];
    return column < 0
               ? 0
               : self->score.score[(size_t) column * self->score.n_row_max + self->pair[1][i]];
}

static int called (const truth_t *self, uint64_t i)
{
    double score[WM_TRUTH_END];
    for (int k = 0; k < WM_TRUTH_END; k++)
        score[k] = self->column[k] < 0 ? -INFINITY : score_of (self, i, k);
    return (int) wm_call (&self->call, score, 1);
}

static int rank_order (const void *a_v, const void *b_v)
{
    const ranked_t *a = a_v, *b = b_v;
    return (a->value > b->value) - (a->value < b->value);
}

/* The share of the signal that has a higher score than all but REST_TAKEN of the rest.  */
static double found_at (const ranked_t *ranked, uint64_t n, uint64_t n_signal)
{
    const double most = REST_TAKEN * (double) (n - n_signal);
    uint64_t rest = 0, signal = 0, found = 0;
    for (uint64_t i = n; i-- > 0;) {
        rest += !ranked[i].is_signal;
        signal += ranked[i].is_signal;
        if ((double) rest > most)
            break;
        if (!i || ranked[i - 1].value < ranked[i].value)
            found = signal; /* equal scores are taken together */
    }
    return n_signal && n_signal < n ? (double) found / (double) n_signal : NAN;
}

/* The sum of ranks (Mann and Whitney); values that are equal share the mean of theirs.  */
static double auc (ranked_t *ranked, uint64_t n, double *found)
{
    double ranks = 0;
    uint64_t n_signal = 0;
    qsort (ranked, n, sizeof *ranked, rank_order);
    for (uint64_t i = 0, end; i < n; i = end) {
        uint64_t here = 0;
        for (end = i; end < n && ranked[end].value <= ranked[i].value; end++)
            here += ranked[end].is_signal;
        ranks += (double) here * ((double) (i + end - 1) / 2);
        n_signal += here;
    }
    *found = found_at (ranked, n, n_signal);
    const double signal = (double) n_signal, rest = (double) (n - n_signal);
    return (ranks - signal * (signal - 1) / 2) / (signal * rest); /* NAN where one is 0 */
}

static void count (truth_t *self)
{
    const uint8_t *label = self->truth.status;
    for (uint64_t i = 0; i < self->n; i++) {
        const int is = label[self->pair[0][i]], as = called (self, i);
        self->n_called[is][as]++;
        self->n_right += is == as;
        self->n_em_or_michel += is == WM_MICHEL && as == WM_EM;
    }
    for (int k = 0; k < WM_TRUTH_END; k++) {
        for (uint64_t i = 0; i < self->n; i++)
            self->ranked[i] =
                (ranked_t){ score_of (self, i, k), label[self->pair[0][i]] == (uint8_t) k };
        self->label[k].auc = auc (self->ranked, self->n, &self->label[k].found);
        if (self->column[k] < 0)
            self->label[k].auc = self->label[k].found = NAN;
    }
    double found;
    uint64_t n = 0;
    for (uint64_t i = 0; i < self->n; i++) {
        const uint8_t is = label[self->pair[0][i]];
        const double em = score_of (self, i, WM_EM), track = score_of (self, i, WM_TRACK);
        if (is == WM_EM || is == WM_TRACK)
            self->ranked[n++] = (ranked_t){ em + track > 0 ? em / (em + track) : 0, is == WM_EM };
    }
    self->auc_em_track = auc (self->ranked, n, &found);
}

/* ---- printing -------------------------------------------------------------------------------- */

static uint64_t of_truth (const truth_t *self, int label)
{
    uint64_t n = 0;
    for (int k = 0; k < WM_TRUTH_END; k++)
        n += self->n_called[label][k];
    return n;
}

static uint64_t of_scores (const truth_t *self, int label)
{
    uint64_t n = 0;
    for (int k = 0; k < WM_TRUTH_END; k++)
        n += self->n_called[k][label];
    return n;
}

/* A share of so many, or `-` of none.  */
static const char *share (uint64_t part, uint64_t of, char text[16])
{
    snprintf (text, 16, of ? "%.1f%%" : "-", of ? 100 * (double) part / (double) of : 0);
    return text;
}

static const char *number (double value, char text[16])
{
    snprintf (text, 16, isfinite (value) ? "%.4f" : "-", value);
    return text;
}

static void print_people (const truth_t *self)
{
    char a[16], b[16], c[16], d[16];
    printf ("%" PRIu64 " hits with truth and scores\n", self->n);
    printf ("%-8s  %10s  %10s  %7s  %7s  %7s  %s\n", "label", "true", "called so", "found", "right",
            "AUC", "found with 5 % of the rest");
    for (int k = 0; k < WM_TRUTH_END; k++) {
        const uint64_t is = of_truth (self, k), as = of_scores (self, k);
        const uint64_t both = self->n_called[k][k];
        const double found = self->label[k].found;
        printf ("%-8s  %10" PRIu64 "  %10" PRIu64 "  %7s  %7s  %7s  %s\n", name_of[k], is, as,
                share (both, is, a), share (both, as, b), number (self->label[k].auc, c),
                isfinite (found) ? share ((uint64_t) (found * 1e6), 1000000, d) : "-");
    }
    printf ("found: %" PRIu64 " track, %" PRIu64 " em, %" PRIu64 " none and %" PRIu64
            " michel hits (michel score at least %g)\n",
            of_scores (self, WM_TRACK), of_scores (self, WM_EM), of_scores (self, WM_NONE),
            of_scores (self, WM_MICHEL), self->call.least);
    printf ("truth: %s of the hits are called what they are, %s where a michel electron may be "
            "called em\n",
            share (self->n_right, self->n, a),
            share (self->n_right + self->n_em_or_michel, self->n, b));
    printf ("em against track: AUC %s; michel against the rest: AUC %s (1: separate, 0.5: mixed)\n",
            number (self->auc_em_track, a), number (self->label[WM_MICHEL].auc, b));
}

/* JSON has no NAN.  */
static void print_number (const char *name, double value)
{
    printf (", \"%s\": ", name);
    printf (isfinite (value) ? "%.6f" : "null", value);
}

static void print_json (const truth_t *self)
{
    printf ("{\"schema\": \"wiremill-truth-1\", \"hits\": %" PRIu64 ", \"right\": %" PRIu64
            ", \"michel_as_em\": %" PRIu64,
            self->n, self->n_right, self->n_em_or_michel);
    print_number ("auc_em_track", self->auc_em_track);
    fputs (", \"labels\": [", stdout);
    for (int k = 0; k < WM_TRUTH_END; k++) {
        printf ("%s{\"name\": \"%s\", \"true\": %" PRIu64 ", \"called\": %" PRIu64
                ", \"right\": %" PRIu64,
                k ? ", " : "", name_of[k], of_truth (self, k), of_scores (self, k),
                self->n_called[k][k]);
        print_number ("auc", self->label[k].auc);
        print_number ("found_at_5", self->label[k].found);
        putchar ('}');
    }
    puts ("]}");
}

static int truth_main (const wm_args_t *args)
{
    static truth_t truth;
    size_t n;
    wm_error_t error;
    if (!wm_args_rest (args, 1))
        return wm_args_refuse (args, "name events and their scores: events.h5 events.scores.h5");
    const char **path = wm_produce_confine_rest (args, &n);
    if (!path)
        return WM_EXIT_FAILURE;
    truth.call = wm_called_new (name_of, WM_TRUTH_END, wm_args_real (args, "threshold"));
    wm_fault_t fault = wm_file_exist (path, n, &error);
    if (!fault)
        fault = files_read (&truth, path, n, &error);
    if (!fault)
        fault = join (&truth, &error);
    if (fault) {
        wm_log_sanitize (error.text);
        fprintf (stderr, "wiremill truth: %s\n", error.text);
    } else {
        count (&truth);
        if (wm_args_given (args, "json"))
            print_json (&truth);
        else
            print_people (&truth);
    }
    wm_scores_clear (&truth.truth);
    wm_scores_clear (&truth.score);
    free (truth.pair[0]);
    free (truth.pair[1]);
    free (truth.ranked);
    free (path);
    return wm_exit_of (fault);
}
