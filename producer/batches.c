/* batches.c - `wiremill-producer batches`: prints the batches that a campaign would send, encoded,
   one after another, and the time that making them took. `wiremill bench` pipes them to
   `wiremill-worker --bench`.

   Its output:  "wiremill-batches 1\n", "pins BYTES\n" and the pins' text; for each batch "batch N
   BYTES\n" and the encoded frame; "end EVENTS HITS READ_NS PACK_NS CPU_NS FILES FILES_EVENTS\n":
   all hits of the events that were read, the CPU time of reading and packing, the files that were
   opened, and all events that are in these.  */
#include "producer/verbs.h"

#include "producer/cutting/wm_pack.h"
#include "producer/layouts/wm_reader.h"
#include "schema/option/wm_option.h"
#include "schema/wm_limits.h"
#include "schema/wm_pins.h"
#include "schema/wm_trace.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* clang-format off */
static const wm_option_t options[] = {
    {.name = "pins", .value = "FILE",
     .path = WM_PATH_READ, .is_needed = true, .help = "what the campaign is pinned to"},
    {.name = "input-list", .value = "FILE",
     .path = WM_PATH_LIST,
     .text = "a list of one path a line", .is_needed = true, .help = "one path a line"},
    {.name = "hits", .value = "N", .least = 1, .most = 1L << 40,
     .help = "so many hits, or few more (default: all, up to 1 GiB)"},
    {.name = NULL},
};
static int batches_main (const wm_args_t *args);
const wm_verb_t wm_verb_batches = {
    .program = "wiremill-producer", .name = "batches", .task = "parts of other verbs",
    .options = options,
    .summary = "print the encoded batches of files, for wiremill-worker --bench",
    .text = "`wiremill bench` runs both.\n", .run = batches_main,
};
/* clang-format on */

#define RAW_BYTES_MAX (1ull << 30) /* the reader keeps all of it in memory */

typedef struct {
    wm_pins_t pins;
    wm_spec_t spec;
    wm_packer_t *packer;
    wm_event_t event;
    uint64_t hits_max, n_hit, raw_bytes, n_read; /* printed; n_read: hits of the events read */
    uint32_t n_event, n_file;
    uint64_t n_file_event;
    int64_t read_ns, pack_ns, cpu_ns;
} job_t;

static int64_t cpu_now_ns (void)
{
    struct timespec now;
    clock_gettime (CLOCK_PROCESS_CPUTIME_ID, &now);
    return now.tv_sec * 1000000000 + now.tv_nsec;
}

static void put (const void *bytes, size_t size)
{
    if (fwrite (bytes, 1, size, stdout) != size)
        exit (WM_EXIT_FAILURE); /* the reader has ended, and reported why */
}

static bool wants_more (const job_t *self)
{
    return self->n_hit < self->hits_max && self->raw_bytes < RAW_BYTES_MAX;
}

static wm_fault_t put_event (job_t *self, const char *path, wm_error_t *error)
{
    wm_pack_t *pack = NULL;
    const uint8_t *in_fiducial;
    const int64_t start = wm_trace_now_ns (), cpu_start = cpu_now_ns ();
    wm_fault_t fault =
        wm_packer_pack (self->packer, &self->event, path, &pack, &in_fiducial, error);
    if (fault)
        return fault;
    self->pack_ns += wm_trace_now_ns () - start;
    self->cpu_ns += cpu_now_ns () - cpu_start;
    self->n_event++;
    self->n_read += pack->n_hit;
    for (uint32_t b = 0; b < pack->n_batch && wants_more (self); b++) {
        const size_t first = pack->frame_start[b], bytes = pack->frame_start[b + 1] - first;
        printf ("batch %u %zu\n", pack->batch[b].n_hit, bytes);
        put (pack->frames + first, bytes);
        self->n_hit += pack->batch[b].n_hit;
        self->raw_bytes += pack->batch[b].raw_bytes;
    }
    wm_pack_destroy (&pack);
    return WM_OK;
}

static wm_fault_t put_input (job_t *self, const char *path, wm_error_t *error)
{
    wm_reader_t *reader = wm_reader_open_input (path, path, &self->pins, "", &self->spec, error);
    if (!reader)
        return error->fault;
    wm_fault_t fault = WM_OK;
    const uint32_t n_event = wm_reader_n_event (reader);
    self->n_file++;
    self->n_file_event += n_event;
    for (uint32_t e = 0; e < n_event && wants_more (self) && !fault; e++) {
        const int64_t start = wm_trace_now_ns (), cpu_start = cpu_now_ns ();
        fault = wm_reader_event (reader, e, &self->event, error);
        self->read_ns += wm_trace_now_ns () - start;
        self->cpu_ns += cpu_now_ns () - cpu_start;
        if (!fault)
            fault = put_event (self, path, error);
    }
    wm_reader_destroy (&reader);
    return fault;
}

static wm_fault_t put_head (job_t *self, const char *path, wm_error_t *error)
{
    char text[WM_PINS_BYTES_MAX];
    FILE *file = fopen (path, "re");
    const size_t bytes = file ? fread (text, 1, sizeof text, file) : 0;
    if (!file || fclose (file))
        return wm_fault (error, WM_EHOST, "%s cannot be read", path);
    wm_fault_t fault = wm_pins_parse (&self->pins, text, bytes, error);
    if (!fault)
        fault = wm_spec_parse (&self->spec, self->pins.spec, strlen (self->pins.spec), path, error);
    if (fault)
        return fault;
    printf ("wiremill-batches 1\npins %zu\n", bytes);
    put (text, bytes);
    return WM_OK;
}

static wm_fault_t run (job_t *self, const char *pins, const char *list, wm_error_t *error)
{
    const uint8_t digest[16] = { 0 };
    char *line = NULL;
    size_t room = 0;
    ssize_t n;
    wm_fault_t fault = put_head (self, pins, error);
    if (fault)
        return fault;
    FILE *paths = fopen (list, "re");
    if (!paths)
        return wm_fault (error, WM_EHOST, "%s cannot be read", list);
    self->packer = wm_packer_new (&self->spec, wm_cut_limits (&self->pins), digest);
    while (!fault && wants_more (self) && (n = getline (&line, &room, paths)) > 0) {
        line[n - (line[n - 1] == '\n')] = 0;
        fault = put_input (self, line, error);
    }
    free (line);
    fclose (paths);
    if (!fault)
        printf ("end %u %llu %lld %lld %lld %u %llu\n", self->n_event,
                (unsigned long long) self->n_read, (long long) self->read_ns,
                (long long) self->pack_ns, (long long) self->cpu_ns, self->n_file,
                (unsigned long long) self->n_file_event);
    return fault;
}

static int batches_main (const wm_args_t *args)
{
    static job_t job;
    const long hits = wm_args_number (args, "hits");
    wm_error_t error;
    job.hits_max = hits ? (uint64_t) hits : UINT64_MAX;
    wm_fault_t fault =
        run (&job, wm_args_text (args, "pins"), wm_args_text (args, "input-list"), &error);
    if (fault)
        fprintf (stderr, "%s\n", error.text);
    wm_packer_destroy (&job.packer);
    wm_event_clear (&job.event);
    return wm_exit_of (fault);
}
