/* wm_onnx_external.c - reads the data that an ONNX file keeps in other files into its tensors.

   Newer exporters put weights into a second file and name it by a path, an offset and a length. The
   path is not trusted: a file whose real path is outside the model's folder is refused, and so is
   data beyond a model's limit. The message then owns the data, as if the model were one file.

   Tensors are initializers and attributes of the graph, of graphs inside attributes, and of the
   model's functions: all are visited, without recursion, by a list of the remaining nodes.  */
#include "kernels/import/wm_onnx.h"
#include "schema/wm_limits.h"

#include <errno.h>
#include <libgen.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

/* Nodes still to visit.  */
typedef struct {
    Onnx__NodeProto *const *node;
    size_t n_node;
} part_t;

typedef struct {
    const wm_onnx_t *onnx;
    wm_digest_t *digest;
    char folder[PATH_MAX]; /* real path, ends with '/' */
    char open_path[PATH_MAX];
    const uint8_t *map; /* of the file at open_path, or NULL */
    size_t map_size;
    uint64_t total;
    part_t *part;
    size_t n_part, part_max;
} loader_t;

static wm_fault_t refuse (const loader_t *self, const Onnx__TensorProto *t, wm_error_t *error,
                          const char *what, const char *where)
{
    return wm_fault (error, WM_EBATCH, "%s: tensor '%.100s' keeps its data in '%.100s', %s",
                     self->onnx->path, t->name ? t->name : "", where, what);
}

/* ---- the files ------------------------------------------------------------------------------- */

/* Maps the file `location` of the model's folder, unless it is mapped already.  */
static wm_fault_t map_file (loader_t *self, const Onnx__TensorProto *t, const char *location,
                            wm_error_t *error)
{
    char path[PATH_MAX], real[PATH_MAX];
    if (snprintf (path, sizeof path, "%s%s", self->folder, location) >= (int) sizeof path)
        return refuse (self, t, error, "too long a path", location);
    if (*location == '/')
        return refuse (self, t, error, "outside the model's folder", location);
    if (!realpath (path, real))
        return refuse (self, t, error, strerror (errno), location);
    if (strncmp (real, self->folder, strlen (self->folder)))
        return refuse (self, t, error, "outside the model's folder", location);
    if (self->map && !strcmp (real, self->open_path))
        return WM_OK;
    if (self->map)
        munmap ((void *) self->map, self->map_size);
    self->map = NULL;
    strcpy (self->open_path, real);
    return wm_file_map (real, WM_MODEL_BYTES_MAX, &self->map, &self->map_size, error);
}

/* Reads the number of an entry. false: not a number.  */
static bool read_number (const char *text, uint64_t *value)
{
    char *end;
    errno = 0;
    *value = strtoull (text, &end, 10);
    return *text >= '0' && *text <= '9' && !*end && !errno;
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
    wm_fault_t fault = map_file (self, t, location, error);
    if (fault)
        return fault;
    if (!has_length)
        length = self->map_size - (offset < self->map_size ? offset : self->map_size);
    if (__builtin_add_overflow (offset, length, &end) || end > self->map_size)
        return refuse (self, t, error, "beyond the end of that file", location);
    if ((self->total += length) > WM_MODEL_BYTES_MAX)
        return refuse (self, t, error, "and all together more than the limit of 1 GiB", location);
    uint8_t *copy = malloc (length ? length : 1); /* freed with the message */
    if (!copy)
        return wm_fault (error, WM_EHOST, "%s: no memory for its weights", self->onnx->path);
    memcpy (copy, self->map + offset, length);
    wm_digest_add (self->digest, copy, length);
    if (t->has_raw_data)
        free (t->raw_data.data);
    t->has_raw_data = 1;
    t->raw_data = (ProtobufCBinaryData){ length, copy };
    t->data_location = ONNX__TENSOR_PROTO__DATA_LOCATION__DEFAULT;
    for (size_t i = 0; i < t->n_external_data; i++)
        onnx__string_string_entry_proto__free_unpacked (t->external_data[i], NULL);
    free (t->external_data);
    t->external_data = NULL;
    t->n_external_data = 0;
    return WM_OK;
}

