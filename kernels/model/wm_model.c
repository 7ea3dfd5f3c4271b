/* wm_model.c - the .wmm file: its layout, its checks, its writer.

   Layout, little-endian, every array on a 64-byte boundary (zeros between them):

     header_t | conv weights, biases | dense weights, biases | known inputs, scores | original file

   A plug-in's original begins with a wm_model_plugin_t.

   The digest in the header is the XXH3-128 of everything behind it, so that a flipped bit anywhere
   is found first. The content is checked as well, because the file may be hostile. Reader and
   writer run the same check.  */
#include "kernels/model/wm_model.h"
#include "schema/wm_limits.h"

#include <assert.h>
#include <limits.h>
#include <math.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <xxhash.h>

#if __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "a .wmm file is little-endian, and mapped unchanged"
#endif

#define VERSION 1u
#define ALIGN 64u
#define LAYER_VALUES_MAX (1u << 26) /* outputs of one layer for one patch */

static const char magic[8] = "\x89WMM\r\n\x1a";

typedef struct {
    uint32_t kh, kw, c_in, c_out, act;
    float bend;
    uint64_t weight, bias; /* offsets in the file */
} conv_t;

typedef struct {
    int32_t parent;
    uint32_t n_in, n_out, act;
    int32_t output;
    float bend;
    uint64_t weight, bias;
} dense_t;

typedef struct {
    char magic[8];
    uint32_t version, kind;
    uint64_t file_bytes;
    uint8_t digest[16]; /* of everything behind this field */
    uint8_t sha256[32];
    uint32_t n_input, n_output, n_known;
    uint32_t
        height; /* of a patch of the family; of a ragged model the most values of a row, or 0 */
    uint32_t width, channel, n_conv, n_dense;
    uint64_t known_inputs, known_scores, original, original_bytes;
    uint64_t madds;     /* of a general model; 0 in those that are older than this field */
    wm_judged_t judged; /* likewise */
    char why[480];
    wm_port_t input[WM_MODEL_PORTS_MAX], output[WM_MODEL_PORTS_MAX];
    conv_t conv[WM_MODEL_CONVS_MAX];
    dense_t dense[WM_MODEL_DENSES_MAX];
} header_t;

static_assert (sizeof (wm_port_t) == 160 && sizeof (wm_judged_t) == 48, "part of the file");
static_assert (sizeof (conv_t) == 40 && sizeof (dense_t) == 40, "part of the file");
static_assert (sizeof (header_t) == 7392, "part of the file");
static_assert (sizeof (wm_model_plugin_t) == 3 * ALIGN, "no gap behind it");
#define DIGEST_FROM (offsetof (header_t, digest) + 16)
static_assert (DIGEST_FROM == WM_MODEL_HEAD_BYTES, "the head ends with the digest");

struct wm_model_t {
    const header_t *header; /* the mapping */
    size_t size;
    char sha256[65];
    char path[PATH_MAX];
    uint32_t n_value, n_output;
    const wm_port_t *free_port; /* the first with a free dimension; NULL: not ragged */
    wm_net_t net;
};

/* ---- rules of a header ----------------------------------------------------------------------- */

/* Returns a text on the first broken rule, or NULL.  */
typedef const char *broken_t;

static int array_fits (const header_t *self, uint64_t offset, uint64_t a, uint64_t b)
{
    uint64_t bytes, end;
    return offset % ALIGN == 0 && offset >= sizeof *self &&
           !__builtin_mul_overflow (a, b, &bytes) &&
           !__builtin_mul_overflow (bytes, sizeof (float), &bytes) &&
           !__builtin_add_overflow (offset, bytes, &end) && end <= self->file_bytes;
}

static bool is_free (const wm_port_t *port)
{
    for (uint32_t d = 0; d < port->n_dim && d < WM_MODEL_DIMS_MAX; d++)
        if (!port->dim[d])
            return true;
    return false;
}

