/* verbs.h - the verbs of wiremill-producer: each is defined in its own file.  */
#ifndef PRODUCER_VERBS_H
#define PRODUCER_VERBS_H

#include "schema/option/wm_option.h"
#include "schema/wm_made.h"

extern const wm_verb_t wm_verb_produce, wm_verb_cut, wm_verb_synth, wm_verb_sample, wm_verb_batches,
    wm_verb_show, wm_verb_held, wm_verb_facts, wm_verb_compare, wm_verb_client, wm_verb_export,
    wm_verb_truth, wm_verb_report, wm_verb_worst;

#endif
