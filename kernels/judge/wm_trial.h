/* wm_trial.h - which arithmetic a campaign in split or fast takes, measured on its own hits.

   What rounded weights do to a score depends on the model and on the hits. The candidates of the
   precision (wm_device_candidate) score a sample of the campaign's hits, strict fp32 scores it as
   the judge, and the first candidate is taken whose largest error, times WM_TRIAL_MARGIN, is within
   the campaign's max_error; else strict fp32. Nothing is timed: machines of one class take the
   same.

   The margin: a sample has 2,000 hits, a campaign perhaps 1e8. Errors are sums of thousands of
   roundings, near to normal, and the largest of 4e8 normal numbers is 1.44 times the largest of
   8,000 (by 5.8 and 4.0 standard deviations, Gumbel). What is beyond it, wm_watch.h catches.  */
#ifndef WM_TRIAL_H
#define WM_TRIAL_H

#include "kernels/wm_device.h"

#define WM_TRIAL_MARGIN 1.5
#define WM_TRIAL_HITS 2000u
#define WM_TRIAL_BATCHES 64u /* of a sample, at most */

typedef struct {
    wm_candidate_t candidate; /* the one taken */
    double error;             /* its largest on the sample; 0 of strict fp32 */
    uint32_t n_hit;           /* of the sample */
    char refused[160];        /* those before it, with their errors: "amx/bf16 9.1e-03, ..."; "" */
} wm_trial_t;

/* Opens the judge: strict fp32 on this CPU, of config's engine, or of "auto" if that is a GPU's.
   NULL with *error.  */
wm_device_t *wm_trial_judge (const wm_model_t *model, const wm_spec_t *spec,
                             const wm_device_config_t *config, wm_error_t *error);

/* Opens the candidate that is tried first, in a thread, while there is no sample yet: packing its
   weights takes about as long as a producer needs to send one. config's texts are lent until
   wm_trial_ahead_end. NULL: nothing is opened ahead, because that would be strict fp32, or slow and
   large (a GPU, OpenVINO).  */
typedef struct wm_trial_ahead_t wm_trial_ahead_t;
wm_trial_ahead_t *wm_trial_ahead_new (const wm_model_t *model, const wm_spec_t *spec,
                                      const wm_device_config_t *config);

/* Waits for it. NULL: it could not be opened. NULL-safe.  */
wm_device_t *wm_trial_ahead_end (wm_trial_ahead_t **self_p);

/* Opens the candidate that is taken. n batches of the sample; with none, strict fp32. ahead: of the
   same config, is ended; NULL: no trial was begun ahead. NULL with *error: WM_EAGAIN, this machine
   failed while a candidate scored (the process must end, the next one tries again); else the fault
   of the last candidate, which could not be opened. Blocks.  */
wm_device_t *wm_trial_open (const wm_model_t *model, const wm_spec_t *spec,
                            const wm_device_config_t *config, wm_device_t *judge,
                            wm_trial_ahead_t **ahead, const wm_batch_t *batch, uint32_t n,
                            wm_trial_t *trial, wm_error_t *error);

#endif
