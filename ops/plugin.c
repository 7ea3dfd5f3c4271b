/* plugin.c - `wiremill plugin check`: tries the contract of an engine that a user has made.  */
#include "kernels/plugin/wm_plugin_check.h"
#include "ops/verbs.h"

#include <jansson.h>
#include <stdio.h>
#include <string.h>

/* clang-format off */
static const wm_option_t options[] = {
    {.name = "model", .letter = 'm', .value = "FILE", .path = WM_PATH_READ,
     .help = "the file that the plug-in takes, as in wiremill run --model"},
    {.name = "patience", .value = "TIME", .fallback = "20s", .real_least = 1,
     .help = "so long each trial may take"},
    {.name = "json", .help = "as JSON: wiremill-plugin-1"},
    {.name = NULL},
};

static int plugin_main (const wm_args_t *args);
const wm_verb_t wm_verb_plugin = {
    .name = "plugin", .task = PREPARE_TASK, .rest = "check FILE.so|torch",
    .summary = "try the contract of a plug-in engine",
    .text = "  wiremill plugin check ./hits.so\n"
            "  wiremill plugin check ./net.so --model net.onnx\n"
            "  wiremill plugin check torch --model net.pt\n\n"
            "It prints a line for each thing that wiremill relies on: what was seen, and what to\n"
            "do. Exit code 5: it breaks the contract.\n",
    .options = options, .run = plugin_main };
/* clang-format on */

static const char *const verdicts[] = { "ok", "warn", "FAIL" };

static void print_table (const wm_plugin_finding_t *finding, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        printf ("%-4s  %-9s  %s\n", verdicts[finding[i].verdict], finding[i].what, finding[i].seen);
        if (*finding[i].advice)
            printf ("%-4s  %-9s  -> %s\n", "", "", finding[i].advice);
    }
}

static void print_json (const char *path, const wm_plugin_finding_t *finding, uint32_t n)
{
    json_t *list = json_array ();
    for (uint32_t i = 0; i < n; i++)
        json_array_append_new (list, json_pack ("{s:s, s:s, s:s, s:s}", "what", finding[i].what,
                                                "verdict", verdicts[finding[i].verdict], "seen",
                                                finding[i].seen, "advice", finding[i].advice));
    json_t *all = json_pack ("{s:s, s:s, s:o}", "schema", "wiremill-plugin-1", "plugin", path,
                             "findings", list);
    json_dumpf (all, stdout, JSON_INDENT (1));
    putchar ('\n');
    json_decref (all);
}

static int plugin_main (const wm_args_t *args)
{
    static wm_plugin_finding_t finding[WM_PLUGIN_FINDINGS_MAX];
    const char *what = wm_args_rest (args, 0), *path = what ? wm_args_rest (args, 1) : NULL;
    if (!what || strcmp (what, "check") != 0 || !path || wm_args_rest (args, 2))
        return wm_args_refuse (args, "type wiremill plugin check FILE.so");
    const uint32_t n = wm_plugin_check (path, wm_args_text (args, "model"),
                                        (unsigned) wm_args_seconds (args, "patience"), finding);
    bool fails = false;
    for (uint32_t i = 0; i < n; i++)
        fails |= finding[i].verdict == WM_PLUGIN_FAIL;
    if (wm_args_given (args, "json"))
        print_json (path, finding, n);
    else
        print_table (finding, n);
    return fails ? WM_EXIT_INPUT : WM_EXIT_OK;
}
