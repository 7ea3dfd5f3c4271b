/* verbs.h - what each verb brings to the table in main.c: its options and its function. */
#ifndef VERBS_H
#define VERBS_H

#include "schema/base/wm_option.h"

extern const wm_option_t run_options[], broker_options[], produce_options[], work_options[],
    status_options[], drain_options[], import_options[], model_options[], doctor_options[],
    held_options[], why_options[], kick_options[], rebuild_options[], pause_options[],
    resume_options[], verify_options[], bench_options[];

/* Each returns an exit code.  */
int run_main (const wm_args_t *args);
int broker_main (const wm_args_t *args);
int produce_main (const wm_args_t *args);
int work_main (const wm_args_t *args);
int status_main (const wm_args_t *args);
int held_main (const wm_args_t *args);
int why_main (const wm_args_t *args);
int kick_main (const wm_args_t *args);
int pause_main (const wm_args_t *args);
int resume_main (const wm_args_t *args);
int drain_main (const wm_args_t *args);
int import_main (const wm_args_t *args);
int model_main (const wm_args_t *args);
int rebuild_main (const wm_args_t *args);
int doctor_main (const wm_args_t *args);
int verify_main (const wm_args_t *args);
int bench_main (const wm_args_t *args);

/* `wiremill synth ...` is `wiremill-producer synth ...`, likewise cut. */
int pass_to_producer (int argc, char **argv);

/* Hands --isa on to the programs that are started from here.  */
void take_isa (const wm_args_t *args);

/* The engines by name (kernels/wm_device.h).  */
#define ENGINE_WORDS "auto|sparse|openvino|cuda|cudnn|reference"

/* The options that pin a campaign, shared by run and broker.  */
/* clang-format off */
#define CAMPAIGN_OPTIONS \
    {.name = "model", .letter = 'm', .value = "FILE", .task = "what is scored, and how", \
     .help = "ONNX file, or .wmm of wiremill import"}, \
    {.name = "spec", .letter = 's', .value = "FILE|PRESET", .fallback = "protodune-2021", \
     .help = "patch specification"}, \
    {.name = "precision", .value = "fp32|split|fast", .one_of = 1, .fallback = "fp32", \
     .help = "fp32: the same bits on every x86-64; split: sums of 16-bit products on matrix units; " \
             "fast: 16 bits. split and fast are measured on the first hits before they are taken"}, \
    {.name = "max-error", .value = "X", \
     .help = "what a score may be off in split (1e-5) or fast (5e-3), relative above 1"}, \
    {.name = "mixed", \
     .help = "admit workers that score by another engine than others of their kind of machine"}, \
    {.name = "batch-hits", .value = "N", .fallback = "4096", .least = 1, .most = 1 << 20, \
     .help = "most hits a batch"}, \
    {.name = "output", .letter = 'o', .value = "DIR", .task = "where", \
     .help = "folder of the <stem>.scores.h5"}, \
    {.name = "campaign", .letter = 'c', .value = "DIR", \
     .help = "folder of the campaign, on a local disk (default: OUTPUT/.wiremill)"}

#define ISA_OPTION \
    {.name = "isa", .value = "NAME", \
     .help = "instruction set of the sparse engine, as wiremill doctor names them, also amx/bf16 " \
             "(default: by rule)"}

#define RETRY_OPTION \
    {.name = "retry-held", .help = "score anew what is held, or changed since it was scored"}

#define INPUT_OPTIONS \
    {.name = "input", .letter = 'i', .value = "GLOB", .task = "inputs", \
     .help = "files to score; may be repeated"}, \
    {.name = "input-list", .value = "FILE", .help = "one path a line; - is standard input"}
/* clang-format on */

#endif