/* ---- the tensors ----------------------------------------------------------------------------- */

static wm_fault_t visit_tensor (loader_t *self, Onnx__TensorProto *t, wm_error_t *error)
{
    if (!t ||
        (!t->n_external_data && t->data_location != ONNX__TENSOR_PROTO__DATA_LOCATION__EXTERNAL))
        return WM_OK;
    return load (self, t, error);
}

static wm_fault_t visit_sparse (loader_t *self, Onnx__SparseTensorProto *t, wm_error_t *error)
{
    wm_fault_t fault = t ? visit_tensor (self, t->values, error) : WM_OK;
    return fault || !t ? fault : visit_tensor (self, t->indices, error);
}

static wm_fault_t add_part (loader_t *self, Onnx__NodeProto *const *node, size_t n_node,
                            wm_error_t *error)
{
    if (self->n_part == self->part_max) {
        size_t more = self->part_max ? 2 * self->part_max : 16;
        part_t *part = realloc (self->part, more * sizeof *part);
        if (!part)
            return wm_fault (error, WM_EHOST, "%s: no memory to read it", self->onnx->path);
        self->part = part;
        self->part_max = more;
    }
    self->part[self->n_part++] = (part_t){ node, n_node };
    return WM_OK;
}

static wm_fault_t visit_graph (loader_t *self, const Onnx__GraphProto *g, wm_error_t *error)
{
    wm_fault_t fault = WM_OK;
    for (size_t i = 0; g && i < g->n_initializer && !fault; i++)
        fault = visit_tensor (self, g->initializer[i], error);
    for (size_t i = 0; g && i < g->n_sparse_initializer && !fault; i++)
        fault = visit_sparse (self, g->sparse_initializer[i], error);
    return fault || !g ? fault : add_part (self, g->node, g->n_node, error);
}

static wm_fault_t visit_attribute (loader_t *self, const Onnx__AttributeProto *a, wm_error_t *error)
{
    wm_fault_t fault = visit_tensor (self, a->t, error);
    for (size_t i = 0; i < a->n_tensors && !fault; i++)
        fault = visit_tensor (self, a->tensors[i], error);
    if (!fault)
        fault = visit_sparse (self, a->sparse_tensor, error);
    for (size_t i = 0; i < a->n_sparse_tensors && !fault; i++)
        fault = visit_sparse (self, a->sparse_tensors[i], error);
    if (!fault)
        fault = visit_graph (self, a->g, error);
    for (size_t i = 0; i < a->n_graphs && !fault; i++)
        fault = visit_graph (self, a->graphs[i], error);
    return fault;
}

static wm_fault_t visit_all (loader_t *self, wm_error_t *error)
{
    const Onnx__ModelProto *model = self->onnx->model;
    wm_fault_t fault = visit_graph (self, model->graph, error);
    for (size_t i = 0; i < model->n_functions && !fault; i++)
        fault = add_part (self, model->functions[i]->node, model->functions[i]->n_node, error);
    while (self->n_part && !fault) {
        part_t part = self->part[--self->n_part];
        for (size_t i = 0; i < part.n_node && !fault; i++)
            for (size_t k = 0; k < part.node[i]->n_attribute && !fault; k++)
                fault = visit_attribute (self, part.node[i]->attribute[k], error);
    }
    return fault;
}

wm_fault_t wm_onnx_load_external (wm_onnx_t *self, wm_digest_t *digest, wm_error_t *error)
{
    loader_t loader = { .onnx = self, .digest = digest };
    char copy[PATH_MAX];
    if (snprintf (copy, sizeof copy, "%s", self->path) >= (int) sizeof copy ||
        !realpath (dirname (copy), loader.folder) || strlen (loader.folder) + 2 > PATH_MAX)
        return wm_fault (error, WM_EHOST, "%s: its folder cannot be found: %s", self->path,
                         strerror (errno));
    if (strcmp (loader.folder, "/"))
        strcat (loader.folder, "/");
    wm_fault_t fault = visit_all (&loader, error);
    if (loader.map)
        munmap ((void *) loader.map, loader.map_size);
    free (loader.part);
    self->gathered = loader.total > 0;
    return fault;
}
