/* wm_core_check.c - spot checks: a sampled batch is scored a second time, by another machine.

   Which batches are sampled is a keyed hash of the batch's key: a worker that does not know the
   broker's secret cannot tell them from others, and the TASK of a check is like any other. The
   first result is committed and acknowledged as always; a check is beside that, has no lease and
   delays nothing. It keeps the payload, inside the budget, and a copy of the answer; both are
   bounded, and under pressure the oldest check that waits is given up, but none whose answers
   differ already. So is a check whose workers
   vanish CHECK_LOST_MAX times (the batch may be what kills them). What was sampled and not compared
   is counted.

   Another machine: a worker whose label names another host. One that also has another key goes
   before others while one is connected, because a key is the broker's own knowledge and a label the
   worker's claim. Two machines of one host, by two keys, do not check each other:
   a peer with a second key must not judge itself.

   Two answers by one engine signature must be equal in every bit (but for OpenVINO); by two
   signatures, within the error of both. A signature is the worker's word, so the campaign's own
   limits bound what any can be allowed: strict fp32's where nothing is measured, else the largest
   error that the campaign takes. Hits that kill the engine of one of them are left out: that
   depends on its machine (hash_of in wm_core_on_worker.c). If two differ, a third machine
   decides. If the campaign has no third machine, or the third agrees with both or neither, the
   broker distrusts none of them; its log and its status name both. A worker that refuses the batch
   gives no scores: the broker asks another machine, and the circuit breaker counts the refusal. A
   worker whose engine is killed by all hits of the batch leaves nothing to compare, and is treated
   alike: an empty answer would agree with anything.

   A good check ends what is in doubt of a machine: its batches before that one are not scored again
   when it is found wrong later. While a machine is one of two that differ no check of it counts as
   good.  */
#include "broker/core/wm_core_check_private.h"

#include <math.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Of a score by strict fp32, where signatures differ: the widest limit of a self-test.  */
#define STRICT_ERROR 1e-4

/* ---- machines -------------------------------------------------------------------------------- */

/* 0: the same machine; 1: another host, as the workers claim; 2: and another key.  */
static int distance (const machine_t *a, const machine_t *b)
{
    return strcmp (a->host, b->host) == 0 ? 0 : strcmp (a->key, b->key) == 0 ? 1 : 2;
}

/* The distance of a machine from all that have answered; 0 too of one that refused.  */
static int distance_of (const check_t *check, const machine_t *machine)
{
    int least = 2;
    for (uint32_t i = 0; i < check->n_refused; i++)
        if (check->refused_by[i] == machine)
            return 0;
    for (uint32_t i = 0; i < check->n_answer; i++) {
        const int one = distance (check->answer[i].machine, machine);
        least = one < least ? one : least;
    }
    return least;
}

/* ---- comparing ------------------------------------------------------------------------------- */

static const char *signature_of (const wm_core_t *self, uint16_t number)
{
    return number ? self->arithmetic.signature[number - 1] : "";
}

/* The largest error that the scores of an answer may have in this campaign.  */
static double error_of (const wm_core_t *self, const check_answer_t *answer)
{
    if (!self->config.measures || wm_core_is_strict (signature_of (self, answer->signature)))
        return STRICT_ERROR;
    return fmax (STRICT_ERROR, self->config.max_error);
}

static float score_at (const uint8_t *scores, size_t i)
{
    float score;
    memcpy (&score, scores + 4 * i, 4);
    return score;
}

/* The largest score of a result, at least 1: what an error is relative to.  */
static double unit_of (const uint8_t *scores, size_t n)
{
    double unit = 1;
    for (size_t i = 0; i < n; i++)
        if (isfinite (score_at (scores, i)))
            unit = fmax (unit, fabs ((double) score_at (scores, i)));
    return unit;
}

