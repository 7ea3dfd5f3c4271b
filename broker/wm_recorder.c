/* wm_recorder.c - a record waits (for the core to return, or for room), is appended, synced,
   reported.

   Invariants: a record's effects (wm_core_durable, wm_ledger_apply) come after the wm_journal_sync
   that follows its append, in the order of appending. A record that stands (wm_record_stands) is
   synced before the next one is appended: no crash keeps what rests on it and loses it.

   Twice a second what the core counts goes into the ledger's history. The core's counters only
   grow, so a sample adds their growth since the last one. Sessions of workers are noted every
   second while results come, since the ledger commits then anyway, and once a minute otherwise.  */
#include "broker/wm_recorder.h"
#include "broker/campaign/wm_restore.h"
#include "schema/base/wm_failpoint.h"
#include "schema/base/wm_log.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define SAMPLE_MS 500
#define WORKERS_MS 1000
#define LEDGER_MS 500       /* between commits of the ledger */
#define LEDGER_RECORDS 8192 /* or when so many wait */

typedef struct entry_t {
    struct entry_t *next;
    wm_record_t record;
    wm_place_t place;
    void *body;   /* handle of record.payload; NULL: none, or released */
    bool is_own;  /* of wm_recorder_note: the core does not know it */
    bool is_late; /* of a broker for clients: it stands, and the disk has no room for it */
    char text[];  /* record.text, then record.name, then record.payload where it has no handle */
} entry_t;

typedef struct {
    entry_t *head, *tail;
    size_t count;
} entries_t;

struct wm_recorder_t {
    wm_recorder_config_t config;
    entries_t waiting;      /* not in the journal yet */
    entries_t appended;     /* in it, not synced */
    entries_t late;         /* in a broker for clients: their effects are carried out already */
    size_t n_late;          /* those, and those on their way there: no record overtakes them */
    const entry_t *current; /* its effect is carried out now */
    int64_t retry_ms, ledger_ms;
    struct {
        bool has_begun;
        wm_tally_t last;
        int64_t at_ms, workers_ms, minute;
        uint32_t n_worker_max; /* since the last sample, of those that worked and left */
    } sampled;
    bool disk_full;
    bool ledger_full; /* its last commit met a full disk */
    bool copies;      /* the ledger */
    wm_fault_t fault;
    wm_error_t error;
};

static void entries_push (entries_t *entries, entry_t *entry)
{
    entry->next = NULL;
    *(entries->tail ? &entries->tail->next : &entries->head) = entry;
    entries->tail = entry;
    entries->count++;
}

static entry_t *entries_pop (entries_t *entries)
{
    entry_t *entry = entries->head;
    if (!entry)
        return NULL;
    entries->head = entry->next;
    if (!entries->head)
        entries->tail = NULL;
    entries->count--;
    return entry;
}

static void body_release (wm_recorder_t *self, entry_t *entry)
{
    if (entry->body)
        self->config.release (self->config.context, entry->body);
    entry->record.payload = entry->body ? NULL : entry->record.payload;
    entry->body = NULL;
}

/* A copy, among those that wait; NULL without memory.  */
static entry_t *entry_new (wm_recorder_t *self, const wm_record_t *record, const wm_payload_t *body)
{
    const size_t copied = body && !body->handle ? body->bytes : 0;
    entry_t *entry = malloc (sizeof *entry + record->text_bytes + record->name_bytes + copied);
    if (!entry) { /* nothing acknowledged is lost: the same as a crash here */
        self->fault = wm_fault (&self->error, WM_EHOST, "no memory for a record");
        return NULL;
    }
    *entry = (entry_t){ .record = *record };
    if (record->text_bytes)
        memcpy (entry->text, record->text, record->text_bytes);
    if (record->name_bytes)
        memcpy (entry->text + record->text_bytes, record->name, record->name_bytes);
    entry->record.text = record->text_bytes ? entry->text : NULL;
    entry->record.name = record->name_bytes ? entry->text + record->text_bytes : NULL;
    if (body) {
        if (body->handle)
            self->config.hold (self->config.context, body->handle);
        entry->body = body->handle;
        uint8_t *copy = (uint8_t *) entry->text + record->text_bytes + record->name_bytes;
        entry->record.payload = body->handle ? body->data
                                : copied     ? memcpy (copy, body->data, copied)
                                             : NULL;
        entry->record.payload_bytes = (uint32_t) body->bytes;
    }
    entries_push (&self->waiting, entry);
    return entry;
}

