/* wm_writer.c - writes an input's scores, in steps, once or not at all.

   CREATE --file made--> ROWS --last piece--> FINISH --closed--> READY --fsynced--> SYNCED
     ^                    |                     |                   --renamed--> HASH --> DONE
     +---- disk full: the partial file is emptied and removed, and it starts over ----+

   Many small outputs: the library makes one in memory, which is written and hashed as a whole; it
   would need twenty writes and read the file again. Columns of few rows lie in the objects'
   headers: a chunk of two rows costs an index of its own. Its objects stay open for the next
   output (wm_writer_form.c).
   The owner syncs several READY files and places them together (wm_writer_place): what makes a name
   durable costs the same for one name and for many.

   A file of the library whose write failed cannot always be closed, and would keep its disk space
   as long as the process runs: it is truncated to nothing before it is removed, and no other try
   is made before the disk has more room than then.  */
#include "producer/writing/wm_writer.h"

#include "producer/files/wm_h5.h"
#include "producer/writing/wm_writer_private.h"
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
#include <unistd.h>
#include <xxhash.h>

#define SMALL_BYTES                                                                                \
    (256u << 10) /* of columns, before compression: made in memory, written at once */
#define ROOM_BYTES                                                                                 \
    (1u << 20)        /* below this the disk counts as full, and less more is no more room */
#define FULL_TRIES 60 /* a quota does not show in the room; so now and then it is tried */
#define HASH_BYTES (32u << 20)

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
        self->numl = wm_writer_numl_new (n_row, wm_writer_has (job->spec, WIRE));
    if (is_image)
        self->frames = wm_writer_frames_new ();
    assert (self->label && self->engine_index && self->hash);
    return self;
}

