/* wm_http_routes.c - what can be asked for over HTTP: a row each, in KServe's and Triton's words.

   A path is matched word by word; "*" is any word: the model, then the version.  */
#include "producer/gateway/wm_gateway_metrics.h"
#include "producer/gateway/wm_http_private.h"
#include "producer/serving/wm_override.h"
#include "producer/serving/wm_settings.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

static wm_models_t *models (const wm_visit_t *self)
{
    return wm_visit_front (self)->models;
}

/* Answers by JSON, or by the error that took its place.  */
static void answer (wm_visit_t *self, json_t *json, const wm_ks_error_t *error)
{
    if (json)
        wm_visit_json (self, 200, json);
    else
        wm_visit_fail (self, error);
}

/* Clients of Triton read the code alone, those of KServe the JSON too, people why it is not.  */
static void answer_ready (wm_visit_t *self, const char *what, bool is_ready, const char *why)
{
    json_t *json = json_pack ("{s:b}", what, is_ready);
    if (*why)
        json_object_set_new (json, "error", json_string (why)); /* not UTF-8: without it */
    wm_visit_json (self, is_ready ? 200 : 400, json);
}

/* ---- health, metadata, statistics ------------------------------------------------------------ */

static void live (wm_visit_t *self, const char *model, const char *version)
{
    (void) model, (void) version;
    answer_ready (self, "live", true, "");
}

static void ready (wm_visit_t *self, const char *model, const char *version)
{
    (void) model, (void) version;
    wm_ks_error_t error = { .code = WM_KS_OK };
    const bool is_ready = wm_models_ready (models (self), &error);
    answer_ready (self, "ready", is_ready, error.text);
}

static void model_ready (wm_visit_t *self, const char *model, const char *version)
{
    wm_ks_error_t error;
    const bool is_ready = wm_models_model_ready (models (self), model, version, &error);
    answer_ready (self, "ready", is_ready,
                  is_ready || error.code == WM_KS_NOT_FOUND ? "" : error.text);
}

static void server (wm_visit_t *self, const char *model, const char *version)
{
    (void) model, (void) version;
    answer (self, wm_models_server_metadata (models (self)), NULL);
}

static void metadata (wm_visit_t *self, const char *model, const char *version)
{
    wm_ks_error_t error;
    answer (self, wm_models_metadata (models (self), model, version, &error), &error);
}

static void config (wm_visit_t *self, const char *model, const char *version)
{
    wm_ks_error_t error;
    answer (self, wm_models_config (models (self), model, version, &error), &error);
}

static void statistics (wm_visit_t *self, const char *model, const char *version)
{
    wm_ks_error_t error;
    answer (self, wm_models_statistics (models (self), model, version, &error), &error);
}

static void metrics (wm_visit_t *self, const char *model, const char *version)
{
    (void) model, (void) version;
    char *text = wm_metrics_page (wm_visit_front (self));
    const wm_page_t page = { .status = 200,
                             .type = "text/plain; version=0.0.4; charset=utf-8",
                             .data = (uint8_t *) text,
                             .bytes = strlen (text) };
    wm_visit_page (self, &page);
}

/* ---- inference ------------------------------------------------------------------------------- */

/* The body is written: sends it.  */
static void send_written (wm_visit_t *self)
{
    const wm_infer_page_t *written = &self->written;
    const bool has_binary = written->json_bytes != SIZE_MAX;
    wm_page_t page = { .status = 200,
                       .type = has_binary ? "application/octet-stream" : "application/json",
                       .header = has_binary ? "Inference-Header-Content-Length" : NULL,
                       .is_scores = true,
                       .data = written->to.data,
                       .bytes = written->to.bytes };
    snprintf (page.value, sizeof page.value, "%zu", written->json_bytes);
    self->written.to = (wm_buffer_t){ 0 };
    wm_visit_page (self, &page);
}

static bool write_more (void *argument, size_t *left)
{
    wm_visit_t *self = argument;
    const size_t max = wm_visit_front (self)->message_max;
    const bool has_more = wm_infer_write (&self->written, left);
    if (self->written.to.bytes > max) {
        wm_ks_error_t error;
        wm_ks_fail (&error, WM_KS_EXHAUSTED,
                    "the answer in JSON is larger than this server's limit, %zu bytes "
                    "(--max-message): ask for binary tensors ('binary_data_output': true)",
                    max);
        wm_visit_fail (self, &error);
        return false;
    }
    if (!has_more)
        send_written (self);
    return has_more;
}

/* The memory for the answer is there.  */
static void begin_writing (void *argument)
{
    wm_visit_t *self = argument;
    wm_slice_now (wm_visit_front (self)->slices, &self->slice, write_more, self);
}

