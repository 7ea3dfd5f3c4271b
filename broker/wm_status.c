/* wm_status.c - prints a summary of the core as JSON. Its fields are a documented schema: a change
   of meaning is a new schema name; readers ignore fields that they do not know.  */
#include "broker/wm_status.h"

#include "schema/base/wm_log.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statvfs.h>
#include <unistd.h>

#define FILES_MAX 256 /* of a page */

static json_t *integer (uint64_t value)
{
    return json_integer ((json_int_t) value);
}

/* Text of a peer: what is not UTF-8 is shown as such and does not spoil the reply; what a terminal
   would obey, or take for another line, is not in it.  */
static json_t *text (const char *string)
{
    char *copy = string ? strdup (string) : NULL;
    if (copy)
        wm_log_sanitize (copy);
    json_t *json = copy ? json_string (copy) : string ? NULL : json_null ();
    free (copy);
    return json ? json : json_string ("(not UTF-8)");
}

static json_t *number_or_null (double value)
{
    return value < 0 ? json_null () : json_real ((double) (int64_t) (value * 10 + 0.5) / 10);
}

/* Where planes and channel map of the inputs lie (schema/wm_pair.h); null: in the inputs.  */
static json_t *frames_json (const wm_pins_t *pins)
{
    return !*pins->channels
               ? json_null ()
               : json_pack ("{s:o, s:o, s:s, s:s, s:s}", "planes", text (pins->planes), "channels",
                            text (pins->channels), "hit_time", pins->hit_time, "hit_offset",
                            pins->hit_offset, "pedestal", pins->pedestal);
}

static json_t *campaign_json (const wm_summary_t *s, const wm_status_about_t *about)
{
    char id[33];
    for (int i = 0; i < 16; i++)
        snprintf (id + 2 * i, 3, "%02x", about->campaign[i]);
    const double most = wm_pins_max_error (about->pins);
    json_t *spec = json_string (about->pins->spec); /* of lines, which text () would tame */
    return json_pack (
        "{s:s, s:s, s:o, s:o, s:o, s:o, s:I, s:o, s:s, s:s, s:o, s:o}", "id", id, "state", s->state,
        "precision", text (about->pins->precision), "max_error",
        most > 0 ? json_real (most) : json_null (), "model", text (about->pins->model), "judged_by",
        *about->pins->judged_by ? text (about->pins->judged_by) : json_null (), "submitted",
        (json_int_t) about->submitted_s, "output", text (about->pins->output), "serves",
        *about->pins->serves ? "clients" : "files", "rows",
        *about->pins->serves ? "patches" : wm_pins_rows (about->pins->spec), "frames",
        frames_json (about->pins), "specification", spec ? spec : json_null ());
}

/* Of the disk that has journal and ledger, as for a user without privileges.  */
static json_t *disk_free (const char *dir)
{
    struct statvfs disk;
    return !dir || statvfs (dir, &disk) ? json_null ()
                                        : integer (disk.f_bavail * (uint64_t) disk.f_frsize);
}

/* Since the broker started (schema/wm_history.h).  */
static json_t *latency_json (const wm_latency_t *latency)
{
    json_t *buckets = json_array ();
    for (int i = 0; i < WM_LATENCY_BUCKETS; i++)
        json_array_append_new (buckets, integer (latency->bucket[i]));
    return json_pack ("{s:o, s:f, s:o}", "n", integer (latency->n), "sum_s",
                      (double) latency->sum_ms / 1e3, "buckets", buckets);
}

/* Since the broker started: what the mean of each score, and its drift, is made of.  */
static json_t *scores_json (const wm_summary_t *s)
{
    json_t *all = json_array ();
    for (uint32_t i = 0; i < s->n_score; i++)
        json_array_append_new (
            all, json_pack ("{s:o, s:f}", "hits", integer (s->n_summed), "sum", s->score_sum[i]));
    return all;
}

