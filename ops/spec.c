/* spec.c - `wiremill spec`: writes a patch specification to begin with, or checks one.  */
#include "kernels/patch/wm_spec.h"
#include "ops/campaign/wm_setup.h"
#include "ops/process/wm_complain.h"
#include "ops/verbs.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* clang-format off */
static const wm_option_t options[] = {
    {.name = "print", .letter = 'p', .value = "PRESET", .task = "one of",
     .help = "print protodune-2021, dunefd-44x48 or waveform-200 with comments, as a file for "
             "--spec"},
    {.name = "check", .letter = 'c', .value = "FILE", .path = WM_PATH_READ,
     .text = "a specification in YAML", .may_lack = true,
     .help = "print how wiremill understands a file, in units, or its first mistake"},
    {.name = NULL},
};

static const char text[] =
    "  wiremill spec --print protodune-2021 > my.yaml\n"
    "  wiremill spec --check my.yaml\n\n"
    "Exit 2 of --check: the file has a mistake; the message begins with FILE:LINE.\n";

static int spec_main (const wm_args_t *args);
const wm_verb_t wm_verb_spec = {
    .name = "spec", .task = PREPARE_TASK,
    .summary = "write a patch specification to begin with, or check one", .text = text,
    .options = options, .run = spec_main };
/* clang-format on */

static int spec_main (const wm_args_t *args)
{
    wm_spec_t spec;
    wm_error_t error;
    bool is_file;
    uint32_t given;
    char page[8192];
    const char *preset = wm_args_text (args, "print"), *file = wm_args_text (args, "check");
    if (!preset == !file)
        return wm_args_refuse (args, "give --print PRESET or --check FILE");
    if (file && !strpbrk (file, "./") && access (file, F_OK) &&
        wm_spec_preset (&spec, file, &error)) {
        fprintf (stderr, "wiremill spec: --check %.300s does not exist\n", file);
        return WM_EXIT_USAGE;
    }
    if (preset ? wm_spec_preset (&spec, preset, &error)
               : wm_setup_spec (&spec, file, &is_file, &given, &error)) {
        wm_complain ("spec", &error);
        return WM_EXIT_USAGE;
    }
    if (preset)
        wm_spec_print_page (&spec, preset, page, sizeof page);
    else {
        wm_spec_explain (&spec, is_file ? given : ~0u, page, sizeof page);
        printf ("%s: no mistake found; wiremill understands\n", file);
    }
    fputs (page, stdout);
    return WM_EXIT_OK;
}
