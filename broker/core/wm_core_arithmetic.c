/* wm_core_arithmetic.c - the arithmetics of a campaign: one signature for each class of machines.

   The worker whose result is the first of its class sets its signature (a HELLO alone sets nothing:
   any peer can send one). In split and fast (config.measures) it has measured before which kernel
   is precise enough, on a sample of the campaign's first hits that the first producer sent; workers
   of that class then take the same. What it measures is a function of the model, the sample and its
   class, so that the table may be lost: it is only measured again.

   The table is a record ARITHMETIC for each class, the sample a record SAMPLE. Both stand, so the
   signature of a class is durable before the first result of it is in the journal: no crash leaves
   rows of two signatures in one output.  */
#include "broker/core/wm_core_private.h"
#include "schema/wm_sample.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- the table ------------------------------------------------------------------------------- */

static arithmetic_t *find_class (wm_core_t *self, const char *class)
{
    for (uint32_t i = 0; i < self->arithmetic.n; i++)
        if (strcmp (self->arithmetic.at[i].class, class) == 0)
            return &self->arithmetic.at[i];
    return NULL;
}

double wm_core_error (const wm_core_t *self, const char *signature)
{
    for (uint32_t i = 0; i < self->arithmetic.n; i++)
        if (strcmp (self->arithmetic.at[i].signature, signature) == 0)
            return self->arithmetic.at[i].error;
    return 0;
}

static bool is_plain (const char *text, size_t size)
{
    return *text && strnlen (text, size) < size && !strpbrk (text, "\t\n");
}

static void print_line (const arithmetic_t *a, char line[256])
{
    snprintf (line, 256, "%s\t%s\t%.9g\t%u\n", a->class, a->signature, a->error, a->n_hit);
}

static void add_class (wm_core_t *self, const arithmetic_t *one)
{
    wm_record_t record;
    wm_record_init (&record, WM_RECORD_ARITHMETIC);
    record.name = one->class;
    record.name_bytes = (uint32_t) strlen (one->class);
    wm_record_text (&record, one->signature);
    record.n_hit = one->n_hit;
    memcpy (&record.n_event, &one->error, sizeof record.n_event);
    wm_core_append (self, &record, NULL, NULL, 0);
    self->arithmetic.at[self->arithmetic.n++] = *one;
    if (one->error > 0)
        wm_core_log (self, "machines of class %s score with %s: largest error %.1e on %u hits",
                     one->class, one->signature, one->error, one->n_hit);
    else
        wm_core_log (self, "machines of class %s score with %s", one->class, one->signature);
}

void wm_core_arithmetic_restore (wm_core_t *self, const wm_record_t *record)
{
    arithmetic_t one = { .n_hit = (uint32_t) record->n_hit };
    if (self->arithmetic.n == WM_CLASSES_MAX || record->name_bytes >= sizeof one.class ||
        record->text_bytes >= sizeof one.signature)
        return;
    memcpy (one.class, record->name, record->name_bytes);
    memcpy (one.signature, record->text, record->text_bytes);
    memcpy (&one.error, &record->n_event, sizeof one.error);
    if (*one.class && one.error >= 0 && isfinite (one.error) && !find_class (self, one.class))
        self->arithmetic.at[self->arithmetic.n++] = one;
}

void wm_core_sample_restore (wm_core_t *self, const wm_place_t *place)
{
    self->arithmetic.has_sample = true;
    self->arithmetic.sample_place = *place;
}

/* ---- which may work -------------------------------------------------------------------------- */

/* Refuses the worker; returns false.  */
static bool refuse_foreign (wm_core_t *self, session_t *worker, const arithmetic_t *known,
                            const char *signature)
{
    wm_core_refuse (
        self, worker, WM_REASON_PINS,
        "this campaign scores with %s on machines of class %s, this worker would bring %s: "
        "start it without --engine and --isa, or, where rows of both may stand in the "
        "outputs, start the broker (or run) with --mixed",
        known->signature, known->class, signature);
    return false;
}