static json_t *counts_json (const wm_summary_t *s, json_t *root, const wm_status_about_t *about)
{
    json_object_set_new (root, "inputs",
                         json_pack ("{s:o, s:o, s:o, s:o, s:o}", "total", integer (s->inputs),
                                    "open", integer (s->inputs_open), "written",
                                    integer (s->inputs_written), "held", integer (s->inputs_held),
                                    "changed", integer (s->inputs_changed)));
    json_object_set_new (root, "events",
                         json_pack ("{s:o, s:o, s:o}", "announced", integer (s->events_announced),
                                    "done", integer (s->events_done), "written",
                                    integer (s->events_written)));
    json_object_set_new (
        root, "batches",
        json_pack ("{s:o, s:o, s:o, s:o, s:o}", "queued", integer (s->batches_queued), "asked",
                   integer (s->batches_asked), "running", integer (s->batches_running), "returned",
                   integer (s->batches_returned), "held", integer (s->batches_held)));
    json_object_set_new (
        root, "hits",
        json_pack ("{s:o, s:o, s:o, s:o, s:o}", "announced", integer (s->hits_announced), "done",
                   integer (s->hits_done), "empty", integer (s->hits_empty), "held",
                   integer (s->hits_held), "expected",
                   s->hits_expected < 0 ? json_null () : integer ((uint64_t) s->hits_expected)));
    json_object_set_new (
        root, "bytes",
        json_pack ("{s:o, s:o, s:o, s:o, s:o, s:o, s:o}", "payload_in",
                   integer (s->payload_in_bytes), "task_out", integer (s->task_out_bytes),
                   "result_in", integer (s->result_in_bytes), "budget_used",
                   integer (s->budget_used_bytes), "budget", integer (s->budget_bytes), "journal",
                   integer (about->journal_bytes), "ledger", integer (about->ledger_bytes)));
    json_object_set_new (json_object_get (root, "bytes"), "disk_free", disk_free (about->dir));
    json_object_set_new (root, "rate",
                         json_pack ("{s:f, s:f}", "hits_s", s->hits_s, "events_s", s->events_s));
    json_object_set_new (root, "eta_s", number_or_null (s->eta_s));
    json_object_set_new (root, "counters",
                         json_pack ("{s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o}", "n_fail",
                                    integer (s->n_fail), "n_lost", integer (s->n_lost), "n_preempt",
                                    integer (s->n_preempt), "duplicate", integer (s->n_duplicate),
                                    "late", integer (s->n_late), "alarm", integer (s->n_alarm),
                                    "copies", integer (s->n_copy), "again", integer (s->n_again),
                                    "dismissed", integer (s->n_dismissed)));
    json_t *latency = json_object ();
    for (int i = 0; i < WM_STEPS; i++)
        json_object_set_new (latency, wm_step_names[i], latency_json (&s->step[i]));
    json_object_set_new (root, "latency", latency);
    json_object_set_new (root, "scores", scores_json (s));
    return root;
}

static void where_json (const wm_endpoint_t *where, json_t *root)
{
    if (!where)
        return;
    json_object_set_new (root, "host", text (where->host));
    json_object_set_new (root, "listen", wm_endpoint_list (where->listen));
    json_object_set_new (root, "advertise", wm_endpoint_list (where->advertise));
}

/* Which signature each class of machines has, and how many rows each signature committed.  */
static void arithmetic_json (const wm_summary_t *s, json_t *root)
{
    json_t *classes = json_array (), *rows = json_object ();
    for (uint32_t i = 0; i < s->n_arithmetic; i++)
        json_array_append_new (
            classes, json_pack ("{s:o, s:o, s:f, s:o}", "class", text (s->arithmetic[i].class),
                                "signature", text (s->arithmetic[i].signature), "error",
                                s->arithmetic[i].error, "hits", integer (s->arithmetic[i].n_hit)));
    for (uint32_t i = 0; i < s->n_rows; i++)
        json_object_set_new (rows, s->rows[i].signature, integer (s->rows[i].n));
    json_object_set_new (root, "arithmetic", classes);
    json_object_set_new (root, "rows", rows);
}

