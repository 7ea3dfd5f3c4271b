/* batches.c - `wiremill-producer batches`: the batches that a campaign would send, encoded, one after
   another, and what it took to make them. `wiremill bench` gives them to `wiremill-worker --bench`.

   What it prints:  "wiremill-batches 1\n", "pins BYTES\n" and the pins' text; for each batch
   "batch N BYTES\n" and the encoded frame; "end EVENTS HITS READ_NS PACK_NS\n", all hits of the
   events that were read.  */
#include "producer/verbs.h"

#include "producer/wm_pack.h"
#include "producer/wm_reader.h"
#include "schema/wm_limits.h"
#include "schema/wm_pins.h"
#include "schema/wm_trace.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char usage[] =
    "usage: wiremill-producer batches --pins FILE --input-list FILE [--hits N]\n"
    "Prints the encoded batches of the inputs, for wiremill-worker --bench; `wiremill bench` runs "
    "both.\n"
    "  --pins FILE        what the campaign is pinned to\n"
    "  --input-list FILE  one path a line\n"
    "  --hits N           so many hits, or few more (default: all, up to 1 GiB)\n";

#define RAW_BYTES_MAX (1ull << 30) /* whoever reads it keeps all of it */

typedef struct {
    wm_pins_t pins;
    wm_spec_t spec;
    wm_packer_t *packer;
    wm_event_t event;
    uint64_t hits_max, n_hit, raw_bytes, n_read; /* printed; n_read: hits of the events read */
    uint32_t n_event;
    int64_t read_ns, pack_ns;
} job_t;

static void put (const void *bytes, size_t size)
{
    if (fwrite (bytes, 1, size, stdout) != size)
        exit (WM_EXIT_FAILURE); /* whoever read it is gone, and says why */
}

static int wants_more (const job_t *self)
{
    return self->n_hit < self->hits_max && self->raw_bytes < RAW_BYTES_MAX;
}

static wm_fault_t put_event (job_t *self, const char *path, wm_error_t *error)
{
    wm_pack_t *pack = NULL;
    const uint8_t *in_fiducial;
    const int64_t start = wm_trace_now_ns ();
    wm_fault_t fault =
        wm_packer_pack (self->packer, &self->event, path, &pack, &in_fiducial, error);
    if (fault)
        return fault;
    self->pack_ns += wm_trace_now_ns () - start;
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
    wm_reader_t *reader = wm_reader_open (path, &self->spec, self->pins.n_value, error);
    if (!reader)
        return error->fault;
    wm_fault_t fault = WM_OK;
    const uint32_t n_event = wm_reader_n_event (reader);
    for (uint32_t e = 0; e < n_event && wants_more (self) && !fault; e++) {
        const int64_t start = wm_trace_now_ns ();
        fault = wm_reader_event (reader, e, &self->event, error);
        self->read_ns += wm_trace_now_ns () - start;
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
    self->packer = wm_packer_new (&self->spec, self->pins.n_output, self->pins.batch_hits,
                                  self->pins.batch_bytes, digest);
    while (!fault && wants_more (self) && (n = getline (&line, &room, paths)) > 0) {
        line[n - (line[n - 1] == '\n')] = 0;
        fault = put_input (self, line, error);
    }
    free (line);
    fclose (paths);
    if (!fault)
        printf ("end %u %llu %lld %lld\n", self->n_event, (unsigned long long) self->n_read,
                (long long) self->read_ns, (long long) self->pack_ns);
    return fault;
}

int batches_main (int argc, char **argv)
{
    static job_t job;
    const char *pins = NULL, *list = NULL, *hits = NULL;
    for (int i = 1; i < argc; i += 2) {
        const char *word = argv[i];
        const char **text = !strcmp (word, "--pins")         ? &pins
                            : !strcmp (word, "--input-list") ? &list
                            : !strcmp (word, "--hits")       ? &hits
                                                             : NULL;
        if (!strcmp (word, "--help"))
            return fputs (usage, stdout), WM_EXIT_OK;
        if (!text || i + 1 == argc) {
            fprintf (stderr, text ? "%s takes a value\n" : "unknown option %s\n", word);
            return fputs (usage, stderr), WM_EXIT_USAGE;
        }
        *text = argv[i + 1];
    }
    if (!pins || !list) {
        fprintf (stderr, "%s is missing\n", pins ? "--input-list" : "--pins");
        return fputs (usage, stderr), WM_EXIT_USAGE;
    }
    wm_error_t error;
    job.hits_max = hits ? strtoull (hits, NULL, 10) : UINT64_MAX;
    wm_fault_t fault = run (&job, pins, list, &error);
    if (fault)
        fprintf (stderr, "%s\n", error.text);
    wm_packer_destroy (&job.packer);
    wm_event_clear (&job.event);
    return fault == WM_EBATCH ? WM_EXIT_INPUT : fault ? WM_EXIT_FAILURE : WM_EXIT_OK;
}
