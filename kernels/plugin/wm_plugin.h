/* wm_plugin.h - an engine that is a shared object of its user's: opened, described, made a model
   of.

   A campaign by a plug-in has a model, as any: a .wmm with the plug-in's SHA-256, what it describes
   and the file that it takes, if one was given. Workers fetch this model as any other, but no
   plug-in: they open the file that their operator names, if it has this SHA-256.

   A plug-in's code runs in the process that calls, so only in one that may end at any time: the
   engine process, or one that is forked for a description. Thread: one, but for calls of score.  */
#ifndef WM_PLUGIN_H
#define WM_PLUGIN_H

#include "gpuworker/wiremill_engine.h"
#include "kernels/model/wm_model.h"

#include <fenv.h>
#include <locale.h>
#include <sys/stat.h>
#include <sys/types.h>

typedef struct {
    const wiremill_engine_t *table;
    wiremill_engine_config_t config;
    char sha256[65], model_path[64];
    int model;          /* a memory file with --model; -1: none */
    int file;           /* the shared object; -1: none */
    struct stat loaded; /* ... as it was when it was loaded */
    void *engine;
    locale_t locale;
    bool changes_modes; /* when it is loaded */
} wm_plugin_t;

typedef struct {
    uint64_t used;    /* all together */
    uint64_t largest; /* by one of them, as RLIMIT_DATA counts */
} wm_plugin_memory_t;

/* What a plug-in may change in a thread: put back after each call.  */
typedef struct {
    fenv_t modes;
    locale_t locale;
} wm_plugin_guard_t;

/* Returns whether --model names a plug-in: by its name, .so, then by its first bytes. A model of
   another name is not opened for this.  */
bool wm_plugin_is (const char *path);

/* Computes a plug-in's own SHA-256, and the identity of the model that it and the file that it
   takes (NULL: none) are: the same, or the digest of both.  */
wm_fault_t wm_plugin_identify (const char *path, const char *data, char own[65], char hex[65],
                               wm_error_t *error);

/* Writes the .wmm of them. The plug-in describes itself in a process of its own. WM_EUSAGE: a file
   cannot be read; WM_EBATCH: it is no plug-in, or breaks the contract. `why`: one line.  */
wm_fault_t wm_plugin_import (const char *path, const char *data, const char *wmm_path,
                             char why[480], wm_error_t *error);

/* Opens the file in this process, or that of an engine's name; `data` is lent. sha256: it must have
   this one; NULL: any. WM_EPEER: another file; WM_EHOST: it cannot be read, or the linker refuses
   it; WM_EBATCH: it is no plug-in, or of another version. wm_plugin_clear in every case. Children
   that the process forks from now on end with it.  */
wm_fault_t wm_plugin_load (wm_plugin_t *self, const char *path, const char *sha256,
                           const void *data, size_t bytes, uint32_t threads, wm_error_t *error);

/* Fills in the description, and the tensors as ports. WM_EBATCH: it refuses --model, or what it
   describes is impossible.  */
wm_fault_t wm_plugin_describe (wm_plugin_t *self, wiremill_engine_description_t *description,
                               wm_port_t input[WM_MODEL_PORTS_MAX],
                               wm_port_t output[WM_MODEL_PORTS_MAX], wm_error_t *error);

/* Opens the engine. WM_EHOST.  */
wm_fault_t wm_plugin_open (wm_plugin_t *self, wm_error_t *error);

/* Scores n rows. WM_EHOST: it returned an error; WM_EPEER: its file was written to.  */
wm_fault_t wm_plugin_score (const wm_plugin_t *self, uint32_t n, const float *in, float *out,
                            wm_error_t *error);

/* Returns the bytes of memory that this process and its children have for themselves.  */
wm_plugin_memory_t wm_plugin_memory (void);

/* Returns the rounding, and whether denormals are kept, of this thread: bits that are compared.  */
unsigned wm_plugin_modes (void);

/* Reads the answer, of at most PIPE_BUF bytes, of the process that runs a plug-in, and ends it: one
   that stops, or blocks its alarm of patience_s, is killed. false: *status has how it ended,
   as by SIGALRM if it was late.  */
bool wm_plugin_hear (int end, pid_t pid, unsigned patience_s, void *answer, size_t bytes,
                     int *status);

/* Closes the engine. The shared object stays: its threads may outlive it.  */
void wm_plugin_clear (wm_plugin_t *self);

#endif
