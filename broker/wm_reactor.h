/* wm_reactor.h - carries out what wm_core decides: sockets, journal, ledger, the model's file,
   time.

   Three listeners (workers, producers, operators; the base port, +1, +2, or an ipc path with .w .p
   .o). One thread does everything: it reads messages (closed connections last, because messages
   that their peers had sent still count), lets timers fire, syncs the journal once for all records
   of that pass, and only then carries out their effects (wm_recorder.h).
   Thread: the one that made it.  */
#ifndef WM_REACTOR_H
#define WM_REACTOR_H

#include "broker/core/wm_core.h"
#include "broker/disk/wm_journal.h"
#include "broker/disk/wm_ledger.h"
#include "broker/listen/wm_listener.h"
#include "schema/session/wm_endpoint.h"
#include "schema/wm_pins.h"

#include <signal.h>
#include <stdbool.h>

typedef struct {
    const char *endpoint; /* "tcp://127.0.0.1:5555" (port 0: any three free ones), "ipc:///path" */
    wm_listener_mode_t keys; /* when peers need keys, which are in `dir` */
    bool mixed;              /* workers may bring other signatures than their class has */
    double check_share;      /* of batches that a second machine scores, 0 to 1 */
    const char *dir;         /* the campaign's: for the status */
    const char *wmm;         /* the model's file */
    const char *shape;       /* of a ready-made patch of it, "3x32x32"; NULL: any */
    const wm_pins_t *pins;
    uint8_t campaign[16];
    int64_t submitted_s;
    uint64_t epoch, budget_bytes;
    wm_journal_t *journal; /* lent, started */
    wm_ledger_t *ledger;   /* lent, caught up */
    /* Checks the folder every heartbeat_ms; other than WM_OK ends the run. NULL: no check.  */
    wm_fault_t (*check) (void *context, wm_error_t *error);
    void *context; /* of check */
    /* Called with the core at each tick; NULL: not called.  */
    void (*watch) (const wm_core_t *core);
    const wm_endpoint_t *where; /* for the status: filled before the run. NULL: not known */
} wm_reactor_config_t;

typedef struct wm_reactor_t wm_reactor_t;

/* Loads the ledger into a new core and binds. NULL on failure: WM_EHOST an address that cannot be
   bound or is not allowed, a disk or model that cannot be read; *error names which. `config` and
   what it points to are lent for life.  */
wm_reactor_t *wm_reactor_new (const wm_reactor_config_t *config, wm_error_t *error);

/* Frees it; sends nothing (wm_reactor_run sends BYE when it stops).  */
void wm_reactor_destroy (wm_reactor_t **self_p);

/* Returns its listener, which knows its addresses and whether peers need keys; lent.  */
const wm_listener_t *wm_reactor_listener (const wm_reactor_t *self);

/* Serves until *stop is set by a signal handler; then syncs, sends BYE to all and commits the
   ledger. Other than WM_OK: the disk, the database or config->check failed, *error explains it;
   nothing acknowledged is lost. */
wm_fault_t wm_reactor_run (wm_reactor_t *self, const volatile sig_atomic_t *stop,
                           wm_error_t *error);

/* Fills in what notifications and systemd need of the campaign; what it points to is lent until the
   next call of any function here.  */
void wm_reactor_brief (const wm_reactor_t *self, wm_brief_t *brief);

/* Keeps a record that stands and is not the core's: at its next turn, or, when it does not run, at
   once.  */
void wm_reactor_note (wm_reactor_t *self, const wm_record_t *record);

#endif
