/* wm_writer.c - writes an input's scores, in steps, once or not at all.

   CREATE --file made--> ROWS --last piece--> FINISH --closed--> READY --fsynced--> SYNCED
     ^                    |                     |                   --renamed--> HASH --> DONE
     +---- disk full: the partial file is emptied and removed, and it starts over ----+

   Many small outputs: the library makes one in memory, which is written and hashed as a whole; it
   would need twenty writes and read the file again. Columns of few rows lie in the objects'
   headers: a chunk of two rows costs an index of its own. Its objects stay open for the next
   output: see "forms" below.
   The owner syncs several READY files and places them together (wm_writer_place): what makes a name
   durable costs the same for one name and for many.

   A file of the library whose write failed cannot always be closed, and would keep its disk space
   as long as the process runs: it is truncated to nothing before it is removed, and no other try
   is made before the disk has more room than then.  */
#include "producer/writing/wm_writer.h"

#include "producer/files/wm_h5.h"
#include "producer/files/wm_space.h"
#include "producer/writing/wm_writer_private.h"
#include "schema/base/wm_failpoint.h"
#include "schema/base/wm_path.h"
#include "schema/base/wm_url.h"
#include "schema/wm_limits.h"
#include "schema/wm_pair.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <hdf5.h>
#include <libdeflate.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <time.h>
#include <unistd.h>
#include <xxhash.h>

#define SMALL_BYTES                                                                                \
    (256u << 10) /* of columns, before compression: made in memory, written at once */
#define ROOM_BYTES                                                                                 \
    (1u << 20)        /* below this the disk counts as full, and less more is no more room */
#define FULL_TRIES 60 /* a quota does not show in the room; so now and then it is tried */
#define HASH_BYTES (32u << 20)
#define GZIP_LEVEL 2
#define ORIGIN_STEP_BYTES 1024u
#define ORIGIN_BYTES_MAX (32u << 10) /* an attribute holds less than 64 KiB */

/* A piece of rows on its way, of whichever writer does a step.  */
static struct {
    int64_t run[PIECE_ROWS], subrun[PIECE_ROWS], event[PIECE_ROWS], hit_id[PIECE_ROWS];
    int32_t cryostat[PIECE_ROWS], tpc[PIECE_ROWS], plane[PIECE_ROWS], wire[PIECE_ROWS];
    int64_t time[PIECE_ROWS];
    union { /* one column, or bytes to hash */
        uint64_t row[PIECE_ROWS];
        int64_t id[PIECE_ROWS];
        float score[PIECE_ROWS];
        uint16_t engine[PIECE_ROWS];
        uint8_t status[PIECE_ROWS];
        char reason[PIECE_ROWS * REASON_BYTES];
    } cell;
} piece;
static const wm_reader_rows_t piece_columns = { piece.run,    piece.subrun,   piece.event,
                                                piece.hit_id, piece.cryostat, piece.tpc,
                                                piece.plane,  piece.wire,     piece.time };

/* ---- names ----------------------------------------------------------------------------------- */

static bool has_column (const wm_spec_t *spec, int column)
{
    return (column != WIRE && column != TIME) || spec->points == WM_POINTS_WINDOWS;
}

static bool has_own (const wm_writer_t *self)
{
    return strcmp (self->job.pins->layout, "numl") != 0;
}

/* What an output of images needs.  */
static wm_fault_t image_check (const wm_spec_t *spec, uint32_t n_output, bool has_numl,
                               wm_error_t *error)
{
    if ((uint64_t) spec->patch_wire * spec->patch_bin != n_output)
        return wm_fault (error, WM_EBATCH,
                         "result: image needs a value for each cell of a patch, %u x %u; the model "
                         "gives %u",
                         spec->patch_wire, spec->patch_bin, n_output);
    if (has_numl)
        return wm_fault (error, WM_EBATCH,
                         "result: image is written as frames, not as numl's tables; leave --layout "
                         "out");
    if (!spec->table[strspn (spec->table, "0123456789_-")])
        return wm_fault (error, WM_EBATCH,
                         "table: '%s' could be an event's number, which names its frames; choose "
                         "another name",
                         spec->table);
    return WM_OK;
}

wm_fault_t wm_writer_check (const wm_spec_t *spec, uint32_t n_output, const char *layout,
                            wm_error_t *error)
{
    const bool has_numl = *layout && strcmp (layout, "wiremill");
    if (spec->result == WM_RESULT_IMAGE)
        return image_check (spec, n_output, has_numl, error);
    if (n_output > WM_OUTPUTS_MAX)
        return wm_fault (error, WM_EBATCH,
                         "the model gives %u values a patch, and a table of scores has at most %u "
                         "columns; write result: image into --spec if they are an image",
                         n_output, WM_OUTPUTS_MAX);
    if (!strcmp (spec->table, "held") || !strcmp (spec->table, "engine") ||
        (has_numl && (!strcmp (spec->table, "event") || !strcmp (spec->table, "event_table"))))
        return wm_fault (error, WM_EBATCH, "table: '%s' is the name of another group of the output",
                         spec->table);
    for (uint32_t i = 0; i < n_output; i++) {
        char name[48];
        bool is_taken = false;
        wm_writer_label (spec, n_output, i, name);
        for (int c = 0; c < COLUMNS; c++)
            is_taken |= has_column (spec, c) && !strcmp (name, wm_writer_column[c]);
        if (is_taken || (has_numl && !strcmp (name, "event_id")))
            return wm_fault (error, WM_EBATCH,
                             "labels: '%s' is the name of another column of the output", name);
    }
    return WM_OK;
}

