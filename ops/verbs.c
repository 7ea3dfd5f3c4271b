/* verbs.c - verbs that prepare something and become another program, or do one small thing.  */

#include "ops/verbs.h"
#include "kernels/import/wm_import.h"
#include "kernels/model/wm_model.h"
#include "kernels/plugin/wm_plugin.h"
#include "ops/ask/wm_ask.h"
#include "ops/campaign/wm_clients.h"
#include "ops/campaign/wm_import_cache.h"
#include "ops/campaign/wm_setup.h"
#include "ops/process/wm_beside.h"
#include "ops/process/wm_command.h"
#include "ops/process/wm_complain.h"
#include "schema/base/wm_address.h"
#include "schema/base/wm_text.h"
#include "schema/wm_limits.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define WORDS_MAX 40

/* ---- broker ---------------------------------------------------------------------------------- */

/* clang-format off */
static const wm_option_t broker_options[] = {
    CAMPAIGN_OPTIONS,
    {.name = "listen", .letter = 'l', .value = "ENDPOINT", .fallback = "tcp://127.0.0.1:5555",
     .task = "listeners",
     .help = "workers' port; producers +1, operators +2 (ipc: .w .p .o). HOST may be *, a name or "
             "an interface, PORT a range 5500-5600 or 0, to take free ones; several with commas"},
    {.name = "advertise", .value = "ENDPOINT",
     .help = "what other machines connect to, behind a port forward or NAT: tcp://HOST:PORT (and "
             "+1, +2), or three ports tcp://HOST:W/P/O; several with commas"},
    {.name = "keys", .help = "ask for keys on loopback too (on other addresses it always does)"},
    {.name = "insecure", .help = "ask for no keys and encrypt nothing, on any address"},
    {.name = "clients", .task = "for programs that wait for scores",
     .help = "serve libwiremill and wiremill.Client instead of files: scores go to who sent the "
             "patches, and nothing of them is kept. Needs --campaign, has no --output"},
    {.name = "budget", .value = "BYTES", .least = WM_BUDGET_BYTES_LEAST, .most = LONG_MAX,
     .help = "payloads held in memory (default: a quarter of what it may use, at most 1 GiB)"},
    NOTIFY_OPTIONS,
    {.name = NULL},
};

static const char broker_text[] =
    "  wiremill broker  --model m.onnx --output out/ --listen tcp://127.0.0.1:5555\n"
    "  wiremill produce --broker tcp://127.0.0.1:5555 --input 'data/*.h5'\n"
    "  wiremill work    --broker tcp://127.0.0.1:5555\n\n"
    "For programs that wait for scores (libwiremill, wiremill.Client in Python):\n"
    "  wiremill broker --clients --model m.onnx --campaign scores.wiremill\n\n"
    "For other machines: --listen tcp://*:5555. Its peers need keys; the broker makes them, and\n"
    "prints the lines to type. `wiremill run` starts these three on one machine.\n"
    WM_IMPORT_CACHE_HELP;

static int broker_main (const wm_args_t *args);
const wm_verb_t wm_verb_broker = {
    .name = "broker", .task = SPREAD_TASK,
    .summary = "hold a campaign: hand out work, keep results", .text = broker_text,
    .common = "model output campaign spec precision planes channels listen keys insecure clients "
              "on-done",
    .options = broker_options, .run = broker_main };
/* clang-format on */

/* Looks every host up before anything is made.  */
static wm_fault_t check_hosts (const wm_args_t *args, wm_error_t *error)
{
    wm_address_t list[WM_ADDRESSES_MAX];
    char host[WM_HOSTS_MAX][WM_HOST_BYTES];
    const int n = wm_address_parse (list, wm_args_text (args, "listen"), WM_ADDRESS_LISTEN, error);
    for (int i = 0; i < n; i++)
        if (list[i].scheme == WM_ADDRESS_TCP &&
            !wm_address_resolve (&list[i], WM_ADDRESS_LISTEN, host, error))
            return WM_EUSAGE;
    return n ? WM_OK : WM_EUSAGE;
}

