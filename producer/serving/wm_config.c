/* wm_config.c - shapes that config.pbtxt states, against those of the model.

   `dims` is what clients send and get, `reshape` the same values as the model has them. With
   max_batch_size 0 both have all dimensions: a first one of -1 is the rows of a request, one of 1
   belongs to a request of one row, and any other is the model's own, which is imported as one
   without rows (wm_config_is_whole). What cannot be honoured is refused.  */
#include "producer/net/wm_pbtxt.h"
#include "producer/serving/wm_models_private.h"

#include <string.h>

#define DELAY_US_MAX 60000000

typedef struct {
    uint32_t n;
    int64_t dim[WM_TENSOR_DIM_MAX];
} shape_t;

/* Of one input or output.  */
typedef struct {
    shape_t dims, inner; /* what clients have; what the model has */
    bool is_given, is_reshaped;
} shapes_t;

/* ---- reading --------------------------------------------------------------------------------- */

/* Triton's configuration has its own names: TYPE_FP32, TYPE_STRING.  */
static wm_type_t type_of (const char *name)
{
    if (!name || strncmp (name, "TYPE_", 5) != 0)
        return WM_TYPES;
    return strcmp (name, "TYPE_STRING") == 0 ? WM_TYPE_BYTES : wm_type_of_name (name + 5);
}

/* False: they are too many, or one is no size.  */
static bool take (shape_t *shape, const json_t *list)
{
    shape->n = (uint32_t) json_array_size (list);
    for (uint32_t d = 0; d < shape->n && shape->n <= WM_TENSOR_DIM_MAX; d++) {
        shape->dim[d] = json_integer_value (json_array_get (list, d));
        if (shape->dim[d] < -1 || !shape->dim[d] || shape->dim[d] > INT32_MAX)
            return false;
    }
    return shape->n <= WM_TENSOR_DIM_MAX;
}

static bool take_shapes (shapes_t *self, const json_t *given)
{
    const json_t *reshape = wm_pbtxt_message (given, "reshape");
    *self = (shapes_t){ .is_given = json_array_size (json_object_get (given, "dims")) || reshape,
                        .is_reshaped = reshape };
    return take (&self->dims, json_object_get (given, "dims")) &&
           take (&self->inner,
                 json_object_get (reshape ? reshape : given, reshape ? "shape" : "dims"));
}

/* ---- comparing ------------------------------------------------------------------------------- */

/* Multiplies sizes from *d up to the next that is free, or to the end. -1: that is too much.  */
static int64_t product (const int64_t *dim, uint32_t n_dim, uint32_t *d)
{
    int64_t n = 1;
    for (; *d < n_dim && dim[*d] > 0; ++*d)
        if (__builtin_mul_overflow (n, dim[*d], &n))
            return -1;
    return n;
}

/* Whether both have as many values, whatever the free sizes are: these are the same, and as much is
   between them.  */
static bool is_same_size (const shape_t *a, uint32_t n, const int64_t *dim)
{
    for (uint32_t i = 0, j = 0;; i++, j++) {
        const int64_t of_a = product (a->dim, a->n, &i), of_b = product (dim, n, &j);
        if (of_a < 0 || of_a != of_b || (i < a->n) != (j < n))
            return false;
        if (i == a->n)
            return true;
    }
}

static void drop_first (shape_t *shape)
{
    memmove (shape->dim, shape->dim + 1, --shape->n * sizeof *shape->dim);
}

/* Whether the model's row has this shape. A size that is free here is the model's, in `dims` too.
   `inner` and `dims` have as many that are free.  */
static bool agree (shapes_t *stated, const wm_signature_port_t *port)
{
    int64_t *dim = stated->dims.dim;
    if (stated->inner.n != port->n_model)
        return false;
    for (uint32_t d = 0; d < port->n_model; d++) {
        int64_t *inner = &stated->inner.dim[d];
        const bool is_free = *inner < 0;
        while (is_free && *dim > 0)
            dim++;
        if (is_free)
            *dim++ = *inner = port->model[d];
        if (port->model[d] >= 0 && *inner != port->model[d])
            return false;
    }
    return true;
}

/* ---- one input or output --------------------------------------------------------------------- */

static wm_fault_t refuse (const wm_signature_port_t *port, const shapes_t *stated, bool has_rows,
                          wm_error_t *error)
{
    char dims[WM_SIGNATURE_SHAPE_BYTES], inner[WM_SIGNATURE_SHAPE_BYTES];
    char own[WM_SIGNATURE_SHAPE_BYTES];
    return wm_fault (error, WM_EBATCH,
                     "config.pbtxt states dims %s%s%s of '%s', and the model has %s there: state "
                     "that, or a reshape to it",
                     wm_signature_shape (dims, false, stated->dims.n, stated->dims.dim),
                     stated->is_reshaped ? " with reshape " : "",
                     stated->is_reshaped
                         ? wm_signature_shape (inner, false, stated->inner.n, stated->inner.dim)
                         : "",
                     port->name, wm_signature_shape (own, has_rows, port->n_model, port->model));
}

