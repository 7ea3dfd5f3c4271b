/* wm_replay.c - see wm_replay.h.

   The file:   "wiremill-replay 1\n"  then lines "key value\n": engine, threads, hit, how;
   then "pins BYTES\n" and the pins' text, then "frame BYTES\n" and the encoded batch.  */
#include "gpuworker/wm_replay.h"
#include "gpuworker/wm_cache.h"
#include "gpuworker/wm_lane_private.h"
#include "schema/base/wm_file.h"

#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

enum { FILE_BYTES_MAX = WM_FRAME_BYTES_MAX + WM_PINS_BYTES_MAX + 4096 };

/* ---- writing --------------------------------------------------------------------------------- */

/* Encodes the batch in this slot with one of its hits only.  */
static wm_fault_t encode (const wm_lane_t *self, unsigned slot, uint32_t hit, uint8_t *frame,
                          size_t bytes_max, size_t *bytes, wm_error_t *error)
{
    wm_batch_t batch = *wm_scorer_batch (self->scorer, slot);
    batch.n_hit = 1;
    if (batch.kind == WM_BATCH_PATCHES)
        batch.patch += (size_t) hit * batch.patch_values;
    else {
        batch.hit_wire += (size_t) hit * wm_batch_cells (&batch);
        batch.hit_col += (size_t) hit * wm_batch_cells (&batch);
    }
    wm_coder_t *coder = wm_coder_new ();
    const wm_fault_t fault = wm_batch_encode (&batch, coder, frame, bytes_max, bytes, error);
    wm_coder_destroy (&coder);
    return fault;
}

wm_fault_t wm_lane_write_replay (const wm_lane_t *self, unsigned slot, uint32_t hit,
                                 const char *how, char path[4096], wm_error_t *error)
{
    const wm_key_t *key = &self->slot[slot].task->key;
    const uint8_t *id = self->campaign;
    char head[1200], pins[WM_PINS_BYTES_MAX], mark[32], reason[400];
    if (snprintf (path, 4096, "%s/replay", self->cache) > 4000)
        return wm_fault (error, WM_EHOST, "the path of the cache is too long");
    mkdir (path, 0700);
    snprintf (path + strlen (path), 90, "/%02x%02x%02x%02x-%u-%u-%u-%u.replay", id[0], id[1], id[2],
              id[3], key->input, key->ordinal, key->batch, hit);
    snprintf (reason, sizeof reason, "%s", how);
    for (char *c = reason; (c = strchr (c, '\n'));)
        *c = ' ';
    size_t most = wm_frame_bytes_max (self->pins.n_value, self->pins.n_output);
    most += most / 256; /* the bound of an encoder, which takes less */
    uint8_t *frame = malloc (most);
    size_t bytes = 0;
    if (!frame)
        return wm_fault (error, WM_EHOST, "no memory for a batch");
    wm_fault_t fault = encode (self, slot, hit, frame, most, &bytes, error);
    const size_t pins_bytes = wm_pins_print (&self->pins, pins);
    const int n = snprintf (head, sizeof head,
                            "wiremill-replay 1\nengine %s\nthreads %d\n"
                            "hit %u of batch %u:%u:%u, generation %u\nhow %s\npins %zu\n",
                            self->config->engine, self->config->threads, hit, key->input,
                            key->ordinal, key->batch, key->generation, reason, pins_bytes);
    const int m = snprintf (mark, sizeof mark, "frame %zu\n", bytes);
    const wm_part_t part[] = {
        { head, (size_t) n }, { pins, pins_bytes }, { mark, (size_t) m }, { frame, bytes }
    };
    if (!fault)
        fault = wm_file_write (path, part, sizeof part / sizeof *part, error);
    free (frame);
    return fault;
}

/* ---- reading --------------------------------------------------------------------------------- */

typedef struct {
    char engine[16], hit[128], how[WM_TEXT_BYTES_MAX + 1];
    int threads;
    wm_pins_t pins;
    const uint8_t *frame;
    size_t frame_bytes;
} replay_t;