void wm_recorder_append (wm_recorder_t *self, const wm_record_t *record, const wm_payload_t *body)
{
    entry_new (self, record, body);
}

void wm_recorder_note (wm_recorder_t *self, const wm_record_t *record)
{
    entry_t *entry = entry_new (self, record, NULL);
    if (entry)
        entry->is_own = true;
}

static wm_fault_t entry_write (wm_recorder_t *self, entry_t *entry)
{
    const wm_fault_t fault =
        wm_journal_append (self->config.journal, &entry->record, &entry->place, &self->error);
    if (!fault && wm_record_stands (entry->record.type))
        wm_journal_sync (self->config.journal);
    return fault;
}

/* What stands is kept, in its order; other records go nowhere. A disk that is full holds nothing
   up.  */
static void settle_for_clients (wm_recorder_t *self)
{
    entry_t *entry;
    while ((entry = entries_pop (&self->waiting))) {
        entry->is_late =
            wm_record_stands (entry->record.type) && (self->n_late || entry_write (self, entry));
        if (entry->is_late && !self->n_late++) {
            wm_log_level (WM_LOG_WARNING);
            fprintf (stderr,
                     "wiremill-broker: %s; clients are served meanwhile, but a broker that is "
                     "started before there is room does not know what is to be kept (%s)\n",
                     self->error.text, wm_record_name (entry->record.type));
            self->retry_ms = self->config.now_ms () + wm_times ()->disk_full_ms;
        }
        entries_push (&self->appended, entry);
    }
}

size_t wm_recorder_settle (wm_recorder_t *self)
{
    const bool was_full = self->disk_full;
    if (self->config.keeps_nothing)
        settle_for_clients (self);
    if (self->disk_full && self->config.now_ms () < self->retry_ms)
        return self->appended.count;
    self->disk_full = false;
    while (self->waiting.head && !self->fault && !self->disk_full) {
        entry_t *entry = self->waiting.head;
        const wm_fault_t fault = entry_write (self, entry);
        self->disk_full = fault == WM_EAGAIN;
        if (fault != WM_OK && fault != WM_EAGAIN)
            self->fault = fault; /* the disk is bad: no further effect */
        if (fault != WM_OK)
            break;
        body_release (self, entry); /* the ledger needs no payload that has an owner */
        entries_push (&self->appended, entries_pop (&self->waiting));
    }
    if (self->disk_full)
        self->retry_ms = self->config.now_ms () + wm_times ()->disk_full_ms;
    if (self->disk_full)
        wm_ledger_drop_copy (self->config.ledger);
    if (self->disk_full == was_full)
        return self->appended.count;
    if (self->disk_full) {
        wm_log_level (WM_LOG_WARNING);
        fprintf (stderr, "wiremill-broker: paused: %s\n", self->error.text);
    } else
        fprintf (stderr, "wiremill-broker: the disk has room again, the campaign goes on\n");
    wm_recorder_mark (self, self->disk_full ? WM_MARK_FULL : WM_MARK_ROOM, "");
    wm_core_disk_full (self->config.core, self->disk_full, self->config.now_ms ());
    return self->appended.count;
}

static void entry_free (wm_recorder_t *self, entry_t *entry)
{
    body_release (self, entry);
    free (entry);
}

