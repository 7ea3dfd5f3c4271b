/* wm_writer.c - writes an input's scores, in steps, once or not at all.

   CREATE --file made--> ROWS --last piece--> FINISH --renamed--> HASH --> done
     ^                    |                     |
     +---- disk full: the partial file is emptied and removed, and it starts over ----+

   A file of the library whose write failed cannot always be closed, and would keep its disk space
   as long as the process runs: it is truncated to nothing before it is removed, and no other try
   is made before the disk has more room than then.  */
#include "producer/wm_writer.h"

#include "producer/wm_h5.h"
#include "schema/base/wm_failpoint.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <hdf5.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <time.h>
#include <unistd.h>
#include <xxhash.h>

#define PIECE_ROWS 65536u /* rows a step, and a chunk of every column */
#define GZIP_LEVEL 2
#define REASON_BYTES 24
#define ORIGIN_STEP_BYTES 1024u
#define ORIGIN_BYTES_MAX (32u << 10) /* an attribute holds less than 64 KiB */
#define ROOM_BYTES                                                                                 \
    (1u << 20)        /* below this the disk counts as full, and less more is no more room */
#define FULL_TRIES 60 /* a quota does not show in the room; so now and then it is tried */
#define HASH_BYTES (32u << 20)

enum { RUN, SUBRUN, EVENT, CRYOSTAT, TPC, PLANE, HIT_ID, IN_FIDUCIAL, STATUS, ENGINE, COLUMNS };
static const char *const column_name[COLUMNS] = { "run",    "subrun", "event",  "cryostat",
                                                  "tpc",    "plane",  "hit_id", "in_fiducial",
                                                  "status", "engine" };

typedef enum { CREATE, ROWS, FINISH, HASH, DONE } phase_t;

struct wm_writer_t {
    wm_writer_job_t job;
    phase_t phase;
    char part[1500];
    uint64_t row;          /* next to write */
    uint64_t n_held, held; /* in all; already written */
    uint64_t full_bytes;   /* room when the disk was full; 0: it is not */
    uint32_t full_tries;
    uint16_t *engine_index; /* number in the scratch -> index in the file */

    hid_t file, table, column[COLUMNS], *label; /* label: (n_output) */
    hid_t held_row, held_id, held_status, held_reason;
    wm_reader_rows_t rows; /* a piece */
    void *cell;            /* (PIECE_ROWS x 8 bytes): one column of a piece */

    XXH3_state_t *hash;
    int fd; /* of the file being hashed */
    wm_writer_result_t result;
};

static void label_name (const wm_spec_t *spec, uint32_t n_output, uint32_t i, char name[48])
{
    if (spec->n_label == n_output)
        snprintf (name, 48, "%s", spec->label[i]);
    else
        snprintf (name, 48, "out_%u", i);
}

wm_fault_t wm_writer_check (const wm_spec_t *spec, uint32_t n_output, wm_error_t *error)
{
    if (!strcmp (spec->table, "held") || !strcmp (spec->table, "engine"))
        return wm_fault (error, WM_EBATCH, "table: '%s' is the name of another group of the output",
                         spec->table);
    for (uint32_t i = 0; i < n_output; i++) {
        char name[48];
        label_name (spec, n_output, i, name);
        for (int c = 0; c < COLUMNS; c++)
            if (!strcmp (name, column_name[c]))
                return wm_fault (error, WM_EBATCH,
                                 "labels: '%s' is the name of another column of the output", name);
    }
    return WM_OK;
}

wm_writer_t *wm_writer_new (const wm_writer_job_t *job)
{
    wm_writer_t *self = calloc (1, sizeof *self);
    assert (self);
    self->job = *job;
    self->fd = -1;
    snprintf (self->part, sizeof self->part, "%.1400s.part", job->path);
    self->rows.run = malloc (4ul * PIECE_ROWS * sizeof (int64_t));
    self->rows.cryostat = malloc (3ul * PIECE_ROWS * sizeof (int32_t));
    self->cell = malloc (8ul * PIECE_ROWS > REASON_BYTES * (size_t) PIECE_ROWS
                             ? 8ul * PIECE_ROWS
                             : REASON_BYTES * (size_t) PIECE_ROWS);
    self->label = calloc (job->scratch->n_output, sizeof *self->label);
    self->engine_index = calloc (job->n_engine + 1ul, sizeof *self->engine_index);
    self->hash = XXH3_createState ();
    assert (self->rows.run && self->rows.cryostat && self->cell && self->label &&
            self->engine_index && self->hash);
    self->rows.subrun = self->rows.run + PIECE_ROWS;
    self->rows.event = self->rows.subrun + PIECE_ROWS;
    self->rows.hit_id = self->rows.event + PIECE_ROWS;
    self->rows.tpc = self->rows.cryostat + PIECE_ROWS;
    self->rows.plane = self->rows.tpc + PIECE_ROWS;
    return self;
}

