/* wm_setup.c - see wm_setup.h. */

#include "ops/campaign/wm_setup.h"
#include "kernels/import/wm_import.h"
#include "kernels/model/wm_model.h"
#include "kernels/patch/wm_spec.h"
#include "kernels/plugin/wm_plugin.h"
#include "kernels/wm_device.h"
#include "ops/campaign/wm_import_cache.h"
#include "ops/campaign/wm_setup_private.h"
#include "ops/process/wm_memory.h"
#include "schema/base/wm_failpoint.h"
#include "schema/base/wm_file.h"
#include "schema/base/wm_folder.h"
#include "schema/base/wm_kind.h"
#include "schema/base/wm_path.h"
#include "schema/base/wm_program.h"
#include "schema/base/wm_text.h"
#include "schema/base/wm_url.h"
#include "schema/wm_defaults.h"
#include "schema/wm_pair.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- the model ------------------------------------------------------------------------------- */

/* Opens the .wmm at `path`; NULL: it is not there, not sound, or not of the model `sha256`.  */
static wm_model_t *open_sound (const char *path, const char *sha256)
{
    wm_error_t error;
    if (access (path, R_OK))
        return NULL;
    wm_model_t *model = wm_model_open (path, &error);
    if (model && strcmp (wm_model_sha256 (model), sha256) != 0)
        wm_model_destroy (&model);
    return model;
}

/* What people give as a model, and what to do about it; NULL: it may be one.  */
static const char *no_model (wm_kind_t kind)
{
    switch (kind) {
    case WM_KIND_EMPTY:
        return "empty (0 bytes)";
    case WM_KIND_HDF5:
        return "an HDF5 file, as events are: give events by --input and the model by --model; a "
               "Keras model must be exported to ONNX first (tf2onnx)";
    case WM_KIND_NPY:
        return "a NumPy array: give patches by --input and the model by --model";
    case WM_KIND_GZIP:
        return "compressed by gzip; type: gunzip -k FILE, and give what it makes, without .gz";
    case WM_KIND_ZIP:
    case WM_KIND_PICKLE:
        return "an archive of PyTorch, Keras or NumPy: --engine torch takes TorchScript, and other "
               "models must be exported to ONNX first (torch.onnx.export, tf2onnx)";
    case WM_KIND_ROOT:
        return "a ROOT file";
    default:
        return NULL;
    }
}

const char *wm_setup_model_path (const char *given)
{
    static char path[PATH_MAX];
    const bool is_ours = given && strcmp (given, WM_SETUP_OURS) == 0 && access (given, F_OK) != 0 &&
                         wm_program_beside (path, WM_PROGRAM_DATA "/" WM_SETUP_OURS ".onnx");
    return is_ours ? path : given;
}

wm_fault_t wm_setup_model (const char *path, wm_error_t *error)
{
    wm_error_t why_not;
    const char *why = no_model (wm_kind_of (path));
    char local[PATH_MAX];
    if (wm_url_local (path, local))
        return wm_fault (error, WM_EUSAGE, "the model %.200s is local: give %.200s", path, local);
    if (wm_kind_is_url (path))
        return wm_fault (error, WM_EUSAGE, "--model %.300s: a URL; fetch the file first (curl -O)",
                         path);
    if (wm_file_expect (path, false, false, &why_not) ||
        (access (path, R_OK) && wm_file_missing (path, &why_not)))
        return wm_fault (error, WM_EUSAGE, "the model %.440s%s", why_not.text,
                         strcasecmp (path, WM_SETUP_OURS) == 0 && strcmp (path, WM_SETUP_OURS) != 0
                             ? "; the one that comes with wiremill is " WM_SETUP_OURS
                             : "");
    return why ? wm_fault (error, WM_EBATCH, "%.300s: not a model but %s", path, why) : WM_OK;
}

/* Names a file of the campaign's models, and makes their folder.  */
static wm_fault_t name_in_models (const wm_setup_t *self, const char *model, char wmm[PATH_MAX],
                                  wm_error_t *error)
{
    char folder[PATH_MAX];
    if (snprintf (folder, sizeof folder, "%s/models", self->campaign) >= (int) sizeof folder ||
        snprintf (wmm, PATH_MAX, "%s/%s.wmm", folder, model) >= PATH_MAX)
        return wm_fault (error, WM_EHOST, "the path is too long: %.200s...", self->campaign);
    return wm_folder_make (folder, 0777, error);
}