/* In a broker for clients: keeps what the disk had no room for.  */
static void write_late (wm_recorder_t *self)
{
    if (!self->late.head || self->config.now_ms () < self->retry_ms)
        return;
    for (; self->late.head && !entry_write (self, self->late.head); self->n_late--) {
        wm_ledger_apply (self->config.ledger, &self->late.head->record, &self->late.head->place);
        entry_free (self, entries_pop (&self->late));
    }
    self->retry_ms = self->config.now_ms () + wm_times ()->disk_full_ms;
    if (!self->n_late)
        fprintf (stderr, "wiremill-broker: the disk has room again: all is kept now\n");
}

/* Carries effects out where nothing is kept but what stands. They may append: those wait for the
   next pass.  */
static void carry_out (wm_recorder_t *self)
{
    const int64_t now_ms = self->config.now_ms ();
    for (size_t count = self->appended.count; count--;) {
        entry_t *entry = entries_pop (&self->appended);
        self->current = entry;
        if (!entry->is_own)
            wm_core_durable (self->config.core, &entry->place, now_ms);
        self->current = NULL;
        if (entry->is_late && entry->record.type != WM_RECORD_SAMPLE) {
            entries_push (&self->late, entry);
            continue;
        }
        self->n_late -= entry->is_late; /* a sample is sent again */
        if (entry->place.segment)
            wm_ledger_apply (self->config.ledger, &entry->record, &entry->place);
        entry_free (self, entry);
    }
    wm_recorder_settle (self);
}

/* One sync for everything appended; then, and not before, the effects.  */
static void commit (wm_recorder_t *self)
{
    size_t count = self->appended.count;
    if (!count || self->fault)
        return;
    if (self->config.keeps_nothing) {
        carry_out (self);
        return;
    }
    const int64_t begun_ms = self->config.now_ms ();
    wm_journal_sync (self->config.journal);
    const int64_t now_ms = self->config.now_ms ();
    if (now_ms - begun_ms > wm_times ()->gap_ms)
        wm_core_waits (self->config.core, WM_WAIT_DISK_SLOW, true);
    while (count--) { /* effects may append: those wait for the next sync */
        WM_FAILPOINT ("broker-effect");
        entry_t *entry = entries_pop (&self->appended);
        wm_ledger_apply (self->config.ledger, &entry->record, &entry->place);
        if (!entry->is_own)
            wm_core_durable (self->config.core, &entry->place, now_ms);
        free (entry);
    }
    wm_recorder_settle (self);
}

/* Commits the ledger, then deletes segments of the journal that nothing needs any more.  */
static void ledger_commit (wm_recorder_t *self, bool at_once)
{
    int64_t now_ms = self->config.now_ms ();
    size_t pending = wm_ledger_pending (self->config.ledger);
    if (self->fault || (!at_once && !pending && !wm_ledger_owes_history (self->config.ledger)) ||
        (!at_once && pending < LEDGER_RECORDS && now_ms - self->ledger_ms < LEDGER_MS))
        return;
    self->ledger_ms = now_ms;
    wm_error_t error;
    wm_restore_counters (self->config.core, self->config.ledger);
    wm_fault_t fault = wm_ledger_commit (self->config.ledger, &error);
    if (fault == WM_EAGAIN) {
        if (!self->ledger_full)
            fprintf (stderr, "wiremill-broker: its ledger waits: %s\n", error.text);
        self->ledger_ms = now_ms + wm_times ()->disk_full_ms;
    } else if (fault != WM_OK) {
        self->fault = fault;
        self->error = error;
    }
    self->ledger_full = fault == WM_EAGAIN;
    if (self->ledger_full)
        wm_ledger_drop_copy (self->config.ledger);
    wm_core_waits (self->config.core, WM_WAIT_LEDGER_DISK, self->ledger_full);
    if (fault == WM_OK) {
        WM_FAILPOINT ("broker-sweep");
        wm_journal_sweep (self->config.journal);
    }
}

/* ---- the history ----------------------------------------------------------------------------- */

static int64_t unix_s (void)
{
    return time (NULL);
}

