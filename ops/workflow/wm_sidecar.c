/* wm_sidecar.c - see wm_sidecar.h.

   What is in an output is read by a confined process (producer/facts.c), since a hostile input may
   have made the process that wrote it write anything.  */
#include "ops/workflow/wm_sidecar.h"
#include "ops/process/wm_child.h"
#include "ops/process/wm_spawn.h"
#include "schema/base/wm_adler.h"
#include "schema/base/wm_failpoint.h"
#include "schema/base/wm_file.h"
#include "schema/wm_limits.h"
#include "schema/wm_made.h"

#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define FACTS_MS 60000 /* of an output: the process that reads it is ended then */
#define FACTS_BYTES_MAX (16u << 20)

wm_fault_t wm_sidecar_metadata (const char *path, json_t **metadata, wm_error_t *error)
{
    json_error_t why;
    *metadata = json_load_file (path, JSON_REJECT_DUPLICATES, &why);
    if (json_is_object (*metadata))
        return WM_OK;
    if (*metadata)
        snprintf (why.text, sizeof why.text, "it is another value");
    json_decref (*metadata);
    *metadata = NULL;
    return wm_fault (error, WM_EUSAGE, "--sidecar-metadata %.300s is no JSON object: %.100s", path,
                     why.text);
}

/* Whether the sidecar that is there is of the output as it is.  */
static bool is_made (const char *path, const struct stat *output, const char *adler,
                     const char *did)
{
    struct stat st;
    json_t *old = stat (path, &st) == 0 && S_ISREG (st.st_mode) && st.st_size < 1 << 26
                      ? json_load_file (path, 0, NULL)
                      : NULL;
    const char *is =
        json_string_value (json_object_get (json_object_get (old, "checksums"), "adler32"));
    const json_t *parent = json_array_get (json_object_get (old, "parents"), 0);
    const char *of = json_string_value (json_object_get (parent, "did"));
    const bool yes = is && strcmp (is, adler) == 0 && strcmp (of ? of : "", did) == 0 &&
                     json_integer_value (json_object_get (old, "size")) == output->st_size;
    json_decref (old);
    return yes;
}

/* All that a process writes, which a hostile file may have taken over. NULL: it takes too long, or
   writes too much.  */
static char *read_all (int from, size_t *bytes)
{
    const int64_t end = wm_now_ms () + FACTS_MS;
    struct pollfd ready = { .fd = from, .events = POLLIN };
    char *text = malloc (FACTS_BYTES_MAX);
    for (*bytes = 0; text;) {
        const int64_t left = end - wm_now_ms ();
        const int is_ready = poll (&ready, 1, left > 0 ? (int) left : 0);
        if (is_ready < 0 && errno == EINTR)
            continue;
        const ssize_t n = is_ready > 0 ? read (from, text + *bytes, FACTS_BYTES_MAX - *bytes) : -1;
        if (n == 0 && *bytes < FACTS_BYTES_MAX)
            return text;
        if (n <= 0)
            break;
        *bytes += (size_t) n;
    }
    free (text);
    return NULL;
}

/* What is in an output. WM_EAGAIN: the process was killed, or took too long.  */
static wm_fault_t read_facts (const char *verb, const char *path, json_t **facts, wm_error_t *error)
{
    const char *const argv[] = { "wiremill-producer", "facts", path, NULL };
    char how[WM_CHILD_HOW_BYTES];
    int fd, status = 0;
    *facts = NULL;
    const pid_t pid = wm_spawn_reader (verb, argv, &fd);
    if (pid < 0)
        return wm_fault (error, WM_EAGAIN, "no process reads %s for its sidecar", path);
    size_t n = 0;
    char *text = read_all (fd, &n);
    close (fd);
    if (!text)
        kill (pid, SIGKILL);
    TEMP_FAILURE_RETRY (waitpid (pid, &status, 0));
    const bool is_whole = text != NULL, is_late = !text && n < FACTS_BYTES_MAX;
    *facts = text ? json_loadb (text, n, 0, NULL) : NULL;
    free (text);
    if (json_is_object (*facts))
        return WM_OK;
    json_decref (*facts);
    *facts = NULL;
    if (is_late)
        return wm_fault (error, WM_EAGAIN,
                         "%s cannot be read for its sidecar in %d s; type the same command again",
                         path, FACTS_MS / 1000);
    if (is_whole && WIFSIGNALED (status))
        return wm_fault (error, WM_EAGAIN,
                         "the process that reads %s for its sidecar ended by %s; type the same "
                         "command again",
                         path, wm_child_how_ended (status, how));
    return wm_fault (error, WM_EHOST, "the output %s cannot be read for its sidecar", path);
}

static json_t *make (const char *name, const struct stat *output, const char *adler,
                     const char *did, json_t *facts, json_t *more)
{
    json_t *core = json_pack (
        "{s:s, s:s, s:s, s:s, s:O?, s:O?, s:O?, s:O?, s:O?, s:O?, s:O?, s:O?, s:O?, s:O*}",
        "core.file_format", "hdf5", "core.application.family", "wiremill", "core.application.name",
        "scores", "core.application.version", WM_VERSION, "core.event_count",
        json_object_get (facts, "events"), "core.first_event_number",
        json_object_get (facts, "first"), "core.last_event_number", json_object_get (facts, "last"),
        "core.runs", json_object_get (facts, "runs"), "core.runs_subruns",
        json_object_get (facts, "runs_subruns"), "wiremill.hits", json_object_get (facts, "hits"),
        "wiremill.hits_held", json_object_get (facts, "held"), "wiremill.precision",
        json_object_get (facts, "precision"), "wiremill.model_sha256",
        json_object_get (facts, "model"), "wiremill.judged_by",
        json_object_get (facts, "judged_by"));
    if (more)
        json_object_update (core, more);
    json_t *parents = *did ? json_pack ("[{s:s}]", "did", did) : json_array ();
    return json_pack ("{s:s, s:I, s:{s:s}, s:o, s:o}", "name", name, "size",
                      (json_int_t) output->st_size, "checksums", "adler32", adler, "parents",
                      parents, "metadata", core);
}

wm_fault_t wm_sidecar_write (const char *verb, const char *folder, const char *name,
                             const char *did, json_t *metadata, wm_error_t *error)
{
    char output[PATH_MAX], path[PATH_MAX + 8], adler[16];
    struct stat st;
    uint32_t sum;
    snprintf (output, sizeof output, "%.3500s/%.255s", folder, name);
    snprintf (path, sizeof path, "%s.json", output);
    const int failed = wm_adler_file (output, &sum, &st);
    if (failed)
        return wm_fault (error, WM_EHOST, "the output %s cannot be read: %s", output,
                         strerror (failed));
    snprintf (adler, sizeof adler, "%08x", sum);
    if (is_made (path, &st, adler, did))
        return WM_OK;
    json_t *facts;
    if (wm_target_check (path, &wm_made_sidecar, -1, error) ||
        read_facts (verb, output, &facts, error))
        return error->fault;
    json_t *sidecar = make (name, &st, adler, did, facts, metadata);
    char *text = sidecar ? json_dumps (sidecar, JSON_INDENT (1)) : NULL;
    const wm_part_t part[] = { { text, text ? strlen (text) : 0 }, { "\n", 1 } };
    WM_FAILPOINT ("sidecar-write");
    const wm_fault_t fault = text ? wm_file_write (path, part, 2, error)
                                  : wm_fault (error, WM_EHOST, "no memory for %s", path);
    WM_FAILPOINT ("sidecar-written");
    free (text);
    json_decref (sidecar);
    json_decref (facts);
    return fault;
}
