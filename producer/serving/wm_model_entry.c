/* wm_model_entry.c - the list of models and their versions: finds, adds, and looks at them.

   wm_models.c decides what is loaded.  */
#include "producer/serving/wm_models_private.h"

#include <czmq.h>
#include <stdio.h>
#include <string.h>

wm_model_entry_t *wm_models_entry (const wm_models_t *models, const char *name)
{
    wm_model_entry_t *entry = models->first;
    while (entry && strcmp (entry->name, name) != 0)
        entry = entry->next;
    return entry;
}

wm_model_entry_t *wm_models_add (wm_models_t *models, const char *name)
{
    wm_model_entry_t *entry = zmalloc (sizeof *entry), **at = &models->first;
    entry->models = models;
    snprintf (entry->name, sizeof entry->name, "%s", name);
    while (*at && strcmp ((*at)->name, name) < 0)
        at = &(*at)->next;
    entry->next = *at;
    return *at = entry;
}

wm_version_t *wm_models_shown (const wm_model_entry_t *entry, long number)
{
    wm_version_t *shown = NULL;
    for (wm_version_t *one = entry->version; one; one = one->next)
        if (one->number == number &&
            (!shown || (one->state == WM_VERSION_READY && shown->state != WM_VERSION_READY)))
            shown = one;
    return shown;
}

bool wm_version_is_loading (const wm_version_t *version)
{
    return version->state == WM_VERSION_LOADING && (!*version->fails || version->is_tried);
}

bool wm_models_is_loading (const wm_model_entry_t *entry)
{
    const wm_version_t *one = entry->version;
    while (one && !wm_version_is_loading (one))
        one = one->next;
    return one;
}

const char *wm_models_remedy (const wm_model_entry_t *entry)
{
    const wm_models_t *models = entry->models;
    return !models->is_fixed                  ? "a client loads it again"
           : models->poll_us && !entry->given ? "its files change"
                                              : "the gateway is started again";
}