static wm_fault_t name_wmm (wm_setup_t *self, wm_error_t *error)
{
    return name_in_models (self, self->pins.model, self->wmm, error);
}

/* Whether an engine has come that was not there when a model was imported, so that both judge it
   now.  */
static bool may_be_judged (const wm_model_t *model)
{
    wm_error_t lack;
    return wm_model_judged (model)->lacked && wm_device_is_here ("openvino", &lack) &&
           wm_device_is_here ("onnxruntime", &lack);
}

/* Opens the model pins.model, which the campaign has, or which this user imported before and which
   becomes the campaign's. NULL: neither, or it is to be imported again.  */
static wm_model_t *find_model (wm_setup_t *self, const wm_import_cache_t *kept, bool copy)
{
    wm_error_t error;
    char path[PATH_MAX];
    wm_model_t *model = open_sound (self->wmm, self->pins.model);
    if (model) {
        wm_file_sweep (self->wmm);
        return model;
    }
    if (!wm_import_cache_find (kept, self->pins.model, path) ||
        wm_import_cache_put (path, self->wmm, copy, &error))
        return NULL;
    if (!(model = open_sound (self->wmm, self->pins.model)))
        wm_import_cache_remove (kept, self->pins.model);
    else if (may_be_judged (model)) {
        unlink (self->wmm);
        wm_model_destroy (&model);
    }
    return model;
}

/* Opens the model that an ONNX file or a frozen graph becomes: found by its hash, which is known if
   the file is unchanged since it was read last, or else imported.  */
static wm_fault_t take_original (wm_setup_t *self, const wm_import_cache_t *kept, const char *path,
                                 const wm_choices_t *choices, wm_model_t **model, wm_error_t *error)
{
    const wm_import_choices_t how = { .exact = choices->exact };
    const bool copy = choices->group != NULL; /* what a group may read is its campaign's alone */
    struct stat before;
    char place[PATH_MAX], hex[65];
    bool alone;
    wm_fault_t fault = name_in_models (self, "model", place, error);
    if (fault)
        return fault;
    if (!how.exact && wm_import_cache_recall (kept, path, self->pins.model)) {
        if ((fault = name_wmm (self, error)) || (*model = find_model (self, kept, copy)))
            return fault;
    }
    const bool settled = wm_import_cache_is_settled (path, &before);
    wm_import_t *import = wm_import_open (path, &how, place, hex, &alone, error);
    if (!import)
        return error->fault;
    if (settled && alone && !how.exact) /* what lies in other files may change by itself */
        wm_import_cache_remember (kept, path, &before, hex);
    strcpy (self->pins.model, hex);
    fault = name_wmm (self, error);
    if (!fault && !(*model = find_model (self, kept, copy)))
        fault = wm_import_make (import, self->wmm, self->why, error);
    wm_import_destroy (&import);
    if (!fault && !*model && !(*model = wm_model_open (self->wmm, error)))
        fault = error->fault;
    return fault;
}

/* Opens the campaign's copy of a .wmm.  */
static wm_fault_t take_ready (wm_setup_t *self, const char *path, wm_model_t **model,
                              wm_error_t *error)
{
    wm_model_t *given = wm_model_open (path, error);
    if (!given)
        return error->fault;
    strcpy (self->pins.model, wm_model_sha256 (given));
    wm_model_destroy (&given);
    wm_fault_t fault = name_wmm (self, error);
    if (fault || (*model = find_model (self, &(wm_import_cache_t){ "" }, true)))
        return fault;
    if ((fault = wm_import_cache_put (path, self->wmm, true, error)))
        return fault;
    *model = wm_model_open (self->wmm, error);
    return *model ? WM_OK : error->fault;
}

/* Opens the model that a plug-in is, with the file that it takes. It is made again by each command,
   unless the campaign has it: a plug-in is small, and may be at work still.  */