/* Closes all that is open; false if the library could not write what it still held.  */
static bool file_close (wm_writer_t *self)
{
    bool fine = true;
    hid_t *list[] = { &self->held_row, &self->held_id, &self->held_status, &self->held_reason };
    for (size_t i = 0; i < sizeof list / sizeof *list; i++)
        fine = (*list[i] <= 0 || H5Dclose (*list[i]) >= 0) && fine, *list[i] = 0;
    for (uint32_t i = 0; i < self->job.scratch->n_output; i++)
        fine = (self->label[i] <= 0 || H5Dclose (self->label[i]) >= 0) && fine, self->label[i] = 0;
    for (int c = 0; c < COLUMNS; c++)
        fine = (self->column[c] <= 0 || H5Dclose (self->column[c]) >= 0) && fine,
        self->column[c] = 0;
    fine = (self->table <= 0 || H5Gclose (self->table) >= 0) && fine;
    fine = (self->file <= 0 || H5Fclose (self->file) >= 0) && fine;
    self->table = self->file = 0;
    return fine;
}

/* Removes the partial file and gives its room back, even if the library still has it open.  */
static void part_remove (wm_writer_t *self)
{
    file_close (self);
    if (truncate (self->part, 0) == 0)
        unlink (self->part);
}

void wm_writer_destroy (wm_writer_t **self_p)
{
    wm_writer_t *self = *self_p;
    if (!self)
        return;
    if (self->phase == ROWS || self->phase == FINISH)
        part_remove (self);
    if (self->fd >= 0)
        close (self->fd);
    free (self->rows.run);
    free (self->rows.cryostat);
    free (self->cell);
    free (self->label);
    free (self->engine_index);
    XXH3_freeState (self->hash);
    free (self);
    *self_p = NULL;
}

/* ---- the library's objects ------------------------------------------------------------------- */

static hid_t group_make (hid_t file, const char *name)
{
    hid_t list = H5Pcreate (H5P_GROUP_CREATE);
    H5Pset_obj_track_times (list, false);
    hid_t group = H5Gcreate2 (file, name, H5P_DEFAULT, list, H5P_DEFAULT);
    H5Pclose (list);
    return group;
}

static hid_t dataset_make (hid_t group, const char *name, hid_t type, uint64_t count)
{
    hsize_t dim = count, chunk = count < PIECE_ROWS ? count : PIECE_ROWS;
    hid_t list = H5Pcreate (H5P_DATASET_CREATE), space = H5Screate_simple (1, &dim, NULL);
    H5Pset_obj_track_times (list, false);
    if (count) {
        H5Pset_chunk (list, 1, &chunk);
        H5Pset_shuffle (list);
        H5Pset_deflate (list, GZIP_LEVEL);
    }
    hid_t dataset = H5Dcreate2 (group, name, type, space, H5P_DEFAULT, list, H5P_DEFAULT);
    H5Sclose (space);
    H5Pclose (list);
    return dataset;
}

static bool rows_write (hid_t dataset, hid_t type, uint64_t first, uint32_t count, const void *from)
{
    if (!count)
        return true;
    hsize_t start = first, size = count;
    hid_t file = H5Dget_space (dataset), memory = H5Screate_simple (1, &size, NULL);
    H5Sselect_hyperslab (file, H5S_SELECT_SET, &start, NULL, &size, NULL);
    bool fine = H5Dwrite (dataset, type, memory, file, H5P_DEFAULT, from) >= 0;
    H5Sclose (memory);
    H5Sclose (file);
    return fine;
}

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
    hid_t space = H5Screate (H5S_SCALAR);
    hid_t attribute = H5Acreate2 (file, name, type, space, H5P_DEFAULT, H5P_DEFAULT);
    bool fine = attribute >= 0 && H5Awrite (attribute, memory, value) >= 0;
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