/* Whether two signatures' scores of a batch agree within the error of both.  */
static bool scores_agree (const wm_core_t *self, uint32_t n_hit, const check_answer_t *a,
                          const check_answer_t *b)
{
    const size_t n_output = self->config.n_output, n = n_hit * n_output;
    const uint8_t *x = a->result + n_hit, *y = b->result + n_hit;
    const double error =
        (error_of (self, a) + error_of (self, b)) * fmax (unit_of (x, n), unit_of (y, n));
    for (size_t i = 0; i < n; i++)
        if (a->result[i / n_output] == WM_HIT_SCORED && b->result[i / n_output] == WM_HIT_SCORED &&
            fabs ((double) score_at (x, i) - (double) score_at (y, i)) > error)
            return false;
    return true;
}

/* Whether one signature's scores of a batch are the same bits.  */
static bool bits_agree (const wm_core_t *self, uint32_t n_hit, const check_answer_t *a,
                        const check_answer_t *b)
{
    const size_t bytes = 4 * (size_t) self->config.n_output;
    for (uint32_t i = 0; i < n_hit; i++)
        if (a->result[i] != WM_HIT_POISON && b->result[i] != WM_HIT_POISON &&
            memcmp (a->result + n_hit + i * bytes, b->result + n_hit + i * bytes, bytes) != 0)
            return false;
    return true;
}

bool wm_core_fixes_bits (const wm_core_t *self, uint16_t signature)
{
    const char *text = signature_of (self, signature);
    return *text && strncmp (text, "openvino", strlen ("openvino")) != 0 &&
           strncmp (text, "plugin/", strlen ("plugin/")) != 0; /* plugin-same/ promises them */
}

/* How many hits of two answers are compared.  */
static uint32_t n_compared (uint32_t n_hit, const check_answer_t *a, const check_answer_t *b)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < n_hit; i++)
        n += a->result[i] != WM_HIT_POISON && b->result[i] != WM_HIT_POISON;
    return n;
}

static bool agree (const wm_core_t *self, const check_t *check, const check_answer_t *a,
                   const check_answer_t *b)
{
    const uint32_t n_hit = check->task.n_hit;
    for (uint32_t i = 0; i < n_hit; i++)
        if (a->result[i] != b->result[i] && a->result[i] != WM_HIT_POISON &&
            b->result[i] != WM_HIT_POISON)
            return false;
    return a->signature == b->signature && wm_core_fixes_bits (self, a->signature)
               ? bits_agree (self, n_hit, a, b)
               : scores_agree (self, n_hit, a, b);
}

/* ---- begin and end --------------------------------------------------------------------------- */

static bool is_sampled (const wm_core_t *self, const wm_key_t *key)
{
    uint8_t hash[crypto_shorthash_BYTES];
    uint64_t number;
    static_assert (sizeof hash == sizeof number, "one hash is one number");
    static_assert (sizeof self->config.check_key == crypto_shorthash_KEYBYTES, "its key");
    if (self->config.check_share <= 0 || self->config.check_share >= 1)
        return self->config.check_share > 0;
    crypto_shorthash (hash, (const uint8_t *) key, sizeof *key, self->config.check_key);
    memcpy (&number, hash, sizeof number);
    return (double) number * 0x1p-64 < self->config.check_share;
}

static size_t result_bytes (const wm_core_t *self, const check_t *check)
{
    return wm_result_bytes (check->task.n_hit, self->config.n_output);
}

/* Takes back the last answer, of a check whose first two do not differ because of it.  */
static void answer_drop (check_t *check)
{
    check_answer_t *answer = &check->answer[--check->n_answer];
    answer->machine->n_answer--;
    free (answer->result);
}

static void check_end (wm_core_t *self, check_t *check)
{
    if (check->worker)
        check->worker->check = NULL;
    *(check->prev ? &check->prev->next : &self->checks.first) = check->next;
    *(check->next ? &check->next->prev : &self->checks.last) = check->prev;
    self->checks.n--;
    self->checks.payload_bytes -= check->task.payload->bytes;
    wm_core_payload_drop (self, check->task.payload);
    for (uint32_t i = 0; i < check->n_answer; i++) {
        check_answer_t *answer = &check->answer[i];
        answer->machine->n_answer--;
        if (answer->machine->proving == check)
            answer->machine->proving = NULL;
        if (i < 2 && check->differs)
            answer->machine->n_suspect--;
        free (answer->result);
    }
    self->checks.bytes -= ANSWERS_MAX * result_bytes (self, check);
    free (check);
}

