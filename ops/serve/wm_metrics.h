/* wm_metrics.h - a campaign's status in Prometheus' text format.

   Names follow Prometheus' conventions: units last, counters end in _total. What may fall again
   (hits that are scored once more after a kick) is a gauge. Counters of the ledger are remembered,
   so that they do not fall when a broker was killed (wm_metrics_private.h). Thread: one at a
   time.  */
#ifndef WM_METRICS_H
#define WM_METRICS_H

#include <jansson.h>
#include <stdint.h>

/* Returns the metrics, freed by the caller. `status` ("wiremill-status-1", lent) is what the broker
   answered age_s ago; NULL: it does not answer, and only wiremill_up is there. `campaign` is its
   id, "" while it was never known.  */
char *wm_metrics_text (const json_t *status, const char *campaign, double age_s);

#endif