static int broker_main (const wm_args_t *args)
{
    static wm_setup_t setup;
    wm_error_t error;
    if (!wm_args_text (args, "model"))
        return wm_args_refuse (args, "--model FILE is missing");
    const bool clients = wm_args_given (args, "clients");
    if (clients && wm_clients_refused (args))
        return WM_EXIT_USAGE;
    if (clients && !wm_args_text (args, "campaign"))
        return wm_args_refuse (args, "--clients needs --campaign DIR, a folder on a local disk");
    if (!clients && !wm_args_text (args, "output"))
        return wm_args_refuse (args, "--output DIR is missing");
    if (wm_share_refused (args))
        return WM_EXIT_USAGE;
    if (check_hosts (args, &error))
        return wm_args_refuse (args, "--listen %s", error.text);
    wm_choices_t choices = wm_setup_choices (args);
    choices.for_clients = clients;
    char command[32];
    if (wm_setup (&setup, &choices, &error) ||
        wm_command_keep (args, setup.campaign, wm_args_text (args, "listen"), command, &error))
        return wm_complain ("broker", &error);
    const char *argv[WORDS_MAX] = { NULL };
    unsigned n = wm_setup_broker (&setup, wm_args_text (args, "listen"), command, argv);
    argv[n++] = "--advise";
    argv[n++] = program_invocation_name;
    static const char *const handed_on[][2] = { { "budget", "--budget" },
                                                { "advertise", "--advertise" },
                                                { "on-done", "--on-done" },
                                                { "on-held", "--on-held" },
                                                { "on-pause", "--on-pause" } };
    for (size_t i = 0; i < sizeof handed_on / sizeof *handed_on; i++)
        if (wm_args_text (args, handed_on[i][0])) {
            argv[n++] = handed_on[i][1];
            argv[n++] = wm_args_text (args, handed_on[i][0]);
        }
    if (wm_args_given (args, "keys"))
        argv[n++] = "--keys";
    if (wm_args_given (args, "insecure"))
        argv[n++] = "--insecure";
    if (wm_args_given (args, "mixed"))
        argv[n++] = "--mixed";
    argv[n++] = "--check-share";
    argv[n++] = wm_args_text (args, "check-share");
    fprintf (stderr, "wiremill %s: campaign %s, spec %s, model %.12s (%s)\n", WM_VERSION,
             setup.campaign, setup.spec_name, setup.pins.model, setup.why);
    fprintf (stderr, "wiremill broker: %s\n", setup.columns);
    return wm_beside_exec (argv[0], (char *const *) (uintptr_t) argv);
}

/* ---- synth, cut, show, serve, gateway -------------------------------------------------------- */

static int pass_to (const char *program, int argc, char **argv)
{
    char **argv_out = calloc ((size_t) argc + 2, sizeof *argv_out);
    if (!argv_out)
        return WM_EXIT_FAILURE;
    argv_out[0] = (char *) (uintptr_t) program; /* execv changes nothing */
    memcpy (argv_out + 1, argv, (size_t) argc * sizeof *argv_out);
    return wm_beside_exec (argv_out[0], argv_out);
}

/* `wiremill synth ...` is `wiremill-producer synth ...`, likewise cut, show, compare, export.  */
static int pass_to_producer (int argc, char **argv)
{
    return pass_to ("wiremill-producer", argc, argv);
}

static int pass_to_serve (int argc, char **argv)
{
    return pass_to ("wiremill-serve", argc, argv);
}

static int pass_to_gateway (int argc, char **argv)
{
    return pass_to ("wiremill-gateway", argc, argv);
}

/* clang-format off */
const wm_verb_t wm_verb_synth = {
    .name = "synth", .task = PREPARE_TASK, .summary = "write seeded synthetic events",
    .pass = pass_to_producer, .pass_to = "wiremill-producer" };
const wm_verb_t wm_verb_cut = {
    .name = "cut", .task = PREPARE_TASK,
    .summary = "cut patches to a .npy file, to train on or to inspect",
    .pass = pass_to_producer, .pass_to = "wiremill-producer" };
const wm_verb_t wm_verb_serve = {
    .name = "serve", .task = WATCH_TASK,
    .summary = "a live page of the campaign and numbers for Prometheus, by HTTP",
    .pass = pass_to_serve, .pass_to = "wiremill-serve" };
const wm_verb_t wm_verb_gateway = {
    .name = "gateway", .task = SPREAD_TASK,
    .summary = "answer clients of Triton, over gRPC and HTTP",
    .pass = pass_to_gateway, .pass_to = "wiremill-gateway" };
const wm_verb_t wm_verb_show = {
    .name = "show", .task = LOOK_TASK,
    .summary = "print the first rows of an output, or draw its events",
    .pass = pass_to_producer, .pass_to = "wiremill-producer" };
const wm_verb_t wm_verb_compare = {
    .name = "compare", .task = LOOK_TASK,
    .summary = "compare the scores of two outputs or campaigns, hit by hit",
    .pass = pass_to_producer, .pass_to = "wiremill-producer" };
const wm_verb_t wm_verb_export = {
    .name = "export", .task = LOOK_TASK,
    .summary = "write the rows of outputs as CSV, NumPy arrays or Parquet",
    .pass = pass_to_producer, .pass_to = "wiremill-producer" };
const wm_verb_t wm_verb_truth = {
    .name = "truth", .task = LOOK_TASK,
    .summary = "compare scores with the truth of synthetic events",
    .pass = pass_to_producer, .pass_to = "wiremill-producer" };
/* clang-format on */

/* ---- rebuild --------------------------------------------------------------------------------- */

