/* wm_reader_open.c - recognises a file's layout and opens it.  */
#include "producer/layouts/wm_frames.h"
#include "producer/layouts/wm_hits_csv.h"
#include "producer/layouts/wm_layout.h"
#include "producer/layouts/wm_points.h"
#include "producer/layouts/wm_spacepoints.h"
#include "schema/base/wm_file.h"
#include "schema/base/wm_kind.h"
#include "schema/base/wm_path.h"
#include "schema/base/wm_url.h"
#include "schema/wm_pair.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Only frames have tags.  */
static bool has_no_tags (const char *path, const wm_spec_t *spec, wm_error_t *error)
{
    if (spec->n_tag)
        wm_fault (
            error, WM_EBATCH,
            "%.300s: --spec has tags, which are of Wire-Cell frames (--input FRAMES --channels "
            "MAP); this file has none",
            path);
    return !spec->n_tag;
}

static wm_reader_t *hdf5_open (const char *path, const char *dataset, const wm_spec_t *spec,
                               wm_error_t *error)
{
    wm_h5_t *file = wm_h5_open (path, error);
    if (!file)
        return NULL;
    char text[96], list[WM_H5_LIST_BYTES];
    if (dataset)
        return wm_dense_open (&file, dataset, error);
    if (wm_h5_text (file, "layout", text, sizeof text)) {
        if (!strcmp (text, "wiremill-exchange-1")) {
            if (has_no_tags (path, spec, error))
                return wm_exchange_open (&file, spec, error);
        } else if (!strncmp (text, "wiremill-scores-", strlen ("wiremill-scores-")))
            wm_fault (error, WM_EBATCH, "%.300s: an output of wiremill, not an input", path);
        else
            wm_fault (error, WM_EBATCH,
                      "%.300s: its attribute layout is '%s', wiremill reads 'wiremill-exchange-1'",
                      path, text);
    } else if (wm_h5_has (file, "roi_table"))
        wm_fault (error, WM_EBATCH,
                  "%.300s: the attribute layout is missing; if it is the exchange layout, set "
                  "f.attrs[\"layout\"] = \"wiremill-exchange-1\"",
                  path);
    else if (spec->points == WM_POINTS_WINDOWS && wm_frames_are (file))
        wm_fault (error, WM_EBATCH,
                  "%.300s: Wire-Cell frames: give their channel map by --channels", path);
    else if (wm_h5_has (file, "chargehits") ||
             (wm_h5_has (file, "hit_table") && !wm_h5_has (file, "wire_table")))
        wm_fault (error, WM_EBATCH,
                  "%.300s: hits without planes: give the file of their planes by --planes, and a "
                  "channel map by --channels",
                  path);
    else if (wm_h5_has (file, "hit_table") || wm_h5_has (file, "wire_table")) {
        if (has_no_tags (path, spec, error))
            return wm_opensamples_open (&file, spec, error);
    } else if (wm_h5_only_dataset (file, text, sizeof text))
        return wm_dense_open (&file, text, error);
    else
        wm_fault (error, WM_EBATCH,
                  "%.300s: neither events nor one dataset of patches; where there are several, "
                  "name one: FILE.h5:/DATASET; it has %s",
                  path, wm_h5_list (file, "", list));
    wm_h5_close (&file);
    return NULL;
}

/* What a campaign reads of an open input: its hits, or windows on its planes, where it has any.  */
static wm_reader_t *with_points (wm_reader_t *self, const wm_spec_t *spec, wm_error_t *error)
{
    if (self && spec->points == WM_POINTS_WINDOWS && self->layout->planes)
        self = wm_points_open (&self, spec, error);
    else if (self && spec->points == WM_POINTS_SPACEPOINTS && self->layout->has_hits)
        self = wm_spacepoints_open (&self, spec, error);
    return self;
}

/* Frames alone.  */
static wm_reader_t *open_frames (const char *name, const char *channels, const char *pedestal,
                                 const wm_spec_t *spec, wm_error_t *error)
{
    wm_reader_t *self = NULL;
    if (spec->points != WM_POINTS_WINDOWS)
        wm_fault (error, WM_EBATCH,
                  "%.300s: --channels without --planes goes with points: windows in --spec", name);
    else
        self = with_points (wm_planes_open (name, channels, pedestal, spec, error), spec, error);
    if (!self)
        wm_layout_blame (error->fault, error);
    return self;
}