/* A text whose length depends on who scores it, and where: padded, so that the rest of the file lies
   where it would anyway.  */
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

/* ---- create ---------------------------------------------------------------------------------- */

static void campaign_text (const uint8_t campaign[16], char text[33])
{
    for (int i = 0; i < 16; i++)
        snprintf (text + 2 * i, 3, "%02x", campaign[i]);
}

static bool origin_write (hid_t file, const wm_writer_origin_t *origin)
{
    char mtime[24] = "";
    const time_t seconds = (time_t) (origin->mtime_ns / 1000000000);
    struct tm utc;
    if (origin->mtime_ns && gmtime_r (&seconds, &utc))
        strftime (mtime, sizeof mtime, "%Y-%m-%dT%H:%M:%SZ", &utc);
    return origin_text_write (file, "input_given", origin->given) &&
           origin_text_write (file, "input", origin->path) &&
           number_write (file, "input_bytes", origin->bytes) &&
           origin_text_write (file, "input_mtime", mtime) &&
           origin_text_write (file, "campaign_folder", origin->folder) &&
           origin_text_write (file, "command", origin->command);
}

static bool attributes_write (const wm_writer_t *self)
{
    const wm_writer_job_t *job = &self->job;
    char campaign[33];
    campaign_text (job->campaign, campaign);
    return text_write (self->file, "layout", "wiremill-scores-1") &&
           text_write (self->file, "model_sha256", job->pins->model) &&
           text_write (self->file, "precision", job->pins->precision) &&
           (!*job->pins->max_error || text_write (self->file, "max_error", job->pins->max_error)) &&
           text_write (self->file, "specification", job->pins->spec) &&
           text_write (self->file, "wiremill_version", WM_VERSION) &&
           text_write (self->file, "campaign", campaign) &&
           number_write (self->file, "hits", job->scratch->n_row) &&
           number_write (self->file, "hits_held", self->n_held) &&
           number_write (self->file, "hits_same_cell", job->n_same_cell) &&
           number_write (self->file, "hits_empty", job->n_empty) &&
           number_write (self->file, "hits_bad_channel", job->n_bad_channel) &&
           origin_write (self->file, &job->origin);
}

static int engine_compare (const void *a, const void *b)
{
    return strcmp (**(const char *const *const *) a, **(const char *const *const *) b);
}