/* clang-format off */
static const wm_option_t rebuild_options[] = {
    {.name = "campaign", .letter = 'c', .value = "DIR",
     .path = WM_PATH_FOLDER, .task = "which campaign",
     .help = "its folder, or the folder of its output (default: here)"},
    {.name = "output", .letter = 'o', .value = "DIR", .path = WM_PATH_PRESENT,
     .help = "where the outputs are now, if they were moved"},
    {.name = "dry-run", .letter = 'n', .task = "how", .help = "only report what is wrong"},
    {.name = NULL},
};

static const char rebuild_text[] =
    "  wiremill rebuild --dry-run out/\n\n"
    "Reads the whole journal, every result and every byte of the outputs (their digests were\n"
    "stored when they were written). A ledger that is missing, damaged or out of date is made\n"
    "again; the next run makes an output again that is missing or was changed, and keeps the\n"
    "changed file as NAME.damaged-1. Works also on a copy of a campaign that was running, and\n"
    "with --output on outputs that were moved or copied. No broker may run. Exit 1 of a dry run:\n"
    "something is wrong.\n";

static int rebuild_main (const wm_args_t *args);
const wm_verb_t wm_verb_rebuild = {
    .name = "rebuild", .task = CARE_TASK, .rest = "[DIR]",
    .summary = "check journal, ledger and outputs, and repair them", .text = rebuild_text,
    .options = rebuild_options, .run = rebuild_main };
/* clang-format on */

static int rebuild_main (const wm_args_t *args)
{
    char campaign[4096], endpoint[256], output[PATH_MAX];
    wm_error_t error;
    const char *folder = wm_args_text (args, "campaign"), *moved = wm_args_text (args, "output");
    if (wm_ask_at (NULL, folder ? folder : wm_args_rest (args, 0), endpoint, campaign, &error))
        return wm_complain ("rebuild", &error);
    const char *argv[WORDS_MAX] = { "wiremill-broker", "--rebuild", "--campaign", campaign };
    int n = 4;
    if (moved && !realpath (moved, output)) {
        wm_fault (&error, WM_EUSAGE, "--output %s: %s", moved, strerror (errno));
        return wm_complain ("rebuild", &error);
    }
    if (moved) {
        argv[n++] = "--output";
        argv[n++] = output;
    }
    if (wm_args_given (args, "dry-run"))
        argv[n++] = "--dry-run";
    return wm_beside_exec (argv[0], (char *const *) (uintptr_t) argv);
}

/* ---- import, model --------------------------------------------------------------------------- */

/* clang-format off */
static const wm_option_t import_options[] = {
    {.name = "output", .letter = 'o', .value = "FILE",
     .path = WM_PATH_WRITTEN, .writes = &wm_made_wmm, .is_needed = true,
     .help = "where the .wmm goes"},
    WM_OPTION_FORCE,
    {.name = "outputs", .value = "NAMES",
     .help = "which outputs, in this order, with commas between (default: all)"},
    {.name = "whole",
     .help = "inputs and outputs have no batch dimension: one patch is all of them"},
    {.name = "general", .help = "for the general engine, even if the sparse one would take it"},
    {.name = "accept-differences",
     .help = "OpenVINO scores it, also where it computes a node otherwise than ONNX defines"},
    {.name = "engine", .letter = 'e', .value = "torch|FILE", .path = WM_PATH_READ, .one_of = true,
     .help = "the plug-in that scores MODEL, which is then whatever the plug-in takes"},
    {.name = "exact-types",
     .help = "for wiremill gateway: integers of 32 and 64 bits and FP64 of inputs and outputs stay "
             "as they are, and are not float32"},
    {.name = "row-bytes", .value = "BYTES", .least = WM_RAGGED_BYTES,
     .most = 4l * (WM_RAGGED_VALUES_MAX + 1),
     .help = "for wiremill gateway, where dimensions are free: a row has so many bytes at most, as "
             "float32 (default 12M); every process takes memory for such rows"},
    {.name = NULL},
};

static int import_main (const wm_args_t *args);
const wm_verb_t wm_verb_import = {
    .name = "import", .task = PREPARE_TASK, .rest = "MODEL",
    .summary = "turn an ONNX model or frozen .pb into a .wmm; name its engine",
    .text = "  wiremill import model.onnx --output model.wmm\n"
            "  wiremill import ./hits.so --output hits.wmm\n",
    .options = import_options, .run = import_main };
/* clang-format on */

static void print_port (const char *what, const wm_port_t *port)
{
    printf ("  %s '%s'", what, port->name);
    for (uint32_t d = 0; d < port->n_dim; d++)
        printf (port->dim[d] ? "%s%u" : "%sany", d ? " x " : ": ", port->dim[d]);
    printf ("\n");
}

