/* agreement.h - how well scores agree with the truth of synthetic events, in numbers: those of
   `wiremill truth`, and the curves that `wiremill report` draws of the same hits.

   Events of `wiremill synth` have a truth label for each hit; rows are joined with it by run,
   subrun, event and hit_id. A hit is called as wm_call_rule.h has it: the softmax does not know of
   michel electrons, so that to call one em is right as far as it can tell. AUC: the chance that a
   hit of a label has a higher score of it than another hit; equal scores count half (Fawcett,
   Pattern Recognition Letters 27 (2006) 861). Thread: one.  */
#ifndef AGREEMENT_H
#define AGREEMENT_H

#include "producer/files/wm_call_rule.h"
#include "producer/synth/wm_synth.h"
#include "schema/base/wm_fault.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    WM_AGREEMENT_STEPS = 100, /* of thresholds from 0 to 1 */
    WM_AGREEMENT_BINS = 10,   /* of the calibration */
    WM_AGREEMENT_ROC_MAX = 201
};

extern const char wm_agreement_name[WM_TRUTH_END][48];

/* One label against the rest. Signal: hits whose truth it is.  */
typedef struct {
    double auc;    /* NAN: no such hits, or no such score, or no other hits */
    double found;  /* the share of the signal, where a twentieth of the rest is taken for it, too */
    bool is_share; /* all scores are from 0 to 1: `above` and `bin` are filled */
    struct {
        uint64_t n, n_signal; /* hits with a score of at least the threshold */
    } above[WM_AGREEMENT_STEPS + 1];
    struct {
        uint64_t n, n_signal;
        double sum;           /* of scores */
    } bin[WM_AGREEMENT_BINS]; /* scores above the bin's begin, to its end; the first from 0 */
    uint32_t n_roc;
    struct {
        double rest, signal; /* shares that are taken: (0, 0) to (1, 1) */
    } roc[WM_AGREEMENT_ROC_MAX];
} wm_agreement_label_t;

/* Where a hit is, as its events state it; -1: they do not.  */
typedef struct {
    int32_t cryostat, tpc, plane;
} wm_agreement_place_t;

typedef struct {
    uint64_t n;                    /* hits that have both */
    uint8_t *is;                   /* (n) their truth */
    wm_agreement_place_t *place;   /* (n) */
    double *score;                 /* (n, WM_TRUTH_END) */
    bool is_without[WM_TRUTH_END]; /* there is no such score */

    wm_call_rule_t call;
    uint64_t n_right;                              /* the scores call them by their truth */
    uint64_t n_em_or_michel;                       /* a michel that is called em */
    uint64_t n_called[WM_TRUTH_END][WM_TRUTH_END]; /* (truth, called) */
    wm_agreement_label_t label[WM_TRUTH_END];
    double auc_em_track;
} wm_agreement_t;

/* Reads files (n) of both kinds, joins their hits and adds them to those that are there; files of
   scores are moved to the front of `path`. `table`: the group of scores in a file that is no output
   of wiremill, or NULL. WM_EBATCH: one cannot be read, or no hit has both;
   WM_EUSAGE: a hit of these files has scores twice; WM_EHOST: no memory.  */
wm_fault_t wm_agreement_add (wm_agreement_t *self, const char **path, size_t n, const char *table,
                             wm_error_t *error);

/* Fills in the numbers. michel_least: the score from which a hit is called michel.  */
wm_fault_t wm_agreement_count (wm_agreement_t *self, double michel_least, wm_error_t *error);

/* What hits are counted by, too.  */
typedef enum { WM_AGREEMENT_BY_PLANE, WM_AGREEMENT_BY_TPC } wm_agreement_by_t;
enum { WM_AGREEMENT_PARTS_MAX = 64 };

/* Counts the hits of each plane's number, or of each TPC of a cryostat, alone: calls `take` with
   each part, which is gone afterwards, in the order of their numbers; only the first ones if there
   are more than WM_AGREEMENT_PARTS_MAX. Hits without such a number are in no part. Returns how many
   parts there are, or with WM_EHOST 0: no memory.  */
size_t wm_agreement_parts (const wm_agreement_t *self, wm_agreement_by_t by,
                           void (*take) (void *arg, const wm_agreement_t *part), void *arg,
                           wm_error_t *error);

/* Names a part: "plane 2", "cryostat 0, TPC 1".  */
const char *wm_agreement_part_name (const wm_agreement_t *part, wm_agreement_by_t by,
                                    char text[48]);

/* How many hits have this label; how many the scores call so.  */
uint64_t wm_agreement_of_truth (const wm_agreement_t *self, int label);
uint64_t wm_agreement_of_scores (const wm_agreement_t *self, int label);

/* As people read them: a share of so many in per cent, and an AUC; `-`: of none, or NAN.  */
const char *wm_agreement_share (uint64_t part, uint64_t of, char text[16]);
const char *wm_agreement_number (double value, char text[16]);

void wm_agreement_clear (wm_agreement_t *self);

#endif
