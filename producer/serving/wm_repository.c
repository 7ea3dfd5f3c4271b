/* wm_repository.c - the files of models: --model NAME=FILE, and a repository in Triton's layout.

     REPOSITORY/NAME/config.pbtxt   may be left out
     REPOSITORY/NAME/VERSION/FILE   VERSION a whole number above 0; FILE default_model_filename, or
                                    model.onnx, model.graphdef, model.pb, model.wmm

   Which versions are loaded is the configuration's version_policy; by default the newest.  */
#include "producer/net/wm_pbtxt.h"
#include "producer/serving/wm_models_private.h"
#include "schema/base/wm_file.h"
#include "schema/base/wm_text.h"

#include <ctype.h>
#include <czmq.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define LABELS " labels" /* a field that no configuration has */

void wm_repository_free (wm_model_files_t **files_p)
{
    if (*files_p) {
        json_decref ((*files_p)->config);
        wm_loaded_drop (&(*files_p)->loaded);
    }
    free (*files_p);
    *files_p = NULL;
}

/* ---- --model --------------------------------------------------------------------------------- */

static bool is_name (const char *text, size_t n)
{
    return n && n < WM_MODELS_NAME_BYTES && *text != '.' && !memchr (text, '/', n) &&
           wm_text_is_utf8 (text, n);
}

bool wm_repository_is_name (const char *name)
{
    return is_name (name, strlen (name));
}

/* Puts a number at its place among versions, the newest first; its file is the caller's.  */
static void make_room (wm_model_files_t *files, uint32_t at, long number)
{
    for (uint32_t i = files->n_version++; i > at; i--) {
        files->number[i] = files->number[i - 1];
        memcpy (files->file[i], files->file[i - 1], sizeof *files->file);
    }
    files->number[at] = number;
}

/* The versions of a --model.  */
static wm_fault_t add_file (wm_model_entry_t *entry, long number, const char *file,
                            wm_error_t *error)
{
    if (!entry->given)
        entry->given = zmalloc (sizeof *entry->given);
    wm_model_files_t *files = entry->given;
    uint32_t at = 0;
    while (at < files->n_version && files->number[at] > number)
        at++;
    if (at < files->n_version && files->number[at] == number)
        return wm_fault (error, WM_EUSAGE, "--model %s: version %ld is given twice", entry->name,
                         number);
    if (files->n_version == WM_MODELS_VERSIONS_MAX)
        return wm_fault (error, WM_EUSAGE, "--model %s: more than %d versions", entry->name,
                         WM_MODELS_VERSIONS_MAX);
    make_room (files, at, number);
    if (!realpath (file, files->file[at]))
        return wm_fault (error, WM_EUSAGE, "--model %s=%.300s cannot be read: %s", entry->name,
                         file, strerror (errno)); /* it went, or a folder of it may not be read */
    return WM_OK;
}

/* NAME=FILE, NAME:VERSION=FILE.  */
static wm_fault_t take_model (wm_models_t *models, const char *given, wm_error_t *error)
{
    char name[WM_MODELS_NAME_BYTES], *end = NULL;
    const char *equals = strchr (given, '=');
    size_t n = equals ? (size_t) (equals - given) : 0;
    long number = 1;
    const char *colon = equals ? memrchr (given, ':', n) : NULL;
    if (colon) {
        errno = 0;
        number = strtol (colon + 1, &end, 10);
        if (errno || number < 1 || end != equals || !isdigit ((unsigned char) colon[1]))
            return wm_fault (error, WM_EUSAGE,
                             "--model %.200s: VERSION is a number: write NAME=FILE, or NAME:2=FILE",
                             given);
        n = (size_t) (colon - given);
    }
    if (!equals || !is_name (given, n))
        return wm_fault (error, WM_EUSAGE, "--model %.200s: write NAME=FILE, or NAME:VERSION=FILE",
                         given);
    snprintf (name, sizeof name, "%.*s", (int) n, given);
    wm_model_entry_t *entry = wm_models_entry (models, name);
    return add_file (entry ? entry : wm_models_add (models, name), number, equals + 1, error);
}

/* ---- a repository ---------------------------------------------------------------------------- */

/* Models that came with a load and are unloaded.  */
static void forget_loaded (wm_models_t *models)
{
    for (wm_model_entry_t **at = &models->first, *entry; (entry = *at);) {
        if (*entry->folder || entry->given || entry->version || entry->waiters) {
            at = &entry->next;
            continue;
        }
        *at = entry->next;
        free (entry);
    }
}

void wm_repository_scan (wm_models_t *models)
{
    forget_loaded (models);
    DIR *folder = models->repository ? opendir (models->repository) : NULL;
    char path[PATH_MAX], real[PATH_MAX];
    for (const struct dirent *item; folder && (item = readdir (folder));) {
        const size_t n = strlen (item->d_name);
        snprintf (path, sizeof path, "%.3800s/%.200s/.", models->repository, item->d_name);
        if (!is_name (item->d_name, n) || access (path, R_OK | X_OK) || !realpath (path, real))
            continue;
        wm_model_entry_t *entry = wm_models_entry (models, item->d_name);
        if (entry && entry->given && !entry->hides) {
            entry->hides = true;
            fprintf (stderr,
                     "wiremill gateway: model '%s' is that of --model; %s is not served: rename "
                     "one of them\n",
                     entry->name, real);
        }
        if (entry)
            continue;
        entry = wm_models_add (models, item->d_name);
        snprintf (entry->folder, sizeof entry->folder, "%s", real);
    }
    if (folder)
        closedir (folder);
}