/* The first port with a free dimension.  */
static const wm_port_t *free_port (const header_t *self)
{
    for (uint32_t i = 0; i < self->n_input && i < WM_MODEL_PORTS_MAX; i++)
        if (is_free (&self->input[i]))
            return &self->input[i];
    for (uint32_t i = 0; i < self->n_output && i < WM_MODEL_PORTS_MAX; i++)
        if (is_free (&self->output[i]))
            return &self->output[i];
    return NULL;
}

/* The first port that is carried exactly.  */
static const wm_port_t *exact_port (const header_t *self)
{
    for (uint32_t i = 0; i < self->n_input + self->n_output; i++) {
        const wm_port_t *port =
            i < self->n_input ? &self->input[i] : &self->output[i - self->n_input];
        if (port->is_exact)
            return port;
    }
    return NULL;
}

/* *total: the float32s of a patch. Free dimensions count as 0; `ragged` is of the model.  */
static broken_t check_ports (const wm_port_t *port, uint32_t n, bool ragged, uint64_t values_max,
                             uint32_t *total)
{
    if (n < 1 || n > WM_MODEL_PORTS_MAX)
        return "number of inputs or outputs";
    uint64_t sum = 0;
    for (uint32_t i = 0; i < n; i++) {
        if (!memchr (port[i].name, 0, sizeof port[i].name) || port[i].n_dim > WM_MODEL_DIMS_MAX)
            return "an input's or output's name or rank";
        uint64_t values = 1;
        for (uint32_t d = 0; d < port[i].n_dim; d++)
            if (__builtin_mul_overflow (values, port[i].dim[d], &values))
                return "an input's or output's shape";
        if (values != port[i].n_value)
            return "an input's or output's shape";
        if (port[i].is_exact > 1 || (port[i].is_exact && wm_port_each (&port[i]) == 1))
            return "what carries an input or output";
        sum += values * wm_port_each (&port[i]);
        if (sum > values_max)
            return "more values a patch than the limit";
    }
    *total = ragged ? (uint32_t) values_max : (uint32_t) sum;
    return NULL;
}

static int activates (uint32_t act, float bend)
{
    return act < WM_ACTS && isfinite (bend) && (act != WM_ACT_CLIP || bend >= 0);
}

static broken_t check_convs (const header_t *self, uint64_t *flat)
{
    if (self->n_conv < 1 || self->n_conv > WM_MODEL_CONVS_MAX)
        return "number of convolutions";
    if (!self->height || !self->width || !self->channel || self->n_input != 1 ||
        (uint64_t) self->height * self->width > UINT32_MAX / self->channel ||
        self->height * self->width * self->channel != self->input[0].n_value)
        return "shape of the patch";
    uint32_t h = self->height, w = self->width, c = self->channel;
    for (uint32_t i = 0; i < self->n_conv; i++) {
        const conv_t *k = &self->conv[i];
        if (k->c_in != c || !k->c_out || !k->kh || !k->kw || k->kh > h || k->kw > w)
            return "shape of a convolution";
        if (k->act == WM_ACT_SOFTMAX || !activates (k->act, k->bend))
            return "activation of a convolution";
        h -= k->kh - 1;
        w -= k->kw - 1;
        c = k->c_out;
        if ((uint64_t) h * w > LAYER_VALUES_MAX / c)
            return "a convolution larger than the limit";
        if (!array_fits (self, k->weight, (uint64_t) k->kh * k->kw, (uint64_t) k->c_in * c) ||
            !array_fits (self, k->bias, 1, c))
            return "weights of a convolution outside the file";
    }
    *flat = (uint64_t) h * w * c;
    return NULL;
}