static wm_fault_t take_plugin (wm_setup_t *self, const char *path, const char *data,
                               wm_model_t **model, wm_error_t *error)
{
    char own[65];
    wm_fault_t fault = wm_plugin_identify (path, data, own, self->pins.model, error);
    if (!fault)
        fault = name_wmm (self, error);
    if (fault || (*model = open_sound (self->wmm, self->pins.model)))
        return fault;
    fault = wm_plugin_import (path, data, self->wmm, self->why, error);
    if (!fault && !(*model = wm_model_open (self->wmm, error)))
        fault = error->fault;
    if (!fault && strcmp (wm_model_sha256 (*model), self->pins.model) != 0)
        fault = wm_fault (error, WM_EAGAIN, "the plug-in %.300s, or its model, changed meanwhile",
                          path);
    return fault;
}

/* "3x32x32", of several inputs "1x48x48+4"; "" where it is too long for a message.  */
static void print_shape (const wm_model_t *model, char text[WM_SETUP_SHAPE_BYTES])
{
    size_t n = 0;
    *text = 0;
    for (uint32_t i = 0; i < wm_model_n_input (model); i++) {
        const wm_port_t *input = wm_model_input (model, i);
        for (uint32_t d = 0; d < input->n_dim && n < WM_SETUP_SHAPE_BYTES; d++)
            n += (size_t) snprintf (text + n, WM_SETUP_SHAPE_BYTES - n, "%s%u",
                                    d   ? "x"
                                    : i ? "+"
                                        : "",
                                    input->dim[d]);
    }
    if (n >= WM_SETUP_SHAPE_BYTES)
        *text = 0;
}

/* Puts the model into the campaign as models/<sha256>.wmm and opens it; fills wmm, why and the
   model's pins. A second name, the hash of the .wmm itself, makes the folder a cache that
   workers of this machine find their model in.  */
static wm_fault_t import_model (wm_setup_t *self, const wm_choices_t *choices, wm_model_t **opened,
                                wm_error_t *error)
{
    wm_import_cache_t kept;
    const char *path = choices->model ? choices->model : choices->plugin, *plugin = NULL,
               *data = NULL;
    if (!choices->model || wm_plugin_is (path))
        plugin = path;
    else if (choices->plugin && !wm_text_ends (path, ".wmm"))
        plugin = choices->plugin, data = path;
    wm_fault_t fault = plugin ? WM_OK : wm_setup_model (path, error);
    if (fault)
        return fault;
    const bool ready = plugin || wm_text_ends (path, ".wmm");
    if (!ready)
        wm_import_cache_init (&kept);
    fault = plugin  ? take_plugin (self, plugin, data, opened, error)
            : ready ? take_ready (self, path, opened, error)
                    : take_original (self, &kept, path, choices, opened, error);
    if (fault)
        return fault;
    const wm_model_t *model = *opened;
    if (choices->plugin && !wm_model_plugin (model))
        return wm_fault (error, WM_EUSAGE,
                         "--engine %.200s: a plug-in, but %.200s was imported for the engines of "
                         "wiremill: leave --engine out, or give --model the file that the plug-in "
                         "takes",
                         choices->plugin, path);
    if (wm_model_plugin (model) && strcmp (self->pins.precision, "fp32") != 0)
        return wm_fault (error, WM_EUSAGE,
                         "--precision %s: a plug-in computes as it does: leave --precision out",
                         self->pins.precision);
    self->pins.n_output = wm_model_n_output (model);
    self->pins.n_value = wm_model_n_value (model);
    snprintf (self->why, sizeof self->why, "%s", wm_model_why (model));
    self->family = wm_model_kind (model) == WM_MODEL_FAMILY;
    static_assert (sizeof self->pins.judged_by == WM_MODEL_JUDGED_BYTES, "one text");
    wm_model_judged_by (model, self->pins.judged_by);
    const wm_port_t *port;
    if (wm_model_is_ragged (model, &port)) {
        if (!choices->for_clients)
            return wm_fault (error, WM_EBATCH,
                             "%.300s: '%.128s' has a free dimension, and patches of files have one "
                             "size: export the model with fixed sizes, or serve it to programs "
                             "with wiremill gateway",
                             path, port->name);
        strcpy (self->pins.lengths, "vary");
    }
    if ((port = wm_model_exact (model))) {
        if (!choices->for_clients)
            return wm_fault (error, WM_EBATCH,
                             "%.300s: '%.128s' keeps a type that float32 does not hold, for "
                             "wiremill gateway, and columns of files are float32: import the model "
                             "without --exact-types",
                             path, port->name);
        strcpy (self->pins.types, "exact");
    }
    if (!*self->pins.lengths)
        print_shape (model, self->shape);
    if (ready || !wm_import_cache_sha256 (&kept, model, self->pins.wmm)) {
        fault = wm_file_sha256 (self->wmm, self->pins.wmm, error);
        if (!fault && !ready)
            wm_import_cache_add (&kept, self->wmm, model, self->pins.wmm);
    }
    char alias[PATH_MAX + 80];
    snprintf (alias, sizeof alias, "%s/models/%s.wmm", self->campaign, self->pins.wmm);
    WM_FAILPOINT ("ops-model-link");
    if (!fault && link (self->wmm, alias) && errno != EEXIST)
        fprintf (stderr, "wiremill: %s cannot be linked (%s); workers fetch the model instead\n",
                 alias, strerror (errno));
    wm_file_stamp (self->wmm, self->checked); /* what was checked when it was opened */
    return fault;
}

