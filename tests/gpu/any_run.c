/* any_run.c - any CNN through the CUDA engine's steps on a machine without a GPU.

     any_run MODEL.onnx IN OUT [ROWS [fp16]]  float32 patches of IN scored by the stand-in, ROWS
                                              at a time, in strict float32 or half
     any_run plans MODEL.onnx [ROWS]    cuDNN's plans for an H200, an A100 and a T4: a line each

   tests/golden/anygpu.t compares OUT with ONNX Runtime. Exit code 1, and why, if the model cannot
   be run, 75 where this machine's cuDNN cannot make plans.  */
#include "kernels/cudnn/wm_any.h"
#include "kernels/gpu/wm_gpu_cudnn.h"
#include "tests/gpu/gpu_property.h"
#include "tests/standin/wm_gpu_fake.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int complain (const char *text)
{
    fprintf (stderr, "any_run: %s\n", text);
    return 1;
}

static float *read_all (const char *path, size_t *n)
{
    FILE *file = fopen (path, "rb");
    if (!file)
        return NULL;
    fseek (file, 0, SEEK_END);
    *n = (size_t) ftell (file) / sizeof (float);
    rewind (file);
    float *values = malloc (*n * sizeof *values + 1);
    if (values && fread (values, sizeof *values, *n, file) != *n)
        *n = 0;
    fclose (file);
    return values;
}

static int run (const wm_any_net_t *net, const char *in, const char *out, uint32_t rows,
                wm_gpu_precision_t precision)
{
    wm_error_t error = { 0 };
    size_t n = 0;
    float *patches = read_all (in, &n);
    const uint32_t n_value = net->size[WM_ANY_INPUT], n_output = net->size[WM_ANY_SCORES];
    wm_batch_t batch = { .kind = WM_BATCH_PATCHES,
                         .n_hit = (uint32_t) (n / n_value),
                         .patch_values = n_value,
                         .patch = patches };
    float *scores = calloc ((size_t) batch.n_hit * n_output + 1, sizeof *scores);
    wm_cuda_t *any = wm_any_new (&wm_gpu_stand_in, net, NULL, precision, rows, &error);
    int code = 1;
    if (!patches || !scores || !any || wm_cuda_score (any, &batch, scores, NULL, &error))
        complain (*error.text ? error.text : "no memory, or no patches");
    else {
        printf ("%s %s\n", wm_cuda_signature (any), wm_cuda_choice (any));
        FILE *file = fopen (out, "wb");
        code = !file ||
               fwrite (scores, n_output * sizeof *scores, batch.n_hit, file) != batch.n_hit ||
               fclose (file);
    }
    wm_cuda_destroy (&any);
    free (patches);
    free (scores);
    return wm_gpu_fake.broken_guards ? complain ("something was written beside its buffer") : code;
}

/* All convolutions for one GPU and precision, in a line.  */
static int plans_for (const gpu_t *gpu, const wm_any_net_t *net, wm_gpu_precision_t precision,
                      uint32_t rows)
{
    static const char *const name[] = { "fp32", "tf32", "fp16" };
    wm_gpu_text_t text;
    uint32_t n = 0, tensor_core = 0;
    size_t workspace = 0;
    wm_cudnn_t *cudnn = wm_cudnn_new (gpu_property (gpu), 0, &text);
    if (!cudnn) {
        complain (text);
        return 75;
    }
    for (uint32_t s = 0; s < net->n_step; s++) {
        wm_gpu_anyconv_t conv = net->step[s].conv;
        wm_gpu_choice_t choice = { 0 };
        wm_conv_plan_t *plan = NULL;
        if (net->step[s].kind != WM_ANY_CONV)
            continue;
        conv.rows = rows, conv.precision = precision;
        text = wm_cudnn_anyconv_new (cudnn, &conv, 0, &plan, &choice);
        if (!plan) {
            fprintf (stderr, "any_run: %s has no plan for %s: %s\n", gpu->name, net->step[s].name,
                     text ? text : "none offered");
            wm_cudnn_destroy (&cudnn);
            return 1;
        }
        n++, tensor_core += choice.tensor_core;
        workspace = choice.workspace_bytes > workspace ? choice.workspace_bytes : workspace;
        wm_cudnn_conv_destroy (cudnn, &plan);
    }
    printf ("%-21s %s: %u convolutions, %u on tensor cores, workspace %zu MiB; %u steps\n",
            gpu->name, name[precision], n, tensor_core, workspace >> 20, net->n_step);
    wm_cudnn_destroy (&cudnn);
    return 0;
}

int main (int argc, char **argv)
{
    const bool plans = argc > 2 && strcmp (argv[1], "plans") == 0;
    wm_error_t error = { 0 };
    int code = 0;
    if (argc < (plans ? 3 : 4))
        return complain ("usage: any_run MODEL IN OUT [ROWS] | plans MODEL [ROWS]") + 1;
    wm_any_net_t *net = wm_any_net_new (argv[plans ? 2 : 1], NULL, 0, &error);
    if (!net)
        return complain (error.text);
    const uint32_t rows = argc > (plans ? 3 : 4) ? (uint32_t) atoi (argv[plans ? 3 : 4]) : 2;
    if (!plans)
        code = run (net, argv[2], argv[3], rows, argc > 5 ? WM_GPU_F16 : WM_GPU_F32);
    for (size_t g = 0; plans && g < GPUS && !code; g++)
        for (int p = WM_GPU_F32; p <= WM_GPU_F16 && !code; p++)
            code = plans_for (&gpus[g], net, (wm_gpu_precision_t) p, rows);
    wm_any_net_destroy (&net);
    return code;
}