static uint64_t cpu_ms (void)
{
    struct timespec now;
    clock_gettime (CLOCK_PROCESS_CPUTIME_ID, &now);
    return (uint64_t) now.tv_sec * 1000 + (uint64_t) now.tv_nsec / 1000000;
}

/* What a worker reports of its device (gpuworker/engine/wm_health.h).  */
static void read_health (const char *health, wm_worker_span_t *span)
{
    json_t *object = json_loads (health, 0, NULL);
    const char *gpu = json_string_value (json_object_get (object, "gpu"));
    const json_t *cpu_s = json_object_get (object, "cpu_s");
    snprintf (span->device, sizeof span->device, "%.63s", gpu ? gpu : "CPU");
    span->cpu_ms = json_is_number (cpu_s) ? (int64_t) (1e3 * json_number_value (cpu_s)) : -1;
    json_decref (object);
}

static void put_worker (wm_recorder_t *self, const wm_core_worker_t *worker, bool has_ended)
{
    wm_worker_span_t span = { .id = self->config.epoch << 32 | worker->session,
                              .to_s = self->config.unix_s (),
                              .batches = worker->n_batch,
                              .hits = worker->n_hit,
                              .busy_ms = (uint64_t) worker->busy_ms,
                              .has_ended = has_ended };
    span.from_s = span.to_s - worker->age_ms / 1000;
    snprintf (span.label, sizeof span.label, "%.63s", worker->label);
    snprintf (span.signature, sizeof span.signature, "%.127s", worker->signature);
    snprintf (span.why, sizeof span.why, "%.119s", worker->why);
    read_health (worker->health, &span);
    wm_ledger_put_span (self->config.ledger, &span);
}

static void put_connected (void *argument, const wm_core_worker_t *worker)
{
    put_worker (argument, worker, false);
}

/* A worker asks what the campaign is, and connects again with its engine.  */
void wm_recorder_left (wm_recorder_t *self, const wm_core_worker_t *worker)
{
    wm_tally_t now;
    uint32_t n_worker; /* this one among them, which may have come after the last sample */
    wm_core_tally (self->config.core, &now, &n_worker);
    if (worker->n_batch && n_worker > self->sampled.n_worker_max)
        self->sampled.n_worker_max = n_worker;
    if (*worker->signature || worker->n_batch || worker->age_ms > 60 * 1000)
        put_worker (self, worker, true);
}

static void sample (wm_recorder_t *self, bool with_workers)
{
    const int64_t now_s = self->config.unix_s ();
    uint32_t n_worker;
    wm_tally_t now;
    wm_core_tally (self->config.core, &now, &n_worker);
    if (n_worker < self->sampled.n_worker_max)
        n_worker = self->sampled.n_worker_max;
    self->sampled.n_worker_max = 0;
    now.count[WM_COUNT_CPU_MS] = cpu_ms ();
    wm_tally_t more = now;
    wm_tally_less (&more, self->sampled.has_begun ? &self->sampled.last : &now);
    const bool has_worked = more.count[WM_COUNT_BATCHES] != 0;
    if (!self->config.keeps_nothing) /* the ledger counts records */
        more.count[WM_COUNT_HITS] = more.count[WM_COUNT_BATCHES] = more.count[WM_COUNT_HELD] = 0;
    wm_ledger_add_history (self->config.ledger, now_s, &more, n_worker,
                           wm_journal_bytes (self->config.journal));
    self->sampled.last = now;
    self->sampled.has_begun = true;
    self->sampled.at_ms = self->config.now_ms ();
    const int64_t since_ms = self->sampled.at_ms - self->sampled.workers_ms;
    if (with_workers || now_s / 60 != self->sampled.minute ||
        (has_worked && since_ms >= WORKERS_MS)) {
        wm_core_workers (self->config.core, put_connected, self);
        self->sampled.workers_ms = self->sampled.at_ms;
    }
    self->sampled.minute = now_s / 60;
}