/* ---- the specification ----------------------------------------------------------------------- */

static wm_fault_t read_spec_file (wm_spec_t *spec, const char *path, uint32_t *given,
                                  wm_error_t *error)
{
    char *text;
    size_t n;
    wm_error_t why;
    wm_fault_t fault = wm_text_read (path, WM_SPEC_BYTES_MAX, &text, &n, &why);
    if (fault)
        return wm_fault (error, fault, "the specification %s", why.text);
    fault = wm_spec_parse_user (spec, text, n, path, given, error);
    free (text);
    return fault;
}

wm_fault_t wm_setup_spec (wm_spec_t *spec, const char *name, bool *is_file, uint32_t *given,
                          wm_error_t *error)
{
    *given = 0;
    *is_file = strpbrk (name, "./") || access (name, F_OK) == 0;
    if (*is_file)
        return read_spec_file (spec, name, given, error);
    const wm_fault_t fault = wm_spec_preset (spec, name, error);
    return fault ? error->fault = WM_EUSAGE : WM_OK; /* a value of --spec that there is not */
}

/* The model's own patch size: of an input that has a size in wires and one in drift bins, and no
   other above 1 but that of the specification's channels, first or last. Windows of one size are of
   one wire.  */
static bool model_patch (const wm_model_t *model, const wm_spec_t *spec, uint32_t patch[2])
{
    uint32_t n = 0, size[WM_MODEL_DIMS_MAX];
    const bool windows = spec->points == WM_POINTS_WINDOWS;
    const uint32_t most = windows ? WM_SPEC_WINDOW_MAX : WM_SPEC_PATCH_MAX;
    const wm_port_t *input = wm_model_input (model, 0);
    if (wm_model_n_input (model) != 1)
        return false;
    for (uint32_t d = 0; d < input->n_dim; d++)
        if (input->dim[d] > 1)
            size[n++] = input->dim[d];
    const bool is_first = n == 3 && size[0] == spec->n_channel,
               is_last = n == 3 && !is_first && size[2] == spec->n_channel;
    if (windows && n == 1)
        patch[0] = 1, patch[1] = size[0];
    else if (spec->n_channel > 1 ? is_first || is_last : n == 2)
        patch[0] = size[is_first], patch[1] = size[is_first + 1];
    else
        return false;
    return patch[0] <= most && patch[1] <= most;
}

/* A patch that was not chosen is the model's own; one that was chosen must be what the model
   takes.  */
static wm_fault_t fit_patch (wm_setup_t *self, wm_spec_t *spec, const wm_model_t *model,
                             bool is_chosen, bool is_file, wm_error_t *error)
{
    uint32_t own[2] = { 0, 0 };
    const uint32_t cells = (uint32_t) wm_spec_values (spec);
    const bool has_own = model_patch (model, spec, own);
    if (cells == self->pins.n_value)
        return WM_OK;
    char channels[32] = "";
    if (spec->n_channel > 1)
        snprintf (channels, sizeof channels, "%u, ", spec->n_channel);
    char takes[WM_MODEL_SHAPE_BYTES];
    char advice[160] = "it takes only ready-made patches, and no --spec";
    if (has_own && !is_chosen) {
        const size_t n = strlen (self->spec_name);
        spec->patch_wire = own[0], spec->patch_bin = own[1];
        snprintf (self->spec_name + n, sizeof self->spec_name - n,
                  " with the model's own patch: [%u, %u]", own[0], own[1]);
        return WM_OK;
    }
    if (!is_chosen && !is_file)
        return WM_OK; /* for ready-made patches nothing is cut */
    if (has_own)
        snprintf (advice, sizeof advice,
                  is_file ? "write patch: [%u, %u] there"
                          : "give --spec a file with the line patch: [%u, %u], or leave --spec out",
                  own[0], own[1]);
    return wm_fault (error, WM_EBATCH, "%.200s cuts patches of (%s%u, %u), the model takes %s: %s",
                     self->spec_name, channels, spec->patch_wire, spec->patch_bin,
                     wm_model_shape (model, takes), advice);
}