static json_t *named_json (const wm_summary_named_t *one)
{
    json_t *earlier = json_array ();
    for (uint32_t i = 0; i < one->n_earlier && i < WM_SUMMARY_EARLIER_MAX; i++)
        json_array_append_new (earlier, integer (one->earlier[i]));
    return json_pack ("{s:o, s:o, s:o, s:o, s:o, s:o, s:o}", "worker", text (one->label), "host",
                      text (one->host), "key", text (*one->key ? one->key : NULL), "signature",
                      text (one->signature), "why", text (one->why), "earlier_total",
                      integer (one->n_earlier), "earlier", earlier);
}

/* Batches that a second machine scored, and machines whose scores were wrong.  */
static void checks_json (const wm_summary_t *s, json_t *root)
{
    json_t *named = json_array ();
    for (uint32_t i = 0; i < s->n_named && i < WM_SUMMARY_NAMED_MAX; i++)
        json_array_append_new (named, named_json (&s->named[i]));
    json_object_set_new (
        root, "checks",
        json_pack ("{s:f, s:o, s:o, s:o, s:o, s:o, s:o, s:o}", "share", s->check_share, "sampled",
                   integer (s->n_sampled), "good", integer (s->n_check_good), "differ",
                   integer (s->n_check_differ), "open", integer (s->n_check_open), "suspects",
                   text (s->suspects), "named_total", integer (s->n_named), "named", named));
}

/* What a worker reports of its GPU, if it is a JSON object with anything; else null. *cpu_s: what
   it reports of its CPU time, or null.  */
static json_t *health_json (const char *health, json_t **cpu_s)
{
    json_t *object = json_loads (health, 0, NULL), *value;
    const char *key;
    json_object_foreach (object, key, value)
    {
        if (json_is_string (value)) /* escaped in JSON, a line break passes for text */
            json_object_set_new (object, key, text (json_string_value (value)));
    }
    *cpu_s = json_incref (json_object_get (object, "cpu_s"));
    if (!json_is_number (*cpu_s)) {
        json_decref (*cpu_s);
        *cpu_s = json_null ();
    }
    json_object_del (object, "cpu_s");
    json_object_del (object, "waits"); /* in the list of waits */
    if (json_object_size (object))
        return object;
    json_decref (object);
    return json_null ();
}

static json_t *worker_json (const wm_summary_worker_t *w)
{
    json_t *cpu_s, *gpu = health_json (w->health, &cpu_s);
    return json_pack ("{s:o, s:o, s:o, s:o, s:s, s:o, s:b, s:i, s:o, s:o, s:o, s:f}", "gpu", gpu,
                      "cpu_s", cpu_s, "label", text (w->label), "signature", text (w->signature),
                      "state", w->state, "why", text (*w->why ? w->why : NULL), "failed",
                      w->has_failed, "running", (int) w->running, "credit", integer (w->credit),
                      "batches", integer (w->batches), "hits", integer (w->hits), "hits_s",
                      w->hits_s);
}

/* Input 0 of a key stands for no input; WM_ALL of an ordinal or batch is printed as null.  */
static json_t *held_json (const wm_summary_held_t *h)
{
    int of_event = h->key.ordinal != WM_ALL;
    return json_pack ("{s:s, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o}", "state", h->state, "input",
                      integer (h->key.input), "path", text (h->path), "run",
                      of_event ? json_integer (h->run) : json_null (), "subrun",
                      of_event ? json_integer (h->subrun) : json_null (), "event",
                      of_event ? json_integer (h->event) : json_null (), "batch",
                      h->key.batch != WM_ALL ? integer (h->key.batch) : json_null (), "hits",
                      integer (h->n_hit), "reason", text (h->reason));
}

