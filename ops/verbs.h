/* verbs.h - the verbs of `wiremill`, and the options that several of them share.

   A verb is a wm_verb_t, wm_verb_NAME, in a file of its own or beside its relatives. A new one is
   that and a row of WM_VERBS.  */
#ifndef VERBS_H
#define VERBS_H

#include "schema/option/wm_option.h"
#include "schema/option/wm_share.h"
#include "schema/session/wm_join.h"
#include "schema/wm_defaults.h"
#include "schema/wm_made.h"

#include <stdlib.h>

/* In the order of --help.  */
/* clang-format off */
#define WM_VERBS(row) \
    row (run) row (doctor) row (plan) \
    row (status) row (top) row (report) row (serve) row (why) row (held) row (sql) \
    row (pause) row (resume) row (drain) row (kick) row (trust) \
    row (show) row (truth) row (compare) row (export) row (verify) \
    row (broker) row (produce) row (work) row (farm) row (keys) row (gateway) \
    row (import) row (plugin) row (model) row (spec) row (synth) row (cut) \
    row (bench) row (rebuild)
/* clang-format on */

#define WM_VERB_DECLARE(name) extern const wm_verb_t wm_verb_##name;
WM_VERBS (WM_VERB_DECLARE)

/* The groups of --help, by what a person wants.  */
#define SCORE_TASK "score files on this machine"
#define WATCH_TASK "see how a campaign stands"
#define STEER_TASK "steer it"
#define LOOK_TASK "look at scores and check them"
#define SPREAD_TASK "use many machines, or answer other programs"
#define PREPARE_TASK "prepare models, specifications and events"
#define CARE_TASK "measure and repair"

/* Hands --engine-memory on likewise.  */
static inline void take_engine_memory (const wm_args_t *args)
{
    char bytes[24];
    snprintf (bytes, sizeof bytes, "%ld", wm_args_number (args, "engine-memory"));
    if (wm_args_given (args, "engine-memory"))
        setenv ("WM_ENGINE_MEMORY", bytes, 1);
}

/* Hands --isa on to the programs that are started from here.  */
static inline void take_isa (const wm_args_t *args)
{
    if (wm_args_text (args, "isa"))
        setenv ("WM_ISA", wm_args_text (args, "isa"), 1);
}

/* Refuses a --check-share that is not a share.  */
static inline bool wm_share_refused (const wm_args_t *args)
{
    double share;
    return wm_share_parse (wm_args_text (args, "check-share"), &share) &&
           wm_args_refuse (args, "--check-share %.40s: give 0 to 1, or 0%% to 100%%, such as 0.1%%",
                           wm_args_text (args, "check-share"));
}

/* clang-format off */
/* The options that pin a campaign, of run and broker. run needs neither --model nor --output with
   --broker, so each checks these two.  */
#define CAMPAIGN_OPTIONS \
    {.name = "model", .letter = 'm', .value = "FILE", \
     .path = WM_PATH_READ, .may_lack = true, .task = "what is scored, and how", \
     .help = "ONNX file, or .wmm of wiremill import; synthetic: the small one that comes with " \
             "wiremill, trained on events of wiremill synth alone"}, \
    {.name = "spec", .letter = 's', .value = "FILE|PRESET", \
     .path = WM_PATH_READ, \
     .text = "a specification in YAML", .may_lack = true, .fallback = WM_DEFAULT_SPEC, \
     .help = "patch specification"}, \
    {.name = "precision", .value = "fp32|split|fast", .one_of = true, .fallback = "fp32", \
     .help = "fp32: the same bits on every machine; split: sums of 16-bit products on matrix " \
             "units; fast: 16 bits. The error of split and fast is measured on the first hits; " \
             "the campaign uses them only where the error is small enough"}, \
    {.name = "max-error", .value = "X", \
     .help = "largest allowed error of a score in split (" \
             WM_DEFAULT_TEXT (WM_DEFAULT_ERROR_SPLIT) ") or fast (" \
             WM_DEFAULT_TEXT (WM_DEFAULT_ERROR_FAST) "), relative above 1"}, \
    {.name = "mixed", \
     .help = "admit workers that score by another engine than others of their kind of machine"}, \
    {.name = "check-share", .value = "X", .fallback = WM_DEFAULT_CHECK_SHARE, \
     .help = "share of batches that a worker on another machine scores too, to find one that is " \
             "wrong; 0: none"}, \
    {.name = "batch-hits", .value = "N", .least = 1, .most = 1 << 20, \
     .help = "most hits in a batch (default: " WM_DEFAULT_TEXT (WM_DEFAULT_BATCH_HITS) \
             " for networks that the sparse engine runs, " \
             "else " WM_DEFAULT_TEXT (WM_DEFAULT_BATCH_GENERAL) ")"}, \
    {.name = "planes", .value = "FILE", \
     .path = WM_PATH_READ, .task = "hits whose planes lie in other files", \
     .help = "Wire-Cell frames (.h5, .tar.gz, .tar.bz2) of the hits of each input: {stem} in the " \
             "name stands for the input's without .h5, {dir} for its folder; FILE:/TAG chooses " \
             "frames (gauss*)"}, \
    {.name = "channels", .value = "FILE", .path = WM_PATH_READ, .text = "a channel map", \
     .help = "channel map of these frames, or (points: windows) of those that are the input: " \
             "lines of channel,cryostat,tpc,plane,wire"}, \
    {.name = "hit-time", .value = "ticks|us", .one_of = true, \
     .help = "unit of the times of these hits (default: hit_table of numl ticks, chargehits of " \
             "larrecodnn us)"}, \
    {.name = "hit-offset", .value = "TICKS", \
     .help = "ticks from the times of these hits to those of their frames, added to each hit " \
             "(default: 0)"}, \
    {.name = "pedestal", .value = "median|ADC|none", \
     .help = "taken off frames of raw ADC: the median of each channel, or one value for all " \
             "(default: none; frames that look raw are refused)"}, \
    {.name = "output", .letter = 'o', .value = "DIR", .path = WM_PATH_FOLDER, .task = "where", \
     .help = "folder of the <stem>.scores.h5; one on a server, root://HOST//PATH/NAME, is " \
             "written by xrdcp"}, \
    {.name = "layout", .value = "wiremill|numl|both", .one_of = true, .fallback = "wiremill", \
     .help = "tables of outputs: wiremill's own (show and verify read it), those of numl and " \
             "pynuml, or both"}, \
    {.name = "campaign", .letter = 'c', .value = "DIR", .path = WM_PATH_FOLDER, \
     .help = "folder of the campaign, on a local disk (default: OUTPUT.wiremill, beside the " \
             "output, of root://HOST//PATH/NAME in this folder; one that an earlier version left " \
             "in OUTPUT/.wiremill goes on there)"}, \
    {.name = "group", .value = "NAME", \
     .help = "this group may read the campaign, and the outputs that are written from now on"}