/* Returns false without memory.  */
static bool answer_add (check_t *check, const session_t *worker, uint16_t signature,
                        const wm_payload_t *payload)
{
    check_answer_t *answer = &check->answer[check->n_answer];
    *answer = (check_answer_t){ .machine = worker->machine, .signature = signature };
    memcpy (answer->label, worker->label, sizeof answer->label);
    answer->result = malloc (payload->bytes);
    if (!answer->result)
        return false;
    memcpy (answer->result, payload->data, payload->bytes);
    answer->machine->n_answer++;
    check->n_answer++;
    return true;
}

static bool may_drop (const check_t *check, bool frees)
{
    return !check->worker && !check->differs && (!frees || check->task.payload->refs == 1);
}

bool wm_core_check_drop (wm_core_t *self, bool frees)
{
    for (check_t *check = self->checks.first; check; check = check->next)
        if (may_drop (check, frees)) {
            check_end (self, check);
            return true;
        }
    return false;
}

uint64_t wm_core_check_lent (const wm_core_t *self)
{
    uint64_t bytes = 0;
    for (const check_t *check = self->checks.first; check; check = check->next)
        bytes += may_drop (check, true) ? check->task.payload->bytes : 0;
    return bytes;
}

/* Whether there is room for one more, after those that wait were dropped where needed. There is
   always room for one alone.  */
static bool make_room (wm_core_t *self, size_t payload_bytes, size_t bytes)
{
    const uint64_t most = self->config.budget_bytes / CHECK_PAYLOADS_SHARE;
    while (self->checks.n && (self->checks.n >= CHECKS_MAX ||
                              self->checks.bytes + ANSWERS_MAX * bytes > CHECK_RESULTS_BYTES ||
                              self->checks.payload_bytes + payload_bytes > most))
        if (!wm_core_check_drop (self, false))
            return false;
    return true;
}

static void check_begin (wm_core_t *self, session_t *worker, const batch_t *batch,
                         const wm_payload_t *payload)
{
    self->checks.n_sampled++;
    check_t *check = batch->payload && make_room (self, batch->payload->bytes, payload->bytes)
                         ? calloc (1, sizeof *check)
                         : NULL;
    if (!check)
        return;
    *check = (check_t){ .prev = self->checks.last,
                        .task = { .key = wm_core_batch_key (batch),
                                  .n_batch = batch->event->n_batch,
                                  .n_hit = batch->n_hit,
                                  .attempt = batch->attempt,
                                  .payload = batch->payload } };
    memcpy (check->task.digest, batch->digest, 16);
    check->task.payload->refs++;
    self->checks.payload_bytes += check->task.payload->bytes;
    self->checks.bytes +=
        ANSWERS_MAX * result_bytes (self, check); /* it may come to have so many */
    *(check->prev ? &check->prev->next : &self->checks.first) = check;
    self->checks.last = check;
    self->checks.n++;
    if (!answer_add (check, worker, batch->signature, payload) ||
        !n_compared (check->task.n_hit, check->answer, check->answer)) {
        check_end (self, check);
        return;
    }
    if (!worker->machine->proving) {
        worker->machine->proving = check;
        wm_input_set_clear (&worker->machine->since_proving);
    }
}

void wm_core_check_result (wm_core_t *self, session_t *worker, const batch_t *batch,
                           const wm_payload_t *payload)
{
    machine_t *machine = worker->machine;
    if (!machine || self->config.check_share <= 0)
        return;
    const wm_key_t key = wm_core_batch_key (batch);
    wm_input_set_add (&machine->scored, key.input);
    wm_input_set_add (&machine->unproven, key.input);
    if (machine->proving)
        wm_input_set_add (&machine->since_proving, key.input);
    if (is_sampled (self, &key))
        check_begin (self, worker, batch, payload);
}

void wm_core_check_free_all (wm_core_t *self)
{
    while (self->checks.first)
        check_end (self, self->checks.first);
}

/* ---- the verdict ----------------------------------------------------------------------------- */

static const char *path_of (const wm_core_t *self, const check_t *check)
{
    const input_t *input =
        check->task.key.input <= self->inputs.n ? self->inputs.at[check->task.key.input - 1] : NULL;
    return input ? input->path : "?";
}

