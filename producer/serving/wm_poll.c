/* wm_poll.c - follows the repository (--model-control-mode poll): loads what comes or changes, and
   unloads what goes.

   A model is taken only when two looks in a row have found the same files, of the same sizes and
   times: one that is being copied is not.  */
#include "producer/serving/wm_models_private.h"

#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* FNV-1a, 64 bits.  */
static void mix (uint64_t *hash, const void *data, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++)
        *hash = (*hash ^ ((const uint8_t *) data)[i]) * UINT64_C (0x100000001b3);
}

static void mix_file (uint64_t *hash, const char *path)
{
    struct stat file;
    mix (hash, path, strlen (path) + 1);
    if (stat (path, &file))
        return;
    const int64_t of[] = { (int64_t) file.st_size, (int64_t) file.st_ino, file.st_mtim.tv_sec,
                           file.st_mtim.tv_nsec };
    mix (hash, of, sizeof of);
}

/* Sums up the model's files; 0: there is nothing that can be loaded.  */
static uint64_t look (const wm_model_entry_t *entry)
{
    char path[PATH_MAX + 16];
    wm_error_t error;
    json_t *output;
    size_t k;
    uint64_t hash = UINT64_C (0xcbf29ce484222325);
    wm_model_files_t *files = wm_repository_read (entry, &error);
    if (!files)
        return 0;
    snprintf (path, sizeof path, "%s/config.pbtxt", entry->folder);
    mix_file (&hash, path);
    for (uint32_t i = 0; i < files->n_version; i++)
        mix_file (&hash, files->file[i]);
    json_array_foreach (json_object_get (files->config, "output"), k, output)
    {
        if (wm_repository_labels (output))
            mix_file (&hash, wm_repository_labels (output));
    }
    wm_repository_free (&files);
    return hash ? hash : 1;
}

/* A folder with a configuration that cannot be read keeps what is loaded from it.  */
static bool is_gone (const wm_model_entry_t *entry)
{
    char path[PATH_MAX + 16];
    snprintf (path, sizeof path, "%s/config.pbtxt", entry->folder);
    return access (path, F_OK) != 0;
}

static void follow (wm_model_entry_t *entry)
{
    const uint64_t found = look (entry);
    const bool is_at_rest = found == entry->found;
    entry->found = found;
    if (!is_at_rest || found == entry->loaded)
        return;
    if (found)
        wm_models_reload (entry->models, entry->name, NULL, NULL, NULL);
    else if (is_gone (entry) && entry->version)
        wm_models_drop (entry->models, entry->name, NULL, NULL);
    entry->loaded = found;
}

static void on_due (void *argument)
{
    wm_models_t *models = argument;
    wm_repository_scan (models);
    for (wm_model_entry_t *entry = models->first; entry; entry = entry->next)
        if (!entry->given)
            follow (entry);
    models->poll = wm_loop_timer (models->loop, wm_loop_now_us (models->loop) + models->poll_us,
                                  on_due, models);
}

void wm_poll_start (wm_models_t *models)
{
    if (!models->poll_us)
        return;
    for (wm_model_entry_t *entry = models->first; entry; entry = entry->next)
        if (!entry->given)
            entry->found = entry->loaded = look (entry);
    models->poll = wm_loop_timer (models->loop, wm_loop_now_us (models->loop) + models->poll_us,
                                  on_due, models);
}
