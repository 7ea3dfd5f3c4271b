/* wm_core_machine.c - machines of workers, as the core knows them: a host (by a label) and a
   key (by a connection).

   A machine outlives its sessions: what it scored is known as long as its memory suffices, so that
   it can be scored again when the machine is found wrong.  */
#include "broker/core/wm_core_check_private.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The host of a label "host:pid".  */
static void host_of (const char *label, char host[64])
{
    const char *colon = strrchr (label, ':');
    snprintf (host, 64, "%.*s", (int) (colon ? colon - label : (long) strlen (label)), label);
}

static void machine_free (machine_t *machine)
{
    wm_input_set_free (&machine->unproven);
    wm_input_set_free (&machine->since_proving);
    wm_input_set_free (&machine->scored);
    free (machine);
}

/* Forgets one that nothing refers to. A peer with a key can claim any number of hosts.  */
static void machines_trim (wm_core_t *self)
{
    machine_t **last = NULL;
    for (machine_t **at = &self->machines.first; *at; at = &(*at)->next)
        if (!(*at)->n_session && !(*at)->n_answer && !(*at)->distrusted)
            last = at;
    if (!last)
        return;
    machine_t *machine = *last;
    *last = machine->next;
    machine_free (machine);
    self->machines.n--;
}

static size_t set_bytes (const machine_t *machine)
{
    return machine->unproven.bytes + machine->since_proving.bytes + machine->scored.bytes;
}

void wm_core_machine_left (wm_core_t *self, machine_t *machine)
{
    size_t bytes = 0;
    machine->left_order = ++self->machines.n_left;
    for (const machine_t *one = self->machines.first; one; one = one->next)
        bytes += set_bytes (one);
    while (bytes > INPUT_SETS_BYTES) {
        machine_t *first = NULL;
        for (machine_t *one = self->machines.first; one; one = one->next)
            if (!one->n_session && !one->n_suspect && !one->distrusted && set_bytes (one) &&
                (!first || one->left_order < first->left_order))
                first = one;
        if (!first)
            return;
        bytes -= set_bytes (first);
        wm_input_set_free (&first->unproven);
        wm_input_set_free (&first->since_proving);
        wm_input_set_free (&first->scored);
    }
}

machine_t *wm_core_machine_of (wm_core_t *self, const char *key, const char *label)
{
    char host[64];
    host_of (label, host);
    for (machine_t *machine = self->machines.first; machine; machine = machine->next)
        if (strcmp (machine->key, key) == 0 && strcmp (machine->host, host) == 0)
            return machine;
    if (self->machines.n >= MACHINES_MAX)
        machines_trim (self);
    machine_t *machine = calloc (1, sizeof *machine);
    if (!machine)
        return NULL;
    snprintf (machine->key, sizeof machine->key, "%s", key);
    memcpy (machine->host, host, sizeof host);
    machine->next = self->machines.first;
    self->machines.first = machine;
    self->machines.n++;
    return machine;
}

void wm_core_machines_free (wm_core_t *self)
{
    while (self->machines.first) {
        machine_t *machine = self->machines.first;
        self->machines.first = machine->next;
        machine_free (machine);
    }
}