static void on_reply (wm_infer_t *infer, const wm_ks_answer_t *answer)
{
    wm_visit_t *self = infer->owner;
    wm_ks_error_t error;
    self->is_pending = false;
    if (answer->code)
        wm_ks_fail (&error, answer->code, "%s", answer->text ? answer->text : "no reason is known");
    if (answer->code || wm_infer_page (&self->written, infer, answer, &error)) {
        wm_visit_fail (self, &error);
        return;
    }
    const size_t bytes = wm_infer_text_bytes (infer, answer);
    self->written.answer = wm_infer_keep (infer, answer);
    if (bytes <= WM_SLICE_BYTES || wm_visit_hold (self, self->hold.bytes + bytes, begin_writing))
        begin_writing (self);
}

static void on_timeout (void *argument)
{
    wm_visit_t *self = argument;
    const wm_ks_error_t error = WM_KS_EXPIRED;
    self->timer = NULL;
    wm_visit_fail (self, &error);
}

/* Reads values in JSON, and gives the request to the models when it has them all.  */
static bool read_values (void *argument, size_t *left)
{
    wm_visit_t *self = argument;
    wm_ks_error_t error;
    if (wm_infer_values (&self->infer, left, &error))
        return true;
    if (error.code) {
        wm_visit_fail (self, &error);
        return false;
    }
    self->is_pending = true;
    wm_models_infer (models (self), &self->infer.request);
    return false;
}

/* The memory for values in JSON and for scores is there.  */
static void begin_values (void *argument)
{
    wm_visit_t *self = argument;
    size_t none = 0;
    if (self->infer.values_bytes)
        wm_slice_begin (wm_visit_front (self)->slices, &self->slice, read_values, self);
    else
        read_values (self, &none);
}

/* more: bytes that it takes beside its message.  */
static void begin_infer (wm_visit_t *self, size_t more)
{
    wm_front_t *front = wm_visit_front (self);
    const uint64_t most = INT64_MAX / 4, timeout = self->infer.timeout_us;
    self->infer.request.client = self->web->number;
    if (timeout) {
        const int64_t at_us = self->begun_us + (int64_t) (timeout < most ? timeout : most);
        self->timer = wm_loop_timer (front->loop, at_us, on_timeout, self);
        self->infer.request.deadline_ms = at_us / 1000;
    }
    if (wm_visit_hold (self, self->hold.bytes + more, begin_values))
        begin_values (self);
}

/* A header that states no JSON: the body is the bytes of one tensor.  */
static wm_ks_code_t decode (wm_visit_t *self, bool has_length, size_t json_bytes,
                            wm_ks_error_t *error)
{
    return has_length && !json_bytes
               ? wm_infer_decode_raw (&self->infer, self->body, self->bytes, error)
               : wm_infer_decode_http (&self->infer, self->body, self->bytes, json_bytes, error);
}

static void infer (wm_visit_t *self, const char *model, const char *version)
{
    const char *length = wm_h1_field (&self->web->h1, "Inference-Header-Content-Length");
    wm_ks_error_t error;
    size_t more;
    char *end = NULL;
    errno = 0;
    const unsigned long long json_bytes = length ? strtoull (length, &end, 10) : self->bytes;
    self->infer.owner = self;
    self->infer.reply = on_reply;
    self->infer.front = wm_visit_front (self);
    self->infer.hold = &self->hold;
    self->infer.share = &self->web->share;
    self->infer.request.model = wm_infer_text (&self->infer, model, strlen (model));
    self->infer.request.version = wm_infer_text (&self->infer, version, strlen (version));
    if (length && (*length < '0' || *length > '9' || *end || errno || json_bytes > SIZE_MAX))
        wm_ks_fail (&error, WM_KS_INVALID, "Inference-Header-Content-Length is no number: %.40s",
                    length);
    else if (!decode (self, length != NULL, (size_t) json_bytes, &error) &&
             !wm_infer_need (&self->infer, &more, &error)) {
        begin_infer (self, more);
        return;
    }
    wm_visit_fail (self, &error);
}

static void cancel (wm_visit_t *self)
{
    if (self->changes)
        *self->changes = NULL;
    self->changes = NULL;
    if (!self->is_pending)
        return;
    self->is_pending = false;
    wm_models_cancel (models (self), &self->infer.request);
}

/* ---- the repository -------------------------------------------------------------------------- */

#define JSON_BYTES_MAX (64u << 10) /* jansson's tree takes some 20 times as much, or more */

/* Reads the request's JSON; the caller's. NULL if it has none, or too much.  */
static json_t *read_json (const wm_visit_t *self)
{
    const char *text = self->body ? (char *) self->body : "";
    return self->bytes <= JSON_BYTES_MAX ? json_loadb (text, self->bytes, 0, NULL) : NULL;
}

