/* cut.c - `wiremill-producer cut`: the patches of a file's hits, through the reader and the cut
   that a campaign uses, into a .npy file. No broker; golden tests and curious people use it.  */
#include "producer/verbs.h"

#include "kernels/patch/wm_image.h"
#include "producer/cutting/wm_cut.h"
#include "producer/files/wm_npy.h"
#include "producer/layouts/wm_reader.h"
#include "producer/pictures/wm_render_process.h"
#include "producer/session/wm_produce_confine.h"
#include "schema/base/wm_failpoint.h"
#include "schema/base/wm_file.h"
#include "schema/base/wm_text.h"
#include "schema/wm_defaults.h"
#include "schema/wm_limits.h"
#include "schema/wm_pair.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* clang-format off */
static const wm_option_t options[] = {
    {.name = "input", .letter = 'i', .value = "FILE", .once = true,
     .path = WM_PATH_READ, .is_needed = true, .task = "what is cut",
     .help = "any layout that a campaign reads"},
    {.name = "planes", .value = "FILE", .path = WM_PATH_READ,
     .help = "frames of the hits of --input, as in wiremill run"},
    {.name = "channels", .value = "FILE",
     .path = WM_PATH_READ,
     .text = "a channel map", .help = "channel map of those frames, or of --input"},
    {.name = "hit-time", .value = "ticks|us", .one_of = true,
     .help = "unit of these hits (default: that of their table)"},
    {.name = "hit-offset", .value = "TICKS",
     .help = "ticks from the times of these hits to those of their frames (default: 0)"},
    {.name = "pedestal", .value = "median|ADC|none",
     .help = "taken off frames of raw ADC (default: none; frames that look raw are refused)"},
    {.name = "patches", .value = "FILE", .path = WM_PATH_WRITTEN, .writes = &wm_made_patches,
     .is_needed = true, .help = "the .npy file to write; one of an earlier cut is replaced"},
    WM_OPTION_FORCE,
    {.name = "spec", .letter = 's', .value = "FILE|PRESET",
     .path = WM_PATH_READ,
     .text = "a specification in YAML", .may_lack = true, .fallback = WM_DEFAULT_SPEC,
     .help = "patch specification"},
    {.name = "event", .value = "N", .least = 0, .most = LONG_MAX,
     .help = "only event number N of the file, from 0 (default: all)"},
    {.name = NULL},
};

static int cut_main (const wm_args_t *args);
const wm_verb_t wm_verb_cut = {
    .name = "cut", .task = "files",
    .summary = "cut patches to a .npy file, to train on or to inspect",
    .text = "  wiremill cut --input events.h5 --patches patches.npy\n\n"
            "Writes the patch of every hit, in input order, as float32 (hits, wires, bins), or\n"
            "(hits, channels, wires, bins) where --spec has channels; NaN where a hit is held.\n",
    .options = options, .run = cut_main };
/* clang-format on */

#define HELD_NAMED 3 /* hits; the others are counted */

typedef struct {
    const char *input, *patches, *spec_name;
    wm_reader_pair_t pair; /* planes NULL: none */
    int patches_fd;
    long event; /* -1: all */

    wm_spec_t spec;
    wm_reader_t *reader;
    wm_event_t content;
    wm_cut_t *cut;
    wm_plane_t *plane;
    wm_batch_t batch;
    uint32_t values; /* a patch */
    float *to;       /* the array's patches */
    void *map;
    size_t map_bytes;
    char head[WM_NPY_HEAD_MAX];
    size_t head_bytes;
    uint64_t n_held, n_of[WM_HIT_STATUSES]; /* by reason */
} job_t;

/* A specification by file or preset.  */
static wm_fault_t spec_load (wm_spec_t *spec, const char *name, wm_error_t *error)
{
    char *text;
    size_t bytes;
    if (!strpbrk (name, "./") && access (name, F_OK))
        return wm_spec_preset (spec, name, error);
    wm_fault_t fault = wm_text_read (name, WM_SPEC_BYTES_MAX, &text, &bytes, error);
    if (!fault)
        fault = wm_spec_parse (spec, text, bytes, name, error);
    free (text);
    return fault;
}

