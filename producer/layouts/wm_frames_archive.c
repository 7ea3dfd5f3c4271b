/* wm_frames_archive.c - see wm_frames_archive.h.  */
#include "producer/layouts/wm_frames_archive.h"

#include "producer/files/wm_event.h"
#include "producer/files/wm_npy.h"
#include "producer/files/wm_waves.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define MEMBERS_MAX (1u << 18)
#define CHANNELS_MAX (1u << 22)          /* of one frame, as wm_frames.c has it */
#define CHANNEL_BYTES_MAX (256ull << 20) /* of all frames; those that repeat count once */
#define SETS_TRIED 16u                   /* frames of one anode and tag have the same channels */
#define VALUES_MAX (1ull << 28)          /* of one frame: 1 GiB, 17 anodes of ProtoDUNE-HD */
#define PIECE_BYTES (256u << 10)

typedef enum { FRAME, CHANNELS, TICKINFO, CHANMASK, PARTS } part_t;
static const char *const part_name[PARTS] = { "frame_", "channels_", "tickinfo_", "chanmask_" };
#define BAD_TAG "bad" /* of the masks: others are of noise, and say nothing of the signal */

/* One member.  */
typedef struct {
    int64_t number;
    char tag[WM_FRAMES_TAG_BYTES];
    part_t part;
    wm_npy_t npy;
    uint64_t at;  /* of its values */
    uint32_t set; /* of channels, or of a mask */
    double info[3];
} item_t;

typedef struct {
    int32_t *channel;
    uint32_t n;
} set_t;

/* The mask of a frame's bad channels.  */
typedef struct {
    int64_t number;
    uint32_t set;
    bool is_fortran;
} mask_t;

struct wm_frames_archive_t {
    wm_archive_t *archive;
    item_t *item;
    set_t *set;
    wm_frames_packed_t *frame;
    uint32_t n_item, n_set, n_frame;
    size_t item_max, set_max;
    mask_t *mask; /* (n_mask), ascending by number */
    uint32_t n_mask;
    wm_frames_bad_t *bad; /* of the last frame that was asked for */
    size_t bad_max;
    uint64_t channel_bytes;
    void *map;
    size_t map_bytes;
};

void wm_frames_archive_free (wm_frames_archive_t *self)
{
    if (self->map)
        munmap (self->map, self->map_bytes);
    self->map = NULL;
}

void wm_frames_archive_destroy (wm_frames_archive_t **self_p)
{
    wm_frames_archive_t *self = *self_p;
    *self_p = NULL;
    if (!self)
        return;
    wm_frames_archive_free (self);
    wm_archive_close (&self->archive);
    for (uint32_t i = 0; i < self->n_set; i++)
        free (self->set[i].channel);
    free (self->item);
    free (self->set);
    free (self->frame);
    free (self->mask);
    free (self->bad);
    free (self);
}

/* Takes PART_TAG_NUMBER.npy apart; a tag may hold '_' too, and be empty. false: no such name.  */
static bool name_take (const char *name, item_t *item)
{
    const size_t length = strlen (name);
    for (item->part = FRAME; item->part < PARTS; item->part++) {
        const size_t lead = strlen (part_name[item->part]);
        const char *last = strrchr (name, '_');
        if (strncmp (name, part_name[item->part], lead) || !last || last < name + lead ||
            length < 5 || strcmp (name + length - 4, ".npy"))
            continue;
        const size_t digits = strspn (last + 1, "0123456789"), tag = (size_t) (last - name) - lead;
        if (!digits || digits > 18 || last + 1 + digits != name + length - 4 ||
            tag >= sizeof item->tag)
            return false;
        item->number = strtoll (last + 1, NULL, 10);
        memcpy (item->tag, name + lead, tag);
        item->tag[tag] = 0;
        return item->part != CHANMASK || strcmp (item->tag, BAD_TAG) == 0;
    }
    return false;
}

/* One value of an array, as a double.  */
static double value_of (const wm_npy_t *npy, const uint8_t *at)
{
    int64_t whole = 0;
    double real;
    float small;
    if (npy->kind == 'f' && npy->value_bytes == 8)
        return memcpy (&real, at, 8), real;
    if (npy->kind == 'f')
        return memcpy (&small, at, 4), (double) small;
    memcpy (&whole, at, npy->value_bytes);
    if (npy->kind == 'u')
        return (double) (uint64_t) whole;
    const int spare = 64 - 8 * (int) npy->value_bytes;
    return (double) ((int64_t) ((uint64_t) whole << spare) >> spare);
}

/* Reads the channels of a frame, or the mask of its bad ones; those of a recent frame are shared.
 */