bool wm_core_arithmetic_admit (wm_core_t *self, session_t *worker, const wm_msg_t *msg)
{
    arithmetic_t *its = &worker->arithmetic;
    if (!*msg->class)
        return true; /* it fetches the model or the sample only */
    if (!is_plain (msg->class, sizeof msg->class) || !is_plain (msg->text, sizeof its->signature) ||
        !isfinite (msg->error) || msg->error < 0) {
        wm_core_refuse (self, worker, WM_REASON_PROTOCOL,
                        "HELLO with an invalid class, signature or error");
        return false;
    }
    *its = (arithmetic_t){ .error = msg->error, .n_hit = msg->n_hit };
    snprintf (its->class, sizeof its->class, "%.63s", msg->class);
    snprintf (its->signature, sizeof its->signature, "%.63s", msg->text);
    const arithmetic_t *known = find_class (self, its->class);
    if (!known && self->config.measures && !self->arithmetic.has_sample) {
        wm_core_refuse (self, worker, WM_REASON_BUSY, /* the sample that it measured on is gone */
                        "no producer has sent hits to measure on yet: try later");
        return false;
    }
    return known && strcmp (known->signature, its->signature) != 0 && !self->config.mixed
               ? refuse_foreign (self, worker, known, its->signature)
               : true;
}

bool wm_core_arithmetic_bring (wm_core_t *self, session_t *worker)
{
    const arithmetic_t *its = &worker->arithmetic, *known = find_class (self, its->class);
    if (!known && self->arithmetic.n == WM_CLASSES_MAX) {
        wm_core_refuse (
            self, worker, WM_REASON_PINS,
            "this campaign has %u classes of machines already, class %s is one too many",
            WM_CLASSES_MAX, its->class);
        return false;
    }
    if (!known) {
        add_class (self, its);
        return true;
    }
    return strcmp (known->signature, its->signature) != 0 && !self->config.mixed
               ? refuse_foreign (self, worker, known, its->signature)
               : true;
}

/* ---- messages -------------------------------------------------------------------------------- */

static void on_sample (wm_core_t *self, session_t *producer, const wm_msg_t *msg,
                       const wm_payload_t *payload)
{
    if (!self->config.measures || msg->n_hit > WM_SAMPLE_HITS) {
        wm_core_refuse (self, producer, WM_REASON_PROTOCOL, "SAMPLE of %zu bytes %s",
                        payload->bytes,
                        self->config.measures ? "" : "in a campaign that measures nothing");
        return;
    }
    if (self->arithmetic.has_sample || self->arithmetic.takes_sample) { /* the first one stays */
        wm_core_also (self, WM_RECORD_SAMPLE, (wm_key_t){ 0 }, producer, 0);
        return;
    }
    wm_record_t record;
    wm_record_init (&record, WM_RECORD_SAMPLE);
    record.n_hit = msg->n_hit;
    self->arithmetic.takes_sample = true;
    wm_core_append (self, &record, payload, producer, 0);
    wm_core_log (self, "%s sent %u hits to measure on%s", producer->label, msg->n_hit,
                 msg->n_hit ? "" : ": they do not fit a message, strict fp32 is taken");
}

void wm_core_sample_durable (wm_core_t *self, session_t *producer, const wm_place_t *place)
{
    if (place) { /* of SAMPLE itself; in a broker for clients perhaps of none */
        self->arithmetic.takes_sample = false;
        self->arithmetic.has_sample = place->segment != 0;
        self->arithmetic.sample_place = *place;
    }
    if (!producer)
        return;
    if (!self->arithmetic.has_sample) {
        wm_core_refuse (self, producer, WM_REASON_BUSY,
                        "the sample cannot be kept on the campaign's disk now: try later");
        return;
    }
    wm_msg_t ack;
    wm_msg_init (&ack, WM_MSG_ACK);
    ack.code = WM_MSG_SAMPLE;
    wm_core_send (self, producer, &ack, NULL);
}