/* Which files and options go with which points and results.  */
static wm_fault_t check_points (const wm_setup_t *self, const wm_spec_t *spec, wm_error_t *error)
{
    const bool windows = spec->points == WM_POINTS_WINDOWS;
    if (windows && *self->pins.planes)
        return wm_fault (error, WM_EUSAGE,
                         "%.200s has points: windows, which have no hits: give the frames as "
                         "--input, with --channels and without --planes",
                         self->spec_name);
    if (!windows && *self->pins.channels && !*self->pins.planes)
        return wm_fault (error, WM_EUSAGE,
                         "--planes is missing: --planes and --channels go together, unless --spec "
                         "has points: windows");
    if (spec->result == WM_RESULT_IMAGE && *self->pins.layout)
        return wm_fault (error, WM_EUSAGE,
                         "%.200s has result: image, whose frames have no --layout %s: leave "
                         "--layout out",
                         self->spec_name, self->pins.layout);
    return WM_OK;
}

/* --spec is a preset's name or a file; a name without '/' and '.' is a preset unless such a file
   exists.  */
static wm_fault_t read_spec (wm_setup_t *self, const char *name, const wm_model_t *model,
                             wm_error_t *error)
{
    wm_spec_t spec;
    bool is_file;
    uint32_t given;
    const char *wanted = name ? name : WM_DEFAULT_SPEC;
    wm_fault_t fault = name ? wm_setup_spec (&spec, name, &is_file, &given, error)
                            : wm_spec_preset (&spec, wanted, error);
    if (fault)
        return fault;
    if (!name)
        is_file = false, given = 0;
    const wm_columns_from_t from = { .preset = is_file ? WM_DEFAULT_SPEC : wanted,
                                     .chosen = name != NULL,
                                     .file = is_file ? name : NULL,
                                     .labelled = wm_spec_gives (given, "labels") };
    snprintf (self->spec_name, sizeof self->spec_name, "%s", wanted);
    if (*self->pins.serves && self->pins.n_output > WM_OUTPUTS_MAX) { /* clients need no columns */
        spec.n_label = 0;
        snprintf (self->columns, sizeof self->columns, "%u values a patch", self->pins.n_output);
    } else
        fault = wm_columns_choose (&spec, &from, model, self->columns, error);
    if (!fault)
        fault = fit_patch (self, &spec, model,
                           is_file ? wm_spec_gives (given, "patch") : name != NULL, is_file, error);
    if (!fault)
        fault = check_points (self, &spec, error);
    if (!fault)
        wm_spec_print (&spec, self->pins.spec, sizeof self->pins.spec);
    return fault;
}

/* ---- together -------------------------------------------------------------------------------- */

wm_choices_t wm_setup_choices (const wm_args_t *args)
{
    return (wm_choices_t){ .model = wm_setup_model_path (wm_args_text (args, "model")),
                           .output = wm_args_text (args, "output"),
                           .precision = wm_args_text (args, "precision"),
                           .campaign = wm_args_text (args, "campaign"),
                           .max_error = wm_args_text (args, "max-error"),
                           .group = wm_args_text (args, "group"),
                           .exact = wm_args_given (args, "exact-types"),
                           .planes = wm_args_text (args, "planes"),
                           .channels = wm_args_text (args, "channels"),
                           .hit_time = wm_args_text (args, "hit-time"),
                           .hit_offset = wm_args_text (args, "hit-offset"),
                           .pedestal = wm_args_text (args, "pedestal"),
                           .layout = wm_args_text (args, "layout"),
                           .spec =
                               wm_args_given (args, "spec") ? wm_args_text (args, "spec") : NULL,
                           .batch_hits = wm_args_given (args, "batch-hits")
                                             ? (uint32_t) wm_args_number (args, "batch-hits")
                                             : 0 };
}

