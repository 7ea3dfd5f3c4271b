/* wm_tasks.c - a fixed table of tasks: searching 256 rows is faster than keeping an index.  */
#include "gpuworker/wm_tasks.h"

#include <assert.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

struct wm_tasks_t {
    uint32_t n_output;
    uint64_t serial;
    wm_task_t task[WM_CREDIT_MAX];
};

wm_tasks_t *wm_tasks_new (uint32_t n_output)
{
    wm_tasks_t *self = calloc (1, sizeof *self);
    assert (self);
    self->n_output = n_output;
    return self;
}

void wm_tasks_destroy (wm_tasks_t **self_p)
{
    wm_tasks_t *self = *self_p;
    if (!self)
        return;
    for (uint32_t i = 0; i < WM_CREDIT_MAX; i++) {
        free (self->task[i].payload);
        free (self->task[i].result_memory);
    }
    free (self);
    *self_p = NULL;
}

/* Grows *memory to at least `bytes` without keeping its content. false: no memory.  */
static bool grow (uint8_t **memory, size_t *bytes_max, size_t bytes)
{
    if (bytes <= *bytes_max)
        return true;
    free (*memory);
    *bytes_max = 0;
    *memory = aligned_alloc (64, (bytes + 63) / 64 * 64);
    if (*memory)
        *bytes_max = bytes;
    return *memory != NULL;
}

wm_fault_t wm_tasks_add (wm_tasks_t *self, const wm_msg_t *task, const uint8_t *payload,
                         size_t bytes, wm_error_t *error)
{
    size_t result_bytes = wm_result_bytes (task->n_hit, self->n_output);
    const uint32_t most = wm_raw_bytes_max (task->n_hit);
    if (!task->n_hit || result_bytes > most)
        return wm_fault (error, WM_EBATCH,
                         "a batch of %u hits has a result of %zu bytes, not 1 to %u", task->n_hit,
                         result_bytes, most);
    if (wm_tasks_find (self, &task->key))
        return wm_fault (error, WM_EAGAIN, "this batch is here already");
    wm_task_t *row = self->task;
    while (row < self->task + WM_CREDIT_MAX && row->state != WM_TASK_FREE)
        row++;
    if (row == self->task + WM_CREDIT_MAX)
        return wm_fault (error, WM_EAGAIN, "this worker has %u batches already", WM_CREDIT_MAX);
    /* The scores follow the status bytes and must be aligned, so the status begins 0 to 3 bytes
       in. */
    size_t lead = (4 - task->n_hit % 4) % 4;
    if (!grow (&row->payload, &row->payload_bytes_max, bytes ? bytes : 1) ||
        !grow (&row->result_memory, &row->result_bytes_max, lead + result_bytes))
        return wm_fault (error, WM_EHOST, "no memory for a batch of %zu bytes", bytes);
    if (bytes)
        memcpy (row->payload, payload, bytes);
    row->payload_bytes = bytes;
    row->status = row->result_memory + lead;
    row->scores = (float *) (void *) (row->status + task->n_hit);
    row->result_bytes = result_bytes;
    row->key = task->key;
    memcpy (row->digest, task->digest, sizeof row->digest);
    row->n_batch = task->n_batch;
    row->n_hit = task->n_hit;
    row->attempt = task->attempt;
    row->again[0] = 0;
    row->serial = self->serial++;
    row->state = WM_TASK_QUEUED;
    return WM_OK;
}

wm_task_t *wm_tasks_find (wm_tasks_t *self, const wm_key_t *key)
{
    for (uint32_t i = 0; i < WM_CREDIT_MAX; i++)
        if (self->task[i].state != WM_TASK_FREE && !memcmp (&self->task[i].key, key, sizeof *key))
            return &self->task[i];
    return NULL;
}

/* The first task in this state that arrived at `serial` or later.  */
static wm_task_t *from (wm_tasks_t *self, wm_task_state_t state, uint64_t serial)
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

wm_task_t *wm_tasks_oldest (wm_tasks_t *self, wm_task_state_t state)
{
    return from (self, state, 0);
}

void wm_tasks_each (wm_tasks_t *self, wm_task_state_t state, void (*visit) (wm_task_t *, void *),
                    void *argument)
{
    uint64_t next = 0;
    for (wm_task_t *task; (task = from (self, state, next));) {
        next = task->serial + 1;
        visit (task, argument);
    }
}

void wm_tasks_forget (wm_tasks_t *self, wm_task_t *task)
{
    assert (task >= self->task && task < self->task + WM_CREDIT_MAX);
    task->state = WM_TASK_FREE;
}

uint32_t wm_tasks_count (const wm_tasks_t *self, wm_task_state_t state)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < WM_CREDIT_MAX; i++)
        count += self->task[i].state == state;
    return count;
}

uint32_t wm_tasks_all (const wm_tasks_t *self)
{
    return WM_CREDIT_MAX - wm_tasks_count (self, WM_TASK_FREE);
}

uint32_t wm_tasks_unscored (const wm_tasks_t *self)
{
    return wm_tasks_all (self) - wm_tasks_count (self, WM_TASK_RETURNED);
}

uint32_t wm_tasks_hello (const wm_tasks_t *self, wm_hello_held_t list[WM_CREDIT_MAX])
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < WM_CREDIT_MAX; i++) {
        const wm_task_t *task = &self->task[i];
        if (task->state == WM_TASK_FREE)
            continue;
        wm_hello_held_t *row = &list[count++];
        *row = (wm_hello_held_t){ .key = task->key,
                                  .n_hit = task->n_hit,
                                  .unacked = task->state == WM_TASK_RETURNED };
        memcpy (row->digest, task->digest, sizeof row->digest);
    }
    return count;
}