/* Reads "key value\n" at *at. false: it is not there or too long.  */
static bool line (const char **at, const char *end, const char *key, char *value, size_t size)
{
    const char *stop = memchr (*at, '\n', (size_t) (end - *at));
    const size_t n = strlen (key);
    if (!stop || (size_t) (stop - *at) < n + 1 || memcmp (*at, key, n) != 0 || (*at)[n] != ' ' ||
        (size_t) (stop - *at) - n - 1 >= size)
        return false;
    const size_t length = (size_t) (stop - *at) - n - 1;
    memcpy (value, *at + n + 1, length);
    value[length] = '\0';
    *at = stop + 1;
    return true;
}

/* Reads "key BYTES\n" and so many bytes. NULL: they are not there.  */
static const char *block (const char **at, const char *end, const char *key, size_t *bytes)
{
    char number[24];
    if (!line (at, end, key, number, sizeof number))
        return NULL;
    *bytes = strtoull (number, NULL, 10);
    if (*bytes > (size_t) (end - *at))
        return NULL;
    const char *start = *at;
    *at += *bytes;
    return start;
}

static wm_fault_t parse (replay_t *self, const char *file, const char *at, const char *end,
                         wm_error_t *error)
{
    char version[8], threads[8];
    size_t pins_bytes;
    const char *pins;
    if (!line (&at, end, "wiremill-replay", version, sizeof version) || strcmp (version, "1") != 0)
        return wm_fault (error, WM_EBATCH, "%.300s is not a replay file of this version", file);
    if (!line (&at, end, "engine", self->engine, sizeof self->engine) ||
        !line (&at, end, "threads", threads, sizeof threads) ||
        !line (&at, end, "hit", self->hit, sizeof self->hit) ||
        !line (&at, end, "how", self->how, sizeof self->how) ||
        !(pins = block (&at, end, "pins", &pins_bytes)) ||
        !(self->frame = (const uint8_t *) block (&at, end, "frame", &self->frame_bytes)))
        return wm_fault (error, WM_EBATCH, "%.300s is a damaged replay file", file);
    self->threads = atoi (threads);
    if (self->threads < 1 || self->threads > 1024)
        return wm_fault (error, WM_EBATCH, "%.300s is a damaged replay file", file);
    if (wm_pins_parse (&self->pins, pins, pins_bytes, error))
        return wm_fault (error, WM_EBATCH, "%s", error->text);
    return WM_OK;
}

/* ---- running --------------------------------------------------------------------------------- */

static wm_fault_t model_of (const replay_t *self, const char *file, const char *cache,
                            char path[WM_CACHE_PATH_MAX], wm_error_t *error)
{
    const char *slash = strrchr (file, '/');
    const int folder = slash ? (int) (slash - file) : 1;
    int n = cache ? snprintf (path, WM_CACHE_PATH_MAX, "%s/%s.wmm", cache, self->pins.wmm)
                  : snprintf (path, WM_CACHE_PATH_MAX, "%.*s/../%s.wmm", folder, slash ? file : ".",
                              self->pins.wmm);
    if (n >= WM_CACHE_PATH_MAX || access (path, R_OK))
        return wm_fault (
            error, WM_EBATCH,
            "the file's model %.300s does not exist; give --cache DIR with a folder of models",
            path);
    return WM_OK;
}

