/* agreement.c - see agreement.h.  */
#include "producer/results/agreement.h"

#include "producer/files/wm_h5.h"
#include "producer/files/wm_scores.h"
#include "schema/base/wm_grow.h"
#include "schema/base/wm_order.h"
#include "schema/wm_batch.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PIECE_ROWS 65536u
#define REST_TAKEN 0.05

const char wm_agreement_name[WM_TRUTH_END][48] = { "track", "em", "none", "michel" };

typedef struct {
    double value;
    bool is_signal;
} ranked_t;

/* Columns of the truth; those of the place may lack.  */
enum { EVENT, KEY, LABEL, NEEDED, CRYOSTAT = NEEDED, TPC, PLANE, COLUMNS };

typedef struct {
    wm_scores_t truth, score;    /* truth: its `status` is the label */
    wm_agreement_place_t *place; /* of the truth's rows */
    uint32_t n_file[2];          /* of truth, of scores */
    int column[WM_TRUTH_END];    /* of `score`; -1: it has none of that name */
    uint64_t n;                  /* hits that have both */
    uint32_t *pair[2];           /* (n) places in truth and in scores */
} join_t;

/* ---- the files ------------------------------------------------------------------------------- */

/* Reads hits first .. first+n-1 behind those that are there.  */
static wm_fault_t piece_read (join_t *self, const wm_column_t c[COLUMNS], uint64_t first,
                              uint32_t n, wm_error_t *error)
{
    static int32_t event[3 * PIECE_ROWS], label[PIECE_ROWS], place[3][PIECE_ROWS];
    static int64_t key[PIECE_ROWS];
    wm_scores_t *to = &self->truth;
    wm_fault_t fault;
    if ((fault = wm_h5_read (&c[EVENT], first, n, WM_H5_I32, event, error)) ||
        (fault = wm_h5_read (&c[KEY], first, n, WM_H5_I64, key, error)) ||
        (fault = wm_h5_read (&c[LABEL], first, n, WM_H5_I32, label, error)))
        return fault;
    for (int k = NEEDED; k < COLUMNS && !fault; k++) {
        memset (place[k - NEEDED], 0xff, sizeof *place); /* -1 */
        if (c[k].data)
            fault = wm_h5_read (&c[k], first, n, WM_H5_I32_CLIPPED, place[k - NEEDED], error);
    }
    for (uint32_t i = 0; i < n && !fault; i++) {
        const int32_t *id = &event[3 * i];
        if (label[i] < 0 || label[i] >= WM_TRUTH_END)
            return wm_fault (error, WM_EBATCH,
                             "%.300s: hit_table/truth has the label %d in row %" PRIu64
                             "; those of wiremill synth are 0 to %d",
                             wm_h5_path (c[LABEL].file), label[i], first + i, WM_TRUTH_END - 1);
        to->key[to->n_row] = (wm_scores_key_t){ { id[0], id[1], id[2], key[i] }, to->n_row };
        self->place[to->n_row] = (wm_agreement_place_t){ place[0][i], place[1][i], place[2][i] };
        to->status[to->n_row++] = (uint8_t) label[i];
    }
    return fault;
}

static wm_fault_t columns_read (join_t *self, const wm_column_t c[COLUMNS], wm_error_t *error)
{
    wm_scores_t *to = &self->truth;
    const uint64_t n = c[EVENT].n_row, all = to->n_row + n;
    for (int k = KEY; k < COLUMNS; k++)
        if (c[k].data && c[k].n_row != n)
            return wm_fault (error, WM_EBATCH,
                             "%.300s: %s has %" PRIu64 " rows, but %s has %" PRIu64,
                             wm_h5_path (c[EVENT].file), c[k].name, c[k].n_row, c[EVENT].name, n);
    if (all >= UINT32_MAX)
        return wm_fault (error, WM_EBATCH, "%" PRIu64 " hits are too many to be compared at once",
                         all);
    if (!wm_regrow (&to->key, all + 1, sizeof *to->key) || !wm_regrow (&to->status, all + 1, 1) ||
        !wm_regrow (&self->place, all + 1, sizeof *self->place))
        return wm_fault (error, WM_EHOST, "out of memory for %" PRIu64 " hits", all);
    wm_fault_t fault = WM_OK;
    for (uint64_t row = 0; row < n && !fault; row += PIECE_ROWS)
        fault = piece_read (self, c, row, n - row < PIECE_ROWS ? (uint32_t) (n - row) : PIECE_ROWS,
                            error);
    return fault;
}

