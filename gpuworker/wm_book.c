/* wm_book.c - a fixed table of tasks; 256 lines are searched faster than they are indexed.  */
#include "gpuworker/wm_book.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

struct wm_book_t {
    uint32_t n_output;
    uint64_t serial;
    wm_task_t task[WM_CREDIT_MAX];
};

wm_book_t *wm_book_new (uint32_t n_output)
{
    wm_book_t *self = calloc (1, sizeof *self);
    assert (self);
    self->n_output = n_output;
    return self;
}

void wm_book_destroy (wm_book_t **self_p)
{
    wm_book_t *self = *self_p;
    if (!self)
        return;
    for (uint32_t i = 0; i < WM_CREDIT_MAX; i++) {
        free (self->task[i].payload);
        free (self->task[i].result_memory);
    }
    free (self);
    *self_p = NULL;
}

/* Grows *memory to at least `bytes`; its old content is of no interest. 0 without memory.  */
static int grow (uint8_t **memory, size_t *bytes_max, size_t bytes)
{
    if (bytes <= *bytes_max)
        return 1;
    free (*memory);
    *bytes_max = 0;
    *memory = aligned_alloc (64, (bytes + 63) / 64 * 64);
    if (*memory)
        *bytes_max = bytes;
    return *memory != NULL;
}

wm_fault_t wm_book_add (wm_book_t *self, const wm_msg_t *task, const uint8_t *payload, size_t bytes,
                        wm_error_t *error)
{
    size_t result_bytes = wm_result_bytes (task->n_hit, self->n_output);
    if (!task->n_hit || result_bytes > WM_RAW_BYTES_MAX)
        return wm_fault (error, WM_EBATCH,
                         "a batch of %u hits has a result of %zu bytes, not 1 to %u", task->n_hit,
                         result_bytes, WM_RAW_BYTES_MAX);
    if (wm_book_find (self, &task->key))
        return wm_fault (error, WM_EAGAIN, "this batch is held already");
    wm_task_t *line = self->task;
    while (line < self->task + WM_CREDIT_MAX && line->state != WM_TASK_FREE)
        line++;
    if (line == self->task + WM_CREDIT_MAX)
        return wm_fault (error, WM_EAGAIN, "this worker holds %u batches already", WM_CREDIT_MAX);
    /* The scores lie right behind the status bytes, and aligned: the status begins 0 to 3 bytes in.
     */
    size_t lead = (4 - task->n_hit % 4) % 4;
    if (!grow (&line->payload, &line->payload_bytes_max, bytes ? bytes : 1) ||
        !grow (&line->result_memory, &line->result_bytes_max, lead + result_bytes))
        return wm_fault (error, WM_EHOST, "no memory for a batch of %zu bytes", bytes);
    if (bytes)
        memcpy (line->payload, payload, bytes);
    line->payload_bytes = bytes;
    line->status = line->result_memory + lead;
    line->scores = (float *) (void *) (line->status + task->n_hit);
    line->result_bytes = result_bytes;
    line->key = task->key;
    memcpy (line->digest, task->digest, sizeof line->digest);
    line->n_batch = task->n_batch;
    line->n_hit = task->n_hit;
    line->attempt = task->attempt;
    line->again[0] = 0;
    line->serial = self->serial++;
    line->state = WM_TASK_QUEUED;
    return WM_OK;
}

wm_task_t *wm_book_find (wm_book_t *self, const wm_key_t *key)
{
    for (uint32_t i = 0; i < WM_CREDIT_MAX; i++)
        if (self->task[i].state != WM_TASK_FREE && !memcmp (&self->task[i].key, key, sizeof *key))
            return &self->task[i];
    return NULL;
}

/* The first task in this state that arrived at `serial` or later.  */
static wm_task_t *from (wm_book_t *self, wm_task_state_t state, uint64_t serial)
{
    wm_task_t *first = NULL;
    for (uint32_t i = 0; i < WM_CREDIT_MAX; i++) {
        wm_task_t *task = &self->task[i];
        if (task->state == state && task->serial >= serial &&
            (!first || task->serial < first->serial))
            first = task;
    }
    return first;
}

wm_task_t *wm_book_oldest (wm_book_t *self, wm_task_state_t state)
{
    return from (self, state, 0);
}

void wm_book_each (wm_book_t *self, wm_task_state_t state, void (*visit) (wm_task_t *, void *),
                   void *argument)
{
    uint64_t next = 0;
    for (wm_task_t *task; (task = from (self, state, next));) {
        next = task->serial + 1;
        visit (task, argument);
    }
}

void wm_book_forget (wm_book_t *self, wm_task_t *task)
{
    assert (task >= self->task && task < self->task + WM_CREDIT_MAX);
    task->state = WM_TASK_FREE;
}

uint32_t wm_book_count (const wm_book_t *self, wm_task_state_t state)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < WM_CREDIT_MAX; i++)
        count += self->task[i].state == state;
    return count;
}

uint32_t wm_book_held (const wm_book_t *self)
{
    return WM_CREDIT_MAX - wm_book_count (self, WM_TASK_FREE);
}

uint32_t wm_book_in_hand (const wm_book_t *self)
{
    return wm_book_held (self) - wm_book_count (self, WM_TASK_RETURNED);
}

uint32_t wm_book_hello (const wm_book_t *self, wm_hello_held_t list[WM_CREDIT_MAX])
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < WM_CREDIT_MAX; i++) {
        const wm_task_t *task = &self->task[i];
        if (task->state == WM_TASK_FREE)
            continue;
        wm_hello_held_t *line = &list[count++];
        *line = (wm_hello_held_t){ .key = task->key,
                                   .n_hit = task->n_hit,
                                   .unacked = task->state == WM_TASK_RETURNED };
        memcpy (line->digest, task->digest, sizeof line->digest);
    }
    return count;
}
