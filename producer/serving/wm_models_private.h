/* wm_models_private.h - what the files of the gateway's models share.

   wm_poll.c        follows the repository
   wm_models_json.c metadata, configuration, statistics, index as Triton words them
   wm_models.c      all models; what transports call to infer, to load and to unload
   wm_version.c     one version: its broker, its workers, its session, its end
   wm_repository.c  files: --model, a repository, config.pbtxt
   wm_config.c      the shapes that config.pbtxt states
   wm_model_entry.c the list of models and their versions

   Each calls those below it; what a version reports to all models goes through two callbacks of
   wm_models_t.  */
#ifndef WM_MODELS_PRIVATE_H
#define WM_MODELS_PRIVATE_H

#include "producer/serving/wm_gather.h"
#include "producer/serving/wm_link.h"
#include "producer/serving/wm_models.h"
#include "producer/serving/wm_override.h"
#include "producer/serving/wm_idle_signal.h"
#include "producer/serving/wm_respawn.h"
#include "producer/serving/wm_signature.h"

#include <limits.h>

#define WM_MODELS_NAME_BYTES 128
#define WM_MODELS_VERSIONS_MAX 64
#define WM_MODELS_BULK_MAX 15     /* as of wiremill run */
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
    char stamp[128];     /* of the file, when it was loaded */
    json_t *config;      /* of config.pbtxt, when it was loaded; NULL: there was none */
    wm_loaded_t *loaded; /* the file's folder, where it came with the load; else NULL */
    wm_version_state_t state;
    bool leaves;      /* a load replaces or removes it; READY: that has not succeeded yet */
    char reason[480]; /* GONE: why; "" if it was unloaded */
    char fails[480];  /* why its processes end again and again; "": they do not */
    bool is_down;     /* it fails for long, or has no engine: no request waits for it */
    bool has_ended;   /* `fails` is the reason of an end of its processes */
    bool is_tried;    /* its processes failed, and are started again for a load */
    bool is_hurried;  /* that load came while they ran: they are started once more if they fail */
    char waits[480];  /* what its session waits for; "": nothing */
    char folder[PATH_MAX], endpoint[PATH_MAX];
    char wmm[PATH_MAX];    /* the imported model; "": the crew imports it */
    bool is_whole;         /* imported as a model without a batch dimension */
    wm_respawn_t *service; /* the import, then `wiremill run --clients`; NULL: a farm's broker */
    wm_region_t *region;
    wm_link_t *link;
    wm_gather_t *gather;
    bool is_busy; /* counted in models->quiet */
    wm_signature_t signature;
    wm_labels_t *labels[WM_SIGNATURE_PORTS_MAX]; /* of its outputs; NULL: none */
    bool has_ports, can_score; /* read of the model; a worker has passed its self-test */
    wm_timer_t *timer, *proof; /* of its end; until what failed and runs again is believed */
    wm_timer_t *down;          /* until it is down; NULL: it does not fail, or is down */
    wm_timer_t *begins;        /* until its folder is tried again; NULL: it was made */
    int64_t begun_us;          /* when its loading began */
    int64_t kill_us;           /* while its processes end */
} wm_version_t;

/* What is read of a model's files.  */
typedef struct {
    json_t *config;      /* config.pbtxt (wm_pbtxt.h); NULL if the model has no such file */
    wm_loaded_t *loaded; /* files that came with a load; NULL: others */
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
    char folder[PATH_MAX];   /* in a repository; "": given by --model, or came with a load */
    wm_model_files_t *given; /* by --model; NULL: read at each load */
    const char *broker;      /* of a farm; NULL: started here */
    wm_version_t *version;
    wm_waiter_t *waiters;
    char reason[480];       /* why its files could not be read; "": they could */
    bool is_wanted;         /* loaded, or to be */
    bool at_start;          /* asked for when the gateway began: it is not ready without */
    bool hides;             /* given by --model, a folder of the repository has its name */
    uint64_t found, loaded; /* wm_poll.c: its files at the last look, when they were loaded */
};

struct wm_models_t {
    wm_loop_t *loop;
    const wm_args_t *args; /* the command line */
    wm_model_entry_t *first;
    const char *repository, *engine, *device, *join_file, *server_name;
    char state[PATH_MAX];
    int lock; /* of the state folder that was given; -1: none */
    bool is_temporary;
    uint32_t n_worker, n_thread;
    int64_t max_delay_us;
    size_t in_flight_bytes;
    bool is_strict;
    bool ends;       /* no request is taken any more */
    bool is_fixed;   /* clients may not load and unload */
    bool has_served; /* a version was ready */
    bool names_some; /* of the repository only what --load-model names is loaded at the start */
    int64_t poll_us; /* between looks at the repository; 0: none */
    wm_timer_t *poll;
    wm_idle_signal_t *quiet; /* for --bulk; NULL: none is given */
    uint32_t n_folder;       /* made so far: the name of the next */
    wm_loaded_sum_t loaded;  /* files that came with loads */
    size_t message_max;      /* bytes of a request, and of an answer */
    /* Called by a version that has become ready, fails for the time being, or is gone.  */
    void (*changed) (wm_model_entry_t *entry);
    /* Called for a request that a version could not answer: asks it of another; where none can, it
       is answered UNAVAILABLE with `text`.  */
    void (*ask_again) (wm_models_t *self, wm_ks_request_t *request, const char *text);
};