/* Signatures that were used, in alphabetical order, whichever answered first.  */
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
    hid_t type = text_type (bytes), group = group_make (self->file, "engine");
    hid_t dataset = group < 0 ? -1 : dataset_make (group, "signature", type, n);
    bool fine = dataset >= 0 && rows_write (dataset, type, 0, n, text);
    if (dataset >= 0)
        fine = H5Dclose (dataset) >= 0 && fine;
    if (fine && *job->pins->max_error) {
        double *error = calloc (n + 1ul, sizeof *error);
        assert (error);
        for (uint32_t i = 0; i < n; i++)
            error[i] = job->engine_error ? job->engine_error[order[i] - job->engine] : 0;
        dataset = dataset_make (group, "error", H5T_IEEE_F64LE, n);
        fine = dataset >= 0 && rows_write (dataset, H5T_NATIVE_DOUBLE, 0, n, error);
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

static bool columns_make (wm_writer_t *self)
{
    const wm_scratch_t *scratch = self->job.scratch;
    const hid_t type[COLUMNS] = { H5T_STD_I64LE, H5T_STD_I64LE, H5T_STD_I64LE, H5T_STD_I32LE,
                                  H5T_STD_I32LE, H5T_STD_I32LE, H5T_STD_I64LE, H5T_STD_U8LE,
                                  H5T_STD_U8LE,  H5T_STD_U16LE };
    self->table = group_make (self->file, self->job.spec->table);
    bool fine = self->table >= 0;
    for (int c = 0; c < COLUMNS && fine; c++) {
        if (c == IN_FIDUCIAL) /* the labels stand before it */
            for (uint32_t i = 0; i < scratch->n_output && fine; i++) {
                char name[48];
                label_name (self->job.spec, scratch->n_output, i, name);
                self->label[i] = dataset_make (self->table, name, H5T_IEEE_F32LE, scratch->n_row);
                fine = self->label[i] >= 0;
            }
        self->column[c] =
            fine ? dataset_make (self->table, column_name[c], type[c], scratch->n_row) : -1;
        fine = self->column[c] >= 0;
    }
    hid_t group = fine ? group_make (self->file, "held") : -1, text = text_type (REASON_BYTES);
    if (group >= 0) {
        self->held_row = dataset_make (group, "row", H5T_STD_U64LE, self->n_held);
        self->held_id = dataset_make (group, "hit_id", H5T_STD_I64LE, self->n_held);
        self->held_status = dataset_make (group, "status", H5T_STD_U8LE, self->n_held);
        self->held_reason = dataset_make (group, "reason", text, self->n_held);
        H5Gclose (group);
    }
    H5Tclose (text);
    return fine && self->held_row > 0 && self->held_id > 0 && self->held_status > 0 &&
           self->held_reason > 0;
}

static bool file_create (wm_writer_t *self)
{
    wm_h5_init ();
    self->n_held = self->held = self->row = 0;
    for (uint64_t i = 0; i < self->job.scratch->n_row; i++)
        self->n_held += self->job.scratch->state[i] != 1;
    hid_t list = H5Pcreate (H5P_FILE_CREATE);
    H5Pset_obj_track_times (list, false);
    self->file = H5Fcreate (self->part, H5F_ACC_TRUNC, list, H5P_DEFAULT);
    H5Pclose (list);
    return self->file >= 0 && attributes_write (self) && columns_make (self) &&
           engines_write (self);
}

/* ---- rows ------------------------------------------------------------------------------------ */

static uint8_t status_of (const wm_scratch_t *scratch, uint64_t row)
{
    return scratch->state[row] ? (uint8_t) (scratch->state[row] - 1) : WM_HIT_NO_EVENT;
}

static bool scores_write (wm_writer_t *self, uint32_t count)
{
    const wm_scratch_t *scratch = self->job.scratch;
    float *cell = self->cell;
    bool fine = true;
    for (uint32_t k = 0; k < scratch->n_output && fine; k++) {
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
    uint64_t *row = self->cell;
    for (uint32_t i = 0; i < n; i++)
        row[i] = self->row + at[i];
    bool fine = rows_write (self->held_row, H5T_NATIVE_UINT64, self->held, n, row);
    int64_t *id = self->cell;
    for (uint32_t i = 0; i < n; i++)
        id[i] = self->rows.hit_id[at[i]];
    fine = fine && rows_write (self->held_id, H5T_NATIVE_INT64, self->held, n, id);
    uint8_t *status = self->cell;
    for (uint32_t i = 0; i < n; i++)
        status[i] = status_of (scratch, self->row + at[i]);
    fine = fine && rows_write (self->held_status, H5T_NATIVE_UINT8, self->held, n, status);
    char *reason = self->cell;
    memset (reason, 0, (size_t) n * REASON_BYTES);
    for (uint32_t i = 0; i < n; i++) {
        uint8_t s = status_of (scratch, self->row + at[i]);
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
    const wm_reader_rows_t *r = &self->rows;
    const struct {
        int column;
        const void *from;
    } wide[] = { { RUN, r->run },
                 { SUBRUN, r->subrun },
                 { EVENT, r->event },
                 { HIT_ID, r->hit_id } },
      narrow[] = { { CRYOSTAT, r->cryostat }, { TPC, r->tpc }, { PLANE, r->plane } };
    bool fine = true;
    for (int i = 0; i < 4 && fine; i++)
        fine = rows_write (self->column[wide[i].column], H5T_NATIVE_INT64, self->row, count,
                           wide[i].from);
    for (int i = 0; i < 3 && fine; i++)
        fine = rows_write (self->column[narrow[i].column], H5T_NATIVE_INT32, self->row, count,
                           narrow[i].from);
    fine = fine && scores_write (self, count) &&
           rows_write (self->column[IN_FIDUCIAL], H5T_NATIVE_UINT8, self->row, count,
                       scratch->in_fiducial + self->row);
    uint8_t *status = self->cell;
    for (uint32_t i = 0; i < count; i++)
        status[i] = status_of (scratch, self->row + i);
    fine = fine && rows_write (self->column[STATUS], H5T_NATIVE_UINT8, self->row, count, status);
    uint16_t *engine = self->cell;
    for (uint32_t i = 0; i < count; i++)
        engine[i] = self->engine_index[scratch->engine[self->row + i]];
    fine = fine && rows_write (self->column[ENGINE], H5T_NATIVE_UINT16, self->row, count, engine);
    return fine && held_write (self, count);
}

/* ---- the end --------------------------------------------------------------------------------- */

/* Syncs a file or folder by name; a failure must end the process.  */
static wm_fault_t sync_path (const char *path, wm_error_t *error)
{
    int fd = open (path, O_RDONLY | O_CLOEXEC);
    int rc = fd < 0 || fsync (fd) ? errno : 0;
    if (fd >= 0)
        close (fd);
    return rc ? wm_fault (error, WM_EHOST, "%s: fsync failed: %s", path, strerror (rc)) : WM_OK;
}

static wm_fault_t place (wm_writer_t *self, wm_error_t *error)
{
    const char *path = self->job.path;
    WM_FAILPOINT ("producer-output-sync");
    wm_fault_t fault = sync_path (self->part, error);
    if (fault)
        return fault;
    WM_FAILPOINT ("producer-output-rename");
    if (rename (self->part, path))
        return wm_fault (error, WM_EHOST, "%s: cannot rename %s to it: %s", path, self->part,
                         strerror (errno));
    WM_FAILPOINT ("producer-output-renamed");
    char folder[1500];
    snprintf (folder, sizeof folder, "%s", path);
    char *slash = strrchr (folder, '/');
    if (slash)
        *(slash == folder ? slash + 1 : slash) = 0;
    if ((fault = sync_path (slash ? folder : ".", error)))
        return fault;
    struct stat status;
    self->fd = open (path, O_RDONLY | O_CLOEXEC);
    if (self->fd < 0 || fstat (self->fd, &status))
        return wm_fault (error, WM_EHOST, "%s: cannot open it again: %s", path, strerror (errno));
    self->result.size = (uint64_t) status.st_size;
    self->result.mtime_ns = (int64_t) status.st_mtim.tv_sec * 1000000000 + status.st_mtim.tv_nsec;
    self->result.n_held = self->n_held;
    XXH3_128bits_reset (self->hash);
    return WM_OK;
}

static wm_fault_t hash_piece (wm_writer_t *self, wm_error_t *error)
{
    for (size_t done = 0; done < HASH_BYTES;) {
        ssize_t n = read (self->fd, self->cell, 8ul * PIECE_ROWS);
        if (n < 0 && errno != EINTR)
            return wm_fault (error, WM_EHOST, "%s: cannot read it again: %s", self->job.path,
                             strerror (errno));
        if (n == 0) {
            XXH128_canonical_t canonical;
            XXH128_canonicalFromHash (&canonical, XXH3_128bits_digest (self->hash));
            memcpy (self->result.digest, canonical.digest, 16);
            self->phase = DONE;
            break;
        }
        if (n > 0) {
            XXH3_128bits_update (self->hash, self->cell, (size_t) n);
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
    return wm_fault (error, WM_EAGAIN, "%s: disk full: waiting for room", self->part);
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
            return wm_fault (error, WM_EAGAIN, "%s: disk full: waiting for room", self->part);
        self->full_bytes = 0;
        fine = file_create (self);
        WM_FAILPOINT ("producer-output-created");
        self->phase = ROWS;
    } else if (self->phase == ROWS) {
        uint64_t left = self->job.scratch->n_row - self->row;
        uint32_t count = left < PIECE_ROWS ? (uint32_t) left : PIECE_ROWS;
        if (count &&
            (fault = wm_reader_rows (self->job.reader, self->row, count, &self->rows, error)))
            return fault;
        errno = 0;
        fine = !count || piece_write (self, count);
        WM_FAILPOINT ("producer-output-piece");
        self->row += count;
        if (self->row == self->job.scratch->n_row)
            self->phase = FINISH;
    } else if (self->phase == FINISH) {
        fine = file_close (self);
        if (fine && (fault = place (self, error)))
            return fault;
        self->phase = HASH;
    } else
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