/* Notifications, of run and broker; the broker runs these commands.  */
#define NOTIFY_OPTIONS \
    {.name = "on-done", .value = "CMD", .task = "notifications", \
     .help = "sh runs it when every input is written or held; facts are in its environment: " \
             "WIREMILL_EVENT, WIREMILL_TEXT (a sentence), WIREMILL_CAMPAIGN, ..."}, \
    {.name = "on-held", .value = "CMD", \
     .help = "likewise when something new is held, at most every 5 minutes"}, \
    {.name = "on-pause", .value = "CMD", \
     .help = "likewise when nothing is handed out: paused, drained, or the disk is full"}

#define DEVICE_OPTION \
    {.name = "device", .letter = 'd', .value = "NAME", .fallback = "auto", \
     .help = "auto, cpu (declines a GPU), cuda, cuda:N, opencl or opencl:N: what the engine " \
             "computes on"}

#define ENGINE_MEMORY_OPTION \
    {.name = "engine-memory", .value = "BYTES", .least = 1 << 26, .most = 1L << 50, \
     .help = "most memory of each process of a plug-in (default: no limit): it is started again " \
             "between batches when it keeps half of it, and a row that needs more is held"}

#define ISA_OPTION \
    {.name = "isa", .value = "NAME", \
     .help = "instruction set of the sparse engine, as wiremill doctor names them, also amx/bf16 " \
             "(default: by rule)"}

#define RETRY_OPTION \
    {.name = "retry-held", \
     .help = "score again what is held, or changed since it was scored; a changed output is " \
             "kept as NAME.changed-1"}

#define INPUT_OPTIONS \
    {.name = "input", .letter = 'i', .value = "GLOB", .path = WM_PATH_GLOB, .task = "inputs", \
     .help = "files to score, or URLs (root://, https://); may be repeated"}, \
    {.name = "input-list", .value = "FILE", .path = WM_PATH_LIST, \
     .text = "a list of one path a line", \
     .help = "one path a line; lines that begin with # are comments; - is standard input"}, \
    {.name = "scratch", .value = "DIR", .path = WM_PATH_FOLDER, \
     .help = "folder for copies of files given as URLs, and for outputs on their way to a " \
             "server (default: of run CAMPAIGN/staged, of produce in TMPDIR)"}, \
    {.name = "stage-ahead", .value = "N", .least = 1, .most = 64, \
     .help = "copy so many files before they are read (default: " \
             WM_DEFAULT_TEXT (WM_DEFAULT_STAGE_AHEAD) ")"}, \
    {.name = "stage-bytes", .value = "BYTES", .least = 1, .most = 1L << 50, \
     .help = "space for copies; a larger file is copied alone (default: " \
             WM_DEFAULT_TEXT (WM_DEFAULT_STAGE_GIB) " GiB)"}

/* Which campaign: of verbs that inspect or control one.  */
#define WHERE_OPTIONS \
    {.name = "campaign", .letter = 'c', .value = "DIR", \
     .path = WM_PATH_FOLDER, .task = "which campaign", \
     .help = "its folder, or the folder of its output (default: here)"}, \
    {.name = "broker", .letter = 'b', .value = "ENDPOINT", \
     .help = "or its broker's base address (WM_BROKER stands for it where neither is given)"}, \
    WM_JOIN_OPTION
/* clang-format on */

#endif