/* Removes the partial file and gives its room back, even if the library still has it open.  */
static void part_remove (wm_writer_t *self)
{
    wm_writer_close (self);
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
    const bool own = wm_writer_has_own (self);
    if (own)
        self->table = wm_writer_group (self->file, self->job.spec->table);
    bool fine = self->table >= 0;
    for (int c = 0; c < COLUMNS && fine && own; c++) {
        if (c == IN_FIDUCIAL) /* the labels stand before it */
            for (uint32_t i = 0; i < self->n_label && fine; i++) {
                char name[48];
                wm_writer_label (self->job.spec, scratch->n_output, i, name);
                self->label[i] =
                    wm_writer_dataset (self->table, name, H5T_IEEE_F32LE, scratch->n_row);
                fine = self->label[i] >= 0;
            }
        if (!wm_writer_has (self->job.spec, c))
            continue;
        self->column[c] =
            fine ? wm_writer_dataset (self->table, wm_writer_column[c], type[c], scratch->n_row)
                 : -1;
        fine = self->column[c] >= 0;
    }
    hid_t group = fine ? wm_writer_group (self->file, "held") : -1,
          text = wm_writer_text (REASON_BYTES);
    if (group >= 0) {
        self->held_row = wm_writer_dataset (group, "row", H5T_STD_U64LE, self->n_held);
        self->held_id = wm_writer_dataset (group, "hit_id", H5T_STD_I64LE, self->n_held);
        self->held_status = wm_writer_dataset (group, "status", H5T_STD_U8LE, self->n_held);
        self->held_reason = wm_writer_dataset (group, "reason", text, self->n_held);
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
    if (wm_writer_form_take (self))
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
    if (self->file >= 0 && wm_writer_has_form (self))
        wm_writer_form_begin (self);
    return self->file >= 0 && wm_writer_facts (self) && columns_make (self) &&
           wm_writer_engines (self);
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
        fine = wm_writer_rows (self->label[k], H5T_NATIVE_FLOAT, self->row, count, cell);
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
    bool fine = wm_writer_rows (self->held_row, H5T_NATIVE_UINT64, self->held, n, row);
    int64_t *id = piece.cell.id;
    for (uint32_t i = 0; i < n; i++)
        id[i] = piece.hit_id[at[i]];
    fine = fine && wm_writer_rows (self->held_id, H5T_NATIVE_INT64, self->held, n, id);
    uint8_t *status = piece.cell.status;
    for (uint32_t i = 0; i < n; i++)
        status[i] = wm_writer_status (scratch, self->row + at[i]);
    fine = fine && wm_writer_rows (self->held_status, H5T_NATIVE_UINT8, self->held, n, status);
    char *reason = piece.cell.reason;
    memset (reason, 0, (size_t) n * REASON_BYTES);
    for (uint32_t i = 0; i < n; i++) {
        uint8_t s = wm_writer_status (scratch, self->row + at[i]);
        const char *text = wm_hit_status_text (s);
        memcpy (reason + (size_t) i * REASON_BYTES, text, strnlen (text, REASON_BYTES));
    }
    hid_t type = wm_writer_text (REASON_BYTES);
    fine = fine && wm_writer_rows (self->held_reason, type, self->held, n, reason);
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
    const int more = wm_writer_has (self->job.spec, WIRE);
    bool fine = true;
    for (int i = 0; i < 4 + more && fine; i++)
        fine = wm_writer_rows (self->column[wide[i].column], H5T_NATIVE_INT64, self->row, count,
                               wide[i].from);
    for (int i = 0; i < 3 + more && fine; i++)
        fine = wm_writer_rows (self->column[narrow[i].column], H5T_NATIVE_INT32, self->row, count,
                               narrow[i].from);
    fine = fine && scores_write (self, count) &&
           wm_writer_rows (self->column[IN_FIDUCIAL], H5T_NATIVE_UINT8, self->row, count,
                           scratch->in_fiducial + self->row);
    uint8_t *status = piece.cell.status;
    for (uint32_t i = 0; i < count; i++)
        status[i] = wm_writer_status (scratch, self->row + i);
    fine =
        fine && wm_writer_rows (self->column[STATUS], H5T_NATIVE_UINT8, self->row, count, status);
    uint16_t *engine = piece.cell.engine;
    for (uint32_t i = 0; i < count; i++)
        engine[i] = self->engine_index[scratch->engine[self->row + i]];
    fine =
        fine && wm_writer_rows (self->column[ENGINE], H5T_NATIVE_UINT16, self->row, count, engine);
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
    form_t *kept = wm_writer_form_of (self->file);
    if (kept && kept->fits)
        wm_writer_form_keep (kept, self);
    else if (!wm_writer_close (self))
        return false;
    if (self->fd < 0)
        self->fd = open (self->part, O_RDWR | O_CLOEXEC);
    if (self->fd >= 0)
        sync_file_range (self->fd, 0, 0, SYNC_FILE_RANGE_WRITE); /* best effort */
    self->phase = READY;
    return self->fd >= 0;
}

static wm_fault_t hash_piece (wm_writer_t *self, wm_error_t *error)
{
    for (size_t done = 0; done < HASH_BYTES;) {
        ssize_t n = pread (self->fd, piece.cell.reason, sizeof piece.cell, (off_t) self->n_hashed);
        if (n < 0 && errno != EINTR)
            return wm_fault (error, WM_EHOST, "%s: cannot read it again: %s", self->job.path,
                             strerror (errno));
        if (n == 0) {
            wm_writer_digest (self);
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

/* Writes a piece; false: that failed. *fault: the input cannot be read.  */
static bool rows_step (wm_writer_t *self, wm_fault_t *fault, wm_error_t *error)
{
    const uint64_t left = self->job.scratch->n_row - self->row;
    const uint32_t count = left < self->piece_rows ? (uint32_t) left : self->piece_rows;
    if (count &&
        (*fault = wm_reader_rows (self->job.reader, self->row, count, &piece_columns, error)))
        return true;
    errno = 0;
    const bool own = wm_writer_has_own (self);
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
    wm_writer_campaign (campaign, want);
    wm_h5_t *file = wm_h5_open (path, &error);
    bool ours = file && wm_h5_text (file, "campaign", text, sizeof text) && !strcmp (text, want);
    int64_t number = 0;
    if (ours && n_held)
        *n_held = wm_h5_number (file, "hits_held", &number) ? (uint64_t) number : 0;
    wm_h5_close (&file);
    return ours;
}