static broken_t check_denses (const header_t *self, uint64_t flat, uint32_t n_output)
{
    if (self->n_dense < 1 || self->n_dense > WM_MODEL_DENSES_MAX)
        return "number of dense layers";
    uint8_t filled[WM_OUTPUTS_MAX] = { 0 };
    uint32_t n_filled = 0;
    for (uint32_t i = 0; i < self->n_dense; i++) {
        const dense_t *k = &self->dense[i];
        if (k->parent < -1 || k->parent >= (int64_t) i)
            return "parent of a dense layer";
        if (k->n_in != (k->parent < 0 ? flat : self->dense[k->parent].n_out) || !k->n_out ||
            k->n_out > LAYER_VALUES_MAX)
            return "shape of a dense layer";
        if (!activates (k->act, k->bend))
            return "activation of a dense layer";
        if (!array_fits (self, k->weight, k->n_in, k->n_out) ||
            !array_fits (self, k->bias, 1, k->n_out))
            return "weights of a dense layer outside the file";
        if (k->output < -1 || (k->output >= 0 && (uint64_t) k->output + k->n_out > n_output))
            return "columns of a dense layer";
        for (uint32_t o = 0; k->output >= 0 && o < k->n_out; o++, n_filled++)
            if (filled[(uint32_t) k->output + o]++)
                return "a score filled twice";
    }
    return n_filled == n_output ? NULL : "a score that no layer fills";
}

static broken_t check (const header_t *self, uint32_t *n_value, uint32_t *n_output)
{
    const bool ragged = free_port (self);
    const uint32_t row = self->height ? self->height : WM_RAGGED_VALUES;
    if (ragged && (row < WM_RAGGED_VALUES || row > WM_RAGGED_VALUES_MAX))
        return "the values of a row";
    broken_t broken = check_ports (self->input, self->n_input, ragged,
                                   ragged ? row : WM_PATCH_BYTES_MAX / 4, n_value);
    if (!broken)
        broken = check_ports (self->output, self->n_output, ragged,
                              ragged                          ? row
                              : self->kind != WM_MODEL_FAMILY ? WM_ANSWER_VALUES_MAX
                                                              : WM_OUTPUTS_MAX,
                              n_output);
    if (broken)
        return broken;
    if ((ragged || exact_port (self)) && self->kind != WM_MODEL_GENERAL)
        return "a free dimension or another type, in the family or of a plug-in";
    if (!memchr (self->why, 0, sizeof self->why))
        return "its reason";
    if (self->n_known && !ragged &&
        (!array_fits (self, self->known_inputs, self->n_known, *n_value) ||
         !array_fits (self, self->known_scores, self->n_known, *n_output)))
        return "known answers outside the file";
    if (self->kind == WM_MODEL_FAMILY) {
        uint64_t flat;
        broken =
            self->original_bytes ? "an original beside its network" : check_convs (self, &flat);
        return broken ? broken : check_denses (self, flat, *n_output);
    }
    if (self->kind != WM_MODEL_GENERAL && self->kind != WM_MODEL_PLUGIN)
        return "kind of model";
    if (self->judged.judgement >= WM_JUDGEMENTS || self->judged.lacked > 1 ||
        !(self->judged.off >= 0) || !memchr (self->judged.judge, 0, sizeof self->judged.judge))
        return "its judgement";
    uint64_t end;
    if (!self->original_bytes || self->original < sizeof *self || self->original % ALIGN ||
        __builtin_add_overflow (self->original, self->original_bytes, &end) ||
        end > self->file_bytes ||
        (self->kind == WM_MODEL_PLUGIN && self->original_bytes < sizeof (wm_model_plugin_t)))
        return "original outside the file";
    return NULL;
}

static bool is_printable (const char *text, size_t bytes)
{
    const size_t n = strnlen (text, bytes);
    for (size_t i = 0; i < n; i++)
        if (text[i] < ' ' || text[i] > '~')
            return false;
    return n < bytes;
}

static broken_t check_plugin (const wm_model_plugin_t *self)
{
    return strspn (self->sha256, "0123456789abcdef") == 64 && !self->sha256[64] &&
                   is_printable (self->name, sizeof self->name) &&
                   is_printable (self->version, sizeof self->version)
               ? NULL
               : "the facts of its plug-in";
}