/* NAME=ENDPOINT.  */
static wm_fault_t take_broker (wm_models_t *models, const char *given, wm_error_t *error)
{
    char name[WM_MODELS_NAME_BYTES] = "";
    const char *equals = strchr (given, '=');
    if (equals && is_name (given, (size_t) (equals - given)))
        snprintf (name, sizeof name, "%.*s", (int) (equals - given), given);
    wm_model_entry_t *entry = wm_models_entry (models, name);
    if (!entry || !equals[1])
        return wm_fault (error, WM_EUSAGE,
                         "--broker %.200s: write NAME=ENDPOINT, where NAME is that of a model of "
                         "--model or --model-repository",
                         given);
    entry->broker = equals + 1;
    return WM_OK;
}

wm_fault_t wm_repository_open (wm_models_t *models, const wm_args_t *args, wm_error_t *error)
{
    const char *given;
    for (int i = 0; (given = wm_args_each (args, "model", i)); i++)
        if (take_model (models, given, error))
            return error->fault;
    if (models->repository && access (models->repository, R_OK | X_OK))
        return wm_fault (error, WM_EUSAGE, "--model-repository %.300s cannot be read: %s",
                         models->repository, strerror (errno));
    wm_repository_scan (models);
    for (int i = 0; (given = wm_args_each (args, "broker", i)); i++)
        if (take_broker (models, given, error))
            return error->fault;
    if (!models->first && !models->repository)
        return wm_fault (error, WM_EUSAGE,
                         "no model is given; use --model NAME=FILE or --model-repository DIR");
    return WM_OK;
}

/* What Triton would run in another way than row by row is refused. where: that has it.  */
static wm_fault_t check_kind (const char *where, const json_t *config, wm_error_t *error)
{
    if (wm_pbtxt_message (config, "ensemble_scheduling"))
        return wm_fault (error, WM_EBATCH,
                         "%.300s: ensembles are not supported; serve their models", where);
    if (wm_pbtxt_message (config, "sequence_batching"))
        return wm_fault (error, WM_EBATCH,
                         "%.300s: sequences are not supported (sequence_batching)", where);
    if (wm_pbtxt_number (config, "max_batch_size") < 0)
        return wm_fault (error, WM_EBATCH, "%.300s: 'max_batch_size' must be non-negative value",
                         where);
    return WM_OK;
}

/* Whether the name of a file leads nowhere but into the model's folder.  */
static bool is_inside (const char *name)
{
    const size_t n = strlen (name);
    return *name != '/' && strncmp (name, "../", 3) != 0 && strcmp (name, "..") != 0 &&
           !strstr (name, "/../") && (n < 3 || strcmp (name + n - 3, "/..") != 0);
}

/* Adds paths of the outputs' labels to a configuration, and what is in them: with other labels it
   is another one.  */
static wm_fault_t find_labels (const char *folder, json_t *config, wm_error_t *error)
{
    char path[PATH_MAX], digest[65];
    json_t *output;
    size_t i;
    json_array_foreach (json_object_get (config, "output"), i, output)
    {
        const char *name = wm_pbtxt_text (output, "label_filename");
        if (!name || !*name)
            continue;
        snprintf (path, sizeof path, "%.3800s/%.200s", folder, name);
        if (!*folder || !is_inside (name) || wm_file_sha256 (path, digest, error))
            return wm_fault (error, WM_EBATCH,
                             "%.300s has no file of labels '%.200s', which its configuration "
                             "states as label_filename",
                             *folder ? folder : "a model of --model", name);
        json_object_set_new (output, LABELS, json_pack ("[s, s]", digest, path));
    }
    return WM_OK;
}

const char *wm_repository_labels (const json_t *output)
{
    return wm_pbtxt_text (output, LABELS);
}

/* folder: of its labels.  */
static wm_fault_t check_config (const wm_model_entry_t *entry, const char *where,
                                const char *folder, json_t *config, wm_error_t *error)
{
    const char *name = wm_pbtxt_text (config, "name");
    if (name && *name && strcmp (name, entry->name) != 0)
        return wm_fault (error, WM_EBATCH,
                         "unexpected directory name '%s' for model '%.120s', directory name must "
                         "equal model name",
                         entry->name, name);
    return check_kind (where, config, error) || find_labels (folder, config, error) ? error->fault
                                                                                    : WM_OK;
}