static int import_main (const wm_args_t *args)
{
    wm_error_t error;
    char why[480] = "", place[PATH_MAX];
    const char *from = wm_setup_model_path (wm_args_rest (args, 0)),
               *to = wm_args_place (args, "output", place);
    if (!from || wm_args_rest (args, 1))
        return wm_args_refuse (args, from ? "name one model at a time" : "name the model to read");
    if (wm_text_ends (from, ".wmm"))
        return wm_args_refuse (args, "%s is imported already: give it by --model", from);
    if (!wm_text_ends (to, ".wmm"))
        return wm_args_refuse (args,
                               "--output %s: give a name that ends in .wmm, by which --model knows "
                               "that it is imported",
                               to);
    const char *plugin = wm_args_text (args, "engine");
    const bool alone = !plugin && wm_plugin_is (from);
    if ((plugin || alone) && (wm_args_text (args, "outputs") || wm_args_given (args, "whole") ||
                   wm_args_given (args, "general") || wm_args_given (args, "accept-differences") ||
                   wm_args_given (args, "exact-types") || wm_args_given (args, "row-bytes")))
        return wm_args_refuse (args, "a plug-in reads its model itself: leave the others out");
    const uint32_t row_values = wm_args_given (args, "row-bytes")
                                    ? (uint32_t) wm_args_number (args, "row-bytes") / 4 - 1
                                    : 0;
    const wm_import_choices_t choices = { .outputs = wm_args_text (args, "outputs"),
                                          .whole = wm_args_given (args, "whole"),
                                          .general = wm_args_given (args, "general"),
                                          .accept = wm_args_given (args, "accept-differences"),
                                          .exact = wm_args_given (args, "exact-types"),
                                          .row_values = row_values };
    const wm_fault_t fault = plugin  ? wm_plugin_import (plugin, from, to, why, &error)
                             : alone ? wm_plugin_import (from, NULL, to, why, &error)
                             : wm_setup_model (from, &error)
                                 ? error.fault
                                 : wm_import (from, &choices, to, why, &error);
    if (fault)
        return wm_complain ("import", &error);
    wm_model_t *model = wm_model_open (to, &error);
    if (!model)
        return wm_complain ("import", &error);
    const float *inputs, *scores;
    printf ("%s: %s\n  model %s, %u values in, %u scores out, %u known answers\n", to,
            wm_model_why (model), wm_model_sha256 (model), wm_model_n_value (model),
            wm_model_n_output (model), wm_model_known (model, &inputs, &scores));
    for (uint32_t i = 0; i < wm_model_n_input (model); i++)
        print_port ("input", wm_model_input (model, i));
    for (uint32_t i = 0; i < wm_model_n_output_port (model); i++)
        print_port ("output", wm_model_output (model, i));
    wm_model_destroy (&model);
    return WM_EXIT_OK;
}

/* clang-format off */
static const wm_option_t model_options[] = {
    {.name = "output", .letter = 'o', .value = "FILE",
     .path = WM_PATH_WRITTEN, .writes = &wm_made_onnx, .is_needed = true,
     .help = "where the ONNX file goes"},
    WM_OPTION_FORCE,
    {.name = "seed", .value = "N", .fallback = "1", .least = 0, .most = 1L << 62,
     .help = "the same seed gives the same bytes"},
    {.name = "wire", .value = "N", .fallback = "48", .least = 5, .most = 256,
     .help = "patch size in wires"},
    {.name = "bin", .value = "N", .fallback = "48", .least = 5, .most = 256,
     .help = "patch size in drift bins"},
    {.name = NULL},
};

static int model_main (const wm_args_t *args);
const wm_verb_t wm_verb_model = {
    .name = "model", .task = PREPARE_TASK, .rest = "new emtrkmichel",
    .summary = "write a seeded network as ONNX",
    .text = "  wiremill model new emtrkmichel --output model.onnx\n"
            "  wiremill model new emtrkmichel --wire 32 --bin 32 --output small.onnx\n",
    .options = model_options, .run = model_main };
/* clang-format on */

static int model_main (const wm_args_t *args)
{
    wm_error_t error;
    const char *what = wm_args_rest (args, 0), *kind = what ? wm_args_rest (args, 1) : NULL;
    char place[PATH_MAX];
    const char *to = wm_args_place (args, "output", place);
    if (!what || strcmp (what, "new") != 0 || !kind || strcmp (kind, "emtrkmichel") != 0)
        return wm_args_refuse (args, "it writes one kind of network; type wiremill model new "
                                     "emtrkmichel -o MODEL.onnx");
    if (wm_model_new_emtrkmichel ((uint64_t) wm_args_number (args, "seed"),
                                  (uint32_t) wm_args_number (args, "wire"),
                                  (uint32_t) wm_args_number (args, "bin"), to, &error))
        return wm_complain ("model", &error);
    return WM_EXIT_OK;
}
