/* wm_produce_input.c - the list of inputs: found by path and by id, and counted by what they are.

   A campaign may have 10^5 inputs and a dozen messages for each, so that nothing here goes through
   all of them for one message. first_new and first_open move forward only, and back where an input
   becomes new or open again.  */
#include "producer/session/wm_produce_private.h"

#include <stdlib.h>
#include <string.h>

/* ---- which inputs there are ------------------------------------------------------------------ */

static int path_compare (const void *a, const void *b)
{
    return strcmp ((*(wm_input_t *const *) a)->path, (*(wm_input_t *const *) b)->path);
}

static void sort_by_path (wm_produce_t *self)
{
    for (uint32_t i = 0; i < self->n_input; i++)
        self->by_path[i] = &self->input[i];
    if (self->n_input > 1)
        qsort (self->by_path, self->n_input, sizeof *self->by_path, path_compare);
}

/* Drops inputs that were given twice, keeping the order.  */
static void repeats_drop (wm_produce_t *self)
{
    wm_input_t **order = self->by_path;
    sort_by_path (self);
    for (uint32_t i = 1; i < self->n_input; i++)
        if (!strcmp (order[i]->path, order[i - 1]->path)) {
            /* the later of the two goes; the other stays for the next comparison */
            wm_input_t *later = order[i] > order[i - 1] ? order[i] : order[i - 1];
            order[i] = order[i] > order[i - 1] ? order[i - 1] : order[i];
            later->is = WM_INPUT_IS_HELD;
        }
    uint32_t n = 0;
    for (uint32_t i = 0; i < self->n_input; i++) {
        if (self->input[i].is == WM_INPUT_IS_HELD)
            wm_input_clear (&self->input[i]);
        else
            self->input[n++] = self->input[i];
    }
    self->n_input = n;
    sort_by_path (self);
}

wm_fault_t wm_produce_inputs_make (wm_produce_t *self)
{
    const wm_produce_options_t *options = self->options;
    for (self->n_slot = 64; self->n_slot < 2ull * options->n_input; self->n_slot *= 2)
        ;
    self->input = calloc (options->n_input + 1ul, sizeof *self->input);
    self->by_path = calloc (options->n_input + 1ul, sizeof (wm_input_t *));
    self->by_id = calloc (self->n_slot, sizeof *self->by_id);
    if (!self->input || !self->by_path || !self->by_id)
        return wm_fault (&self->error, WM_EHOST, "out of memory");
    for (uint32_t i = 0; i < options->n_input; i++) {
        wm_fault_t fault =
            wm_input_init (&self->input[self->n_input++], options->input[i], &self->error);
        if (fault)
            return fault;
        self->input[self->n_input - 1].line = i;
    }
    repeats_drop (self);
    return WM_OK;
}

void wm_produce_inputs_clear (wm_produce_t *self)
{
    for (uint32_t i = 0; i < self->n_input; i++)
        wm_input_clear (&self->input[i]);
    free (self->input);
    free (self->by_path);
    free (self->by_id);
}

wm_input_t *wm_produce_by_path (const wm_produce_t *self, const char *path)
{
    uint32_t low = 0, high = self->n_input;
    while (low < high) {
        const uint32_t middle = low + (high - low) / 2;
        const int order = strcmp (path, self->by_path[middle]->path);
        if (!order)
            return self->by_path[middle];
        if (order < 0)
            high = middle;
        else
            low = middle + 1;
    }
    return NULL;
}

/* The slot of this id, or the free one where it belongs.  */
static uint32_t *slot_of (const wm_produce_t *self, uint32_t id)
{
    uint32_t i = id * 2654435769u & (self->n_slot - 1); /* brokers count from 1 */
    while (self->by_id[i] && self->input[self->by_id[i] - 1].id != id)
        i = (i + 1) & (self->n_slot - 1);
    return &self->by_id[i];
}

wm_input_t *wm_produce_by_id (const wm_produce_t *self, uint32_t id)
{
    const uint32_t index = *slot_of (self, id);
    return index ? &self->input[index - 1] : NULL;
}