/* *config is the caller's, also where it is refused.  */
static wm_fault_t read_config (const wm_model_entry_t *entry, json_t **config, wm_error_t *error)
{
    char path[PATH_MAX + 16];
    *config = NULL;
    snprintf (path, sizeof path, "%s/config.pbtxt", entry->folder);
    char *text;
    size_t bytes;
    if (access (path, F_OK) && errno == ENOENT)
        return WM_OK;
    if (wm_text_read (path, WM_PBTXT_BYTES_MAX, &text, &bytes, error))
        return error->fault = error->fault == WM_EUSAGE ? WM_EBATCH : error->fault;
    *config = wm_pbtxt_parse (text, path, error);
    free (text);
    if (!*config)
        return error->fault;
    return check_config (entry, path, entry->folder, *config, error);
}

/* Whether the version_policy names this version; all and latest name each.  */
static bool is_chosen (const json_t *policy, long number)
{
    const json_t *specific = wm_pbtxt_message (policy, "specific"), *one;
    size_t i;
    json_array_foreach (json_object_get (specific, "versions"), i, one)
    {
        if (json_integer_value (one) == number)
            return true;
    }
    return !specific;
}

static bool find_file (const char *folder, const json_t *config, long number, char path[PATH_MAX])
{
    static const char *const usual[] = { "model.onnx", "model.graphdef", "model.pb", "model.wmm" };
    const char *named = wm_pbtxt_text (config, "default_model_filename");
    if (named && *named) {
        snprintf (path, PATH_MAX, "%.3800s/%ld/%.200s", folder, number, named);
        return is_inside (named) && access (path, R_OK) == 0;
    }
    for (size_t i = 0; i < sizeof usual / sizeof *usual; i++) {
        snprintf (path, PATH_MAX, "%.3800s/%ld/%s", folder, number, usual[i]);
        if (access (path, R_OK) == 0)
            return true;
    }
    return false;
}

static void add_version (wm_model_files_t *files, long number, const char *path)
{
    uint32_t at = 0;
    while (at < files->n_version && files->number[at] > number)
        at++;
    if (at == WM_MODELS_VERSIONS_MAX)
        return; /* the newest are kept */
    if (files->n_version == WM_MODELS_VERSIONS_MAX)
        files->n_version--;
    make_room (files, at, number);
    snprintf (files->file[at], sizeof *files->file, "%s", path);
}

/* Finds the versions below a folder that the configuration wants; there must be one.  */
static wm_fault_t find_versions (const char *where, wm_model_files_t *files, wm_error_t *error)
{
    const json_t *policy = wm_pbtxt_message (files->config, "version_policy");
    char path[PATH_MAX], *end;
    DIR *folder = opendir (where);
    for (const struct dirent *item; folder && (item = readdir (folder));) {
        const long number = strtol (item->d_name, &end, 10);
        if (end != item->d_name && !*end && *item->d_name != '0' && number > 0 &&
            is_chosen (policy, number) && find_file (where, files->config, number, path))
            add_version (files, number, path);
    }
    if (folder)
        closedir (folder);
    const json_int_t latest = wm_pbtxt_number (wm_pbtxt_message (policy, "latest"), "num_versions");
    const uint32_t most = latest > 0 && latest < WM_MODELS_VERSIONS_MAX ? (uint32_t) latest : 1;
    if (files->n_version > most && !wm_pbtxt_message (policy, "all") &&
        !wm_pbtxt_message (policy, "specific"))
        files->n_version = most;
    if (files->n_version)
        return WM_OK;
    const char *backend = wm_pbtxt_text (files->config, "backend");
    const char *platform = wm_pbtxt_text (files->config, "platform");
    platform = platform && *platform ? platform : backend && *backend ? backend : "unknown";
    return wm_fault (error, WM_EBATCH,
                     "%.300s has no version to load: a folder named by a whole number above 0 with "
                     "model.onnx, model.graphdef or model.pb in it (its platform is %.40s)",
                     where, platform);
}

wm_model_files_t *wm_repository_read (const wm_model_entry_t *entry, wm_error_t *error)
{
    if (entry->given)
        return entry->given;
    wm_model_files_t *files = zmalloc (sizeof *files);
    if (read_config (entry, &files->config, error) || find_versions (entry->folder, files, error))
        wm_repository_free (&files);
    return files;
}

wm_model_files_t *wm_repository_override (const wm_model_entry_t *entry, const wm_override_t *given,
                                          wm_error_t *error)
{
    wm_model_files_t *files = zmalloc (sizeof *files);
    const char *folder = entry->folder;
    files->config = wm_override_config (given->config, error);
    bool is_good = files->config;
    if (is_good && given->n_file) {
        wm_models_t *models = entry->models;
        files->loaded =
            wm_loaded_new (models->state, models->n_folder++, &models->loaded, given, error);
        is_good = files->loaded;
        folder = is_good ? files->loaded->path : "";
    }
    is_good =
        is_good && !check_config (entry, "the parameter 'config'", folder, files->config, error);
    if (is_good && entry->given && !files->loaded) {
        files->n_version = entry->given->n_version;
        memcpy (files->number, entry->given->number, sizeof files->number);
        memcpy (files->file, entry->given->file, sizeof files->file);
    } else
        is_good = is_good && !find_versions (folder, files, error);
    if (!is_good)
        wm_repository_free (&files);
    return files;
}