/* Takes what is stated of a row. Values of a fixed shape are the same in any other.  */
static bool take_row (wm_signature_port_t *port, const shapes_t *stated)
{
    shapes_t own = *stated;
    if (!is_same_size (&stated->dims, stated->inner.n, stated->inner.dim))
        return false;
    if (agree (&own, port))
        memcpy (port->model, own.inner.dim, sizeof port->model);
    else if (stated->is_reshaped || !port->n_value ||
             !is_same_size (&stated->dims, port->n_model, port->model))
        return false;
    else
        own = *stated;
    port->n_dim = own.dims.n;
    memcpy (port->dim, own.dims.dim, sizeof port->dim);
    return true;
}

/* Whether the first dimension of clients is the model's, of rows.  */
static bool is_rows (const shapes_t *stated)
{
    return stated->dims.n && stated->dims.dim[0] < 0 && stated->inner.n && stated->inner.dim[0] < 0;
}

/* Takes away the first dimension, of rows; or the model's, which has one row.  */
static bool take_first (shapes_t *stated, const wm_signature_port_t *port, bool has_rows)
{
    if (has_rows && !is_rows (stated))
        return false;
    if (!has_rows && is_rows (stated)) /* an output's */
        stated->dims.dim[0] = stated->inner.dim[0] = 1;
    if (has_rows)
        drop_first (&stated->dims);
    if (has_rows || (stated->inner.n == port->n_model + 1 && stated->inner.dim[0] == 1))
        drop_first (&stated->inner);
    return true;
}

/* How the shapes of a configuration are to be read.  */
typedef enum {
    OF_ROWS,  /* without the batch, which clients have */
    OF_WHOLE, /* all dimensions, of a model without rows */
    OF_BATCH, /* all dimensions; the first is of rows */
    OF_ONE    /* all dimensions, of one row of a model of rows */
} kind_t;

static wm_fault_t check_type (const json_t *given, const wm_signature_port_t *port,
                              wm_error_t *error)
{
    const char *name = wm_pbtxt_text (given, "data_type");
    if (name && type_of (name) != port->type)
        return wm_fault (error, WM_EBATCH,
                         "the model has %s in '%s', config.pbtxt states data_type %.40s",
                         wm_type_name (port->type), port->name, name);
    return WM_OK;
}

/* given: NULL where nothing is stated of the port.  */
static wm_fault_t take_port (const json_t *given, kind_t kind, wm_signature_port_t *port,
                             wm_error_t *error)
{
    shapes_t stated;
    if (check_type (given, port, error))
        return error->fault;
    const bool is_read = take_shapes (&stated, given);
    if (is_read && !stated.is_given && kind != OF_ONE)
        return WM_OK;
    if (is_read && !stated.is_given) { /* the model's */
        stated.dims = (shape_t){ .n = port->n_model + 1, .dim = { 1 } };
        memcpy (stated.dims.dim + 1, port->model, port->n_model * sizeof *port->model);
        stated.inner = stated.dims;
    }
    shapes_t rest = stated;
    const uint32_t n_most = WM_TENSOR_DIM_MAX - (kind == OF_ROWS);
    if (is_read && stated.dims.n <= n_most &&
        (kind == OF_ROWS || kind == OF_WHOLE || take_first (&rest, port, kind == OF_BATCH)) &&
        take_row (port, &rest))
        return WM_OK;
    return refuse (port, &stated, kind == OF_BATCH || kind == OF_ONE, error);
}

/* ---- batches --------------------------------------------------------------------------------- */

static int64_t bounded (json_int_t number, int64_t most)
{
    return number < 0 ? 0 : number < most ? number : most;
}

wm_batching_t wm_config_batching (const json_t *config)
{
    const json_t *batching = wm_pbtxt_message (config, "dynamic_batching"), *one;
    const json_t *policy = wm_pbtxt_message (batching, "default_queue_policy");
    wm_batching_t is = { .has_delay = json_object_get (batching, "max_queue_delay_microseconds") };
    size_t i;
    if (is.has_delay) {
        is.delay_us =
            bounded (wm_pbtxt_number (batching, "max_queue_delay_microseconds"), DELAY_US_MAX);
        is.full = (uint32_t) bounded (wm_pbtxt_number (config, "max_batch_size"), UINT32_MAX);
        json_array_foreach (json_object_get (batching, "preferred_batch_size"), i, one)
        {
            const uint32_t rows = (uint32_t) bounded (json_integer_value (one), UINT32_MAX);
            is.full = rows && (!is.full || rows < is.full) ? rows : is.full;
        }
    }
    is.queue_max = (uint32_t) bounded (wm_pbtxt_number (policy, "max_queue_size"), UINT32_MAX);
    return is;
}

/* ---- all of them ----------------------------------------------------------------------------- */