/* Scores of this machine were wrong, as two others agree.  */
static void distrust (wm_core_t *self, const check_t *check, uint32_t guilty)
{
    const check_answer_t *answer = check->answer;
    machine_t *machine = answer[guilty].machine;
    self->distrust.has_verdict = true;
    if (guilty == 0)
        wm_input_set_add (&machine->unproven, check->task.key.input);
    if (machine->distrusted)
        return;
    machine->distrusted = machine->is_unannounced = true;
    memcpy (machine->label, answer[guilty].label, sizeof machine->label);
    snprintf (machine->signature, sizeof machine->signature, "%.63s",
              signature_of (self, answer[guilty].signature));
    snprintf (machine->why, sizeof machine->why,
              "wrong scores for batch %u.%u.%u of %.80s, on which %.40s and %.40s agree",
              check->task.key.input, check->task.key.ordinal, check->task.key.batch,
              path_of (self, check), answer[1 - guilty].label, answer[2].label);
}

/* Two answers differ, and which is wrong is not known (yet).  */
static void log_differ (wm_core_t *self, const check_t *check, const char *what)
{
    wm_core_warn (self, "CHECK: %s and %s gave different scores for batch %u.%u.%u of %s: %s",
                  check->answer[0].label, check->answer[1].label, check->task.key.input,
                  check->task.key.ordinal, check->task.key.batch, path_of (self, check), what);
    snprintf (self->distrust.suspects, sizeof self->distrust.suspects, "%.63s and %.63s",
              check->answer[0].label, check->answer[1].label);
}

static void check_good (wm_core_t *self, check_t *check)
{
    machine_t *machine = check->answer[0].machine;
    self->checks.n_good++;
    if (machine->proving == check && !machine->n_suspect && !machine->distrusted) {
        const wm_input_set_t before = machine->unproven;
        machine->unproven = machine->since_proving;
        machine->since_proving = before;
    }
    check_end (self, check);
}

/* The third answer is here. I13: no machine is named by one other alone.  */
static void judge (wm_core_t *self, check_t *check)
{
    const check_answer_t *answer = check->answer;
    const bool first = agree (self, check, &answer[0], &answer[2]),
               second = agree (self, check, &answer[1], &answer[2]);
    if (first == second)
        log_differ (self, check, "a third machine does not decide it");
    else
        distrust (self, check, first ? 1 : 0);
    check_end (self, check);
}

static void decide (wm_core_t *self, check_t *check)
{
    const check_answer_t *answer = check->answer;
    if (check->n_answer == 2 && agree (self, check, &answer[0], &answer[1]))
        check_good (self, check);
    else if (check->n_answer == 2) {
        self->checks.n_differ++;
        check->differs = true;
        answer[0].machine->n_suspect++;
        answer[1].machine->n_suspect++;
        log_differ (self, check, "a third machine decides, once one is connected");
    } else
        judge (self, check);
}

/* ---- answers --------------------------------------------------------------------------------- */

/* The check that waits for this answer of the worker, which no longer has it; NULL: none. An answer
   may be that to a copy of the batch which the worker had before, so it does not show that the
   TASK of the check was received: the worker's next HEARTBEAT does.  */
static check_t *take_back (session_t *worker, const wm_msg_t *msg)
{
    check_t *check = worker->check;
    if (check && memcmp (&check->task.key, &msg->key, sizeof msg->key) != 0)
        check = NULL;
    if (check) {
        worker->check = NULL;
        check->worker = NULL;
    }
    return check;
}

static void check_lost (wm_core_t *self, check_t *check)
{
    if (++check->n_lost > CHECK_LOST_MAX)
        check_end (self, check);
}

/* No scores came: another machine is asked.  */
static void check_refused (wm_core_t *self, check_t *check, const session_t *worker)
{
    check->refused_by[check->n_refused++] = worker->machine;
    check_lost (self, check);
}

/* Whether the last answer says anything about each of the others.  */
static bool compares (const check_t *check)
{
    const uint32_t last = check->n_answer - 1;
    for (uint32_t i = 0; i < last; i++)
        if (!n_compared (check->task.n_hit, &check->answer[i], &check->answer[last]))
            return false;
    return true;
}