/* ---- reading --------------------------------------------------------------------------------- */

const char *wm_model_row (const wm_port_t *port, uint32_t n, const float *row, size_t n_value,
                          wm_ragged_t tensor[WM_RAGGED_TENSORS_MAX])
{
    uint32_t n_tensor;
    const char *broken = wm_ragged_read (row, n_value, &n_tensor, tensor);
    if (broken || n_tensor != n)
        return broken ? broken : "it has another number of tensors than the model";
    for (uint32_t i = 0; i < n; i++) {
        if (tensor[i].n_dim != port[i].n_dim)
            return "a tensor has another rank than the model's";
        if (tensor[i].type != (port[i].is_exact ? port[i].type : 0))
            return "a tensor has another type than the model's";
        for (uint32_t d = 0; d < port[i].n_dim; d++)
            if (port[i].dim[d] && port[i].dim[d] != tensor[i].dim[d])
                return "a tensor has another size than the model's";
    }
    return NULL;
}

/* Rows one behind the other, whose sizes only they state.  */
static broken_t check_rows (const wm_model_t *self, uint64_t offset, const wm_port_t *port,
                            uint32_t n_port)
{
    const header_t *h = self->header;
    wm_ragged_t tensor[WM_RAGGED_TENSORS_MAX];
    if (!array_fits (h, offset, 0, 0))
        return "known rows outside the file";
    for (uint32_t i = 0; i < h->n_known; i++) {
        const uint64_t left = (h->file_bytes - offset) / sizeof (float);
        const float *row = (const float *) (const void *) ((const uint8_t *) h + offset);
        const uint32_t n = left ? wm_ragged_length (row, left) : 0;
        if (!n || wm_model_row (port, n_port, row, n, tensor))
            return "a known row";
        for (uint32_t k = 0; k < n; k++)
            if (isnan (row[k]))
                return "a known row that is not a number";
        offset += n * sizeof (float);
    }
    return NULL;
}

static void point (wm_model_t *self)
{
    const header_t *h = self->header;
    const uint8_t *base = (const uint8_t *) h;
    wm_net_t *net = &self->net;
    *net = (wm_net_t){ .height = h->height,
                       .width = h->width,
                       .channel = h->channel,
                       .n_conv = h->n_conv,
                       .n_dense = h->n_dense };
    for (uint32_t i = 0; i < h->n_conv; i++) {
        const conv_t *k = &h->conv[i];
        net->conv[i] = (wm_conv_t){ .kh = k->kh,
                                    .kw = k->kw,
                                    .c_in = k->c_in,
                                    .c_out = k->c_out,
                                    .act = (wm_act_t) k->act,
                                    .bend = k->bend,
                                    .weight = (const float *) (base + k->weight),
                                    .bias = (const float *) (base + k->bias) };
    }
    for (uint32_t i = 0; i < h->n_dense; i++) {
        const dense_t *k = &h->dense[i];
        net->dense[i] = (wm_dense_t){ .parent = k->parent,
                                      .n_in = k->n_in,
                                      .n_out = k->n_out,
                                      .act = (wm_act_t) k->act,
                                      .bend = k->bend,
                                      .output = k->output,
                                      .weight = (const float *) (base + k->weight),
                                      .bias = (const float *) (base + k->bias) };
    }
}

