/* wm_held_reader.c - see wm_held_reader.h. */
#include "ops/serve/wm_held_reader.h"
#include "ops/ask/wm_account.h"
#include "ops/ask/wm_ask.h"
#include "ops/campaign/wm_processes.h"
#include "schema/wm_limits.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#define HELD_EVERY_MS 15000
#define LISTS 4 /* that are kept */

typedef struct {
    const wm_served_t *of; /* NULL: free */
    json_t *list;          /* NULL: not read yet */
    json_t *from;          /* a status to read it for, NULL: none is due */
    int64_t read_ms, asked_ms;
} slot_t;

struct wm_held_reader {
    pthread_t thread;
    pthread_mutex_t mutex;
    pthread_cond_t due;
    bool stops; /* under the mutex, as the slots */
    slot_t slot[LISTS];
    atomic_bool done;
};

/* Asks and reads; the status is the thread's own.  */
static void read_one (const wm_served_t *of, json_t *status)
{
    char endpoint[256] = "";
    if (*of->folder)
        wm_ask_endpoint (of->folder, endpoint, NULL);
    else
        strcpy (endpoint, of->endpoint);
    wm_account_add_up_to (status, "serve", endpoint, of->folder, WM_HELD_ROWS_MAX);
}

static slot_t *next_due (wm_held_reader_t *self)
{
    for (slot_t *slot = self->slot; slot < &self->slot[LISTS]; slot++)
        if (slot->from)
            return slot;
    return NULL;
}

static void *run (void *argument)
{
    wm_held_reader_t *self = argument;
    slot_t *slot;
    pthread_mutex_lock (&self->mutex);
    while (!self->stops) {
        if (!(slot = next_due (self))) {
            pthread_cond_wait (&self->due, &self->mutex);
            continue;
        }
        const wm_served_t *of = slot->of;
        json_t *status = slot->from;
        slot->from = NULL;
        pthread_mutex_unlock (&self->mutex);
        read_one (of, status);
        pthread_mutex_lock (&self->mutex);
        if (slot->of == of) {
            json_decref (slot->list);
            slot->list = status;
            slot->read_ms = wm_now_ms ();
        } else /* another campaign has its place */
            json_decref (status);
    }
    pthread_mutex_unlock (&self->mutex);
    atomic_store (&self->done, true);
    return NULL;
}

wm_held_reader_t *wm_held_reader_new (void)
{
    sigset_t all, before;
    wm_held_reader_t *self = calloc (1, sizeof *self);
    if (!self)
        return NULL;
    pthread_mutex_init (&self->mutex, NULL);
    pthread_cond_init (&self->due, NULL);
    sigfillset (&all); /* signals are the owner's */
    pthread_sigmask (SIG_SETMASK, &all, &before);
    const int code = pthread_create (&self->thread, NULL, run, self);
    pthread_sigmask (SIG_SETMASK, &before, NULL);
    if (code == 0)
        return self;
    free (self);
    return NULL;
}

/* The place of a campaign, or that of the one whose list was asked for longest ago.  */
static slot_t *place_of (wm_held_reader_t *self, const wm_served_t *one)
{
    slot_t *oldest = self->slot;
    for (slot_t *slot = self->slot; slot < &self->slot[LISTS]; slot++) {
        if (slot->of == one)
            return slot;
        if (slot->asked_ms < oldest->asked_ms)
            oldest = slot;
    }
    json_decref (oldest->list);
    json_decref (oldest->from);
    *oldest = (slot_t){ .of = one };
    return oldest;
}

const json_t *wm_held_reader_lend (wm_held_reader_t *self, const wm_served_t *one,
                                   const json_t *status, double *age_s)
{
    pthread_mutex_lock (&self->mutex);
    const int64_t now_ms = wm_now_ms ();
    slot_t *slot = place_of (self, one);
    const bool is_asked = slot->asked_ms && now_ms - slot->asked_ms < HELD_EVERY_MS;
    if (!is_asked && !slot->from) {
        slot->from = json_deep_copy (status);
        slot->asked_ms = now_ms;
        pthread_cond_signal (&self->due);
    }
    *age_s = (double) (now_ms - slot->read_ms) / 1e3;
    return slot->list;
}

void wm_held_reader_take_back (wm_held_reader_t *self)
{
    pthread_mutex_unlock (&self->mutex);
}

void wm_held_reader_end (wm_held_reader_t *self, int64_t ms)
{
    if (!self)
        return;
    pthread_mutex_lock (&self->mutex);
    self->stops = true;
    pthread_cond_signal (&self->due);
    pthread_mutex_unlock (&self->mutex);
    for (const int64_t end = wm_now_ms () + ms; !atomic_load (&self->done) && wm_now_ms () < end;)
        wm_processes_nap (5);
    if (!atomic_load (&self->done))
        return;
    pthread_join (self->thread, NULL);
    for (slot_t *slot = self->slot; slot < &self->slot[LISTS]; slot++) {
        json_decref (slot->list);
        json_decref (slot->from);
    }
    pthread_cond_destroy (&self->due);
    pthread_mutex_destroy (&self->mutex);
    free (self);
}