/* ---- columns --------------------------------------------------------------------------------- */

/* A chunk is shuffled (the lowest byte of each value, then the second byte of each ...), packed by
   libdeflate and stored as it is (H5Dwrite_chunk): the library reads it as one of its own, and its
   zlib takes three times as long. The last chunk of a column is stored whole, as the library does
   it: zeros follow its rows.  */
/* Of the one thread of all writers.  */
static struct {
    struct libdeflate_compressor *compressor;
    void *shuffled, *packed;
    size_t shuffled_max, packed_max;
} packing;

static void packed_list (hid_t list, hsize_t chunk)
{
    H5Pset_chunk (list, 1, &chunk);
    H5Pset_shuffle (list);
    H5Pset_deflate (list, GZIP_LEVEL);
}

static hid_t column_make (hid_t group, const char *name, hid_t type, uint64_t count)
{
    hsize_t dim = count;
    const hsize_t chunk = count < PIECE_ROWS ? count : PIECE_ROWS;
    hid_t list = H5Pcreate (H5P_DATASET_CREATE), extent = H5Screate_simple (1, &dim, NULL);
    H5Pset_obj_track_times (list, false);
    if (count && count * H5Tget_size (type) <= COMPACT_BYTES)
        H5Pset_layout (list, H5D_COMPACT);
    else if (count)
        packed_list (list, chunk);
    hid_t dataset = H5Dcreate2 (group, name, type, extent, H5P_DEFAULT, list, H5P_DEFAULT);
    H5Sclose (extent);
    H5Pclose (list);
    return dataset;
}

/* The rows of a chunk of `dataset`, or 0: its values are not stored as they are in memory, or it is
   not packed.  */
static hsize_t chunk_rows (hid_t dataset, hid_t type)
{
    hsize_t chunk = 0;
    hid_t stored = H5Dget_type (dataset), list = H5Dget_create_plist (dataset);
    if (H5Tequal (stored, type) > 0 && H5Pget_layout (list) == H5D_CHUNKED &&
        H5Pget_nfilters (list) == 2)
        H5Pget_chunk (list, 1, &chunk);
    H5Pclose (list);
    H5Tclose (stored);
    return chunk;
}

static bool chunk_write (hid_t dataset, size_t value_bytes, hsize_t chunk, uint64_t first,
                         uint32_t count, const uint8_t *from)
{
    const size_t bytes = chunk * value_bytes;
    if (!packing.compressor)
        packing.compressor = libdeflate_alloc_compressor (GZIP_LEVEL);
    if (!packing.compressor || !wm_space_grow (&packing.shuffled, &packing.shuffled_max, bytes) ||
        !wm_space_grow (&packing.packed, &packing.packed_max,
                        libdeflate_zlib_compress_bound (packing.compressor, bytes)))
        return false;
    for (size_t b = 0; b < value_bytes; b++) {
        uint8_t *to = (uint8_t *) packing.shuffled + b * chunk;
        for (uint32_t i = 0; i < count; i++)
            to[i] = from[i * value_bytes + b];
        memset (to + count, 0, chunk - count);
    }
    const size_t packed = libdeflate_zlib_compress (packing.compressor, packing.shuffled, bytes,
                                                    packing.packed, packing.packed_max);
    const hsize_t offset = first;
    return packed && H5Dwrite_chunk (dataset, H5P_DEFAULT, 0, &offset, packed, packing.packed) >= 0;
}

static bool rows_write (hid_t dataset, hid_t type, uint64_t first, uint32_t count, const void *from)
{
    if (!count)
        return true;
    hsize_t start = first, size = count;
    hid_t file = H5Dget_space (dataset);
    const hsize_t n = (hsize_t) H5Sget_simple_extent_npoints (file);
    const hsize_t chunk = chunk_rows (dataset, type);
    if (chunk && first % chunk == 0 && (count == chunk || first + count == n) && count <= chunk) {
        H5Sclose (file);
        return chunk_write (dataset, H5Tget_size (type), chunk, first, count, from);
    }
    hid_t memory = H5Screate_simple (1, &size, NULL);
    H5Sselect_hyperslab (file, H5S_SELECT_SET, &start, NULL, &size, NULL);
    bool fine = H5Dwrite (dataset, type, memory, file, H5P_DEFAULT, from) >= 0;
    H5Sclose (memory);
    H5Sclose (file);
    return fine;
}

