/* wm_writer_facts.c - what an output tells of itself: attributes of the root, and its engines.  */
#include "producer/writing/wm_writer_private.h"

#include "schema/base/wm_url.h"
#include "schema/wm_pair.h"

#include <assert.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define ORIGIN_STEP_BYTES 1024u
#define ORIGIN_BYTES_MAX (32u << 10) /* an attribute holds less than 64 KiB */

hid_t wm_writer_text (size_t bytes)
{
    hid_t type = H5Tcopy (H5T_C_S1);
    H5Tset_size (type, bytes ? bytes : 1);
    H5Tset_strpad (type, H5T_STR_NULLPAD);
    return type;
}

static bool attribute_write (hid_t file, const char *name, hid_t type, hid_t memory,
                             const void *value)
{
    form_t *kept = wm_writer_form_of (file);
    const size_t bytes = H5Tget_size (type);
    if (kept && kept->again) {
        const uint32_t i = kept->at++;
        return i < kept->n_attribute && !strcmp (kept->attribute[i].name, name) &&
               kept->attribute[i].bytes == bytes &&
               H5Awrite (kept->attribute[i].id, memory, value) >= 0;
    }
    hid_t space = H5Screate (H5S_SCALAR);
    hid_t attribute = H5Acreate2 (file, name, type, space, H5P_DEFAULT, H5P_DEFAULT);
    bool fine = attribute >= 0 && H5Awrite (attribute, memory, value) >= 0;
    if (kept && kept->n_attribute == FORM_ATTRIBUTES_MAX)
        kept->fits = false;
    else if (kept && attribute >= 0) {
        kept->attribute[kept->n_attribute].id = attribute;
        kept->attribute[kept->n_attribute].name = name;
        kept->attribute[kept->n_attribute++].bytes = bytes;
        attribute = -1; /* stays open */
    }
    if (attribute >= 0)
        fine = H5Aclose (attribute) >= 0 && fine;
    H5Sclose (space);
    return fine;
}

static bool text_write (hid_t file, const char *name, const char *text)
{
    hid_t type = wm_writer_text (strlen (text));
    bool fine = attribute_write (file, name, type, type, text);
    H5Tclose (type);
    return fine;
}

static bool number_write (hid_t file, const char *name, uint64_t number)
{
    return attribute_write (file, name, H5T_STD_U64LE, H5T_NATIVE_UINT64, &number);
}

/* A text whose length depends on who scores it, and where: padded, so that the rest of the file
   lies where it would anyway.  */
static bool origin_text_write (hid_t file, const char *name, const char *text)
{
    const size_t length = text ? strlen (text) : 0;
    const size_t bytes = (length / ORIGIN_STEP_BYTES + 1) * ORIGIN_STEP_BYTES;
    char *padded = bytes <= ORIGIN_BYTES_MAX ? calloc (1, bytes) : NULL;
    if (!padded)
        return false;
    if (length)
        memcpy (padded, text, length);
    hid_t type = wm_writer_text (bytes);
    const bool fine = attribute_write (file, name, type, type, padded);
    H5Tclose (type);
    free (padded);
    return fine;
}

void wm_writer_campaign (const uint8_t campaign[16], char text[33])
{
    for (int i = 0; i < 16; i++)
        snprintf (text + 2 * i, 3, "%02x", campaign[i]);
}

static bool origin_write (hid_t file, const wm_writer_origin_t *origin)
{
    char mtime[32] = "";
    struct tm utc;
    if (origin->path && wm_url_of (origin->path))
        snprintf (mtime, sizeof mtime, "adler32:%08x", (unsigned) origin->mtime_ns);
    else if (origin->mtime_ns && gmtime_r (&(time_t){ origin->mtime_ns / 1000000000 }, &utc))
        strftime (mtime, sizeof mtime, "%Y-%m-%dT%H:%M:%SZ", &utc);
    return origin_text_write (file, "input_given", origin->given) &&
           origin_text_write (file, "input", origin->path) &&
           number_write (file, "input_bytes", origin->bytes) &&
           origin_text_write (file, "input_mtime", mtime) &&
           origin_text_write (file, "campaign_folder", origin->folder) &&
           origin_text_write (file, "command", origin->command);
}

/* Where planes came from that were not the input's own, and the map of frames.  */
static bool pair_write (const wm_writer_t *self)
{
    char planes[PATH_MAX];
    const wm_writer_job_t *job = &self->job;
    return (!*job->pins->planes ||
            (wm_pair_planes (job->pins, job->origin.path ? job->origin.path : "", planes) &&
             origin_text_write (self->file, "planes", planes))) &&
           (!*job->pins->channels ||
            (origin_text_write (self->file, "channels", job->pins->channels) &&
             origin_text_write (self->file, "joined", wm_reader_joined (job->reader))));
}

