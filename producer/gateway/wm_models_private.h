/* wm_models_private.h - what the files of the gateway's models share.

   wm_models.c      all models; what transports call to infer, to load and to unload
   wm_version.c     one version: its broker, its workers, its session, its end
   wm_repository.c  files: --model, a repository, config.pbtxt
   wm_models_json.c metadata, configuration, statistics, index as Triton words them  */
#ifndef WM_MODELS_PRIVATE_H
#define WM_MODELS_PRIVATE_H

#include "producer/gateway/wm_gather.h"
#include "producer/gateway/wm_link.h"
#include "producer/gateway/wm_models.h"
#include "producer/gateway/wm_respawn.h"
#include "producer/gateway/wm_signature.h"

#include <limits.h>

#define WM_MODELS_NAME_BYTES 128
#define WM_MODELS_VERSIONS_MAX 64
#define WM_MODELS_BATCH_MAX 65536 /* max_batch_size where no config.pbtxt states one */

typedef enum {
    WM_VERSION_LOADING,
    WM_VERSION_READY,
    WM_VERSION_UNLOADING,
    WM_VERSION_GONE
} wm_version_state_t;

typedef struct wm_model_entry_t wm_model_entry_t;

/* A version that is loaded, or was tried to be.  */
typedef struct wm_version_t {
    struct wm_version_t *next; /* of the model, the newest first */
    wm_model_entry_t *entry;
    long number;
    char text[24]; /* the number */
    char file[PATH_MAX];
    char stamp[128]; /* of the file, when it was loaded */
    wm_version_state_t state;
    char reason[480]; /* GONE: why; "" where somebody unloaded it */
    char waits[480];  /* what its session waits for; "": nothing */
    char folder[PATH_MAX], endpoint[PATH_MAX];
    char wmm[PATH_MAX];    /* the imported model; "": the crew imports it */
    bool is_whole;         /* imported as a model without a batch dimension */
    wm_respawn_t *service; /* the import, then `wiremill run --clients`; NULL: a farm's broker */
    wm_link_t *link;
    wm_gather_t *gather;
    wm_signature_t signature;
    wm_timer_t *timer;
    int64_t kill_us; /* while its processes end */
} wm_version_t;

/* What is read of a model's files.  */
typedef struct {
    json_t *config; /* of config.pbtxt (wm_pbtxt.h); NULL: there is none */
    uint32_t n_version;
    long number[WM_MODELS_VERSIONS_MAX]; /* the newest first */
    char file[WM_MODELS_VERSIONS_MAX][PATH_MAX];
} wm_model_files_t;

typedef struct wm_waiter_t {
    struct wm_waiter_t *next;
    wm_models_done_t *done;
    void *argument;
    bool unloads;
} wm_waiter_t;

struct wm_model_entry_t {
    wm_model_entry_t *next;
    wm_models_t *models;
    char name[WM_MODELS_NAME_BYTES];
    char folder[PATH_MAX];   /* in a repository; "": given by --model */
    wm_model_files_t *given; /* by --model; NULL: read at each load */
    const char *broker;      /* of a farm; NULL: started here */
    json_t *config;          /* of the last load */
    wm_version_t *version;
    wm_waiter_t *waiters;
    bool is_wanted; /* loaded, or to be */
};

struct wm_models_t {
    wm_loop_t *loop;
    wm_model_entry_t *first;
    const char *repository, *engine, *device, *join_file;
    char state[PATH_MAX];
    int lock; /* of the state folder that was given; -1: none */
    bool is_temporary;
    uint32_t n_worker, n_thread;
    int64_t max_delay_us;
    size_t in_flight_bytes;
    uint32_t n_folder; /* made so far: the name of the next */
};

/* ---- wm_repository.c ------------------------------------------------------------------------- */

/* Takes the --model options and the repository's folders as entries.  */
wm_fault_t wm_repository_open (wm_models_t *models, const wm_args_t *args, wm_error_t *error);

/* Adds the folders that came since. Faults are passed over.  */
void wm_repository_scan (wm_models_t *models);

/* Reads which versions there are to load. The files are the caller's (free, and the config). NULL
   with *error.  */
wm_model_files_t *wm_repository_read (const wm_model_entry_t *entry, wm_error_t *error);
void wm_repository_free (wm_model_files_t **files_p);

wm_model_entry_t *wm_models_entry (const wm_models_t *models, const char *name);
wm_model_entry_t *wm_models_add (wm_models_t *models, const char *name);

/* ---- wm_version.c ---------------------------------------------------------------------------- */

wm_version_t *wm_version_new (wm_model_entry_t *entry, long number, const char *file);
/* It takes no more requests, answers those that it has, and ends.  */
void wm_version_unload (wm_version_t *self, const char *reason);
/* A request of it was answered or cancelled.  */
void wm_version_tend (wm_version_t *self);
/* Ends what runs, in `ms` at most. At the end of the gateway: the loop does not run any more.  */
void wm_version_destroy (wm_version_t **self_p, int64_t ms);

/* A version has become ready, or is gone.  */
void wm_models_changed (wm_model_entry_t *entry);

/* ---- wm_models_json.c ------------------------------------------------------------------------ */

/* Checks the inputs and outputs that config.pbtxt states against the model's own.  */
wm_fault_t wm_config_check (const json_t *config, const wm_signature_t *signature,
                            wm_error_t *error);

/* Returns a version that is ready ("": the newest); NULL with NOT_FOUND or UNAVAILABLE, in Triton's
   words.  */
wm_version_t *wm_models_find (wm_models_t *models, const char *model, const char *version,
                              wm_ks_error_t *error);

#endif