static wm_fault_t check_file (wm_model_t *self, const char *path, wm_error_t *error)
{
    const header_t *h = self->header;
    if (self->size < DIGEST_FROM || memcmp (h->magic, magic, sizeof magic))
        return wm_fault (error, WM_EBATCH,
                         "%s: not a wiremill model (.wmm); make one with "
                         "'wiremill import model.onnx -o model.wmm'",
                         path);
    if (h->version != VERSION)
        return wm_fault (error, WM_EBATCH,
                         "%s: .wmm format %u, this wiremill reads %u; import "
                         "the model again",
                         path, h->version, VERSION);
    if (self->size < sizeof *h || h->file_bytes != self->size)
        return wm_fault (error, WM_EBATCH,
                         "%s: truncated or padded: %zu bytes, by its header "
                         "%llu; import or copy the model again",
                         path, self->size, (unsigned long long) h->file_bytes);
    XXH128_canonical_t digest;
    XXH128_canonicalFromHash (
        &digest, XXH3_128bits ((const uint8_t *) h + DIGEST_FROM, self->size - DIGEST_FROM));
    if (memcmp (h->digest, digest.digest, sizeof h->digest))
        return wm_fault (error, WM_EBATCH,
                         "%s: damaged: its bytes do not match its digest; "
                         "import or copy the model again",
                         path);
    broken_t broken = check (h, &self->n_value, &self->n_output);
    self->free_port = broken ? NULL : free_port (h);
    if (self->free_port && h->n_known) {
        broken = check_rows (self, h->known_inputs, h->input, h->n_input);
        if (!broken)
            broken = check_rows (self, h->known_scores, h->output, h->n_output);
    }
    if (!broken && wm_model_plugin (self))
        broken = check_plugin (wm_model_plugin (self));
    if (broken)
        return wm_fault (error, WM_EBATCH, "%s: not a sound model: %s", path, broken);
    return WM_OK;
}

wm_model_t *wm_model_open (const char *path, wm_error_t *error)
{
    wm_model_t *self = calloc (1, sizeof *self);
    if (!self) {
        wm_fault (error, WM_EHOST, "%s: no memory to open it", path);
        return NULL;
    }
    const uint8_t *bytes;
    /* A .wmm is its model and little more: twice the limit leaves room for known answers.  */
    if (wm_file_map (path, 2 * (size_t) WM_MODEL_BYTES_MAX, &bytes, &self->size, error)) {
        free (self);
        return NULL;
    }
    self->header = (const header_t *) bytes;
    if (check_file (self, path, error)) {
        wm_model_destroy (&self);
        return NULL;
    }
    sodium_bin2hex (self->sha256, sizeof self->sha256, self->header->sha256, 32);
    snprintf (self->path, sizeof self->path, "%s", path);
    if (self->header->kind == WM_MODEL_FAMILY)
        point (self);
    return self;
}

void wm_model_destroy (wm_model_t **self_p)
{
    if (!*self_p)
        return;
    munmap ((void *) (*self_p)->header, (*self_p)->size);
    free (*self_p);
    *self_p = NULL;
}

wm_model_kind_t wm_model_kind (const wm_model_t *self)
{
    return (wm_model_kind_t) self->header->kind;
}

const char *wm_model_sha256 (const wm_model_t *self)
{
    return self->sha256;
}

const uint8_t *wm_model_head (const wm_model_t *self)
{
    return (const uint8_t *) self->header;
}

bool wm_model_cache (const wm_model_t *self, char *path, size_t bytes)
{
    const char *slash = strrchr (self->path, '/'), *name = slash ? slash + 1 : self->path;
    return strspn (name, "0123456789abcdef") == 64 && strcmp (name + 64, ".wmm") == 0 &&
           snprintf (path, bytes, "%s", self->path) < (int) bytes;
}

const char *wm_model_why (const wm_model_t *self)
{
    return self->header->why;
}

const wm_judged_t *wm_model_judged (const wm_model_t *self)
{
    return &self->header->judged;
}