/* What a worker reports of its wait lies in the JSON of its heartbeat, if that is JSON.  */
static json_t *wait_text (const wm_summary_wait_t *wait)
{
    if (wm_waits[wait->wait].by != WM_WAIT_BY_WORKER || wait->text[0] != '{')
        return text (*wait->text ? wait->text : NULL);
    json_t *object = json_loads (wait->text, 0, NULL);
    json_t *made = text (json_string_value (json_object_get (object, "waits")));
    json_decref (object);
    return made;
}

/* All waits (schema/wm_wait.h), and how many there are of each.  */
static void waits_json (const wm_summary_t *s, json_t *root, uint32_t rows_max)
{
    json_t *waits = json_array (), *by = json_object ();
    for (uint32_t i = 0; i < s->n_wait && i < rows_max; i++) {
        const wm_wait_row_t *row = &wm_waits[s->wait[i].wait];
        json_array_append_new (
            waits, json_pack ("{s:s, s:o, s:o, s:s, s:s, s:s, s:b, s:f}", "reason", row->name,
                              "peer", text (s->wait[i].label), "text", wait_text (&s->wait[i]),
                              "sentence", row->sentence, "advice", row->advice, "severity",
                              wm_wait_severities[row->severity], "is_pause", row->is_pause,
                              "since_s", s->wait[i].since_s));
    }
    for (int i = 1; i < WM_WAIT_END; i++)
        if (s->n_by_wait[i])
            json_object_set_new (by, wm_waits[i].name, integer (s->n_by_wait[i]));
    json_object_set_new (root, "waiting_for", text (s->waiting_for));
    json_object_set_new (root, "waits", waits);
    json_object_set_new (root, "waits_by_reason", by);
}

static void lists_json (const wm_summary_t *s, json_t *root, uint32_t rows_max)
{
    json_t *workers = json_array (), *producers = json_array (), *held = json_array (),
           *open = json_array (), *said = json_array ();
    for (uint32_t i = 0; i < s->n_open && i < rows_max; i++)
        json_array_append_new (
            open, json_pack ("{s:o, s:o, s:o, s:o, s:o}", "input", integer (s->open[i].input),
                             "path", text (s->open[i].path), "output", text (s->open[i].name),
                             "why", text (s->open[i].why), "hits", integer (s->open[i].n_hit)));
    for (uint32_t i = 0; i < s->n_worker_listed && i < rows_max; i++)
        json_array_append_new (workers, worker_json (&s->worker[i]));
    for (uint32_t i = 0; i < s->n_producer_listed && i < rows_max; i++)
        json_array_append_new (
            producers, json_pack ("{s:o, s:o, s:s, s:o, s:o, s:o}", "label",
                                  text (s->producer[i].label), "input", text (s->producer[i].input),
                                  "reason", wm_waits[s->producer[i].wait].name, "waits",
                                  text (*s->producer[i].waits ? s->producer[i].waits : NULL),
                                  "asked", integer (s->producer[i].asked), "late_s",
                                  number_or_null (s->producer[i].late_s)));
    for (uint32_t i = 0; i < s->n_held && i < rows_max; i++)
        json_array_append_new (held, held_json (&s->held[i]));
    for (uint32_t i = 0; i < s->n_logged; i++)
        json_array_append_new (said, json_pack ("{s:o, s:o}", "ago_s",
                                                number_or_null (s->logged[i].ago_s), "text",
                                                text (s->logged[i].text)));
    json_t *states = json_object (), *jobs = json_array ();
    for (int i = 0; i < WM_SUMMARY_STATES; i++)
        json_object_set_new (states, wm_core_states[i], json_integer (s->n_state[i]));
    for (uint32_t i = 0; i < s->n_job; i++)
        json_array_append_new (jobs, json_string (s->job[i]));
    json_object_set_new (root, "workers_total", json_integer (s->n_worker));
    json_object_set_new (root, "workers_by_state", states);
    json_object_set_new (root, "jobs", jobs);
    json_object_set_new (root, "workers", workers);
    json_object_set_new (root, "producers", producers);
    waits_json (s, root, rows_max);
    json_object_set_new (root, "paused", text (s->paused));
    json_object_set_new (root, "held_total", integer (s->held_total));
    json_object_set_new (root, "held", held);
    json_object_set_new (root, "open", open);
    json_object_set_new (root, "said", said);
}

