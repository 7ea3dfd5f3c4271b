/* main.c - wiremill-producer: events in, results out.  */
#include "producer/verbs.h"
#include "schema/wm_limits.h"

static const wm_verb_t *const verbs[] = {
    &wm_verb_produce, &wm_verb_cut,    &wm_verb_synth,  &wm_verb_show,    &wm_verb_sample,
    &wm_verb_batches, &wm_verb_held,   &wm_verb_facts,  &wm_verb_compare, &wm_verb_export,
    &wm_verb_truth,   &wm_verb_report, &wm_verb_client, &wm_verb_worst,   NULL,
};

static const wm_program_t program = {
    .name = "wiremill-producer",
    .version = WM_VERSION,
    .summary = "reads events and writes their scores; wiremill starts it",
    .verbs = verbs,
};

int main (int argc, char **argv)
{
    return wm_program_run (&program, argc, argv);
}