void wm_model_differing (const wm_model_t *self, char text[WM_MODEL_JUDGED_BYTES])
{
    const char *from = NULL, *end;
    for (const char *at = self->header->why; (at = strstr (at, WM_MODEL_DIFFERS));)
        from = at += strlen (WM_MODEL_DIFFERS);
    end = from ? strstr (from, WM_MODEL_OTHERWISE) : NULL;
    if (!end) {
        snprintf (text, WM_MODEL_JUDGED_BYTES, "its scores");
        return;
    }
    snprintf (text, WM_MODEL_JUDGED_BYTES, "%.*s", end - from < 160 ? (int) (end - from) : 160,
              from);
    for (char *c = text; *c; c++) /* a name in the model is its author's */
        if ((unsigned char) *c < ' ' || *c == 0x7f)
            *c = '?';
}

void wm_model_judged_by (const wm_model_t *self, char text[WM_MODEL_JUDGED_BYTES])
{
    const wm_judged_t *judged = &self->header->judged;
    char differing[WM_MODEL_JUDGED_BYTES];
    const bool family = self->header->kind == WM_MODEL_FAMILY;
    const wm_model_plugin_t *plugin = wm_model_plugin (self);
    if (plugin) {
        snprintf (text, WM_MODEL_JUDGED_BYTES, "none: the plug-in %s %s scores it, SHA-256 %s",
                  plugin->name, plugin->version, plugin->sha256);
        return;
    }
    if (judged->judgement != WM_JUDGED_TAKEN && judged->judgement != WM_JUDGED_OTHER) {
        snprintf (text, WM_MODEL_JUDGED_BYTES, "%s",
                  family                                 ? ""
                  : judged->judgement == WM_JUDGED_EQUAL ? judged->judge
                                                         : "none");
        return;
    }
    wm_model_differing (self, differing);
    snprintf (text, WM_MODEL_JUDGED_BYTES,
              judged->judgement == WM_JUDGED_OTHER
                  ? "%.39s scores it: " WM_MODEL_DIFFERS "%.160s" WM_MODEL_OTHERWISE
                  : "%.39s, but not followed: " WM_MODEL_DIFFERS "%.160s" WM_MODEL_OTHERWISE,
              judged->judge, differing);
}

const char *wm_model_scorer (const wm_model_t *self)
{
    if (self->header->kind != WM_MODEL_GENERAL)
        return self->header->kind == WM_MODEL_FAMILY ? "sparse" : "plugin";
    return self->header->judged.judgement >= WM_JUDGED_OTHER ? "onnxruntime" : "openvino";
}

const wm_model_plugin_t *wm_model_plugin (const wm_model_t *self)
{
    const uint8_t *original = (const uint8_t *) self->header + self->header->original;
    return self->header->kind == WM_MODEL_PLUGIN ? (const void *) original : NULL;
}

uint32_t wm_model_n_input (const wm_model_t *self)
{
    return self->header->n_input;
}

const wm_port_t *wm_model_input (const wm_model_t *self, uint32_t i)
{
    return &self->header->input[i];
}

uint32_t wm_model_n_output_port (const wm_model_t *self)
{
    return self->header->n_output;
}

const wm_port_t *wm_model_output (const wm_model_t *self, uint32_t i)
{
    return &self->header->output[i];
}

const wm_port_t *wm_model_exact (const wm_model_t *self)
{
    return exact_port (self->header);
}

const char *wm_model_shape (const wm_model_t *self, char text[WM_MODEL_SHAPE_BYTES])
{
    size_t n = 0;
    for (uint32_t i = 0; i < self->header->n_input; i++)
        for (uint32_t d = 0; d < self->header->input[i].n_dim && n < WM_MODEL_SHAPE_BYTES; d++)
            n += (size_t) snprintf (text + n, WM_MODEL_SHAPE_BYTES - n, "%s%u",
                                    d   ? ", "
                                    : i ? ") and ("
                                        : "(",
                                    self->header->input[i].dim[d]);
    snprintf (text + n, n < WM_MODEL_SHAPE_BYTES ? WM_MODEL_SHAPE_BYTES - n : 0, ")");
    return text;
}

uint32_t wm_model_n_value (const wm_model_t *self)
{
    return self->n_value;
}

