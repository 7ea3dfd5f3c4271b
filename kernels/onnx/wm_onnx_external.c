/* wm_onnx_external.c - reads the data that an ONNX file keeps in other files into its tensors.

   Newer exporters put weights into a second file and name it by a path, an offset and a length. The
   path is not trusted: it may not leave the model's folder. What lies there under that name is the
   user's, also if it is a link to elsewhere: model caches (Hugging Face's, DVC's, git-annex's) keep
   the model and its data as links to files with other names. So the name is looked for beside the
   model as it was named, then beside the file that this is a link to, and so on. The message then
   owns the data, as if the model were one file.  */
#include "kernels/onnx/wm_onnx_walk.h"
#include "kernels/onnx/wm_onnx_weights.h"
#include "schema/base/wm_path.h"
#include "schema/base/wm_target.h"
#include "schema/wm_limits.h"

#include <errno.h>
#include <libgen.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

typedef struct {
    const wm_onnx_t *onnx;
    wm_digest_t *digest;
    char open_path[PATH_MAX];
    const uint8_t *map; /* of the file at open_path, or NULL */
    size_t map_size;
    uint64_t total;
} loader_t;

static wm_fault_t refuse (const loader_t *self, const Onnx__TensorProto *t, wm_error_t *error,
                          const char *what, const char *where)
{
    return wm_fault (error, WM_EBATCH, "%s: tensor '%.100s' keeps its data in '%.100s', %s",
                     self->onnx->path, t->name ? t->name : "", where, what);
}

/* ---- the files ------------------------------------------------------------------------------- */

/* Whether a path stays in the folder where it begins, as it is written.  */
static bool stays (const char *location)
{
    if (*location == '/')
        return false;
    for (const char *part = location; part; part = strchr (part, '/')) {
        part += *part == '/';
        if (strncmp (part, "..", 2) == 0 && (!part[2] || part[2] == '/'))
            return false;
    }
    return true;
}

/* Finds the folder of a path; the root's is "".  */
static bool find_folder (const char *path, char folder[PATH_MAX])
{
    char copy[PATH_MAX];
    if (snprintf (copy, sizeof copy, "%s", path) >= (int) sizeof copy ||
        !realpath (dirname (copy), folder))
        return false;
    folder[strcmp (folder, "/") ? strlen (folder) : 0] = 0;
    return true;
}

/* Finds the file `location`. false, and errno: it is not there; `path`: beside the model as
   named.  */
static bool find (const loader_t *self, const char *location, char path[PATH_MAX])
{
    char model[PATH_MAX], folder[PATH_MAX], beside[PATH_MAX] = "";
    int first = 0;
    snprintf (model, sizeof model, "%s", self->onnx->path);
    for (int i = 0; i < WM_PATH_LINKS_MAX && find_folder (model, folder); i++) {
        snprintf (beside, sizeof beside, "%.2500s/%.1500s", folder, location);
        const bool is_there = access (beside, R_OK) == 0;
        first = i ? first : errno;
        if (is_there || i == 0)
            strcpy (path, beside);
        if (is_there)
            return true;
        if (!wm_path_follow (model))
            break;
    }
    errno = first;
    return false;
}

/* Maps the file `location` of the model's folder, unless it is mapped already.  */
static wm_fault_t map_file (loader_t *self, const Onnx__TensorProto *t, const char *location,
                            wm_error_t *error)
{
    char path[PATH_MAX];
    if (strlen (location) > NAME_MAX * 4)
        return refuse (self, t, error, "too long a path", location);
    if (!stays (location))
        return refuse (self, t, error,
                       "outside the model's folder, which no model may name: put that file beside "
                       "the model, or a link to it, and export the model with its bare name",
                       location);
    if (!find (self, location, path))
        return wm_fault (error, WM_EBATCH,
                         "%s: tensor '%.100s' keeps its data in '%.100s', which is not beside it "
                         "(%.300s: %s): put that file, or a link to it, there",
                         self->onnx->path, t->name ? t->name : "", location, path,
                         strerror (errno));
    struct stat status;
    if (stat (path, &status) == 0 && !S_ISREG (status.st_mode))
        return refuse (self, t, error, "which is not a regular file", location);
    if (self->map && !strcmp (path, self->open_path))
        return WM_OK;
    if (self->onnx->spare && wm_target_same (self->onnx->spare, path))
        return wm_fault (error, WM_EUSAGE, "%.300s holds the weights of %.300s: give another file",
                         self->onnx->spare, self->onnx->path);
    if (self->map)
        munmap ((void *) self->map, self->map_size);
    self->map = NULL;
    strcpy (self->open_path, path);
    return wm_file_map (path, WM_MODEL_BYTES_MAX, &self->map, &self->map_size, error);
}