static void on_trial_get (wm_core_t *self, session_t *worker, const wm_msg_t *msg,
                          const wm_payload_t *payload)
{
    (void) msg, (void) payload;
    if (worker->has_trial) { /* of up to 4 MiB, which perhaps lies in its queue */
        wm_core_refuse (self, worker, WM_REASON_PROTOCOL,
                        "TRIAL_GET of a session that was sent the sample before");
        return;
    }
    wm_msg_t trial;
    wm_msg_init (&trial, WM_MSG_TRIAL);
    worker->sent_ms = self->now_ms;
    if (self->arithmetic.has_sample && self->sink.sample) {
        char text[WM_CLASSES_MAX * 256 + 1] = "", line[256];
        size_t n = 0;
        for (uint32_t i = 0; i < self->arithmetic.n; i++) {
            print_line (&self->arithmetic.at[i], line);
            n += (size_t) snprintf (text + n, sizeof text - n, "%s", line);
        }
        trial.code = WM_TRIAL_READY;
        worker->has_trial = !self->sink.sample (self->sink.context, worker->id, &trial, text,
                                                &self->arithmetic.sample_place);
        if (worker->has_trial)
            return;
        self->arithmetic.has_sample = false; /* the next producer is asked for one */
        wm_core_log (self, "the sample cannot be read: start a producer again, it sends another");
    }
    const wm_payload_t none = { NULL, "", 0 };
    trial.code = WM_TRIAL_WAIT;
    wm_core_send (self, worker, &trial, &none);
}

/* ---- rows ------------------------------------------------------------------------------------ */

static row_count_t *find_rows (wm_core_t *self, uint32_t hash)
{
    for (uint32_t i = 0; i < self->arithmetic.n_rows; i++)
        if (self->arithmetic.rows[i].hash == hash)
            return &self->arithmetic.rows[i];
    if (self->arithmetic.n_rows == ROW_COUNTS_MAX)
        return NULL;
    row_count_t *rows = &self->arithmetic.rows[self->arithmetic.n_rows++];
    *rows = (row_count_t){ .hash = hash };
    wm_history_rows_name (hash, rows->name);
    return rows;
}

void wm_core_arithmetic_count (wm_core_t *self, const char *signature, uint32_t n_row)
{
    row_count_t *rows = *signature ? find_rows (self, wm_history_rows_hash (signature)) : NULL;
    if (rows)
        rows->n += n_row;
}

void wm_core_arithmetic_restore_rows (wm_core_t *self, const char *name, uint64_t value)
{
    char *end;
    const bool is_rows = strncmp (name, "rows-", 5) == 0;
    const unsigned long hash = is_rows ? strtoul (name + 5, &end, 16) : 0;
    row_count_t *rows = is_rows && !*end ? find_rows (self, (uint32_t) hash) : NULL;
    if (rows)
        rows->n = value;
}

/* Those of the table, and those that brought rows without being in it (strict fp32 in the place of
   others, an engine of --mixed).  */
void wm_core_arithmetic_summary (const wm_core_t *self, wm_summary_t *summary)
{
    for (uint32_t i = 0; i < self->arithmetic.n; i++)
        summary->arithmetic[i] =
            (wm_summary_arithmetic_t){ self->arithmetic.at[i].class,
                                       self->arithmetic.at[i].signature,
                                       self->arithmetic.at[i].error, self->arithmetic.at[i].n_hit };
    summary->n_arithmetic = self->arithmetic.n;
    const char *all[WM_CLASSES_MAX + WM_SUMMARY_ROWS_MAX];
    uint32_t n = 0;
    for (uint32_t i = 0; i < self->arithmetic.n; i++)
        all[n++] = self->arithmetic.at[i].signature;
    for (uint32_t i = 0; i < self->arithmetic.n_signature && i < WM_SUMMARY_ROWS_MAX; i++)
        all[n++] = self->arithmetic.signature[i];
    for (uint32_t r = 0; r < self->arithmetic.n_rows && summary->n_rows < WM_SUMMARY_ROWS_MAX; r++)
        for (uint32_t i = 0; i < n; i++)
            if (wm_history_rows_hash (all[i]) == self->arithmetic.rows[r].hash) {
                summary->rows[summary->n_rows++] =
                    (wm_summary_rows_t){ all[i], self->arithmetic.rows[r].n };
                break;
            }
    summary->n_again = self->arithmetic.n_again;
}

const wm_core_row_t wm_core_arithmetic_rows[] = {
    { WM_MSG_SAMPLE, BY_PRODUCER, WHILE_LIVE, WM_RAW_BYTES_MAX, on_sample },
    { WM_MSG_TRIAL_GET, BY_WORKER, WHILE_LIVE, 0, on_trial_get },
    { 0 },
};