/* Reads the truth of a file; *is_truth false: it has none.  */
static wm_fault_t truth_read (join_t *self, const char *path, bool *is_truth, wm_error_t *error)
{
    static const char *const name[COLUMNS] = { "hit_table/event_id", "hit_table/key",
                                               "hit_table/truth",    "hit_table/cryostat",
                                               "hit_table/tpc",      "hit_table/plane" };
    wm_column_t column[COLUMNS] = { 0 };
    wm_h5_t *file = wm_h5_open (path, error);
    if (!file)
        return error->fault;
    wm_fault_t fault = WM_OK;
    *is_truth = wm_h5_has (file, name[LABEL]);
    for (int k = 0; k < COLUMNS && *is_truth && !fault; k++)
        if (k < NEEDED || wm_h5_has (file, name[k]))
            fault =
                wm_h5_column (file, name[k], WM_H5_INTEGER, k == EVENT ? 3 : 1, &column[k], error);
    if (*is_truth && !fault)
        fault = columns_read (self, column, error);
    for (int k = 0; k < COLUMNS; k++)
        wm_h5_column_close (&column[k]);
    wm_h5_close (&file);
    return fault;
}

static void missing (void *arg, const char *path, const char *label)
{
    (void) arg, (void) path, (void) label; /* is_there needs none of these */
}

