/* wm_models.h - the models that the gateway serves: from their files to answers.

   A model has versions. Each version that is loaded has a folder below the state folder, a broker
   for clients and workers of its own on this machine (or a farm's broker, --broker), and a session
   with that broker (wm_link.h), into which the rows of requests go in batches (wm_gather.h).
   What the transports call is in wm_kserve.h. Thread: the loop's.  */
#ifndef WM_MODELS_H
#define WM_MODELS_H

#include "kernels/wm_device.h"
#include "producer/net/wm_loop.h"
#include "producer/serving/wm_gather.h"
#include "producer/serving/wm_kserve.h"
#include "schema/base/wm_fault.h"
#include "schema/option/wm_option.h"
#include "schema/session/wm_join.h"
#include "schema/wm_defaults.h"

/* For the table of the gateway's options; wm_models_new reads them.  */
/* clang-format off */
#define WM_MODELS_OPTIONS \
    {.name = "model", .letter = 'm', .value = "NAME=FILE", \
     .path = WM_PATH_READ, .task = "what is served", \
     .help = "a model (.onnx, .pb, .graphdef, .wmm) and the name that clients call it by; may be " \
             "repeated; NAME:2=FILE is version 2"}, \
    {.name = "model-repository", .letter = 'r', .value = "DIR", .path = WM_PATH_PRESENT, \
     .help = "a folder in Triton's layout: NAME/config.pbtxt, NAME/1/model.onnx or " \
             "model.graphdef; clients may load and unload its models"}, \
    {.name = "model-control-mode", .value = "none|explicit|poll", .one_of = true, \
     .help = "none: models are loaded at the start, and stay; explicit: clients load and unload, " \
             "and at the start only those of --load-model are loaded; poll: the gateway " \
             "follows the repository (default: all at the start, then as clients ask)"}, \
    {.name = "load-model", .value = "NAME", \
     .help = "with explicit: a model of the repository that is loaded at the start; may be " \
             "repeated; *: all of them"}, \
    {.name = "repository-poll", .value = "TIME", .fallback = "15s", .real_least = 0.01, \
     .help = "with poll: time between looks; what two looks find the same is taken"}, \
    {.name = "exit-on-error", .value = "true|false", .one_of = true, .fallback = "true", \
     .help = "end if none of the models of the start can be loaded; false: stay up, for clients " \
             "that load one or, with poll, files that change"}, \
    {.name = "server-name", .value = "NAME", .fallback = "wiremill", \
     .help = "its name in the server's metadata; some clients want triton"}, \
    {.name = "broker", .letter = 'b', .value = "NAME=ENDPOINT", \
     .help = "a farm's `broker --clients` scores this model, not workers started here; NAME is " \
             "also given by --model or --model-repository"}, \
    WM_JOIN_OPTION, \
    {.name = "workers", .letter = 'w', .value = "N", .task = "who computes", .least = 1, \
     .most = 256, .help = "worker processes of each model (default: 1)"}, \
    {.name = "threads", .letter = 't', .value = "N", .least = 1, .most = 1024, \
     .help = "threads a worker (default: the CPUs it may use / workers)"}, \
    {.name = "engine", .letter = 'e', .value = WM_ENGINE_NAMES, .one_of = true, \
     .path = WM_PATH_READ, .help = "as of wiremill work"}, \
    {.name = "device", .value = "DEVICE", .help = "as of wiremill work"}, \
    {.name = "bulk", .value = "ENDPOINT", \
     .help = "while no client waits, workers started here also score for this broker of a bulk " \
             "campaign, whenever it is there; may be repeated"}, \
    {.name = "bulk-share", .value = "PERCENT", .fallback = WM_DEFAULT_BULK_PERCENT, \
     .least = 0, .most = 99, \
     .help = "of a worker's time, for --bulk while clients always wait; 0: none"}, \
    {.name = "max-delay", .value = "TIME", .fallback = "1ms", \
     .help = "how long a request waits for others to share its batch while workers are busy"}, \
    {.name = "in-flight", .value = "BYTES", .fallback = "64M", .least = 1, .most = 1L << 40, \
     .help = "patches of a model on their way to workers at most; other requests wait"}, \
    {.name = "strict", \
     .help = "refuse a request with rows that have no scores (NaN), and name them"}, \
    {.name = "state", .value = "DIR", .path = WM_PATH_FOLDER, \
     .help = "folder for the brokers' sockets and logs (default: a temporary one)"}
/* clang-format on */

/* Finds the models that `args` name. loaded_max: bytes of the files of all models that come with
   loads. message_max: of a request, and of an answer. NULL with *error: the command line or the
   repository is wrong.  */
wm_models_t *wm_models_new (wm_loop_t *loop, const wm_args_t *args, size_t loaded_max,
                            size_t message_max, wm_error_t *error);

/* Whether workers that it starts must have a GPU and the driver does not show one: it prints a line
   then. Takes a moment. Before the process has threads.  */
bool wm_models_lacks_gpu (const wm_models_t *self);

/* Begins to load them all; they are ready later.  */
void wm_models_start (wm_models_t *self);
/* Follows the repository from then on, with --model-control-mode poll (wm_poll.c).  */
void wm_poll_start (wm_models_t *self);

/* Whether a model is being loaded, and does not fail.  */
bool wm_models_any_loading (const wm_models_t *self);

typedef enum {
    WM_MODELS_STARTED,  /* one has been ready, or none was asked for */
    WM_MODELS_STARTING, /* none yet: one is loaded, or tried again */
    WM_MODELS_FAILED    /* none, and none is tried again */
} wm_models_start_t;

/* What became of the models that were asked for at the start.  */
wm_models_start_t wm_models_started (const wm_models_t *self);

/* Calls `each` for every version of every model that has been ready and is not unloaded yet.
   is_ready: its broker answers. n_waiting: requests of which no batch has all rows.  */
typedef void wm_models_count_t (void *argument, const char *model, const char *version,
                                const wm_gather_counts_t *counts, uint32_t n_waiting,
                                bool is_ready);
void wm_models_counts (const wm_models_t *self, wm_models_count_t *each, void *argument);

/* Ends the brokers and workers and removes the temporary folder. Requests that are not answered
   stay the transports'. Takes a few seconds at most, in which the loop does not run.  */
void wm_models_destroy (wm_models_t **self_p);

#endif