static void repository_index (wm_visit_t *self, const char *model, const char *version)
{
    (void) model, (void) version;
    json_t *request = read_json (self), *given = json_object_get (request, "ready");
    const bool is_ready = json_is_true (given);
    const bool is_wrong =
        given ? !json_is_boolean (given) : self->bytes && !json_is_object (request);
    static const wm_ks_error_t error = {
        WM_KS_INVALID, "Invalid value for 'ready': expected a boolean, as in {\"ready\": true}"
    };
    json_decref (request);
    answer (self, is_wrong ? NULL : wm_models_index (models (self), is_ready), &error);
}

/* `argument` is a cell that points to the request, or to nothing where it has ended.  */
static void on_changed (void *argument, const wm_ks_error_t *error)
{
    wm_visit_t **from = argument, *self = *from;
    free (from);
    if (!self)
        return;
    self->changes = NULL;
    if (error && error->code)
        wm_visit_fail (self, error);
    else
        wm_visit_json (self, 200, NULL);
}

/* Makes the cell of on_changed.  */
static wm_visit_t **changes (wm_visit_t *self)
{
    self->changes = malloc (sizeof *self->changes);
    assert (self->changes);
    *self->changes = self;
    return self->changes;
}

static void load (wm_visit_t *self, const char *model, const char *version)
{
    wm_override_t given;
    wm_ks_error_t error;
    (void) version;
    if (wm_override_json (&given, self->body, self->bytes, &error)) {
        wm_visit_fail (self, &error);
        return;
    }
    wm_models_load (models (self), model, &given, on_changed, changes (self));
    wm_override_clear (&given);
}

static void unload (wm_visit_t *self, const char *model, const char *version)
{
    (void) version;
    wm_models_unload (models (self), model, on_changed, changes (self));
}

/* ---- system shared memory; the words are the region's name ----------------------------------- */

static void shared_status (wm_visit_t *self, const char *name, const char *none)
{
    (void) none;
    wm_ks_error_t error;
    const char *key;
    json_t *region;
    json_t *regions = wm_shared_status (wm_visit_front (self)->shared, name, &error);
    json_t *list = regions ? json_array () : NULL;
    json_object_foreach (regions, key, region) json_array_append (list, region);
    json_decref (regions);
    answer (self, list, &error);
}

/* Answers that something is done, or why it is not.  */
static void answer_done (wm_visit_t *self, wm_ks_code_t code, const wm_ks_error_t *error)
{
    if (code)
        wm_visit_fail (self, error);
    else
        wm_visit_json (self, 200, NULL);
}

static void shared_register (wm_visit_t *self, const char *name, const char *none)
{
    (void) none;
    wm_ks_error_t error;
    json_t *request = read_json (self);
    const wm_ks_code_t code =
        wm_shared_register (wm_visit_front (self)->shared, name, request, &error);
    json_decref (request);
    answer_done (self, code, &error);
}

static void shared_unregister (wm_visit_t *self, const char *name, const char *none)
{
    (void) none;
    wm_ks_error_t error;
    const wm_ks_code_t code = wm_shared_unregister (wm_visit_front (self)->shared, name, &error);
    answer_done (self, code, &error);
}

static void cuda (wm_visit_t *self, const char *name, const char *none)
{
    (void) name, (void) none;
    wm_ks_error_t error;
    answer_done (self, wm_shared_cuda (wm_visit_front (self)->shared, false, &error), &error);
}

static void cuda_register (wm_visit_t *self, const char *name, const char *none)
{
    (void) none;
    wm_ks_error_t error;
    json_t *request = read_json (self);
    wm_shared_cuda_register (wm_visit_front (self)->shared, name, request, &error);
    json_decref (request);
    wm_visit_fail (self, &error);
}

static void cuda_status (wm_visit_t *self, const char *name, const char *none)
{
    (void) name, (void) none;
    wm_ks_error_t error;
    const bool is_none = !wm_shared_cuda (wm_visit_front (self)->shared, true, &error);
    answer (self, is_none ? json_array () : NULL, &error);
}

static void cuda_unregister (wm_visit_t *self, const char *name, const char *none)
{
    (void) name, (void) none;
    wm_ks_error_t error;
    answer_done (self, wm_shared_cuda (wm_visit_front (self)->shared, true, &error), &error);
}

/* ---- settings -------------------------------------------------------------------------------- */

static void answer_settings (wm_visit_t *self, wm_settings_t of)
{
    static const wm_ks_error_t no_object = { WM_KS_INVALID,
                                             "settings are a JSON object of at most 64 KiB" };
    wm_ks_error_t error;
    json_t *wanted = read_json (self);
    if (self->bytes && !json_is_object (wanted))
        wm_visit_fail (self, &no_object);
    else
        answer (self, wm_settings_answer (of, wanted, &error), &error);
    json_decref (wanted);
}

