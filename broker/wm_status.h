/* wm_status.h - the status of a campaign as JSON, "wiremill-status-1".

   One text for STATUS_REPLY of a running broker and for `wiremill-broker --status` of a stopped
   one. Thread: any.  */
#ifndef WM_STATUS_H
#define WM_STATUS_H

#include "broker/core/wm_core.h"
#include "broker/disk/wm_ledger.h"
#include "schema/session/wm_endpoint.h"
#include "schema/wm_pins.h"

/* What the core does not know. Strings are lent.  */
typedef struct {
    const char *endpoint;       /* NULL: no broker is running */
    const wm_endpoint_t *where; /* of a running one; NULL: not known */
    const char *dir;
    const uint8_t *campaign; /* (16) */
    const wm_pins_t *pins;
    double up_s;
    int64_t submitted_s; /* Unix time */
    uint64_t journal_bytes, ledger_bytes;
} wm_status_about_t;

/* At most WM_STATUS_BYTES_MAX long; lists are cut where it would be longer. The caller frees it.
   NULL without memory.  */
#define WM_STATUS_BYTES_MAX (60u << 10)
char *wm_status_json (const wm_summary_t *summary, const wm_status_about_t *about);

/* Returns a page of the campaign's inputs from `from` on, "wiremill-files-1": those that
   `name` names, or, where it is NULL, those with held hits, or held or changed. "next" (and *next)
   is where the next page begins, 0 after the last. The caller frees it. NULL without memory.  */
char *wm_status_files (const wm_core_t *core, uint32_t from, const char *name, uint32_t *next);

/* Returns the answer to a request for a copy of the ledger, "wiremill-ledger-1": its name, or, if
   `why` is not NULL, why it failed. The caller frees it. NULL without memory.  */
char *wm_status_copy (const char *why);

/* Returns a page of the history: its minutes from this Unix time on ("wiremill-history-1"), or the
   sessions of its workers from this id on ("wiremill-workers-1"); or what *next of the page before
   names. `epoch`: of the broker that serves; 0: none does. *next as above. The caller frees it.
   NULL without memory, or where the ledger cannot be read.  */
char *wm_status_history (wm_ledger_t *ledger, bool is_of_workers, uint64_t epoch, uint64_t from,
                         uint64_t *next);

#endif