bool wm_writer_facts (const wm_writer_t *self)
{
    const wm_writer_job_t *job = &self->job;
    char campaign[33];
    wm_writer_campaign (job->campaign, campaign);
    return text_write (self->file, "layout", "wiremill-scores-1") &&
           text_write (self->file, "model_sha256", job->pins->model) &&
           text_write (self->file, "precision", job->pins->precision) &&
           (!*job->pins->max_error || text_write (self->file, "max_error", job->pins->max_error)) &&
           (!*job->pins->judged_by || text_write (self->file, "judged_by", job->pins->judged_by)) &&
           text_write (self->file, "specification", job->pins->spec) && pair_write (self) &&
           text_write (self->file, "wiremill_version", WM_VERSION) &&
           text_write (self->file, "campaign", campaign) &&
           number_write (self->file, "hits", job->scratch->n_row) &&
           number_write (self->file, "hits_held", self->n_held) &&
           number_write (self->file, "hits_same_cell", job->n_same_cell) &&
           number_write (self->file, "hits_empty", job->n_empty) &&
           number_write (self->file, "hits_bad_channel", job->n_bad_channel) &&
           (!wm_reader_n_missing (job->reader) ||
            number_write (self->file, "events_missing", wm_reader_n_missing (job->reader))) &&
           origin_write (self->file, &job->origin);
}

static int engine_compare (const void *a, const void *b)
{
    return strcmp (**(const char *const *const *) a, **(const char *const *const *) b);
}

bool wm_writer_engines (wm_writer_t *self)
{
    const wm_writer_job_t *job = &self->job;
    const wm_scratch_t *scratch = job->scratch;
    const char *const **order = calloc (job->n_engine + 1ul, sizeof *order);
    assert (order);
    memset (self->engine_index, 0, (job->n_engine + 1ul) * sizeof *self->engine_index);
    for (uint64_t i = 0; i < scratch->n_row; i++)
        self->engine_index[scratch->engine[i]] = 1;
    uint32_t n = 0;
    size_t bytes = 1;
    for (uint32_t e = 0; e < job->n_engine; e++)
        if (self->engine_index[e + 1]) {
            order[n++] = &job->engine[e];
            bytes = strlen (job->engine[e]) > bytes ? strlen (job->engine[e]) : bytes;
        }
    if (n > 1)
        qsort (order, n, sizeof *order, engine_compare);
    char *text = calloc (n + 1ul, bytes + 1);
    assert (text);
    for (uint32_t i = 0; i < n; i++) {
        self->engine_index[order[i] - job->engine + 1] = (uint16_t) i;
        memcpy (text + i * bytes, *order[i], strlen (*order[i])); /* not terminated: padded */
    }
    self->engine_index[0] = UINT16_MAX;
    form_t *kept = wm_writer_form_of (self->file);
    const bool again = kept && kept->again;
    hid_t type = wm_writer_text (bytes),
          group = again ? -1 : wm_writer_group (self->file, "engine");
    hid_t dataset = again ? kept->signature : -1;
    if (group >= 0)
        dataset = wm_writer_dataset (group, "signature", type, n);
    bool fine = dataset >= 0 && (!again || kept->signature_bytes == n * bytes) &&
                wm_writer_rows (dataset, type, 0, n, text);
    if (kept) { /* stays open */
        kept->signature = dataset;
        kept->signature_bytes = n * bytes;
        kept->fits = kept->fits && n == 1 && bytes <= COMPACT_BYTES;
    } else if (dataset >= 0)
        fine = H5Dclose (dataset) >= 0 && fine;
    if (fine && *job->pins->max_error) {
        double *error = calloc (n + 1ul, sizeof *error);
        assert (error);
        for (uint32_t i = 0; i < n; i++)
            error[i] = job->engine_error ? job->engine_error[order[i] - job->engine] : 0;
        dataset = again ? kept->error : wm_writer_dataset (group, "error", H5T_IEEE_F64LE, n);
        fine = dataset >= 0 && wm_writer_rows (dataset, H5T_NATIVE_DOUBLE, 0, n, error);
        if (kept)
            kept->error = dataset;
        else
            fine = (dataset < 0 || H5Dclose (dataset) >= 0) && fine;
        free (error);
    }
    if (group >= 0)
        H5Gclose (group);
    H5Tclose (type);
    free (text);
    free (order);
    return fine;
}