/* ---- forms ----------------------------------------------------------------------------------- */

/* Making the objects of a small output costs more than all the rest, so the library's file in
   memory stays open as a form for the next output with as many rows: every value is written over,
   and nothing can move, because nothing has another size. An output is the same bytes whether its
   form is a new one or not.  */
#define FORMS_MAX 16u /* below 200 KB each */
#define FORM_LABELS_MAX 64u
#define FORM_ATTRIBUTES_MAX 40u

/* A file of the library, in memory, whose objects stay open between outputs.  */
typedef struct {
    uint64_t n_row, n_held, layout_hash; /* what the objects' sizes follow from, with: */
    size_t signature_bytes;              /* of all engines */
    hid_t file, table, column[COLUMNS], label[FORM_LABELS_MAX];
    hid_t held_row, held_id, held_status, held_reason, signature, error;
    struct {
        hid_t id;
        const char *name; /* literal */
        size_t bytes;
    } attribute[FORM_ATTRIBUTES_MAX];
    uint32_t n_attribute, at; /* at: next to be written over */
    uint64_t used;            /* when: the least recently used one goes */
    bool is_busy;             /* a writer has its objects */
    bool again;               /* they are written over */
    bool fits;                /* all that was made is kept here */
} form_t;

static form_t form[FORMS_MAX]; /* of the one thread of all writers */
static uint64_t form_clock;

static form_t *form_of (hid_t file)
{
    for (uint32_t i = 0; i < FORMS_MAX && file > 0; i++)
        if (form[i].file == file)
            return &form[i];
    return NULL;
}

static void form_keep (form_t *kept, wm_writer_t *self)
{
    kept->table = self->table;
    memcpy (kept->column, self->column, sizeof kept->column);
    memcpy (kept->label, self->label, self->n_label * sizeof *kept->label);
    kept->held_row = self->held_row;
    kept->held_id = self->held_id;
    kept->held_status = self->held_status;
    kept->held_reason = self->held_reason;
    kept->is_busy = kept->again = false;
    memset (self->label, 0, self->n_label * sizeof *kept->label);
    memset (self->column, 0, sizeof self->column);
    self->held_row = self->held_id = self->held_status = self->held_reason = 0;
    self->file = self->table = 0;
}

static bool list_close (hid_t *list, size_t n)
{
    bool fine = true;
    for (size_t i = 0; i < n; i++)
        fine = (list[i] <= 0 || H5Dclose (list[i]) >= 0) && fine, list[i] = 0;
    return fine;
}

static bool form_close (form_t *kept)
{
    hid_t rest[] = { kept->held_row,    kept->held_id,   kept->held_status,
                     kept->held_reason, kept->signature, kept->error };
    bool fine = list_close (rest, sizeof rest / sizeof *rest);
    fine = list_close (kept->label, FORM_LABELS_MAX) && fine;
    fine = list_close (kept->column, COLUMNS) && fine;
    for (uint32_t i = 0; i < kept->n_attribute; i++)
        fine = H5Aclose (kept->attribute[i].id) >= 0 && fine;
    fine = H5Gclose (kept->table) >= 0 && fine;
    fine = H5Fclose (kept->file) >= 0 && fine;
    memset (kept, 0, sizeof *kept);
    return fine;
}

static bool objects_close (wm_writer_t *self)
{
    bool fine = true;
    if (self->numl)
        wm_writer_numl_reset (self);
    if (self->frames)
        fine = wm_writer_frames_reset (self->frames);
    form_t *kept = form_of (self->file);
    if (kept) {
        form_keep (kept, self);
        return form_close (kept);
    }
    hid_t *list[] = { &self->held_row, &self->held_id, &self->held_status, &self->held_reason };
    for (size_t i = 0; i < sizeof list / sizeof *list; i++)
        fine = list_close (list[i], 1) && fine;
    fine = list_close (self->label, self->n_label) && fine;
    fine = list_close (self->column, COLUMNS) && fine;
    fine = (self->table <= 0 || H5Gclose (self->table) >= 0) && fine;
    fine = (self->file <= 0 || H5Fclose (self->file) >= 0) && fine;
    self->table = self->file = 0;
    return fine;
}

/* What the objects of an output are, but for the number of rows.  */
static uint64_t layout_hash (const wm_writer_job_t *job)
{
    const uint32_t more[2] = { job->scratch->n_output, (uint32_t) (*job->pins->max_error != 0) +
                                                           2 * has_column (job->spec, WIRE) };
    uint64_t hash = XXH3_64bits_withSeed (job->spec->table, strlen (job->spec->table), more[0]);
    for (uint32_t i = 0; i < job->spec->n_label; i++)
        hash = XXH3_64bits_withSeed (job->spec->label[i], strlen (job->spec->label[i]), hash);
    return XXH3_64bits_withSeed (more, sizeof more, hash);
}