/* Reads files of both kinds; those of scores are moved to the front of `path`.  */
static wm_fault_t files_read (join_t *self, const char **path, size_t n, const char *table,
                              wm_error_t *error)
{
    wm_fault_t fault = WM_OK;
    for (size_t i = 0; i < n && !fault; i++) {
        bool is_truth = false;
        fault = truth_read (self, path[i], &is_truth, error);
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
            memcpy (score->label[k], wm_agreement_name[k], sizeof *score->label);
        fault = wm_scores_keep (score, path[0], table, missing, self, error);
    }
    return fault ? fault : wm_scores_read (score, path, self->n_file[1], table, error);
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

static wm_fault_t join (join_t *self, wm_error_t *error)
{
    wm_scores_t *truth = &self->truth, *score = &self->score;
    for (int k = 0; k < WM_TRUTH_END; k++) {
        self->column[k] = -1;
        for (uint32_t i = 0; i < score->n_label; i++)
            if (strcmp (score->label[i], wm_agreement_name[k]) == 0)
                self->column[k] = (int) i;
    }
    if (self->column[WM_TRACK] < 0 || self->column[WM_EM] < 0)
        return wm_fault (error, WM_EBATCH,
                         "the scores are not called track and em, as the truth is: give `wiremill "
                         "run` a specification that states the labels");
    self->pair[0] = malloc ((truth->n_row + 1ul) * sizeof *self->pair[0]);
    self->pair[1] = malloc ((truth->n_row + 1ul) * sizeof *self->pair[1]);
    if (!self->pair[0] || !self->pair[1])
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

/* Adds the hits that were joined to those that are there.  */
static wm_fault_t append (wm_agreement_t *self, const join_t *join, wm_error_t *error)
{
    const uint64_t n = self->n + join->n;
    if (!wm_regrow (&self->is, n, 1) ||
        !wm_regrow (&self->score, n * WM_TRUTH_END, sizeof *self->score) ||
        !wm_regrow (&self->place, n, sizeof *self->place))
        return wm_fault (error, WM_EHOST, "out of memory for %" PRIu64 " hits", n);
    for (uint64_t i = 0; i < join->n; i++) {
        self->is[self->n + i] = join->truth.status[join->pair[0][i]];
        self->place[self->n + i] = join->place[join->pair[0][i]];
    }
    for (int k = 0; k < WM_TRUTH_END; k++) {
        self->is_without[k] |= join->column[k] < 0;
        for (uint64_t i = 0; i < join->n; i++)
            self->score[(self->n + i) * WM_TRUTH_END + (size_t) k] =
                join->column[k] < 0
                    ? -INFINITY
                    : join->score.score[(size_t) join->column[k] * join->score.n_row_max +
                                        join->pair[1][i]];
    }
    self->n = n;
    return WM_OK;
}

wm_fault_t wm_agreement_add (wm_agreement_t *self, const char **path, size_t n, const char *table,
                             wm_error_t *error)
{
    join_t *both = calloc (1, sizeof *both);
    if (!both)
        return wm_fault (error, WM_EHOST, "out of memory for scores");
    wm_fault_t fault = files_read (both, path, n, table, error);
    if (!fault)
        fault = join (both, error);
    if (!fault)
        fault = append (self, both, error);
    wm_scores_clear (&both->truth);
    wm_scores_clear (&both->score);
    free (both->place);
    free (both->pair[0]);
    free (both->pair[1]);
    free (both);
    return fault;
}

/* ---- counting -------------------------------------------------------------------------------- */

WM_ORDER_BY (rank_order, ranked_t, value)

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

uint64_t wm_agreement_of_truth (const wm_agreement_t *self, int label)
{
    uint64_t n = 0;
    for (int k = 0; k < WM_TRUTH_END; k++)
        n += self->n_called[label][k];
    return n;
}

uint64_t wm_agreement_of_scores (const wm_agreement_t *self, int label)
{
    uint64_t n = 0;
    for (int k = 0; k < WM_TRUTH_END; k++)
        n += self->n_called[k][label];
    return n;
}

/* The points of the curve from the highest score down; of points close to each other the first.  */
static void curve (wm_agreement_label_t *to, const ranked_t *ranked, uint64_t n, uint64_t n_signal)
{
    const double least = 2.0 / (WM_AGREEMENT_ROC_MAX - 2), n_rest = (double) (n - n_signal);
    uint64_t signal = 0;
    to->n_roc = 1;
    to->roc[0].rest = to->roc[0].signal = 0;
    for (uint64_t i = n; i-- > 0;) {
        signal += ranked[i].is_signal;
        if (i && ranked[i - 1].value >= ranked[i].value)
            continue; /* equal scores are taken together */
        const double y = (double) signal / (double) n_signal,
                     x = (double) (n - i - signal) / n_rest;
        if (i && x + y - to->roc[to->n_roc - 1].rest - to->roc[to->n_roc - 1].signal < least)
            continue;
        to->roc[to->n_roc].rest = x;
        to->roc[to->n_roc++].signal = y;
    }
}

/* Bins as NumPy's linspace has them, and scikit-learn's calibration_curve.  */
static void thresholds (wm_agreement_label_t *to, const ranked_t *ranked, uint64_t n)
{
    uint64_t at = n, signal = 0;
    for (int t = WM_AGREEMENT_STEPS; t >= 0; t--) {
        while (at && ranked[at - 1].value >= (double) t / WM_AGREEMENT_STEPS)
            signal += ranked[--at].is_signal;
        to->above[t].n = n - at;
        to->above[t].n_signal = signal;
    }
    for (uint64_t i = 0, b = 0; i < n; i++) {
        while (b + 1 < WM_AGREEMENT_BINS &&
               ranked[i].value > (double) (b + 1) * (1.0 / WM_AGREEMENT_BINS))
            b++;
        to->bin[b].n++;
        to->bin[b].n_signal += ranked[i].is_signal;
        to->bin[b].sum += ranked[i].value;
    }
}

static void count_label (wm_agreement_t *self, int k, ranked_t *ranked)
{
    wm_agreement_label_t *to = &self->label[k];
    to->auc = to->found = NAN;
    if (self->is_without[k])
        return;
    for (uint64_t i = 0; i < self->n; i++)
        ranked[i] =
            (ranked_t){ self->score[i * WM_TRUTH_END + (size_t) k], self->is[i] == (uint8_t) k };
    to->auc = auc (ranked, self->n, &to->found);
    to->is_share = ranked[0].value >= 0 && ranked[self->n - 1].value <= 1;
    if (to->is_share)
        thresholds (to, ranked, self->n);
    if (isfinite (to->auc))
        curve (to, ranked, self->n, wm_agreement_of_truth (self, k));
}

wm_fault_t wm_agreement_count (wm_agreement_t *self, double michel_least, wm_error_t *error)
{
    ranked_t *ranked = malloc ((self->n + 1) * sizeof *ranked);
    if (!ranked)
        return wm_fault (error, WM_EHOST, "out of memory for %" PRIu64 " hits", self->n);
    self->call = wm_call_rule_new (wm_agreement_name, WM_TRUTH_END, michel_least);
    for (uint64_t i = 0; i < self->n; i++) {
        const uint32_t is = self->is[i],
                       as = wm_call_by (&self->call, self->score + i * WM_TRUTH_END, 1);
        self->n_called[is][as]++;
        self->n_right += is == as;
        self->n_em_or_michel += is == WM_MICHEL && as == WM_EM;
    }
    for (int k = 0; k < WM_TRUTH_END; k++)
        count_label (self, k, ranked);
    double found;
    uint64_t n = 0;
    for (uint64_t i = 0; i < self->n; i++) {
        const double *score = self->score + i * WM_TRUTH_END, em = score[WM_EM],
                     track = score[WM_TRACK];
        if (self->is[i] == WM_EM || self->is[i] == WM_TRACK)
            ranked[n++] =
                (ranked_t){ em + track > 0 ? em / (em + track) : 0, self->is[i] == WM_EM };
    }
    self->auc_em_track = auc (ranked, n, &found);
    free (ranked);
    return WM_OK;
}

/* ---- parts ----------------------------------------------------------------------------------- */

/* A plane's number, or a cryostat's and a TPC's; negative: the hit has no such number.  */
static int64_t part_of (const wm_agreement_place_t *place, wm_agreement_by_t by)
{
    if (by == WM_AGREEMENT_BY_PLANE)
        return place->plane;
    return place->tpc < 0
               ? -1
               : ((int64_t) (place->cryostat < 0 ? 0 : place->cryostat) << 32) + place->tpc;
}

WM_ORDER_NUMBERS (by_number, int64_t)

/* Fills `number` (n) with the numbers of all parts, each once, in order; returns how many.  */
static size_t parts_find (const wm_agreement_t *self, wm_agreement_by_t by, int64_t *number)
{
    size_t n = 0;
    for (uint64_t i = 0; i < self->n; i++)
        number[i] = part_of (&self->place[i], by);
    qsort (number, self->n, sizeof *number, by_number);
    for (uint64_t i = 0; i < self->n; i++)
        if (number[i] >= 0 && (!n || number[i] != number[n - 1]))
            number[n++] = number[i];
    return n;
}

/* Takes the hits of a part.  */
static void part_take (const wm_agreement_t *self, wm_agreement_by_t by, int64_t number,
                       wm_agreement_t *part)
{
    for (uint64_t i = 0; i < self->n; i++) {
        if (part_of (&self->place[i], by) != number)
            continue;
        part->is[part->n] = self->is[i];
        part->place[part->n] = self->place[i];
        memcpy (part->score + part->n++ * WM_TRUTH_END, self->score + i * WM_TRUTH_END,
                WM_TRUTH_END * sizeof *self->score);
    }
}

size_t wm_agreement_parts (const wm_agreement_t *self, wm_agreement_by_t by,
                           void (*take) (void *arg, const wm_agreement_t *part), void *arg,
                           wm_error_t *error)
{
    int64_t *number = malloc ((self->n + 1) * sizeof *number);
    wm_agreement_t *part = malloc (sizeof *part),
                   room = { .is = malloc (self->n + 1),
                            .place = malloc ((self->n + 1) * sizeof *room.place),
                            .score = malloc ((self->n + 1) * WM_TRUTH_END * sizeof *room.score) };
    wm_fault_t fault = WM_OK;
    size_t n = 0;
    if (!number || !part || !room.is || !room.place || !room.score)
        fault = wm_fault (error, WM_EHOST, "out of memory for %" PRIu64 " hits", self->n);
    else
        n = parts_find (self, by, number);
    memcpy (room.is_without, self->is_without, sizeof room.is_without);
    for (size_t k = 0; k < n && k < WM_AGREEMENT_PARTS_MAX && !fault; k++) {
        *part = room;
        part_take (self, by, number[k], part);
        fault = wm_agreement_count (part, self->call.least, error);
        if (!fault)
            take (arg, part);
    }
    wm_agreement_clear (&room);
    free (number);
    free (part);
    return fault ? 0 : n;
}

const char *wm_agreement_part_name (const wm_agreement_t *part, wm_agreement_by_t by, char text[48])
{
    if (by == WM_AGREEMENT_BY_PLANE)
        snprintf (text, 48, "plane %d", part->place->plane);
    else
        snprintf (text, 48, "cryostat %d, TPC %d",
                  part->place->cryostat < 0 ? 0 : part->place->cryostat, part->place->tpc);
    return text;
}

const char *wm_agreement_share (uint64_t part, uint64_t of, char text[16])
{
    snprintf (text, 16, of ? "%.1f%%" : "-", of ? 100 * (double) part / (double) of : 0);
    return text;
}

const char *wm_agreement_number (double value, char text[16])
{
    snprintf (text, 16, isfinite (value) ? "%.4f" : "-", value);
    return text;
}

void wm_agreement_clear (wm_agreement_t *self)
{
    free (self->is);
    free (self->place);
    free (self->score);
}