static wm_fault_t channels_read (wm_frames_archive_t *self, item_t *item, const char *where,
                                 wm_error_t *error)
{
    const wm_npy_t *npy = &item->npy;
    const bool is_mask = item->part == CHANMASK;
    if (npy->kind == 'f' || npy->dim[0] > CHANNELS_MAX ||
        (is_mask ? npy->n_dim != 2 || npy->dim[1] != 3 : npy->n_dim != 1))
        return wm_fault (error, WM_EBATCH, "%s: not %s of at most %u integers", where,
                         is_mask ? "three columns (channel, first tick, tick behind the last)"
                                 : "one line",
                         CHANNELS_MAX);
    const size_t n = npy->dim[0] * (is_mask ? 3 : 1);
    uint8_t *stored = malloc (n * npy->value_bytes + 1);
    int32_t *channel = malloc ((n + 1) * sizeof *channel);
    wm_fault_t fault = stored && channel
                           ? wm_archive_read (self->archive, stored, n * npy->value_bytes, error)
                           : wm_fault (error, WM_EHOST, "out of memory");
    for (size_t i = 0; i < n && !fault; i++) {
        const double value = value_of (npy, stored + i * npy->value_bytes);
        if (!(value >= INT32_MIN && value <= INT32_MAX))
            fault = wm_fault (error, WM_EBATCH, "%s: %s %.17g is not one", where,
                              is_mask ? "a channel or tick," : "channel", value);
        else
            channel[i] = (int32_t) value;
    }
    free (stored);
    for (uint32_t i = self->n_set; i && i + SETS_TRIED > self->n_set && !fault; i--)
        if (self->set[i - 1].n == n && !memcmp (self->set[i - 1].channel, channel, 4 * n)) {
            item->set = i - 1;
            free (channel);
            return WM_OK;
        }
    self->channel_bytes += 4 * n;
    if (!fault && self->channel_bytes > CHANNEL_BYTES_MAX)
        fault = wm_fault (error, WM_EBATCH,
                          "%s: the channels of all frames together take more than %llu MiB", where,
                          CHANNEL_BYTES_MAX >> 20);
    if (!fault)
        fault = wm_event_reserve (&self->set, &self->set_max, self->n_set + 1ull, sizeof *self->set,
                                  error);
    if (fault) {
        free (channel);
        return fault;
    }
    item->set = self->n_set;
    self->set[self->n_set++] = (set_t){ channel, (uint32_t) n };
    return WM_OK;
}

static wm_fault_t info_read (wm_frames_archive_t *self, item_t *item, const char *where,
                             wm_error_t *error)
{
    const wm_npy_t *npy = &item->npy;
    uint8_t stored[3 * 8];
    if (npy->n_dim != 1 || npy->dim[0] != 3 || (npy->kind == 'f' && npy->value_bytes < 4))
        return wm_fault (error, WM_EBATCH, "%s: not three numbers", where);
    const wm_fault_t fault = wm_archive_read (self->archive, stored, 3ul * npy->value_bytes, error);
    for (unsigned i = 0; i < 3 && !fault; i++)
        item->info[i] = value_of (npy, stored + i * npy->value_bytes);
    return fault;
}

static wm_fault_t frame_check (const item_t *item, const char *where, wm_error_t *error)
{
    const wm_npy_t *npy = &item->npy;
    const bool is_small = npy->kind == 'f' ? npy->value_bytes >= 4 : npy->value_bytes <= 4;
    if (npy->n_dim != 2 || !is_small || !npy->dim[1] || npy->dim[1] > WM_EVENT_TICKS_MAX ||
        npy->dim[0] > CHANNELS_MAX)
        return wm_fault (error, WM_EBATCH,
                         "%s: not (channels, ticks) of float32, float64 or integers up to 32 bits",
                         where);
    if (npy->dim[0] * npy->dim[1] > VALUES_MAX)
        return wm_fault (error, WM_EBATCH,
                         "%s: %llu channels of %llu ticks: a frame in an archive has at most %llu "
                         "values; write it by HDF5FrameTap",
                         where, (unsigned long long) npy->dim[0], (unsigned long long) npy->dim[1],
                         VALUES_MAX);
    return WM_OK;
}

/* Reads an array's header and not a byte more, since a step back unpacks everything again.  */
static wm_fault_t head_read (wm_frames_archive_t *self, uint64_t bytes, uint8_t *head, size_t *n,
                             wm_error_t *error)
{
    wm_fault_t fault = WM_OK;
    *n = 0;
    for (size_t want = 10; *n < want && !fault;) {
        if (want > bytes || want > WM_NPY_HEAD_MAX)
            break;
        fault = wm_archive_read (self->archive, head + *n, want - *n, error);
        *n = want;
        if (want == 10)
            want = head[6] == 1 ? 10 + (head[8] | (size_t) head[9] << 8) : 12;
        else if (want == 12 && head[6] == 2)
            want = 12 + (head[8] | (size_t) head[9] << 8);
    }
    return fault;
}