/* What a score may be off, as it is pinned: three digits, so that 0.005 and 5e-3 are the same.  */
static wm_fault_t take_max_error (wm_setup_t *self, const wm_choices_t *choices, wm_error_t *error)
{
    const bool measured = strcmp (choices->precision, "fp32") != 0;
    char *end;
    double most = measured ? wm_default_error (choices->precision) : 0;
    if (choices->max_error && !measured)
        return wm_fault (
            error, WM_EUSAGE,
            "--max-error goes with --precision split or fast: fp32 is not measured, it "
            "computes strictly");
    if (choices->max_error) {
        most = strtod (choices->max_error, &end);
        if (end == choices->max_error || *end || !(most >= 1e-9 && most <= 1))
            return wm_fault (error, WM_EUSAGE,
                             "--max-error %.40s: it is a number from 1e-9 to 1, such as 1e-5",
                             choices->max_error);
    }
    if (measured)
        snprintf (self->pins.max_error, sizeof self->pins.max_error, "%.3g", most);
    return WM_OK;
}

/* Only inputs are copied here from servers, each for the time that it is read.  */
static wm_fault_t url_refuse (const char *option, const char *url, wm_error_t *error)
{
    const wm_url_t kind = wm_url_of (url);
    const int length = (int) wm_path_length (url); /* what follows is a tag */
    int name = length;
    while (name && url[name - 1] != '/')
        name--;
    if (kind == WM_URL_OTHER || strchr (url, '{') || name == length || length > 150)
        wm_fault (
            error, WM_EUSAGE,
            "--%s %.150s: wiremill copies inputs from servers, but not these files; copy them "
            "to a folder here, then give --%s FOLDER/%.80s",
            option, url, option, name < length ? url + name : "FILE");
    else
        wm_fault (error, WM_EUSAGE,
                  "--%s %.*s: wiremill copies inputs from servers, but not this file; type %s "
                  "'%.*s'%s first, then give --%s %.80s",
                  option, length, url, kind == WM_URL_HTTP ? "curl -LO" : "xrdcp", length, url,
                  kind == WM_URL_HTTP ? "" : " .", option, url + name);
    wm_url_redact (error->text);
    return error->fault;
}

/* Pins a file by its absolute path: of every process of the campaign, wherever it was started.  */
static wm_fault_t take_path (const char *option, const char *given, char *pin, size_t pin_bytes,
                             wm_error_t *error)
{
    char folder[PATH_MAX];
    const bool is_own = *given == '/' || !strncmp (given, "{dir}", 5);
    if (wm_url_of (given))
        return url_refuse (option, given, error);
    if (strchr (given, '\n') || (!is_own && !getcwd (folder, sizeof folder)))
        return wm_fault (error, WM_EUSAGE, "--%s: that is no path", option);
    const int n = is_own ? snprintf (pin, pin_bytes, "%s", given)
                         : snprintf (pin, pin_bytes, "%s/%s", folder, given);
    if (n >= (int) pin_bytes)
        return wm_fault (error, WM_EUSAGE,
                         "--%s %.200s...: its absolute path has more than %zu characters; name it "
                         "by a shorter link",
                         option, given, pin_bytes - 1);
    struct stat status;
    char file[PATH_MAX];
    snprintf (file, sizeof file, "%.*s", (int) wm_path_length (pin), pin);
    const char *other = strcmp (option, "planes") ? NULL : strchr (pin, '{');
    const bool is_pattern = other && (strstr (pin, "{stem}") || strstr (pin, "{dir}"));
    while (other && (!strncmp (other, "{stem}", 6) || !strncmp (other, "{dir}", 5)))
        other = strchr (other + 1, '{');
    if (is_pattern && !other)
        return WM_OK;
    const bool gone = stat (file, &status) != 0;
    if (gone && other)
        return wm_fault (error, WM_EUSAGE,
                         "--%s %.200s: %.40s stands for nothing, and no file has that name; {stem} "
                         "stands for the name of an input without its suffix, {dir} for its folder",
                         option, given, other);
    wm_error_t why;
    if (gone && wm_file_missing (given, &why))
        return wm_fault (error, WM_EUSAGE, "--%s %.440s", option, why.text);
    const char *is = wm_file_irregular (status.st_mode);
    return is ? wm_fault (error, WM_EUSAGE, "--%s %.300s is %s; it must be a regular file", option,
                          given, is)
              : WM_OK;
}