const json_t *wm_config_port (const json_t *config, const char *field, const char *name)
{
    const json_t *one;
    size_t i;
    json_array_foreach (json_object_get (config, field), i, one)
    {
        const char *text = wm_pbtxt_text (one, "name");
        if (text && strcmp (text, name) == 0)
            return one;
    }
    return NULL;
}

const char *wm_config_parameter (const json_t *config, const char *key)
{
    const json_t *one;
    const char *text = NULL;
    size_t i;
    json_array_foreach (json_object_get (config, "parameters"), i, one)
    {
        const char *name = wm_pbtxt_text (one, "key");
        if (name && strcmp (name, key) == 0)
            text = wm_pbtxt_text (wm_pbtxt_message (one, "value"), "string_value");
    }
    return text;
}

static wm_fault_t take_ports (const json_t *config, const char *field, kind_t kind, uint32_t n,
                              wm_signature_port_t *port, wm_error_t *error)
{
    const json_t *given;
    size_t i;
    json_array_foreach (json_object_get (config, field), i, given)
    {
        const char *name = wm_pbtxt_text (given, "name");
        uint32_t p = 0;
        while (p < n && (!name || strcmp (port[p].name, name) != 0))
            p++;
        if (p == n)
            return wm_fault (error, WM_EBATCH,
                             "unexpected inference %s '%.100s', the model has no such %s; its "
                             "first is '%s'",
                             field, name ? name : "", field, port[0].name);
    }
    for (uint32_t p = 0; p < n; p++)
        if (take_port (wm_config_port (config, field, port[p].name), kind, &port[p], error))
            return error->fault;
    return WM_OK;
}

/* Whether `dims` have the batch, too; without max_batch_size this follows from the shapes.  */
static bool has_all_dims (const json_t *config, const wm_signature_t *signature)
{
    if (json_object_get (config, "max_batch_size"))
        return wm_pbtxt_number (config, "max_batch_size") == 0;
    bool all = signature->is_whole;
    for (uint32_t p = 0; p < signature->n_input; p++) {
        shapes_t stated;
        take_shapes (&stated, wm_config_port (config, "input", signature->input[p].name));
        all |= stated.inner.n == signature->input[p].n_model + 1;
    }
    return all;
}

/* Without an input that is stated, clients have the model's rows.  */
static wm_fault_t find_kind (const json_t *config, const wm_signature_t *signature, kind_t *kind,
                             wm_error_t *error)
{
    const char *one = NULL, *rows = NULL; /* inputs */
    *kind = signature->is_whole ? OF_WHOLE : OF_ROWS;
    if (!has_all_dims (config, signature))
        return !signature->is_whole
                   ? WM_OK
                   : wm_fault (error, WM_EBATCH,
                               "config.pbtxt states max_batch_size %lld, and the model has no "
                               "batch dimension: state max_batch_size: 0 and all dimensions",
                               (long long) wm_pbtxt_number (config, "max_batch_size"));
    for (uint32_t p = 0; p < signature->n_input && !signature->is_whole; p++) {
        const wm_signature_port_t *port = &signature->input[p];
        shapes_t stated;
        take_shapes (&stated, wm_config_port (config, "input", port->name));
        if (stated.is_given)
            *(is_rows (&stated) ? &rows : &one) = port->name;
        *kind = one ? OF_ONE : OF_BATCH;
    }
    return !one || !rows ? WM_OK
                         : wm_fault (error, WM_EBATCH,
                                     "config.pbtxt states dims of '%s' that begin with -1, and of "
                                     "'%s' that do not: this model has rows in both",
                                     rows, one);
}

wm_fault_t wm_config_check (const json_t *config, wm_signature_t *signature, wm_error_t *error)
{
    kind_t kind;
    wm_fault_t fault = config ? find_kind (config, signature, &kind, error) : WM_OK;
    if (fault || !config)
        return fault;
    signature->is_whole = kind == OF_WHOLE || kind == OF_ONE;
    signature->has_all_dims = kind != OF_ROWS;
    fault = take_ports (config, "input", kind, signature->n_input, signature->input, error);
    return fault
               ? fault
               : take_ports (config, "output", kind, signature->n_output, signature->output, error);
}

bool wm_config_is_whole (const json_t *config)
{
    const json_t *one;
    size_t i;
    uint32_t n_free = 0, n_list = 0, n_one = 0, n_more = 0;
    if (!config || wm_pbtxt_number (config, "max_batch_size") > 0)
        return false;
    json_array_foreach (json_object_get (config, "input"), i, one)
    {
        shapes_t stated;
        if (!take_shapes (&stated, one) || !stated.is_given)
            continue;
        const int64_t first = stated.inner.n ? stated.inner.dim[0] : 0;
        n_free += first < 0;
        n_list += first < 0 && stated.inner.n == 1;
        n_one += first == 1;
        n_more += first == 0 || first > 1;
    }
    const bool is_certain = json_object_get (config, "max_batch_size");
    return n_free > 1 || n_list || (is_certain && (n_more || (n_free && n_one)));
}