/* Reads a member of a name that is known.  */
static wm_fault_t member_read (wm_frames_archive_t *self, const wm_member_t *member, item_t *item,
                               wm_error_t *error)
{
    uint8_t head[WM_NPY_HEAD_MAX];
    char where[480];
    uint64_t bytes;
    size_t n;
    wm_fault_t fault;
    snprintf (where, sizeof where, "%.250s: member %.80s", wm_archive_path (self->archive),
              member->name);
    if ((fault = head_read (self, member->bytes, head, &n, error)) ||
        (fault = wm_npy_parse_any (&item->npy, head, n, where, error)))
        return fault;
    bytes = item->npy.value_bytes;
    bool fits = true;
    for (uint32_t i = 0; i < item->npy.n_dim; i++)
        fits = fits && !__builtin_mul_overflow (bytes, item->npy.dim[i], &bytes);
    if (!fits || bytes > member->bytes || bytes + item->npy.head_bytes != member->bytes)
        return wm_fault (error, WM_EBATCH, "%s: %llu bytes are not what its header states", where,
                         (unsigned long long) member->bytes);
    item->at = member->at + item->npy.head_bytes;
    if (item->part == FRAME)
        return frame_check (item, where, error);
    return item->part == TICKINFO ? info_read (self, item, where, error)
                                  : channels_read (self, item, where, error);
}

static int item_compare (const void *a_v, const void *b_v)
{
    const item_t *a = a_v, *b = b_v;
    const int tag = strcmp (a->tag, b->tag);
    return a->number != b->number ? (a->number < b->number ? -1 : 1)
           : tag                  ? tag
                                  : (int) a->part - (int) b->part;
}

/* Puts the members of each frame and tag together.  */
static wm_fault_t items_join (wm_frames_archive_t *self, wm_error_t *error)
{
    if (self->n_item > 1)
        qsort (self->item, self->n_item, sizeof *self->item, item_compare);
    self->frame = calloc (self->n_item + 1ul, sizeof *self->frame);
    self->mask = calloc (self->n_item + 1ul, sizeof *self->mask);
    if (!self->frame || !self->mask)
        return wm_fault (error, WM_EHOST, "out of memory");
    wm_frames_packed_t *to = NULL;
    for (uint32_t i = 0; i < self->n_item; i++) {
        const item_t *item = &self->item[i];
        if (i && !item_compare (item, item - 1))
            return wm_fault (error, WM_EBATCH, "%.300s: member %s%s_%lld.npy is there twice",
                             wm_archive_path (self->archive), part_name[item->part], item->tag,
                             (long long) item->number);
        if (item->part == CHANMASK)
            self->mask[self->n_mask++] = (mask_t){ item->number, item->set, item->npy.is_fortran };
        else if (item->part == FRAME) {
            to = &self->frame[self->n_frame++];
            to->number = item->number;
            memcpy (to->tag, item->tag, sizeof to->tag);
            to->n_row = item->npy.dim[0];
            to->width = (uint32_t) item->npy.dim[1];
            to->at = item->at;
            to->value_bytes = item->npy.value_bytes;
            to->kind = item->npy.kind;
            to->is_fortran = item->npy.is_fortran;
        } else if (!to || to->number != item->number || strcmp (to->tag, item->tag) != 0) {
            continue; /* of no waveforms */
        } else if (item->part == CHANNELS) {
            to->channel = self->set[item->set].channel;
            to->n_channel = self->set[item->set].n;
        } else {
            memcpy (to->info, item->info, sizeof to->info);
            to->n_info = 3;
        }
    }
    free (self->item);
    self->item = NULL;
    return WM_OK;
}

wm_frames_archive_t *wm_frames_archive_new (wm_archive_t **archive, wm_error_t *error)
{
    wm_frames_archive_t *self = calloc (1, sizeof *self);
    if (!self) {
        wm_fault (error, WM_EHOST, "out of memory");
        wm_archive_close (archive);
        return NULL;
    }
    self->archive = *archive;
    *archive = NULL;
    wm_member_t member;
    wm_fault_t fault = WM_OK;
    while (!fault && wm_archive_next (self->archive, &member, error)) {
        item_t item = { 0 };
        if (!name_take (member.name, &item))
            continue;
        if (self->n_item == MEMBERS_MAX)
            fault = wm_fault (error, WM_EBATCH, "%.300s: more than %u members of frames",
                              wm_archive_path (self->archive), MEMBERS_MAX);
        else if (!(fault = wm_event_reserve (&self->item, &self->item_max, self->n_item + 1ull,
                                             sizeof item, error)) &&
                 !(fault = member_read (self, &member, &item, error)))
            self->item[self->n_item++] = item;
    }
    if (!fault)
        fault = error->fault;
    if (!fault)
        fault = items_join (self, error);
    if (fault)
        wm_frames_archive_destroy (&self);
    return self;
}