void wm_recorder_sample (wm_recorder_t *self)
{
    if (!self->sampled.has_begun || self->config.now_ms () - self->sampled.workers_ms >= SAMPLE_MS)
        sample (self, true);
}

void wm_recorder_mark (wm_recorder_t *self, wm_mark_kind_t kind, const char *text)
{
    wm_ledger_mark (self->config.ledger, self->config.unix_s (), kind, text);
}

void wm_recorder_begin (wm_recorder_t *self)
{
    const wm_mark_t *mark;
    const char *text = self->config.epoch > 1 ? "started again" : "started";
    for (size_t i = 0; (mark = wm_ledger_mark_at (self->config.ledger, i)); i++)
        if (mark->kind == WM_MARK_BROKER)
            text = "started again after a kill: the one before it did not end in order";
        else if (mark->kind == WM_MARK_ENDED)
            text = "started again";
    wm_recorder_mark (self, WM_MARK_BROKER, text);
    ledger_commit (self, true); /* one that is killed at once has it, too */
}

size_t wm_recorder_turn (wm_recorder_t *self)
{
    write_late (self);
    wm_recorder_settle (self);
    if (!self->sampled.has_begun || self->config.now_ms () - self->sampled.at_ms >= SAMPLE_MS)
        sample (self, false);
    commit (self);
    ledger_commit (self, false);
    return self->appended.count;
}

void wm_recorder_flush (wm_recorder_t *self)
{
    wm_recorder_settle (self);
    commit (self);
    write_late (self);
    ledger_commit (self, true);
}

void wm_recorder_stop (wm_recorder_t *self, const char *text)
{
    self->retry_ms = 0; /* what waits for room is tried once more */
    wm_recorder_settle (self);
    commit (self);
    sample (self, true);
    if (!self->fault)
        wm_core_stop (self->config.core, text);
    wm_recorder_flush (self); /* stopping may hold batches */
    if (self->n_late) {
        wm_log_level (WM_LOG_WARNING);
        fprintf (stderr,
                 "wiremill-broker: the disk is still full: %zu records are lost that the next "
                 "broker needs (pauses, signatures of engines, machines that are not trusted, "
                 "commands that have run)\n",
                 self->n_late);
    }
}

wm_fault_t wm_recorder_copy (wm_recorder_t *self, bool *is_done, wm_error_t *error)
{
    *is_done = false;
    if (self->disk_full || self->ledger_full) {
        self->copies = false;
        return wm_fault (error, WM_EAGAIN,
                         "the campaign's disk is full: there is no room for a "
                         "copy of the ledger");
    }
    if (!self->copies)
        ledger_commit (self, true);
    const wm_fault_t fault = wm_ledger_copy (self->config.ledger, is_done, error);
    self->copies = !fault && !*is_done;
    return fault;
}

const wm_record_t *wm_recorder_current (const wm_recorder_t *self)
{
    return self->current && self->config.keeps_nothing ? &self->current->record : NULL;
}

wm_fault_t wm_recorder_fault (const wm_recorder_t *self, wm_error_t *error)
{
    if (self->fault && error)
        *error = self->error;
    return self->fault;
}

/* ---- life ------------------------------------------------------------------------------------ */

wm_recorder_t *wm_recorder_new (const wm_recorder_config_t *config)
{
    wm_recorder_t *self = calloc (1, sizeof *self);
    if (!self)
        return NULL;
    self->config = *config;
    self->ledger_ms = config->now_ms ();
    self->sampled.workers_ms = -WORKERS_MS; /* none yet, whatever the clock shows */
    if (!config->unix_s)
        self->config.unix_s = unix_s;
    return self;
}

void wm_recorder_destroy (wm_recorder_t **self_p)
{
    wm_recorder_t *self = *self_p;
    if (!self)
        return;
    entry_t *entry;
    while ((entry = entries_pop (&self->appended)) || (entry = entries_pop (&self->waiting)) ||
           (entry = entries_pop (&self->late)))
        entry_free (self, entry);
    free (self);
    *self_p = NULL;
}
