/* killer.c - an engine for tests that dies on chosen hits: WM_OPENVINO_SO=.../wm_killer.so,
   --engine openvino; or WM_CUDA_SO and cuda.

   It is the exact-sparse engine, signature and bits, but for the hits named in the file that
   WM_KILLER names: lines "wire column how", how one of segv, abort, kill, exit, hang, fault. Wire
   and column are the cell of the hit as it travels in a batch. To the file that WM_KILLER_NOTES
   names it adds which GPU it was given; its start takes WM_KILLER_OPEN_MS longer, a batch takes
   WM_KILLER_SLOW_MS longer, from its fourth on as long as the file WM_KILLER_GATE is there, and
   kills it in any case as WM_KILLER_ALWAYS says. Of ten batches it refuses the first
   WM_KILLER_REFUSES, and lives. Of WM_KILLER_LIES batches the last has a score that is off by
   0.01. The file that WM_KILLER_START names, where it is there, has what its start does: refuse,
   lie (about known answers), or one of the above.  */
#include "kernels/wm_backend_private.h"

#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { BAD_MAX = 4096 };
static struct {
    unsigned wire;
    int col;
    char how[8];
} bad[BAD_MAX];
static int n_bad, slow_ms, refuses, lies;
static bool lies_always;
static atomic_int n_batch, n_scored;
static const char *always; /* every batch kills it */
static const char *gate;

static wm_fault_t die (const char *how, wm_error_t *error)
{
    if (strcmp (how, "fault") == 0)
        return wm_fault (error, WM_EHOST, "CUDA error 700: an illegal memory access");
    if (strcmp (how, "segv") == 0)
        raise (SIGSEGV);
    if (strcmp (how, "abort") == 0)
        abort ();
    if (strcmp (how, "kill") == 0)
        raise (SIGKILL);
    while (strcmp (how, "hang") == 0)
        pause ();
    _exit (99);
}

/* What its start does. false with *error: it cannot run here.  */
static bool may_start (wm_error_t *error)
{
    const char *path = getenv ("WM_KILLER_START");
    char how[8] = "";
    FILE *file = path ? fopen (path, "re") : NULL;
    const bool is_told = file && fscanf (file, "%7s", how) == 1;
    if (file)
        fclose (file);
    lies_always = strcmp (how, "lie") == 0;
    if (!is_told || lies_always)
        return true;
    if (strcmp (how, "refuse") == 0)
        return wm_fault (error, WM_EHOST, "the killer has no driver here"), false;
    return die (how, error) == WM_OK;
}

static void *killer_open (const wm_model_t *model, const wm_spec_t *spec,
                          const wm_device_config_t *config, char signature[64], wm_error_t *error)
{
    const char *name = getenv ("WM_KILLER"), *notes = getenv ("WM_KILLER_NOTES");
    const char *gpu = getenv ("CUDA_VISIBLE_DEVICES"), *order = getenv ("CUDA_DEVICE_ORDER");
    slow_ms = getenv ("WM_KILLER_SLOW_MS") ? atoi (getenv ("WM_KILLER_SLOW_MS")) : 0;
    always = getenv ("WM_KILLER_ALWAYS");
    gate = getenv ("WM_KILLER_GATE");
    refuses = getenv ("WM_KILLER_REFUSES") ? atoi (getenv ("WM_KILLER_REFUSES")) : 0;
    lies = getenv ("WM_KILLER_LIES") ? atoi (getenv ("WM_KILLER_LIES")) : 0;
    if (getenv ("WM_KILLER_OPEN_MS"))
        usleep (1000 * (unsigned) atoi (getenv ("WM_KILLER_OPEN_MS")));
    FILE *note = notes ? fopen (notes, "ae") : NULL;
    if (note) {
        fprintf (note, "%s%s\n", gpu ? gpu : "none",
                 order && strcmp (order, "PCI_BUS_ID") == 0 ? "" : " in CUDA's order");
        fclose (note);
    }
    FILE *file = name ? fopen (name, "re") : NULL;
    for (n_bad = 0; file && n_bad < BAD_MAX; n_bad++)
        if (fscanf (file, "%u %d %7s", &bad[n_bad].wire, &bad[n_bad].col, bad[n_bad].how) != 3)
            break;
    if (file)
        fclose (file);
    return may_start (error) ? wm_backend_sparse.open (model, spec, config, signature, error)
                             : NULL;
}

static wm_fault_t killer_score (void *engine, const wm_batch_t *batch, uint8_t *status,
                                float *scores, _Atomic uint64_t *progress, wm_error_t *error)
{
    static atomic_int n_passed;
    usleep (1000 * (unsigned) slow_ms);
    while (gate && n_passed >= 3 && access (gate, F_OK) == 0)
        usleep (10000);
    n_passed++;
    if (batch->kind != WM_BATCH_PATCHES && n_batch++ % 10 < refuses)
        return wm_fault (error, WM_EBATCH, "this machine cannot");
    if (always && batch->kind != WM_BATCH_PATCHES)
        return die (always, error);
    for (uint32_t i = 0; batch->kind != WM_BATCH_PATCHES && i < batch->n_hit; i++)
        for (int k = 0; k < n_bad; k++)
            if (batch->hit_wire[i] == bad[k].wire && batch->hit_col[i] == bad[k].col)
                return die (bad[k].how, error);
    const wm_fault_t fault =
        wm_backend_sparse.score (engine, batch, status, scores, progress, error);
    if (lies && batch->kind != WM_BATCH_PATCHES && ++n_scored % lies == 0)
        scores[0] += 0.01f;
    if (lies_always)
        scores[0] += 0.01f;
    return fault;
}

static uint32_t killer_hands (const void *engine)
{
    return wm_backend_sparse.hands (engine);
}

static void killer_close (void *engine)
{
    wm_backend_sparse.close (engine);
}

#define SHOWN __attribute__ ((visibility ("default")))
SHOWN extern const wm_backend_t wm_backend_cuda;
SHOWN const wm_backend_t wm_backend_openvino = {
    .open = killer_open, .close = killer_close, .score = killer_score, .hands = killer_hands
};
SHOWN const wm_backend_t wm_backend_cuda = {
    .open = killer_open, .close = killer_close, .score = killer_score, .hands = killer_hands
};