uint32_t wm_model_n_output (const wm_model_t *self)
{
    return self->n_output;
}

bool wm_model_is_ragged (const wm_model_t *self, const wm_port_t **port)
{
    if (port)
        *port = self->free_port;
    return self->free_port != NULL;
}

bool wm_model_is_large (const wm_model_t *self)
{
    const uint32_t n_value = wm_model_n_value (self), n_output = wm_model_n_output (self);
    return !self->free_port &&
           (n_value > n_output ? n_value : n_output) > WM_RAW_BYTES_MAX / sizeof (float);
}

const wm_net_t *wm_model_net (const wm_model_t *self)
{
    return self->header->kind == WM_MODEL_FAMILY ? &self->net : NULL;
}

uint64_t wm_model_madds (const wm_model_t *self)
{
    const wm_net_t *net = wm_model_net (self);
    if (!net)
        return self->header->madds;
    uint64_t count = 0, rows = net->height, cols = net->width;
    for (uint32_t i = 0; i < net->n_conv; i++) {
        const wm_conv_t *conv = &net->conv[i];
        rows -= conv->kh - 1, cols -= conv->kw - 1;
        count += rows * cols * conv->c_out * conv->kh * conv->kw * conv->c_in;
    }
    for (uint32_t i = 0; i < net->n_dense; i++)
        count += (uint64_t) net->dense[i].n_in * net->dense[i].n_out;
    return count;
}

const void *wm_model_original (const wm_model_t *self, size_t *bytes)
{
    const size_t facts = wm_model_plugin (self) ? sizeof (wm_model_plugin_t) : 0;
    *bytes = self->header->original_bytes - facts;
    return *bytes ? (const uint8_t *) self->header + self->header->original + facts : NULL;
}

uint32_t wm_model_known (const wm_model_t *self, const float **inputs, const float **scores)
{
    const uint8_t *base = (const uint8_t *) self->header;
    const uint32_t n = self->header->n_known; /* 0: the offsets are unchecked */
    *inputs = n ? (const float *) (base + self->header->known_inputs) : NULL;
    *scores = n ? (const float *) (base + self->header->known_scores) : NULL;
    return n;
}

/* ---- writing --------------------------------------------------------------------------------- */

#define PARTS_MAX (2 * (1 + 2 * (WM_MODEL_CONVS_MAX + WM_MODEL_DENSES_MAX) + 3))

typedef struct {
    wm_part_t part[PARTS_MAX];
    size_t n_part;
    uint64_t offset;
} layout_t;

/* Takes an array at the next boundary and returns its offset.  */
static uint64_t place (layout_t *self, const void *bytes, uint64_t size)
{
    static const uint8_t zero[ALIGN];
    size_t gap = (size_t) (-self->offset % ALIGN);
    if (gap)
        self->part[self->n_part++] = (wm_part_t){ zero, gap };
    self->part[self->n_part++] = (wm_part_t){ bytes, (size_t) size };
    uint64_t at = self->offset + gap;
    self->offset = at + size;
    return at;
}

static void place_net (layout_t *self, header_t *h, const wm_net_t *net)
{
    h->height = net->height;
    h->width = net->width;
    h->channel = net->channel;
    h->n_conv = net->n_conv;
    h->n_dense = net->n_dense;
    for (uint32_t i = 0; i < net->n_conv; i++) {
        const wm_conv_t *k = &net->conv[i];
        uint64_t weights = (uint64_t) k->kh * k->kw * k->c_in * k->c_out;
        h->conv[i] = (conv_t){ .kh = k->kh,
                               .kw = k->kw,
                               .c_in = k->c_in,
                               .c_out = k->c_out,
                               .act = k->act,
                               .bend = k->bend,
                               .weight = place (self, k->weight, 4 * weights),
                               .bias = place (self, k->bias, 4 * (uint64_t) k->c_out) };
    }
    for (uint32_t i = 0; i < net->n_dense; i++) {
        const wm_dense_t *k = &net->dense[i];
        uint64_t weights = (uint64_t) k->n_in * k->n_out;
        h->dense[i] = (dense_t){ .parent = k->parent,
                                 .n_in = k->n_in,
                                 .n_out = k->n_out,
                                 .act = k->act,
                                 .bend = k->bend,
                                 .output = k->output,
                                 .weight = place (self, k->weight, 4 * weights),
                                 .bias = place (self, k->bias, 4 * (uint64_t) k->n_out) };
    }
}