/* ---- wm_model_entry.c ------------------------------------------------------------------------ */

/* Returns NULL if no model has the name.  */
wm_model_entry_t *wm_models_entry (const wm_models_t *models, const char *name);
wm_model_entry_t *wm_models_add (wm_models_t *models, const char *name);

/* Whether a version, or one of the model's, is being loaded, and does not fail.  */
bool wm_version_is_loading (const wm_version_t *version);
bool wm_models_is_loading (const wm_model_entry_t *entry);
/* The version of this number that clients see: the one that is ready, or the newest. NULL: none. */
wm_version_t *wm_models_shown (const wm_model_entry_t *entry, long number);
/* Returns what makes a model that failed be tried again, as the end of a sentence with "until".  */
const char *wm_models_remedy (const wm_model_entry_t *entry);

/* ---- wm_repository.c ------------------------------------------------------------------------- */

/* Takes the --model options and the repository's folders as entries.  */
wm_fault_t wm_repository_open (wm_models_t *models, const wm_args_t *args, wm_error_t *error);

/* Adds the folders that came since, and forgets models that came with a load and are unloaded.
   Faults are passed over. Entries end here alone.  */
void wm_repository_scan (wm_models_t *models);

/* Reads which versions there are to load. The files are the caller's (free, and the config). NULL
   with *error.  */
wm_model_files_t *wm_repository_read (const wm_model_entry_t *entry, wm_error_t *error);
/* The same for a load that brings a configuration, and perhaps files.  */
wm_model_files_t *wm_repository_override (const wm_model_entry_t *entry, const wm_override_t *given,
                                          wm_error_t *error);
void wm_repository_free (wm_model_files_t **files_p);

bool wm_repository_is_name (const char *name); /* whether a model may have it */

/* The path of an output's labels, of a configuration that was read; NULL: it has none.  */
const char *wm_repository_labels (const json_t *output);

/* ---- wm_models.c ----------------------------------------------------------------------------- */

/* Returns a version that is ready ("": the newest); NULL with NOT_FOUND or UNAVAILABLE, in Triton's
   words.  */
wm_version_t *wm_models_find (wm_models_t *models, const char *model, const char *version,
                              wm_ks_error_t *error);

/* wm_models_load and wm_models_unload, also where clients may not; `done` may be NULL.  */
void wm_models_reload (wm_models_t *self, const char *model, const wm_override_t *given,
                       wm_models_done_t *done, void *argument);
void wm_models_drop (wm_models_t *self, const char *model, wm_models_done_t *done, void *argument);

/* ---- wm_version.c ---------------------------------------------------------------------------- */

/* i: of the files. They are lent.  */
wm_version_t *wm_version_new (wm_model_entry_t *entry, const wm_model_files_t *files, uint32_t i);
/* It takes no more requests, answers those that it has, and ends. What it cannot answer, because of
   this reason ("": none) or while it fails, is asked again of the model's versions that are ready,
   once none is being loaded; if no version is ready, it is answered with the reason.  */
void wm_version_unload (wm_version_t *self, const char *reason);
/* For a load: its processes are started at once if they pause after they have failed. If they run
   again already and fail once more, another try follows at once: this one began before the load. */
void wm_version_hurry (wm_version_t *self);
/* A request of it was answered or cancelled, or another version may be loaded by now.  */
void wm_version_update (wm_version_t *self);
/* Ends what runs, in `ms` at most. At the end of the gateway: the loop does not run any more.  */
void wm_version_destroy (wm_version_t **self_p, int64_t ms);

/* ---- wm_config.c ----------------------------------------------------------------------------- */

/* Checks the inputs and outputs that config.pbtxt states against the model's own, and takes the
   shapes that clients have. WM_EBATCH: they cannot be honoured.  */
wm_fault_t wm_config_check (const json_t *config, wm_signature_t *signature, wm_error_t *error);

/* Returns whether config.pbtxt states that the model has no batch dimension: max_batch_size 0, and
   inputs of the model that are lists, whose first sizes are free in more than one, or differ, or
   are not 1.  */
bool wm_config_is_whole (const json_t *config);

/* Returns the text of a parameter of config.pbtxt; NULL: it states none.  */
const char *wm_config_parameter (const json_t *config, const char *key);

/* What the configuration (NULL: none) states of dynamic_batching.  */
wm_batching_t wm_config_batching (const json_t *config);

/* Returns what is stated of a port of "input" or "output", lent; NULL: nothing.  */
const json_t *wm_config_port (const json_t *config, const char *field, const char *name);

#endif
