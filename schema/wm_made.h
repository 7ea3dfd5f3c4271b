/* wm_made.h - the kinds of file that verbs write where a person names one (wm_target.h).

   All of them are here, so that what a verb may replace is in one place. Files of earlier releases
   are recognised, too, but arrays and synthetic events, which did not state what made them.
   Thread: any.  */
#ifndef WM_MADE_H
#define WM_MADE_H

#include "schema/base/wm_target.h"

#define WM_MADE_SYNTH "wiremill synth" /* attribute `made_by` of an event file */
#define WM_MADE_HEAD_BYTES 256         /* of an array's head; NumPy's own have 128 */

extern const wm_target_kind_t wm_made_events;       /* synth */
extern const wm_target_kind_t wm_made_patches;      /* cut */
extern const wm_target_kind_t wm_made_picture;      /* show */
extern const wm_target_kind_t wm_made_comparison;   /* compare, verify --against */
extern const wm_target_kind_t wm_made_rows;         /* export: never replaced without --force */
extern const wm_target_kind_t wm_made_report;       /* report */
extern const wm_target_kind_t wm_made_wmm;          /* import */
extern const wm_target_kind_t wm_made_onnx;         /* model new */
extern const wm_target_kind_t wm_made_bench_json;   /* bench */
extern const wm_target_kind_t wm_made_join;         /* keys add: never replaced */
extern const wm_target_kind_t wm_made_worker_state; /* work, wiremill-worker */
extern const wm_target_kind_t wm_made_names;        /* lists that a workflow's verbs add lines to */
extern const wm_target_kind_t wm_made_sidecar;      /* run, produce --sidecars: OUTPUT.json */
extern const wm_target_kind_t wm_made_access_log;   /* gateway */
extern const wm_target_kind_t wm_made_farm_script;  /* farm */
extern const wm_target_kind_t wm_made_farm_file;    /* farm: what its profile submits */
extern const wm_target_kind_t wm_made_farm_state;   /* farm */

#endif
