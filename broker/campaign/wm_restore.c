/* wm_restore.c - carries rows from the ledger to the core, and counters both ways.  */
#include "broker/campaign/wm_restore.h"

#include <stdbool.h>

typedef struct {
    wm_core_t *core;
    wm_ledger_t *ledger;
    bool failed;
} restore_t;

static void load_input (void *argument, const wm_ledger_input_t *input)
{
    restore_t *self = argument;
    self->failed |= wm_core_restore_input (self->core, input) != 0;
}

static void load_batch (void *argument, const wm_ledger_batch_t *batch)
{
    restore_t *self = argument;
    const char *signature = wm_ledger_signature (self->ledger, batch->signature);
    self->failed |= wm_core_restore_batch (self->core, batch, signature) != 0;
}

static void load_standing (void *argument, const wm_record_t *record, const wm_place_t *place)
{
    restore_t *self = argument;
    wm_core_restore_standing (self->core, record, place);
}

static void load_counter (void *argument, const char *name, uint64_t value)
{
    restore_t *self = argument;
    wm_core_restore_counter (self->core, name, value);
}

wm_fault_t wm_restore (wm_core_t *core, wm_ledger_t *ledger, wm_journal_t *journal,
                       uint64_t *n_gone, wm_error_t *error)
{
    restore_t self = { .core = core, .ledger = ledger };
    const wm_ledger_load_t to = { .input = load_input,
                                  .batch = load_batch,
                                  .counter = load_counter,
                                  .standing = load_standing };
    const wm_fault_t fault = wm_ledger_load (ledger, journal, &to, &self, n_gone, error);
    if (fault == WM_OK && self.failed)
        return wm_fault (error, WM_EHOST, "no memory for the inputs and batches of the campaign");
    return fault;
}

void wm_restore_counters (const wm_core_t *core, wm_ledger_t *ledger)
{
    const char *name;
    uint64_t value;
    for (size_t i = 0; (name = wm_core_counter (core, i, &value)); i++)
        wm_ledger_counter (ledger, name, value);
}