wm_reader_t *wm_reader_open_pair (const char *name, const wm_reader_pair_t *pair,
                                  const wm_spec_t *spec, wm_error_t *error)
{
    const bool has_channels = pair->channels && *pair->channels;
    if (!pair->planes || !*pair->planes)
        return has_channels ? open_frames (name, pair->channels, pair->pedestal, spec, error)
                            : wm_reader_open (name, spec, error);
    wm_reader_t *self = NULL;
    wm_h5_t *file =
        wm_hits_csv_is (name) ? wm_hits_csv_open (name, error) : wm_h5_open (name, error);
    if (file)
        self = with_points (wm_joined_open (&file, pair, spec, error), spec, error);
    wm_h5_close (&file);
    if (!self)
        wm_layout_blame (error->fault, error);
    return self;
}

wm_reader_t *wm_reader_open (const char *name, const wm_spec_t *spec, wm_error_t *error)
{
    size_t length = wm_path_length (name);
    char *path = strndup (name, length);
    if (!path) {
        wm_fault (error, WM_EHOST, "out of memory");
        return NULL;
    }
    const char *dataset = name[length] ? name + length + 1 : NULL;
    uint8_t magic[6] = { 0 };
    wm_reader_t *self = NULL;
    const int fd = wm_file_open (path, NULL, error);
    if (fd < 0 && wm_kind_of (path) == WM_KIND_BROKEN)
        wm_fault (error, WM_EBATCH, "%.300s: %s", path,
                  access (path, F_OK) && errno == ELOOP
                      ? "a symbolic link that leads to itself"
                      : "a symbolic link to a file that does not exist");
    else if (fd >= 0 && read (fd, magic, sizeof magic) < 0)
        wm_fault (error, WM_EBATCH, "%.300s: cannot be read: %s", path, strerror (errno));
    else if (fd >= 0 && wm_hits_csv_is (path))
        wm_fault (error, WM_EBATCH,
                  "%.300s: a text; if it is a CSV of hits, give the file of their planes by "
                  "--planes, and a channel map by --channels",
                  path);
    else if (fd >= 0 && !dataset &&
             (!memcmp (magic, "\x93NUMPY", 6) ||
              (length > 4 && !strcmp (path + length - 4, ".npy"))))
        self = wm_npy_open (path, error);
    else if (fd >= 0)
        self = with_points (hdf5_open (path, dataset, spec, error), spec, error);
    if (fd >= 0)
        close (fd);
    free (path);
    if (self && spec->result == WM_RESULT_IMAGE && !self->layout->planes) {
        wm_fault (error, WM_EBATCH,
                  "%.300s: its patches are ready-made, without their places in a plane, so "
                  "result: image cannot put their images together",
                  name);
        wm_reader_destroy (&self);
    }
    if (!self)
        wm_layout_blame (error->fault, error);
    return self;
}

static wm_reader_t *input_open (const char *file, const char *name, const wm_pins_t *pins,
                                const wm_spec_t *spec, wm_error_t *error)
{
    char planes[PATH_MAX] = "";
    if (*pins->planes && !wm_pair_planes (pins, name, planes)) {
        wm_fault (error, WM_EBATCH, "%.300s: the path of its planes is too long", name);
        return NULL;
    }
    if (wm_url_of (planes)) {
        wm_fault (
            error, WM_EBATCH,
            "%.200s: its planes would be %.200s: wiremill copies inputs from servers, but not "
            "these files; begin again with --planes FOLDER/{stem}.h5 of a folder here",
            name, planes);
        return NULL;
    }
    const wm_reader_pair_t pair = { planes, pins->channels, pins->hit_time, pins->hit_offset,
                                    pins->pedestal };
    return wm_reader_open_pair (file, &pair, spec, error);
}

wm_reader_t *wm_reader_open_input (const char *file, const char *name, const wm_pins_t *pins,
                                   const char *shape, const wm_spec_t *spec, wm_error_t *error)
{
    wm_reader_t *self = input_open (file, name, pins, spec, error);
    if (self && wm_reader_fits (self, name, pins->n_value, shape, error))
        wm_reader_destroy (&self);
    return self;
}