char *wm_status_json (const wm_summary_t *summary, const wm_status_about_t *about)
{
    for (uint32_t rows_max = WM_SUMMARY_PEERS_MAX;; rows_max /= 2) {
        json_t *root =
            json_pack ("{s:s, s:s, s:o, s:o, s:f, s:o, s:o, s:o}", "schema", "wiremill-status-1",
                       "version", WM_VERSION, "endpoint", text (about->endpoint), "pid",
                       about->endpoint ? json_integer (getpid ()) : json_null (), "up_s",
                       about->up_s, "epoch", integer (summary->epoch), "dir", text (about->dir),
                       "campaign", campaign_json (summary, about));
        if (!root)
            return NULL;
        where_json (about->where, root);
        counts_json (summary, root, about);
        arithmetic_json (summary, root);
        checks_json (summary, root);
        lists_json (summary, root, rows_max);
        char *printed = json_dumps (root, JSON_COMPACT | JSON_REAL_PRECISION (9));
        json_decref (root);
        if (!printed || strlen (printed) <= WM_STATUS_BYTES_MAX || !rows_max)
            return printed;
        free (printed);
    }
}

/* ---- files ----------------------------------------------------------------------------------- */

/* The reasons of held hits, as an output names them.  */
static json_t *reasons_json (uint8_t reasons)
{
    json_t *list = json_array ();
    for (uint8_t status = 1; status < WM_HIT_STATUSES; status++)
        if (reasons >> status & 1)
            json_array_append_new (list, json_string (wm_hit_status_text (status)));
    return list;
}

static json_t *file_json (uint32_t id, const wm_core_known_t *file)
{
    json_t *json =
        json_pack ("{s:o, s:o, s:o, s:s, s:o, s:o, s:o, s:o, s:o, s:o}", "input", integer (id),
                   "path", text (file->path), "output", text (file->name), "state", file->state,
                   "why", text (file->why), "events", integer (file->n_event), "hits",
                   integer (file->n_hit), "scored", integer (file->n_scored), "empty",
                   integer (file->n_empty), "held", integer (file->n_held));
    if (file->reasons)
        json_object_set_new (json, "known_reasons", reasons_json (file->reasons));
    return json;
}

static uint32_t next_file (const wm_core_t *core, uint32_t id, const char *name)
{
    return name ? wm_core_named_from (core, id, name) : wm_core_held_from (core, id);
}

char *wm_status_files (const wm_core_t *core, uint32_t from, const char *name, uint32_t *next)
{
    wm_core_known_t file;
    size_t bytes = 128;
    json_t *files = json_array ();
    uint32_t id = next_file (core, from, name);
    while (id && json_array_size (files) < FILES_MAX && wm_core_known (core, id, &file)) {
        json_t *row = file_json (id, &file);
        bytes += json_dumpb (row, NULL, 0, JSON_COMPACT) + 1;
        if (bytes > WM_STATUS_BYTES_MAX) {
            json_decref (row);
            break;
        }
        json_array_append_new (files, row);
        id = next_file (core, id + 1, name);
    }
    *next = id;
    json_t *root = json_pack ("{s:s, s:o, s:o}", "schema", "wiremill-files-1", "next", integer (id),
                              "files", files);
    char *printed = root ? json_dumps (root, JSON_COMPACT) : NULL;
    json_decref (root);
    return printed;
}

char *wm_status_copy (const char *why)
{
    json_t *root = json_pack ("{s:s, s:s}", "schema", "wiremill-ledger-1", why ? "error" : "copy",
                              why ? why : WM_LEDGER_COPY);
    char *printed = root ? json_dumps (root, JSON_COMPACT) : NULL;
    json_decref (root);
    return printed;
}