bool wm_core_check_answer (wm_core_t *self, session_t *worker, const wm_msg_t *msg,
                           const wm_payload_t *payload)
{
    check_t *check = take_back (worker, msg);
    if (!check)
        return false;
    wm_core_send_key (self, worker, WM_MSG_RESULT_ACK, msg->key); /* the first is what counts */
    const uint16_t by = wm_core_result_signature (self, worker, msg);
    if (msg->n_hit != check->task.n_hit || memcmp (msg->digest, check->task.digest, 16) != 0 ||
        !answer_add (check, worker, by, payload))
        check_end (self, check);
    else if (compares (check))
        decide (self, check);
    else {
        const check_answer_t *last = &check->answer[check->n_answer - 1];
        if (!n_compared (check->task.n_hit, last, last))
            wm_core_worker_note_outcome (self, worker, "every hit kills its engine");
        answer_drop (check);
        check_refused (self, check, worker);
    }
    return true;
}

bool wm_core_check_nack (wm_core_t *self, session_t *worker, const wm_msg_t *msg)
{
    check_t *check = take_back (worker, msg);
    if (!check)
        return false;
    if (msg->code != WM_EAGAIN)
        check_refused (self, check, worker);
    return true;
}

void wm_core_check_forget_event (wm_core_t *self, const event_t *event)
{
    check_t *next;
    for (check_t *check = self->checks.first; check; check = next) {
        const wm_key_t *key = &check->task.key;
        next = check->next;
        if (key->input == event->input->id && key->ordinal == event->ordinal &&
            key->generation == event->input->generation)
            check_end (self, check);
    }
}

bool wm_core_check_is_first (const session_t *worker)
{
    return worker->over_check ||
           (worker->check &&
            (!worker->lease_head || worker->check->number < worker->lease_head->number));
}

void wm_core_check_give_back (wm_core_t *self, session_t *worker)
{
    check_t *check = worker->check;
    if (!check)
        return;
    worker->over_check = wm_core_check_is_first (worker);
    worker->check = NULL;
    check->worker = NULL;
    check_lost (self, check);
}

/* ---- sending --------------------------------------------------------------------------------- */

static void check_send (wm_core_t *self, check_t *check, session_t *worker)
{
    wm_core_task_send (self, worker, &check->task);
    check->worker = worker;
    check->number = worker->sent;
    worker->check = check;
    wm_core_worker_update (self, worker);
}

/* Whether a worker by a key that has not answered is connected.  */
static bool has_another_key (const wm_core_t *self, const check_t *check)
{
    for (const machine_t *machine = self->machines.first; machine; machine = machine->next)
        if (machine->n_session && !machine->distrusted && distance_of (check, machine) == 2)
            return true;
    return false;
}

/* The eligible worker that is to give the next answer; NULL: none is. (I12)  */
static session_t *worker_for (const wm_core_t *self, const check_t *check)
{
    session_t *best = NULL, *worker = self->workers.eligible;
    int far = 0;
    do {
        const int by = worker->check || !worker->machine || worker->machine->distrusted ||
                               self->workers.alone_for == worker
                           ? 0
                           : distance_of (check, worker->machine);
        if (by > far) {
            far = by;
            best = worker;
        }
        worker = worker->eligible_next;
    } while (worker != self->workers.eligible && far < 2);
    return far == 1 && has_another_key (self, check) ? NULL : best;
}

/* Whether the first answer is not on disk yet. An acknowledged answer of any worker is.  */
static bool is_committing (const wm_core_t *self, const check_t *check)
{
    const batch_t *batch = wm_core_batch_find (self, &check->task.key);
    return batch && batch->state == BATCH_COMMITTING;
}

void wm_core_check_dispatch (wm_core_t *self)
{
    check_t *next;
    if (self->machines.n_live < 2)
        return;
    for (check_t *check = self->checks.first; check && self->workers.eligible; check = next) {
        next = check->next;
        session_t *worker =
            check->worker || is_committing (self, check) ? NULL : worker_for (self, check);
        if (worker)
            check_send (self, check, worker);
    }
}