static void trace (wm_visit_t *self, const char *model, const char *version)
{
    wm_ks_error_t error;
    json_t *config = *model ? wm_models_config (models (self), model, version, &error) : NULL;
    if (*model && !config)
        wm_visit_fail (self, &error);
    else
        answer_settings (self, WM_SETTINGS_TRACE);
    json_decref (config);
}

static void logging (wm_visit_t *self, const char *model, const char *version)
{
    (void) model, (void) version;
    answer_settings (self, WM_SETTINGS_LOG);
}

/* ---- the table ------------------------------------------------------------------------------- */

typedef struct {
    const char *pattern;
    bool is_post;
    void (*serve) (wm_visit_t *self, const char *model, const char *version);
} route_t;

static const route_t routes[] = {
    { "/v2/models/*/infer", true, infer },
    { "/v2/models/*/versions/*/infer", true, infer },
    { "/v2/health/live", false, live },
    { "/v2/health/ready", false, ready },
    { "/v2", false, server },
    { "/v2/models/stats", false, statistics },
    { "/v2/models/*", false, metadata },
    { "/v2/models/*/versions/*", false, metadata },
    { "/v2/models/*/ready", false, model_ready },
    { "/v2/models/*/versions/*/ready", false, model_ready },
    { "/v2/models/*/config", false, config },
    { "/v2/models/*/versions/*/config", false, config },
    { "/v2/models/*/stats", false, statistics },
    { "/v2/models/*/versions/*/stats", false, statistics },
    { "/v2/repository/index", true, repository_index },
    { "/v2/repository/models/*/load", true, load },
    { "/v2/repository/models/*/unload", true, unload },
    { "/v2/systemsharedmemory/status", false, shared_status },
    { "/v2/systemsharedmemory/region/*/status", false, shared_status },
    { "/v2/systemsharedmemory/region/*/register", true, shared_register },
    { "/v2/systemsharedmemory/region/*/unregister", true, shared_unregister },
    { "/v2/systemsharedmemory/unregister", true, shared_unregister },
    { "/v2/cudasharedmemory/status", false, cuda_status },
    { "/v2/cudasharedmemory/region/*/status", false, cuda },
    { "/v2/cudasharedmemory/region/*/register", true, cuda_register },
    { "/v2/cudasharedmemory/region/*/unregister", true, cuda_unregister },
    { "/v2/cudasharedmemory/unregister", true, cuda_unregister },
    { "/v2/trace/setting", false, trace },
    { "/v2/trace/setting", true, trace },
    { "/v2/models/*/trace/setting", false, trace },
    { "/v2/models/*/trace/setting", true, trace },
    { "/v2/logging", false, logging },
    { "/v2/logging", true, logging },
    { "/metrics", false, metrics },
};

/* Matches a path; words for "*" go to word[0], word[1]. A "/" at the end does not count.  */
static bool matches (const char *pattern, const char *path, char word[2][WM_INFER_NAME_MAX + 1])
{
    int n_word = 0;
    for (; *pattern; pattern++) {
        if (*pattern != '*') {
            if (*pattern != *path++)
                return false;
            continue;
        }
        const size_t n = strcspn (path, "/");
        if (!n || n > WM_INFER_NAME_MAX)
            return false;
        memcpy (word[n_word], path, n);
        word[n_word++][n] = 0;
        path += n;
    }
    return !*path || (*path == '/' && !path[1]);
}

static void serve (wm_visit_t *self)
{
    wm_ks_error_t error;
    char word[2][WM_INFER_NAME_MAX + 1];
    static const char *const allowed[4] = { NULL, "GET, HEAD", "POST", "GET, HEAD, POST" };
    unsigned takes = 0;
    for (size_t i = 0; i < sizeof routes / sizeof routes[0]; i++) {
        word[0][0] = word[1][0] = 0;
        if (!matches (routes[i].pattern, self->path, word))
            continue;
        if (routes[i].is_post ? self->is_post : self->is_get) {
            snprintf (self->model, sizeof self->model, "%.63s", word[0]);
            routes[i].serve (self, word[0], word[1]);
            return;
        }
        takes |= routes[i].is_post ? 2 : 1;
    }
    if (takes) {
        wm_visit_allow (self, allowed[takes]);
        return;
    }
    wm_ks_fail (&error, WM_KS_NOT_FOUND, "there is no %.200s here", self->path);
    wm_visit_fail (self, &error);
}

const wm_http_routes_t wm_http_routes = { serve, cancel };