static void place_known (layout_t *self, header_t *h, const wm_model_parts_t *parts)
{
    uint64_t n_value = 0, n_output = 0;
    for (uint32_t i = 0; i < parts->n_input; i++)
        n_value += (uint64_t) parts->input[i].n_value * wm_port_each (&parts->input[i]);
    for (uint32_t i = 0; i < parts->n_output; i++)
        n_output += (uint64_t) parts->output[i].n_value * wm_port_each (&parts->output[i]);
    n_value *= parts->n_known;
    n_output *= parts->n_known;
    if (free_port (h))
        n_value = parts->known_values[0], n_output = parts->known_values[1];
    h->n_known = parts->n_known;
    h->known_inputs = place (self, parts->known_inputs, 4 * n_value);
    h->known_scores = place (self, parts->known_scores, 4 * n_output);
}

wm_fault_t wm_model_write (const char *path, const wm_model_parts_t *parts, wm_error_t *error)
{
    assert (parts->n_input <= WM_MODEL_PORTS_MAX && parts->n_output <= WM_MODEL_PORTS_MAX);
    header_t h = { .version = VERSION,
                   .kind = parts->kind,
                   .n_input = parts->n_input,
                   .n_output = parts->n_output,
                   .height = parts->row_values,
                   .madds = parts->madds,
                   .judged = parts->judged };
    memcpy (h.magic, magic, sizeof magic);
    memcpy (h.sha256, parts->sha256, sizeof h.sha256);
    snprintf (h.why, sizeof h.why, "%s", parts->why);
    memcpy (h.input, parts->input, parts->n_input * sizeof *h.input);
    memcpy (h.output, parts->output, parts->n_output * sizeof *h.output);

    layout_t layout = { .n_part = 0 };
    place (&layout, &h, sizeof h);
    if (parts->net)
        place_net (&layout, &h, parts->net);
    if (parts->n_known)
        place_known (&layout, &h, parts);
    if (parts->plugin) {
        h.original_bytes = sizeof *parts->plugin;
        h.original = place (&layout, parts->plugin, sizeof *parts->plugin);
    }
    if (parts->original_bytes) {
        const uint64_t at = place (&layout, parts->original, parts->original_bytes);
        h.original = parts->plugin ? h.original : at;
        h.original_bytes += parts->original_bytes;
    }
    h.file_bytes = layout.offset;

    uint32_t n_value, n_output;
    broken_t broken = check (&h, &n_value, &n_output);
    if (broken)
        return wm_fault (error, WM_EBATCH, "%s: cannot be written: %s", path, broken);

    XXH3_state_t *state = XXH3_createState ();
    if (!state)
        return wm_fault (error, WM_EHOST, "%s: no memory to write it", path);
    XXH3_128bits_reset (state);
    XXH3_128bits_update (state, (const uint8_t *) &h + DIGEST_FROM, sizeof h - DIGEST_FROM);
    for (size_t i = 1; i < layout.n_part; i++)
        XXH3_128bits_update (state, layout.part[i].bytes, layout.part[i].size);
    XXH128_canonical_t digest;
    XXH128_canonicalFromHash (&digest, XXH3_128bits_digest (state));
    XXH3_freeState (state);
    memcpy (h.digest, digest.digest, sizeof h.digest);
    return wm_file_write (path, layout.part, layout.n_part, error);
}