static void print_scores (const replay_t *self, wm_scorer_t *scorer, unsigned slot)
{
    wm_error_t error = { 0 };
    uint8_t status = 0;
    double seconds;
    bool again;
    float *scores = malloc (self->pins.n_output * sizeof *scores);
    if (!scores)
        wm_fault (&error, WM_EHOST, "out of memory for its scores");
    if (!scores || wm_scorer_answer (scorer, slot, &status, scores, &seconds, &again, &error)) {
        printf ("hit %s: the engine refuses it: %s\n", self->hit, error.text);
        free (scores);
        return;
    }
    printf ("hit %s: %s", self->hit, wm_hit_status_text (status));
    for (uint32_t j = 0; j < self->pins.n_output && j < WM_OUTPUTS_MAX; j++)
        printf (" %.9g", (double) scores[j]);
    if (self->pins.n_output > WM_OUTPUTS_MAX)
        printf (" ... (%u values in all)", self->pins.n_output);
    putchar ('\n');
    free (scores);
}

/* Waits until the engine has scored the hit, or has ended. Returns the exit code.  */
static int watch (const replay_t *self, wm_scorer_t *scorer)
{
    wm_error_t error = { 0 };
    uint64_t slot = 0;
    bool is_ready = false;
    for (;;) {
        struct pollfd item = { .fd = wm_scorer_fd (scorer), .events = POLLIN };
        poll (&item, 1, 50);
        switch (wm_scorer_poll (scorer, &slot, &error)) {
        case WM_SCORER_NOTHING:
            break;
        case WM_SCORER_READY:
            is_ready = true;
            printf ("engine %s: the self-test is passed\n", wm_scorer_signature (scorer));
            break;
        case WM_SCORER_SCORED:
            print_scores (self, scorer, (unsigned) slot);
            return WM_EXIT_OK;
        case WM_SCORER_ENDED_MANY: /* never, with one slot */
        case WM_SCORER_ENDED:
            if (is_ready)
                printf ("hit %s: the engine dies of it again: %s (it was held for: %s)\n",
                        self->hit, error.text, self->how);
            else
                fprintf (stderr, "wiremill-worker: the engine did not pass its self-test: %s\n",
                         error.text);
            return is_ready ? WM_EXIT_HELD : WM_EXIT_FAILURE;
        case WM_SCORER_HOPELESS:
            fprintf (stderr, "wiremill-worker: the engine %s cannot run here: %s\n", self->engine,
                     error.text);
            return WM_EXIT_ENGINE;
        }
    }
}

static int run (const replay_t *self, const char *model)
{
    wm_error_t error = { 0 };
    const wm_scorer_config_t config = {
        .engine = self->engine, .threads = self->threads, .pins = &self->pins, .model_path = model
    };
    wm_scorer_t *scorer = wm_scorer_new (&config, &error);
    wm_coder_t *coder = wm_coder_new ();
    int code = WM_EXIT_FAILURE;
    if (!scorer)
        fprintf (stderr, "wiremill-worker: %s\n", error.text);
    else if (wm_batch_decode (wm_scorer_batch (scorer, 0), coder, self->frame, self->frame_bytes,
                              &error)) {
        fprintf (stderr, "wiremill-worker: %s\n", error.text);
        code = WM_EXIT_INPUT;
    } else {
        wm_scorer_submit (scorer, 0, 0, wm_scorer_batch (scorer, 0)->n_hit, true);
        code = watch (self, scorer);
    }
    wm_coder_destroy (&coder);
    wm_scorer_destroy (&scorer);
    return code;
}

int wm_replay_run (const char *file, const char *cache)
{
    replay_t self = { 0 };
    wm_error_t error = { 0 };
    char model[WM_CACHE_PATH_MAX];
    const uint8_t *bytes = NULL;
    size_t n = 0;
    wm_fault_t fault = wm_file_map (file, FILE_BYTES_MAX, &bytes, &n, &error);
    if (!fault)
        fault = parse (&self, file, (const char *) bytes, (const char *) bytes + n, &error);
    if (!fault)
        fault = model_of (&self, file, cache, model, &error);
    int code = WM_EXIT_INPUT;
    if (fault)
        fprintf (stderr, "wiremill-worker: %s\n", error.text);
    else
        code = run (&self, model);
    if (bytes)
        munmap ((void *) (uintptr_t) bytes, n); /* munmap does not take a const pointer */
    return code;
}