static bool has_form (const wm_writer_t *self)
{
    return self->is_small && !self->numl && self->job.scratch->n_row * 8 <= COMPACT_BYTES &&
           self->n_held * REASON_BYTES <= COMPACT_BYTES &&
           self->job.scratch->n_output <= FORM_LABELS_MAX;
}

/* ---- what an output states of itself: attributes of the root, engines ------------------------ */

static hid_t text_type (size_t bytes)
{
    hid_t type = H5Tcopy (H5T_C_S1);
    H5Tset_size (type, bytes ? bytes : 1);
    H5Tset_strpad (type, H5T_STR_NULLPAD);
    return type;
}

static bool attribute_write (hid_t file, const char *name, hid_t type, hid_t memory,
                             const void *value)
{
    form_t *kept = form_of (file);
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
    hid_t type = text_type (strlen (text));
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
    hid_t type = text_type (bytes);
    const bool fine = attribute_write (file, name, type, type, padded);
    H5Tclose (type);
    free (padded);
    return fine;
}

static void campaign_text (const uint8_t campaign[16], char text[33])
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

static bool facts_write (const wm_writer_t *self)
{
    const wm_writer_job_t *job = &self->job;
    char campaign[33];
    campaign_text (job->campaign, campaign);
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

static bool engines_write (wm_writer_t *self)
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
    form_t *kept = form_of (self->file);
    const bool again = kept && kept->again;
    hid_t type = text_type (bytes), group = again ? -1 : wm_writer_group (self->file, "engine");
    hid_t dataset = again ? kept->signature : -1;
    if (group >= 0)
        dataset = column_make (group, "signature", type, n);
    bool fine = dataset >= 0 && (!again || kept->signature_bytes == n * bytes) &&
                rows_write (dataset, type, 0, n, text);
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
        dataset = again ? kept->error : column_make (group, "error", H5T_IEEE_F64LE, n);
        fine = dataset >= 0 && rows_write (dataset, H5T_NATIVE_DOUBLE, 0, n, error);
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

static bool form_take (wm_writer_t *self)
{
    const uint64_t hash = layout_hash (&self->job);
    form_t *f = NULL;
    for (uint32_t i = 0; i < FORMS_MAX && !f && has_form (self); i++)
        if (form[i].file > 0 && !form[i].is_busy && form[i].n_row == self->job.scratch->n_row &&
            form[i].n_held == self->n_held && form[i].layout_hash == hash)
            f = &form[i];
    if (!f)
        return false;
    self->file = f->file;
    self->table = f->table;
    memcpy (self->column, f->column, sizeof f->column);
    memcpy (self->label, f->label, self->n_label * sizeof *f->label);
    self->held_row = f->held_row;
    self->held_id = f->held_id;
    self->held_status = f->held_status;
    self->held_reason = f->held_reason;
    f->used = ++form_clock;
    f->is_busy = f->again = true;
    f->at = 0;
    if (facts_write (self) && f->at == f->n_attribute && engines_write (self))
        return true;
    objects_close (self);
    return false;
}

static void form_begin (const wm_writer_t *self)
{
    form_t *f = NULL;
    for (uint32_t i = 0; i < FORMS_MAX; i++)
        if (!form[i].is_busy && (!f || form[i].used < f->used))
            f = &form[i];
    if (!f)
        return;
    if (f->file > 0)
        form_close (f);
    f->file = self->file;
    f->n_row = self->job.scratch->n_row;
    f->n_held = self->n_held;
    f->layout_hash = layout_hash (&self->job);
    f->used = ++form_clock;
    f->is_busy = f->fits = true;
}

/* ---- begin and end --------------------------------------------------------------------------- */

wm_writer_t *wm_writer_new (const wm_writer_job_t *job)
{
    wm_writer_t *self = calloc (1, sizeof *self);
    assert (self);
    self->job = *job;
    self->fd = -1;
    snprintf (self->part, sizeof self->part, "%.1400s.part", job->path);
    const uint64_t n_row = job->scratch->n_row;
    const uint32_t n = n_row < PIECE_ROWS ? (uint32_t) n_row + 1 : PIECE_ROWS;
    self->piece_rows = n;
    const bool is_image = job->spec->result == WM_RESULT_IMAGE;
    self->n_label = is_image ? 0 : job->scratch->n_output;
    self->is_small = !is_image && n_row < PIECE_ROWS &&
                     n_row * (64 + 4ull * job->scratch->n_output) < SMALL_BYTES;
    self->label = calloc (self->n_label + 1ul, sizeof *self->label);
    self->engine_index = calloc (job->n_engine + 1ul, sizeof *self->engine_index);
    self->hash = XXH3_createState ();
    if (*job->pins->layout && strcmp (job->pins->layout, "wiremill"))
        self->numl = wm_writer_numl_new (n_row, has_column (job->spec, WIRE));
    if (is_image)
        self->frames = wm_writer_frames_new ();
    assert (self->label && self->engine_index && self->hash);
    return self;
}

/* Removes the partial file and gives its room back, even if the library still has it open.  */
static void part_remove (wm_writer_t *self)
{
    objects_close (self);
    if (self->fd >= 0)
        close (self->fd);
    self->fd = -1;
    if (truncate (self->part, 0) == 0)
        unlink (self->part);
}

void wm_writer_destroy (wm_writer_t **self_p)
{
    wm_writer_t *self = *self_p;
    if (!self)
        return;
    if (self->phase > CREATE && self->phase < HASH)
        part_remove (self);
    if (self->fd >= 0)
        close (self->fd);
    wm_writer_numl_destroy (&self->numl);
    wm_writer_frames_destroy (&self->frames);
    free (self->label);
    free (self->engine_index);
    XXH3_freeState (self->hash);
    free (self);
    *self_p = NULL;
}

/* ---- create ---------------------------------------------------------------------------------- */

static bool columns_make (wm_writer_t *self)
{
    const wm_scratch_t *scratch = self->job.scratch;
    const hid_t type[COLUMNS] = { H5T_STD_I64LE, H5T_STD_I64LE, H5T_STD_I64LE, H5T_STD_I32LE,
                                  H5T_STD_I32LE, H5T_STD_I32LE, H5T_STD_I64LE, H5T_STD_I32LE,
                                  H5T_STD_I64LE, H5T_STD_U8LE,  H5T_STD_U8LE,  H5T_STD_U16LE };
    const bool own = has_own (self);
    if (own)
        self->table = wm_writer_group (self->file, self->job.spec->table);
    bool fine = self->table >= 0;
    for (int c = 0; c < COLUMNS && fine && own; c++) {
        if (c == IN_FIDUCIAL) /* the labels stand before it */
            for (uint32_t i = 0; i < self->n_label && fine; i++) {
                char name[48];
                wm_writer_label (self->job.spec, scratch->n_output, i, name);
                self->label[i] = column_make (self->table, name, H5T_IEEE_F32LE, scratch->n_row);
                fine = self->label[i] >= 0;
            }
        if (!has_column (self->job.spec, c))
            continue;
        self->column[c] =
            fine ? column_make (self->table, wm_writer_column[c], type[c], scratch->n_row) : -1;
        fine = self->column[c] >= 0;
    }
    hid_t group = fine ? wm_writer_group (self->file, "held") : -1, text = text_type (REASON_BYTES);
    if (group >= 0) {
        self->held_row = column_make (group, "row", H5T_STD_U64LE, self->n_held);
        self->held_id = column_make (group, "hit_id", H5T_STD_I64LE, self->n_held);
        self->held_status = column_make (group, "status", H5T_STD_U8LE, self->n_held);
        self->held_reason = column_make (group, "reason", text, self->n_held);
        H5Gclose (group);
    }
    H5Tclose (text);
    return fine && self->held_row > 0 && self->held_id > 0 && self->held_status > 0 &&
           self->held_reason > 0;
}

static bool file_create (wm_writer_t *self)
{
    if (!wm_h5_has_room (WM_H5_ROOM_BYTES))
        return false;
    wm_h5_init ();
    self->n_held = self->held = self->row = 0;
    if (self->numl)
        wm_writer_numl_reset (self);
    for (uint64_t i = 0; i < self->job.scratch->n_row; i++)
        self->n_held += self->job.scratch->state[i] != 1;
    if (form_take (self))
        return true;
    hid_t list = H5Pcreate (H5P_FILE_CREATE), access = H5Pcreate (H5P_FILE_ACCESS);
    H5Pset_obj_track_times (list, false);
    char name[sizeof self->part + 24];
    snprintf (name, sizeof name, "%s", self->part);
    if (self->is_small) { /* a name of its own: the last output of this path may be a form */
        static uint64_t n_made;
        snprintf (name, sizeof name, "%s.%llu", self->part, (unsigned long long) ++n_made);
        H5Pset_fapl_core (access, SMALL_BYTES / 4, false);
    }
    self->file = H5Fcreate (name, H5F_ACC_TRUNC, list, access);
    H5Pclose (access);
    H5Pclose (list);
    if (self->file >= 0 && has_form (self))
        form_begin (self);
    return self->file >= 0 && facts_write (self) && columns_make (self) && engines_write (self);
}

/* ---- rows ------------------------------------------------------------------------------------ */

static bool scores_write (wm_writer_t *self, uint32_t count)
{
    const wm_scratch_t *scratch = self->job.scratch;
    float *cell = piece.cell.score;
    bool fine = true;
    for (uint32_t k = 0; k < self->n_label && fine; k++) {
        for (uint32_t i = 0; i < count; i++)
            cell[i] = scratch->state[self->row + i] == 1
                          ? scratch->score[(self->row + i) * scratch->n_output + k]
                          : NAN;
        fine = rows_write (self->label[k], H5T_NATIVE_FLOAT, self->row, count, cell);
    }
    return fine;
}

/* The held hits of this piece.  */
static bool held_write (wm_writer_t *self, uint32_t count)
{
    const wm_scratch_t *scratch = self->job.scratch;
    uint32_t *at = malloc (4ul * count);
    uint32_t n = 0;
    assert (at);
    for (uint32_t i = 0; i < count; i++)
        if (scratch->state[self->row + i] != 1)
            at[n++] = i;
    uint64_t *row = piece.cell.row;
    for (uint32_t i = 0; i < n; i++)
        row[i] = self->row + at[i];
    bool fine = rows_write (self->held_row, H5T_NATIVE_UINT64, self->held, n, row);
    int64_t *id = piece.cell.id;
    for (uint32_t i = 0; i < n; i++)
        id[i] = piece.hit_id[at[i]];
    fine = fine && rows_write (self->held_id, H5T_NATIVE_INT64, self->held, n, id);
    uint8_t *status = piece.cell.status;
    for (uint32_t i = 0; i < n; i++)
        status[i] = wm_writer_status (scratch, self->row + at[i]);
    fine = fine && rows_write (self->held_status, H5T_NATIVE_UINT8, self->held, n, status);
    char *reason = piece.cell.reason;
    memset (reason, 0, (size_t) n * REASON_BYTES);
    for (uint32_t i = 0; i < n; i++) {
        uint8_t s = wm_writer_status (scratch, self->row + at[i]);
        const char *text = wm_hit_status_text (s);
        memcpy (reason + (size_t) i * REASON_BYTES, text, strnlen (text, REASON_BYTES));
    }
    hid_t type = text_type (REASON_BYTES);
    fine = fine && rows_write (self->held_reason, type, self->held, n, reason);
    H5Tclose (type);
    self->held += n;
    free (at);
    return fine;
}

static bool piece_write (wm_writer_t *self, uint32_t count)
{
    const wm_scratch_t *scratch = self->job.scratch;
    const wm_reader_rows_t *r = &piece_columns;
    const struct {
        int column;
        const void *from;
    } wide[] = { { RUN, r->run },
                 { SUBRUN, r->subrun },
                 { EVENT, r->event },
                 { HIT_ID, r->hit_id },
                 { TIME, r->time } },
      narrow[] = {
          { CRYOSTAT, r->cryostat }, { TPC, r->tpc }, { PLANE, r->plane }, { WIRE, r->wire }
      };
    const int more = has_column (self->job.spec, WIRE);
    bool fine = true;
    for (int i = 0; i < 4 + more && fine; i++)
        fine = rows_write (self->column[wide[i].column], H5T_NATIVE_INT64, self->row, count,
                           wide[i].from);
    for (int i = 0; i < 3 + more && fine; i++)
        fine = rows_write (self->column[narrow[i].column], H5T_NATIVE_INT32, self->row, count,
                           narrow[i].from);
    fine = fine && scores_write (self, count) &&
           rows_write (self->column[IN_FIDUCIAL], H5T_NATIVE_UINT8, self->row, count,
                       scratch->in_fiducial + self->row);
    uint8_t *status = piece.cell.status;
    for (uint32_t i = 0; i < count; i++)
        status[i] = wm_writer_status (scratch, self->row + i);
    fine = fine && rows_write (self->column[STATUS], H5T_NATIVE_UINT8, self->row, count, status);
    uint16_t *engine = piece.cell.engine;
    for (uint32_t i = 0; i < count; i++)
        engine[i] = self->engine_index[scratch->engine[self->row + i]];
    fine = fine && rows_write (self->column[ENGINE], H5T_NATIVE_UINT16, self->row, count, engine);
    return fine && held_write (self, count);
}

/* ---- the end --------------------------------------------------------------------------------- */

/* Writes a file that was made in memory; false: errno has the reason.  */
static bool image_write (wm_writer_t *self)
{
    const ssize_t bytes =
        H5Fflush (self->file, H5F_SCOPE_LOCAL) < 0 ? -1 : H5Fget_file_image (self->file, NULL, 0);
    uint8_t *image = bytes > 0 ? malloc ((size_t) bytes) : NULL;
    bool fine = image && H5Fget_file_image (self->file, image, (size_t) bytes) == bytes;
    self->fd = fine ? open (self->part, O_CREAT | O_TRUNC | O_RDWR | O_CLOEXEC, 0666) : -1;
    fine = self->fd >= 0;
    for (ssize_t n, done = 0; done < bytes && fine; done += n > 0 ? n : 0) {
        n = write (self->fd, image + done, (size_t) (bytes - done));
        fine = n > 0 || (n < 0 && errno == EINTR);
    }
    if (fine)
        XXH3_128bits_update (self->hash, image, (size_t) bytes);
    free (image);
    return fine;
}

/* Closes the library's file. What was written goes to the disk from now on, so that the sync of
   many files need not wait for each one after another.  */
static bool finish (wm_writer_t *self)
{
    XXH3_128bits_reset (self->hash);
    if (self->is_small && !image_write (self))
        return false;
    form_t *kept = form_of (self->file);
    if (kept && kept->fits)
        form_keep (kept, self);
    else if (!objects_close (self))
        return false;
    if (self->fd < 0)
        self->fd = open (self->part, O_RDWR | O_CLOEXEC);
    if (self->fd >= 0)
        sync_file_range (self->fd, 0, 0, SYNC_FILE_RANGE_WRITE); /* best effort */
    self->phase = READY;
    return self->fd >= 0;
}

static void digest_take (wm_writer_t *self)
{
    XXH128_canonical_t canonical;
    XXH128_canonicalFromHash (&canonical, XXH3_128bits_digest (self->hash));
    memcpy (self->result.digest, canonical.digest, 16);
    self->phase = DONE;
}

static wm_fault_t hash_piece (wm_writer_t *self, wm_error_t *error)
{
    for (size_t done = 0; done < HASH_BYTES;) {
        ssize_t n = pread (self->fd, piece.cell.reason, sizeof piece.cell, (off_t) self->n_hashed);
        if (n < 0 && errno != EINTR)
            return wm_fault (error, WM_EHOST, "%s: cannot read it again: %s", self->job.path,
                             strerror (errno));
        if (n == 0) {
            digest_take (self);
            break;
        }
        if (n > 0) {
            self->n_hashed += (uint64_t) n;
            XXH3_128bits_update (self->hash, piece.cell.reason, (size_t) n);
            done += (size_t) n;
        }
    }
    return WM_OK;
}

static uint64_t room (const wm_writer_t *self)
{
    char folder[1500];
    struct statvfs status;
    snprintf (folder, sizeof folder, "%s", self->part);
    char *slash = strrchr (folder, '/');
    if (slash)
        slash[slash == folder] = 0;
    return statvfs (slash ? folder : ".", &status) ? UINT64_MAX
                                                   : (uint64_t) status.f_bavail * status.f_frsize;
}

/* What is needed, as people are to read it: at most what the columns take, without compression.  */
static wm_fault_t is_full (const wm_writer_t *self, wm_error_t *error)
{
    const wm_scratch_t *scratch = self->job.scratch;
    const char *slash = strrchr (self->job.path, '/'), *name = slash ? slash + 1 : self->job.path;
    const double needs =
        (double) ROOM_BYTES + (double) scratch->n_row * (64. + 4. * (double) scratch->n_output);
    return wm_fault (error, WM_EAGAIN,
                     "%.*s: disk full: %s needs up to %.1f MB and %.1f MB are free; free space "
                     "there, and it goes on by itself",
                     (int) (slash ? slash - self->job.path : 1), slash ? self->job.path : ".", name,
                     1e-6 * needs, 1e-6 * (double) room (self));
}

/* A write failed: a full disk, or worse.  */
static wm_fault_t write_failed (wm_writer_t *self, wm_error_t *error)
{
    int rc = errno;
    bool full = rc == ENOSPC || rc == EDQUOT || rc == EFBIG || room (self) < ROOM_BYTES;
    part_remove (self);
    self->phase = CREATE;
    if (!full)
        return wm_fault (error, WM_EHOST, "%s: cannot write: %s", self->part,
                         rc ? strerror (rc) : "the HDF5 library failed");
    self->full_bytes = room (self);
    self->full_bytes += !self->full_bytes;
    self->full_tries = 0;
    return is_full (self, error);
}

/* ---- complete files become durable and get their names, many together ------------------------ */

/* Syncs a folder; a failure must end the process.  */
static wm_fault_t sync_path (const char *path, wm_error_t *error)
{
    int fd = open (path, O_RDONLY | O_CLOEXEC);
    int rc = fd < 0 || fsync (fd) ? errno : 0;
    if (fd >= 0)
        close (fd);
    return rc ? wm_fault (error, WM_EHOST, "%s: fsync failed: %s", path, strerror (rc)) : WM_OK;
}

bool wm_writer_is_ready (const wm_writer_t *self)
{
    return self->phase == READY || self->phase == SYNCED;
}

wm_fault_t wm_writer_sync (wm_writer_t *self, wm_error_t *error)
{
    if (self->phase != READY)
        return WM_OK;
    WM_FAILPOINT ("producer-output-sync");
    if (fsync (self->fd))
        return wm_fault (error, WM_EHOST, "%s: fsync failed: %s", self->part, strerror (errno));
    self->phase = SYNCED;
    return WM_OK;
}

/* Gives the synced file its name.  */
static wm_fault_t output_rename (wm_writer_t *self, wm_error_t *error)
{
    struct stat status;
    assert (self->phase == SYNCED);
    WM_FAILPOINT ("producer-output-rename");
    if (rename (self->part, self->job.path))
        return wm_fault (error, WM_EHOST, "%s: cannot rename %s to it: %s", self->job.path,
                         self->part, strerror (errno));
    WM_FAILPOINT ("producer-output-renamed");
    if (fstat (self->fd, &status))
        return wm_fault (error, WM_EHOST, "%s: cannot inspect it: %s", self->job.path,
                         strerror (errno));
    self->result.size = (uint64_t) status.st_size;
    self->result.mtime_ns = wm_path_ns (status.st_mtim);
    self->result.n_held = self->n_held;
    return WM_OK;
}

static void folder_of (const char *path, char folder[1500])
{
    snprintf (folder, 1500, "%s", path);
    char *slash = strrchr (folder, '/');
    if (slash)
        *(slash == folder ? slash + 1 : slash) = 0;
    else
        strcpy (folder, ".");
}

wm_fault_t wm_writer_place (wm_writer_t *const *writer, uint32_t n, wm_error_t *error)
{
    char folder[1500], next[1500];
    wm_fault_t fault = WM_OK;
    for (uint32_t i = 0; i < n && !fault; i++)
        fault = output_rename (writer[i], error);
    for (uint32_t i = 0; i < n && !fault; i++) { /* one sync for neighbours of one folder */
        folder_of (writer[i]->job.path, next);
        if (i && !strcmp (folder, next))
            continue;
        memcpy (folder, next, sizeof folder);
        fault = sync_path (folder, error);
        WM_FAILPOINT ("producer-output-placed");
    }
    for (uint32_t i = 0; i < n && !fault; i++) {
        writer[i]->phase = HASH;
        if (writer[i]->is_small)
            digest_take (writer[i]);
    }
    return fault;
}

/* ---- steps ----------------------------------------------------------------------------------- */

/* Writes a piece; false: that failed. *fault: the input cannot be read.  */
static bool rows_step (wm_writer_t *self, wm_fault_t *fault, wm_error_t *error)
{
    const uint64_t left = self->job.scratch->n_row - self->row;
    const uint32_t count = left < self->piece_rows ? (uint32_t) left : self->piece_rows;
    if (count &&
        (*fault = wm_reader_rows (self->job.reader, self->row, count, &piece_columns, error)))
        return true;
    errno = 0;
    const bool own = has_own (self);
    bool fine = !count || (own ? piece_write (self, count) : held_write (self, count));
    if (self->numl && fine)
        fine = wm_writer_numl_take (self, &piece_columns, count);
    WM_FAILPOINT ("producer-output-piece");
    self->row += count;
    if (self->row == self->job.scratch->n_row)
        self->phase = self->numl ? TABLES : self->frames ? FRAMES : FINISH;
    return fine;
}

/* The tables of a small file, at once.  */
static bool tables_all (wm_writer_t *self)
{
    bool fine = true;
    while (self->phase == TABLES && fine)
        fine = wm_writer_numl_step (self);
    return fine;
}

wm_fault_t wm_writer_step (wm_writer_t *self, bool *done, wm_writer_result_t *result,
                           wm_error_t *error)
{
    wm_fault_t fault = WM_OK;
    bool fine = true;
    *done = false;
    errno = 0;
    if (self->phase == CREATE) {
        if (self->full_bytes && room (self) < self->full_bytes + ROOM_BYTES &&
            ++self->full_tries < FULL_TRIES)
            return is_full (self, error);
        self->full_bytes = 0;
        fine = file_create (self);
        WM_FAILPOINT ("producer-output-created");
        self->phase = ROWS;
        if (self->is_small && fine)
            fine = rows_step (self, &fault, error) && (fault || tables_all (self)) &&
                   (fault || finish (self));
    } else if (self->phase == ROWS)
        fine = rows_step (self, &fault, error);
    else if (self->phase == TABLES)
        fine = wm_writer_numl_step (self);
    else if (self->phase == FRAMES)
        fine = wm_writer_frames_step (self, &fault, error);
    else if (self->phase == FINISH)
        fine = finish (self);
    else if (self->phase == READY)
        fault = wm_writer_sync (self, error);
    else if (self->phase == SYNCED)
        fault = wm_writer_place (&self, 1, error);
    else if (self->phase == HASH)
        fault = hash_piece (self, error);
    if (!fine)
        return write_failed (self, error);
    *done = self->phase == DONE;
    if (*done)
        *result = self->result;
    return fault;
}

bool wm_writer_is_ours (const char *path, const uint8_t campaign[16], uint64_t *n_held)
{
    wm_error_t error;
    char want[33], text[64];
    campaign_text (campaign, want);
    wm_h5_t *file = wm_h5_open (path, &error);
    bool ours = file && wm_h5_text (file, "campaign", text, sizeof text) && !strcmp (text, want);
    int64_t number = 0;
    if (ours && n_held)
        *n_held = wm_h5_number (file, "hits_held", &number) ? (uint64_t) number : 0;
    wm_h5_close (&file);
    return ours;
}