const wm_frames_packed_t *wm_frames_archive_list (const wm_frames_archive_t *self, uint32_t *n)
{
    *n = self->n_frame;
    return self->frame;
}

static int mask_compare (const void *number, const void *mask_v)
{
    const int64_t a = *(const int64_t *) number, b = ((const mask_t *) mask_v)->number;
    return (a > b) - (a < b);
}

static int bad_compare (const void *a_v, const void *b_v)
{
    const wm_frames_bad_t *a = a_v, *b = b_v;
    return a->channel != b->channel ? (a->channel < b->channel ? -1 : 1)
                                    : (a->first > b->first) - (a->first < b->first);
}

wm_fault_t wm_frames_archive_bad (wm_frames_archive_t *self, int64_t number,
                                  const wm_frames_bad_t **bad, uint32_t *n, wm_error_t *error)
{
    const mask_t *mask = bsearch (&number, self->mask, self->n_mask, sizeof *mask, mask_compare);
    *n = 0;
    if (!mask)
        return WM_OK;
    const set_t *set = &self->set[mask->set];
    const uint32_t count = set->n / 3, row = mask->is_fortran ? 1 : 3,
                   column = mask->is_fortran ? count : 1;
    const wm_fault_t fault =
        wm_event_reserve (&self->bad, &self->bad_max, count + 1ull, sizeof *self->bad, error);
    for (uint32_t i = 0; i < count && !fault; i++) {
        const int32_t *at = set->channel + i * row;
        if (at[column] < at[2 * column])
            self->bad[(*n)++] = (wm_frames_bad_t){ at[0], at[column], at[2 * column] };
    }
    if (*n > 1)
        qsort (self->bad, *n, sizeof *self->bad, bad_compare);
    uint32_t kept = 0;
    for (uint32_t i = 0; i < *n; i++) {
        const wm_frames_bad_t *one = &self->bad[i];
        wm_frames_bad_t *last = kept ? &self->bad[kept - 1] : NULL;
        if (!last || last->channel != one->channel || last->end < one->first)
            self->bad[kept++] = *one;
        else if (last->end < one->end)
            last->end = one->end;
    }
    *n = kept;
    *bad = self->bad;
    return fault;
}

/* ---- waveforms ------------------------------------------------------------------------------- */

/* Puts `count` values, of which the first is value number `first` as it is stored, where they
   belong. Zeros are left out: the memory has them already, and stays untouched.  */
static void values_put (const wm_frames_packed_t *frame, uint64_t first, const float *value,
                        uint32_t count, float *to)
{
    const uint64_t n = frame->n_row, width = frame->width;
    for (uint32_t i = 0; (i = wm_waves_nonzero (value, i, count)) < count; i++) {
        const uint64_t k = first + i;
        to[frame->is_fortran ? k % n * width + k / n : k] = value[i];
    }
}

wm_fault_t wm_frames_archive_load (wm_frames_archive_t *self, const wm_frames_packed_t *frame,
                                   const float **value, wm_error_t *error)
{
    static uint8_t stored[PIECE_BYTES];
    static float piece[PIECE_BYTES / sizeof (float)];
    const uint64_t n = frame->n_row * frame->width;
    const wm_npy_t npy = { .value_bytes = frame->value_bytes, .kind = frame->kind };
    wm_frames_archive_free (self);
    self->map_bytes = (n + 1) * sizeof (float);
    self->map = mmap (NULL, self->map_bytes, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (self->map == MAP_FAILED) {
        self->map = NULL;
        return wm_fault (error, WM_EHOST, "out of memory");
    }
    *value = self->map;
    wm_fault_t fault = wm_archive_seek (self->archive, frame->at, error);
    for (uint64_t at = 0; at < n && !fault;) {
        const uint64_t most = sizeof stored / (frame->value_bytes < 4 ? 4 : frame->value_bytes);
        const uint32_t count = (uint32_t) (n - at < most ? n - at : most);
        fault = wm_archive_read (self->archive, stored, (size_t) count * frame->value_bytes, error);
        int16_t small;
        if (frame->kind == 'f' && frame->value_bytes == 4)
            memcpy (piece, stored, (size_t) count * 4);
        else if (frame->kind == 'i' && frame->value_bytes == 2)
            for (uint32_t i = 0; i < count; i++) {
                memcpy (&small, stored + 2ul * i, 2);
                piece[i] = small;
            }
        else
            for (uint32_t i = 0; i < count; i++)
                piece[i] = (float) value_of (&npy, stored + (size_t) i * frame->value_bytes);
        if (!fault)
            values_put (frame, at, piece, count, self->map);
        at += count;
    }
    return fault;
}
