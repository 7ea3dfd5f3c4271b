/* wm_gateway_metrics.h - the gateway's numbers for Prometheus.  */
#ifndef WM_GATEWAY_METRICS_H
#define WM_GATEWAY_METRICS_H

#include "producer/serving/wm_front.h"

/* Makes the page, in Prometheus' text format: Triton's nv_* of each model, from the models' own
   counts, and the gateway's of its clients. The caller's.  */
char *wm_metrics_page (wm_front_t *front);

#endif