/* The array without its head, mapped, all NaN.  */
static wm_fault_t array_make (job_t *job, uint64_t n_row, wm_error_t *error)
{
    const bool stack = job->spec.n_channel > 1;
    uint64_t dim[] = { n_row, job->spec.n_channel, job->spec.patch_wire, job->spec.patch_bin },
             bytes;
    dim[1] = stack ? dim[1] : n_row; /* one channel is no dimension */
    if (job->content.patch_values || !job->values)
        return wm_fault (error, WM_EBATCH, "%s: holds patches already", job->input);
    job->head_bytes = wm_npy_print (dim + !stack, 3 + stack, WM_MADE_HEAD_BYTES, job->head);
    if (__builtin_mul_overflow (n_row, 4ull * job->values, &bytes) || bytes > 1ull << 40)
        return wm_fault (error, WM_EBATCH, "%llu patches are too many for one file: use --event",
                         (unsigned long long) n_row);
    job->map_bytes = job->head_bytes + bytes;
    const int fd = job->patches_fd;
    int rc = posix_fallocate (fd, 0, (off_t) job->map_bytes);
    if (!rc) {
        job->map = mmap (NULL, job->map_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
        rc = job->map == MAP_FAILED ? errno : 0;
    }
    if (rc) {
        job->map = NULL;
        return wm_file_unwritten (job->patches, rc, error);
    }
    job->to = (float *) (void *) ((char *) job->map + job->head_bytes);
    for (uint64_t i = 0; i < n_row * job->values; i++)
        job->to[i] = NAN;
    return WM_OK;
}

/* Cuts the hits of a batch, piece by piece, to their places.  */
static wm_fault_t batch_cut (job_t *job, const uint32_t *hit, wm_error_t *error)
{
    enum { PIECE = 64 };
    wm_fault_t fault = wm_plane_load (job->plane, &job->batch, error);
    float *patches = malloc (4ul * PIECE * job->values);
    if (!fault && !patches)
        fault = wm_fault (error, WM_EHOST, "out of memory");
    for (uint32_t i = 0, n; i < job->batch.n_hit && !fault; i += n) {
        n = job->batch.n_hit - i < PIECE ? job->batch.n_hit - i : PIECE;
        wm_plane_cut (job->plane, i, n, patches);
        for (uint32_t k = 0; k < n; k++) {
            uint64_t row = job->event < 0 ? job->content.hit[hit[i + k]].row : hit[i + k];
            memcpy (job->to + row * job->values, patches + (size_t) k * job->values,
                    4ul * job->values);
        }
    }
    free (patches);
    return fault;
}

/* Names a held hit: by its number in the event, of a stream by its row and own time.  */
static void held_name (const job_t *job, const char *where, const wm_manifest_held_t *held)
{
    const wm_event_t *event = &job->content;
    const wm_hit_t *hit = &event->hit[held->row];
    const char *why = wm_hit_status_text ((uint8_t) held->status);
    if (event->stream_ticks)
        fprintf (stderr, "%s: the hit of row %u, tick %.2f, is held: %s\n", where, hit->row,
                 (double) event->first_tick + (double) hit->time, why);
    else
        fprintf (stderr, "%s: hit %u is held: %s\n", where, held->row, why);
}

static wm_fault_t event_cut (job_t *job, uint32_t ordinal, wm_error_t *error)
{
    char where[480], name[128];
    wm_fault_t fault = wm_reader_event (job->reader, ordinal, &job->content, error);
    const uint32_t *hit;
    snprintf (where, sizeof where, "%.300s: %s", job->input,
              wm_event_format (&job->content, name));
    if (fault || (job->event >= 0 && (fault = array_make (job, job->content.n_hit, error))) ||
        (fault = wm_cut_start (job->cut, &job->content, where, error)))
        return fault;
    for (;;) {
        if ((fault = wm_cut_next (job->cut, &job->batch, &hit, error)))
            return fault;
        if (!job->batch.n_hit)
            break;
        if ((fault = batch_cut (job, hit, error)))
            return fault;
    }
    uint32_t n_held;
    const wm_manifest_held_t *held = wm_cut_held (job->cut, &n_held);
    for (uint32_t i = 0; i < n_held; i++) {
        if (job->n_held++ < HELD_NAMED)
            held_name (job, where, &held[i]);
        job->n_of[held[i].status]++;
    }
    return WM_OK;
}

/* As of a campaign of the usual network.  */
static const wm_cut_limits_t limits = { 4, WM_DEFAULT_BATCH_HITS, WM_RAW_BYTES_MAX, true };

static void held_say (const job_t *job)
{
    const char *before = ": ";
    if (!job->n_held)
        return;
    fprintf (stderr, "%s: %llu hit%s held", job->input, (unsigned long long) job->n_held,
             job->n_held == 1 ? " is" : "s are");
    for (uint8_t s = 1; s < WM_HIT_STATUSES; s++)
        if (job->n_of[s]) {
            fprintf (stderr, "%s%llu %s", before, (unsigned long long) job->n_of[s],
                     wm_hit_status_text (s));
            before = ", ";
        }
    fputs ("; their patches are NaN\n", stderr);
}

static void joined_say (const job_t *job)
{
    if (job->pair.planes)
        fprintf (stderr, "%s: %s\n", job->input, wm_reader_joined (job->reader));
    const char *unmatched = wm_reader_unmatched (job->reader);
    if (*unmatched)
        fprintf (stderr, "%s: %s\n", job->input, unmatched);
}

static wm_fault_t job_run (job_t *job, wm_error_t *error)
{
    wm_fault_t fault = spec_load (&job->spec, job->spec_name, error);
    if (fault)
        return fault;
    job->values = (uint32_t) wm_spec_values (&job->spec);
    const char *const files[] = { job->input, job->pair.channels, job->pair.planes };
    if (wm_file_exist (files, 3, error))
        return error->fault;
    /* From here on there is no file to write but the array.  */
    wm_produce_confine_reader (files, job->pair.planes ? 3 : job->pair.channels ? 2 : 1);
    job->reader = wm_reader_open_pair (job->input, &job->pair, &job->spec, error);
    if (!job->reader)
        return error->fault;
    if (!wm_reader_has_planes (job->reader))
        return wm_fault (error, WM_EBATCH, "%s holds ready-made patches: there is nothing to cut",
                         job->input);
    uint32_t n_event = wm_reader_n_event (job->reader);
    if (job->event >= (long) n_event)
        return wm_fault (error, WM_EBATCH, "%s: has %u events; there is no number %ld", job->input,
                         n_event, job->event);
    job->cut = wm_cut_new (&job->spec, limits);
    job->plane = wm_plane_new (&job->spec);
    if (job->event < 0 && (fault = array_make (job, wm_reader_n_row (job->reader), error)))
        return fault;
    for (uint32_t e = 0; e < n_event && !fault; e++)
        if (job->event < 0 || (uint32_t) job->event == e)
            fault = event_cut (job, e, error);
    if (!fault) {
        WM_FAILPOINT ("cut-head");
        memcpy (job->map, job->head, job->head_bytes);
        held_say (job);
        joined_say (job);
    }
    return fault;
}

/* In the child of wm_render_process.h: an array that is not whole is nothing.  */
static int cut_apart (void *arg, FILE *out)
{
    job_t *job = arg;
    wm_error_t error;
    job->patches_fd = fileno (out);
    const wm_fault_t fault = job_run (job, &error);
    if (fault)
        fprintf (stderr, "wiremill cut: %s\n", error.text);
    if (job->map)
        munmap (job->map, job->map_bytes);
    const int code = !fault && job->n_held ? WM_EXIT_HELD : wm_exit_of (fault);
    if (fault && ftruncate (job->patches_fd, 0))
        abort ();
    wm_batch_clear (&job->batch);
    wm_event_clear (&job->content);
    wm_plane_destroy (&job->plane);
    wm_cut_destroy (&job->cut);
    wm_reader_destroy (&job->reader);
    return code;
}

static int cut_main (const wm_args_t *args)
{
    char offset[24] = "", pedestal[24] = "", planes[PATH_MAX], place[PATH_MAX];
    job_t job = { .input = wm_args_text (args, "input"),
                  .pair = { wm_args_text (args, "planes"), wm_args_text (args, "channels"),
                            wm_args_text (args, "hit-time"), offset, pedestal },
                  .patches = wm_args_text (args, "patches"),
                  .spec_name = wm_args_text (args, "spec"),
                  .event = wm_args_given (args, "event") ? wm_args_number (args, "event") : -1 };
    wm_error_t error;
    if (job.pair.planes && !job.pair.channels)
        return wm_args_refuse (args, "--planes needs --channels");
    if (job.pair.planes && !wm_pair_expand (job.pair.planes, job.input, planes))
        return wm_args_refuse (args, "the path of --planes is too long");
    job.pair.planes = job.pair.planes ? planes : NULL;
    if (job.pair.planes && wm_args_spare (args, planes, "--planes", &error))
        return wm_args_refuse (args, "%s", error.text);
    if ((wm_args_given (args, "hit-offset") &&
         wm_pair_offset (wm_args_text (args, "hit-offset"), offset, &error)) ||
        (wm_args_given (args, "pedestal") &&
         wm_pair_pedestal (wm_args_text (args, "pedestal"), pedestal, &error)))
        return wm_args_refuse (args, "%s", error.text);
    if ((!job.pair.planes && *offset) || (!job.pair.channels && *pedestal))
        return wm_args_refuse (args, "--%s goes with --planes and --channels",
                               *offset ? "hit-offset" : "pedestal");
    if (job.pair.planes &&
        (!strcmp (job.pair.planes, job.input) || !strcmp (job.pair.channels, job.input) ||
         !strcmp (job.pair.planes, job.pair.channels)))
        return wm_args_refuse (args, "--input, --planes and --channels name three files; one is "
                                     "given twice");
    if (!job.pair.hit_time)
        job.pair.hit_time = "";
    return wm_render_process_run ("cut", wm_args_place (args, "patches", place), cut_apart, &job);
}