/* Reads the number of an entry. false: not a number.  */
static bool read_number (const char *text, uint64_t *value)
{
    char *end;
    errno = 0;
    *value = strtoull (text, &end, 10);
    return *text >= '0' && *text <= '9' && !*end && !errno;
}

/* Takes the entries off, which are done with.  */
static void forget (Onnx__TensorProto *t)
{
    for (size_t i = 0; i < t->n_external_data; i++)
        onnx__string_string_entry_proto__free_unpacked (t->external_data[i], NULL);
    free (t->external_data);
    t->external_data = NULL;
    t->n_external_data = 0;
    t->data_location = ONNX__TENSOR_PROTO__DATA_LOCATION__DEFAULT;
}

/* Copies a part of a file into the tensor, and into the digest.  */
static wm_fault_t take (loader_t *self, Onnx__TensorProto *t, uint64_t offset, uint64_t length,
                        wm_error_t *error)
{
    uint8_t *copy = malloc (length ? length : 1); /* freed with the message */
    if (!copy)
        return wm_fault (error, WM_EHOST, "%s: no memory for its weights", self->onnx->path);
    memcpy (copy, self->map + offset, length);
    wm_digest_add (self->digest, copy, length);
    if (t->has_raw_data)
        free (t->raw_data.data);
    t->has_raw_data = 1;
    t->raw_data = (ProtobufCBinaryData){ length, copy };
    return WM_OK;
}

static wm_fault_t load (loader_t *self, Onnx__TensorProto *t, wm_error_t *error)
{
    const char *location = "";
    uint64_t offset = 0, length = 0, end;
    int fine = 1, has_length = 0;
    for (size_t i = 0; i < t->n_external_data; i++) {
        const char *key = t->external_data[i]->key, *value = t->external_data[i]->value;
        if (!key || !value)
            continue;
        if (!strcmp (key, "location"))
            location = value;
        else if (!strcmp (key, "offset"))
            fine = fine && read_number (value, &offset);
        else if (!strcmp (key, "length"))
            fine = fine && (has_length = read_number (value, &length));
    }
    if (!*location || !fine)
        return refuse (self, t, error, "without a path, or at no number", location);
    if (t->has_raw_data && t->raw_data.len)
        return refuse (self, t, error, "and has some itself: a damaged model", location);
    /* Without a length it has what its shape needs.  */
    if (!has_length && !wm_onnx_weight_bytes (t, &length))
        return refuse (self, t, error, "without a length, and its shape has none", location);
    wm_fault_t fault = map_file (self, t, location, error);
    if (fault)
        return fault;
    if (__builtin_add_overflow (offset, length, &end) || end > self->map_size)
        return refuse (self, t, error, "beyond the end of that file", location);
    if ((self->total += length) > WM_MODEL_BYTES_MAX)
        return refuse (self, t, error, "and all together more than the limit of 1 GiB", location);
    fault = take (self, t, offset, length, error);
    if (!fault)
        forget (t);
    return fault;
}

/* Only data_location decides: a writer may have left entries where it put the data into the
   model.  */
static wm_fault_t visit_tensor (void *argument, Onnx__TensorProto *t, const Onnx__NodeProto *node,
                                wm_error_t *error)
{
    loader_t *self = argument;
    (void) node;
    if (t->data_location == ONNX__TENSOR_PROTO__DATA_LOCATION__EXTERNAL)
        return load (self, t, error);
    forget (t);
    return WM_OK;
}

wm_fault_t wm_onnx_load_external (wm_onnx_t *self, wm_digest_t *digest, wm_error_t *error)
{
    loader_t loader = { .onnx = self, .digest = digest };
    const wm_fault_t fault = wm_onnx_walk (
        &(wm_onnx_walk_t){ .tensor = visit_tensor, .argument = &loader }, self->model, error);
    if (loader.map)
        munmap ((void *) loader.map, loader.map_size);
    self->gathered = true;
    return fault;
}