void wm_produce_set_id (wm_produce_t *self, wm_input_t *input, uint32_t id)
{
    if (input->id == id)
        return;
    const bool was_known = input->id != 0;
    input->id = id;
    if (!was_known) {
        *slot_of (self, id) = (uint32_t) (input - self->input) + 1;
        return;
    }
    memset (self->by_id, 0, self->n_slot * sizeof *self->by_id); /* brokers do not do this */
    for (uint32_t i = 0; i < self->n_input; i++)
        if (self->input[i].id)
            *slot_of (self, self->input[i].id) = i + 1;
}

/* ---- what they are --------------------------------------------------------------------------- */

static bool is_ended (wm_input_is_t is)
{
    return is == WM_INPUT_IS_WRITTEN || is == WM_INPUT_IS_HELD;
}

static bool is_active (const wm_input_t *input)
{
    return input->is == WM_INPUT_IS_OURS || (input->is == WM_INPUT_IS_OPEN && input->event);
}

void wm_produce_set_is (wm_produce_t *self, wm_input_t *input, wm_input_is_t is)
{
    const uint32_t index = (uint32_t) (input - self->input);
    self->n_ended -= is_ended (input->is);
    self->n_ended += is_ended (is);
    input->is = is;
    wm_produce_tell_end (self, input);
    if (is == WM_INPUT_IS_NEW && index < self->first_new)
        self->first_new = index;
    if (is == WM_INPUT_IS_OPEN && index < self->first_open)
        self->first_open = index;
    if (is == WM_INPUT_IS_BUSY && input->retry_ms < self->busy_ms)
        self->busy_ms = input->retry_ms;
    if (is == WM_INPUT_IS_OURS) {
        const uint32_t n = wm_produce_active (self);
        for (uint32_t i = 0; i < n; i++)
            if (self->active[i] == input)
                return;
        assert (n < WM_PRODUCE_ACTIVE_MAX); /* on_input_ack has checked it */
        self->active[self->n_active++] = input;
    }
}

uint32_t wm_produce_active (wm_produce_t *self)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < self->n_active; i++)
        if (is_active (self->active[i]))
            self->active[n++] = self->active[i];
    return self->n_active = n;
}

void wm_produce_inputs_session (wm_produce_t *self, bool new_epoch)
{
    for (uint32_t i = 0; i < self->n_input; i++)
        wm_input_session_end (&self->input[i], new_epoch);
    self->first_new = self->first_open = 0;
    self->n_asked = self->n_claiming = 0;
    self->busy_ms = 0;
}

wm_input_t *wm_produce_next_new (wm_produce_t *self)
{
    for (; self->first_new < self->n_input; self->first_new++) {
        wm_input_t *input = &self->input[self->first_new];
        if (input->is == WM_INPUT_IS_NEW && !input->asked)
            return input;
    }
    return NULL;
}

/* Opens the inputs of other producers whose time to be asked for has come: at most a few times a
   heartbeat, because all inputs are looked through.  */
static void busy_open (wm_produce_t *self)
{
    const int64_t now = wm_now_ms ();
    if (now < self->busy_ms)
        return;
    self->busy_ms = INT64_MAX;
    for (uint32_t i = 0; i < self->n_input; i++) {
        wm_input_t *input = &self->input[i];
        if (input->is != WM_INPUT_IS_BUSY || input->asked)
            continue;
        if (now >= input->retry_ms)
            wm_produce_set_is (self, input, WM_INPUT_IS_OPEN);
        else if (input->retry_ms < self->busy_ms)
            self->busy_ms = input->retry_ms;
    }
    const int64_t soonest = now + wm_times ()->heartbeat_ms / 8;
    self->busy_ms = self->busy_ms < soonest ? soonest : self->busy_ms;
}

wm_input_t *wm_produce_next_open (wm_produce_t *self)
{
    busy_open (self);
    for (uint32_t i = 0; i < self->n_active; i++)
        if (self->active[i]->is == WM_INPUT_IS_OPEN && self->active[i]->event &&
            !self->active[i]->asked)
            return self->active[i];
    for (; self->first_open < self->n_input; self->first_open++) {
        wm_input_t *input = &self->input[self->first_open];
        if (input->is == WM_INPUT_IS_OPEN && !input->asked)
            return input;
    }
    return NULL;
}