/* Hits whose planes lie in files of their own.  */
static wm_fault_t take_pair (wm_setup_t *self, const wm_choices_t *choices, wm_error_t *error)
{
    wm_pins_t *pins = &self->pins;
    const bool has_more =
        choices->hit_time || choices->hit_offset || (choices->pedestal && !choices->channels);
    if ((choices->planes && !choices->channels) || (has_more && !choices->planes))
        return wm_fault (error, WM_EUSAGE,
                         "%s: --planes and --channels go together (--hit-time, --hit-offset and "
                         "--pedestal only with them)",
                         choices->planes       ? "--channels is missing"
                         : choices->hit_time   ? "--hit-time without --planes"
                         : choices->hit_offset ? "--hit-offset without --planes"
                                               : "--pedestal without --planes");
    wm_fault_t fault =
        choices->pedestal ? wm_pair_pedestal (choices->pedestal, pins->pedestal, error) : WM_OK;
    if (fault)
        return fault;
    if (!choices->planes)
        return choices->channels ? take_path ("channels", choices->channels, pins->channels,
                                              sizeof pins->channels, error)
                                 : WM_OK;
    snprintf (pins->hit_time, sizeof pins->hit_time, "%s",
              choices->hit_time ? choices->hit_time : "");
    if (choices->hit_offset)
        fault = wm_pair_offset (choices->hit_offset, pins->hit_offset, error);
    if (fault)
        return fault;
    fault = take_path ("planes", choices->planes, pins->planes, sizeof pins->planes, error);
    if (!fault)
        fault =
            take_path ("channels", choices->channels, pins->channels, sizeof pins->channels, error);
    if (!fault && !strcmp (pins->planes, pins->channels))
        fault = wm_fault (error, WM_EUSAGE,
                          "%.300s is given twice, by --planes and by --channels; a channel map is "
                          "a text file (`wiremill help formats`)",
                          choices->planes);
    return fault;
}

wm_fault_t wm_setup (wm_setup_t *self, const wm_choices_t *choices, wm_error_t *error)
{
    memset (self, 0, sizeof *self);
    snprintf (self->pins.precision, sizeof self->pins.precision, "%s", choices->precision);
    self->pins.batch_bytes = WM_RAW_BYTES_MAX;
    strcpy (self->pins.cut, "even");
    if (choices->layout && strcmp (choices->layout, "wiremill") != 0)
        snprintf (self->pins.layout, sizeof self->pins.layout, "%s", choices->layout);
    if (choices->for_clients)
        strcpy (self->pins.serves, "clients");
    wm_fault_t fault = wm_setup_limits (error);
    if (!fault)
        fault = take_max_error (self, choices, error);
    if (!fault)
        fault = take_pair (self, choices, error);
    if (!fault)
        fault = wm_setup_folders (self, choices, error);
    wm_model_t *model = NULL;
    if (!fault)
        fault = import_model (self, choices, &model, error);
    if (!fault)
        fault = read_spec (self, choices->spec, model, error);
    wm_model_destroy (&model);
    if (fault) {
        wm_setup_take_back (self);
        return fault;
    }
    wm_setup_warn (self);
    self->pins.batch_hits = choices->batch_hits ? choices->batch_hits
                            : self->family      ? WM_DEFAULT_BATCH_HITS
                                                : WM_DEFAULT_BATCH_GENERAL;
    char text[WM_PINS_BYTES_MAX];
    const size_t bytes = wm_pins_print (&self->pins, text);
    return wm_memory_file ("pins", text, bytes, &self->pins_fd, self->pins_path, error);
}

unsigned wm_setup_broker (const wm_setup_t *self, const char *listen, const char *command,
                          const char *argv[])
{
    const char *const word[] = {
        "wiremill-broker", "--campaign",    self->campaign, "--listen",  listen,
        "--pins",          self->pins_path, "--wmm",        self->wmm,   "--checked",
        self->checked,     "--shape",       self->shape,    "--command", command,
    };
    memcpy (argv, word, sizeof word);
    return sizeof word / sizeof *word;
}
