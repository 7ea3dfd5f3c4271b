/* main.c - wiremill-broker: the one master of a campaign, until SIGTERM or SIGINT.

   Usually started by `wiremill run` or `wiremill broker`, which make the pins and the model's file.
 */
#include "broker/wm_broker_bench.h"
#include "broker/wm_campaign.h"
#include "broker/wm_listener.h"
#include "broker/wm_core.h"
#include "broker/wm_note.h"
#include "broker/wm_reactor.h"
#include "broker/wm_rebuild.h"
#include "broker/wm_restore.h"
#include "broker/wm_outputs.h"
#include "broker/wm_status.h"
#include "schema/base/wm_log.h"

#include <errno.h>
#include <getopt.h>
#include <openssl/evp.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

static const char help[] =
    "usage: wiremill-broker --campaign DIR --listen ENDPOINT --pins FILE --wmm FILE [options]\n"
    "       wiremill-broker --campaign DIR --status | --outputs\n"
    "       wiremill-broker --campaign DIR --rebuild [--output DIR] [--dry-run]\n"
    "       wiremill-broker --bench FOLDER [options]     (--bench --help lists them)\n"
    "\n"
    "The one master of a campaign: takes batches from producers, gives them to workers, keeps\n"
    "results in DIR/journal and progress in DIR/ledger.db. Killed at any time, it goes on where "
    "it\n"
    "was when it is started again.\n"
    "\n"
    "  --campaign DIR     folder of the campaign, on a local disk (made if it is not there)\n"
    "  --listen ENDPOINT  tcp://HOST:PORT (and +1, +2; port 0: any three free ones) or ipc://PATH\n"
    "  --pins FILE        what the campaign is pinned to\n"
    "  --wmm FILE         the imported model that workers fetch\n"
    "  --shape AxB        of a ready-made patch, 3x32x32: producers refuse others (default: any)\n"
    "  --budget BYTES     payloads held in memory at most (default 1073741824)\n"
    "  --command FILE     kept as DIR/command: how people go on with the campaign\n"
    "  --insecure         listen on other addresses than loopback and ipc, unprotected\n"
    "  --mixed            admit workers that score by another engine than the campaign has for\n"
    "                     their class of machines; outputs say which engine made which row\n"
    "  --parent           end when the parent process ends\n"
    "  --status           print the status of a campaign that has no broker now, as JSON\n"
    "  --outputs          read all that such a campaign has written, print as JSON whether every\n"
    "                     byte is as it was written; before it, where that takes long, now and "
    "then\n"
    "                     a line of the bytes that were read\n"
    "  --rebuild          look at journal, ledger and every output, and make them whole again\n"
    "  --output DIR       with --rebuild: where the outputs are now\n"
    "  --dry-run          with --rebuild: only say what is wrong\n"
    "  --help             this text\n"
    "\n"
    "exit: 0 stopped by a signal, 1 failure (--dry-run: also where something is wrong), 2 usage, 5 "
    "the\n"
    "folder is not this campaign's (other pins, another model, a copy that needs --rebuild, a "
    "newer\n"
    "wiremill's), 75 another broker has the campaign, or the disk is full: try again\n";

typedef struct {
    const char *campaign, *listen, *pins, *wmm, *shape, *command, *output;
    uint64_t budget_bytes;
    int insecure, mixed, parent, status, outputs, rebuild, dry_run;
} options_t;

static volatile sig_atomic_t stop;

static void on_signal (int signal)
{
    (void) signal;
    stop = 1;
}

static int fail (const wm_error_t *error)
{
    fprintf (stderr, "wiremill-broker: %s\n", error->text);
    return error->fault == WM_EAGAIN   ? WM_EXIT_AGAIN
           : error->fault == WM_EBATCH ? WM_EXIT_INPUT
                                       : WM_EXIT_FAILURE;
}

static int usage (const char *text)
{
    fprintf (stderr, "wiremill-broker: %s (see wiremill-broker --help)\n", text);
    return WM_EXIT_USAGE;
}

/* Whether they go together. -1: they do; else the exit code.  */
static int check (const options_t *options)
{
    if (!options->campaign)
        return usage ("--campaign DIR is missing");
    if (!options->rebuild && (options->dry_run || options->output))
        return usage ("--dry-run and --output go with --rebuild");
    if (!options->status && !options->outputs && !options->rebuild &&
        (!options->listen || !options->pins || !options->wmm))
        return usage ("--listen, --pins and --wmm are needed");
    wm_error_t error;
    if (options->listen && wm_listener_check (options->listen, options->insecure, &error))
        return usage (error.text);
    return -1;
}

/* -1: go on; else the exit code.  */
static int parse (int argc, char **argv, options_t *options)
{
    const struct option table[] = { { "campaign", required_argument, NULL, 'c' },
                                    { "listen", required_argument, NULL, 'l' },
                                    { "pins", required_argument, NULL, 'p' },
                                    { "wmm", required_argument, NULL, 'w' },
                                    { "shape", required_argument, NULL, 's' },
                                    { "command", required_argument, NULL, 'm' },
                                    { "output", required_argument, NULL, 'o' },
                                    { "budget", required_argument, NULL, 'b' },
                                    { "insecure", no_argument, &options->insecure, 1 },
                                    { "mixed", no_argument, &options->mixed, 1 },
                                    { "parent", no_argument, &options->parent, 1 },
                                    { "status", no_argument, &options->status, 1 },
                                    { "outputs", no_argument, &options->outputs, 1 },
                                    { "rebuild", no_argument, &options->rebuild, 1 },
                                    { "dry-run", no_argument, &options->dry_run, 1 },
                                    { "help", no_argument, NULL, 'h' },
                                    { 0 } };
    *options = (options_t){ .budget_bytes = WM_BUDGET_BYTES };
    int option;
    opterr = 0;
    while ((option = getopt_long (argc, argv, "", table, NULL)) != -1)
        switch (option) {
        case 0: /* a flag */
            break;
        case 'c':
            options->campaign = optarg;
            break;
        case 'l':
            options->listen = optarg;
            break;
        case 'p':
            options->pins = optarg;
            break;
        case 'w':
            options->wmm = optarg;
            break;
        case 's':
            options->shape = optarg;
            break;
        case 'm':
            options->command = optarg;
            break;
        case 'b':
            errno = 0;
            options->budget_bytes = strtoull (optarg, NULL, 10);
            if (errno || optarg[strspn (optarg, "0123456789")] ||
                options->budget_bytes < 4 * WM_FRAME_BYTES_MAX)
                return usage ("--budget takes a number of bytes, at least 17039360");
            break;
        case 'o':
            options->output = optarg;
            break;
        case 'h':
            fputs (help, stdout);
            return WM_EXIT_OK;
        default:
            fprintf (stderr,
                     "wiremill-broker: %s: unknown, or without its value (see "
                     "wiremill-broker --help)\n",
                     argv[optind - 1]);
            return WM_EXIT_USAGE;
        }
    if (optind < argc)
        return usage ("takes no arguments, only options");
    return check (options);
}

static wm_fault_t read_pins (const char *path, wm_pins_t *pins, wm_error_t *error)
{
    char text[WM_PINS_BYTES_MAX + 1];
    FILE *file = fopen (path, "re");
    if (!file)
        return wm_fault (error, WM_EHOST, "cannot read the pins in %s: %s", path, strerror (errno));
    size_t bytes = fread (text, 1, sizeof text, file);
    fclose (file);
    if (bytes == sizeof text)
        return wm_fault (error, WM_EHOST, "%s is larger than %u bytes", path, WM_PINS_BYTES_MAX);
    wm_error_t why;
    if (wm_pins_parse (pins, text, bytes, &why))
        return wm_fault (error, WM_EHOST, "%s: %.400s", path, why.text);
    return WM_OK;
}

/* The model's file is the one pinned, byte for byte: workers would refuse another.  */
static wm_fault_t check_wmm (const char *path, const wm_pins_t *pins, wm_error_t *error)
{
    static uint8_t buffer[1 << 18];
    uint8_t digest[32];
    char hex[2 * sizeof digest + 1];
    FILE *file = fopen (path, "re");
    if (!file)
        return wm_fault (error, WM_EHOST, "cannot read the model %s: %s", path, strerror (errno));
    EVP_MD_CTX *state = EVP_MD_CTX_new ();
    int ok = state && EVP_DigestInit_ex (state, EVP_sha256 (), NULL);
    for (size_t bytes; ok && (bytes = fread (buffer, 1, sizeof buffer, file)) > 0;)
        ok = EVP_DigestUpdate (state, buffer, bytes);
    fclose (file);
    ok = ok && EVP_DigestFinal_ex (state, digest, NULL);
    EVP_MD_CTX_free (state);
    if (!ok)
        return wm_fault (error, WM_EHOST, "libcrypto cannot compute the SHA-256 of %s", path);
    sodium_bin2hex (hex, sizeof hex, digest, sizeof digest);
    if (strcmp (hex, pins->wmm) != 0)
        return wm_fault (error, WM_EBATCH, "%s has SHA-256 %s, the pins say %s", path, hex,
                         pins->wmm);
    return WM_OK;
}

/* ---- --status ----------------------------------------------------------------------------------
 */
static void ignore_drop (void *context, uint32_t session)
{
    (void) context;
    (void) session;
}

static void ignore_log (void *context, const char *text)
{
    (void) context;
    (void) text;
}

/* The lock is let go of before anything is looked at: a file system that hangs holds up nobody else.  */
static wm_fault_t print_status (wm_campaign_t *campaign, wm_error_t *error)
{
    char *paused = wm_note_read (campaign->dir, "paused", 4096, NULL);
    if (paused)
        paused[strcspn (paused, "\n")] = 0;
    char *arithmetic = wm_note_read (campaign->dir, "arithmetic", 1u << 16, NULL);
    const wm_status_about_t about = { .dir = campaign->dir,
                                      .campaign = campaign->id,
                                      .pins = &campaign->pins,
                                      .submitted_s = campaign->created_ns / 1000000000,
                                      .journal_bytes = wm_journal_bytes (campaign->journal),
                                      .ledger_bytes = wm_ledger_bytes (campaign->ledger) };
    wm_core_config_t config = { .pins = "",
                                .paused = paused,
                                .arithmetic = arithmetic,
                                .epoch = wm_journal_epoch (campaign->journal),
                                .times = *wm_times () };
    wm_core_sink_t sink = { .drop = ignore_drop, .log = ignore_log };
    wm_core_t *core = wm_core_new (&config, &sink);
    free (paused);
    free (arithmetic);
    wm_summary_t *summary = malloc (sizeof *summary);
    char *json = NULL;
    wm_fault_t fault = WM_OK;
    if (!core || !summary)
        fault = wm_fault (error, WM_EHOST, "no memory");
    else
        fault = wm_restore (core, campaign->ledger, NULL, NULL, error);
    wm_campaign_close (campaign);
    if (fault == WM_OK) {
        wm_outputs_compare (core, campaign->pins.output);
        wm_core_summary (core, summary);
        summary->waiting_for = summary->inputs_open ? "no broker" : NULL;
        summary->state = summary->inputs_open ? "stopped" : summary->inputs ? "finished" : "idle";
        json = wm_status_json (summary, &about);
    }
    if (fault == WM_OK && !json)
        fault = wm_fault (error, WM_EHOST, "no memory");
    if (fault == WM_OK)
        puts (json);
    free (json);
    free (summary);
    wm_core_destroy (&core);
    return fault;
}

/* For `wiremill verify`, which draws it.  */
static void print_progress (uint64_t n_read, uint64_t n_all)
{
    printf ("{\"read\": %llu, \"of\": %llu}\n", (unsigned long long) n_read,
            (unsigned long long) n_all);
    fflush (stdout);
}

static wm_fault_t print_outputs (wm_campaign_t *campaign, wm_error_t *error)
{
    char *json = wm_outputs_json (campaign, print_progress, error);
    if (json)
        puts (json);
    free (json);
    return json ? WM_OK : error->fault;
}

/* Shows a campaign that no broker serves.  */
static int show (const options_t *options,
                 wm_fault_t (*print) (wm_campaign_t *campaign, wm_error_t *error))
{
    wm_campaign_t campaign;
    wm_error_t error;
    if (!wm_campaign_is_there (options->campaign)) {
        wm_fault (&error, WM_EBATCH, "there is no campaign in %s", options->campaign);
        return fail (&error);
    }
    int code = WM_EXIT_OK;
    if (wm_campaign_lock (&campaign, options->campaign, WM_CAMPAIGN_READ, wm_times ()->lock_ms / 5,
                          &error) ||
        wm_campaign_open (&campaign, NULL, NULL, &error) || print (&campaign, &error))
        code = fail (&error);
    wm_campaign_close (&campaign);
    return code;
}

static int rebuild (const options_t *options)
{
    const wm_rebuild_options_t what = { options->campaign, options->output, options->dry_run };
    bool is_whole;
    wm_error_t error;
    if (wm_rebuild (&what, &is_whole, &error))
        return fail (&error);
    return is_whole ? WM_EXIT_OK : WM_EXIT_FAILURE;
}

/* ---- serving -----------------------------------------------------------------------------------
 */
static wm_fault_t look (void *context, const char *endpoint, wm_error_t *error)
{
    return wm_campaign_check (context, endpoint, error);
}

/* A full disk is the one WM_EAGAIN that a broker waits out. Says what is new of it, and naps.  */
static int waits_for_room (const wm_error_t *error, char told[sizeof error->text])
{
    if (error->fault != WM_EAGAIN || strncmp (error->text, "disk full", 9) != 0 || stop)
        return 0;
    if (strcmp (told, error->text) != 0)
        fprintf (stderr, "wiremill-broker: %s\n", strcpy (told, error->text));
    usleep ((useconds_t) (wm_times ()->disk_full_ms * 1000));
    return 1;
}

static wm_fault_t open_it (wm_campaign_t *campaign, wm_error_t *error)
{
    wm_fault_t fault;
    char told[sizeof error->text] = "";
    while ((fault = wm_campaign_open (campaign, NULL, NULL, error)) != WM_OK &&
           waits_for_room (error, told)) {
        wm_ledger_destroy (&campaign->ledger);
        wm_journal_destroy (&campaign->journal);
    }
    return fault;
}

/* For whoever asks how a campaign goes on that nobody serves. Without it (a disk that is full) they hear
   less.  */
static void keep_command (const options_t *options)
{
    char path[4200], temporary[4200], text[16384];
    FILE *from = options->command ? fopen (options->command, "re") : NULL;
    const size_t bytes = from ? fread (text, 1, sizeof text, from) : 0;
    if (from)
        fclose (from);
    snprintf (path, sizeof path, "%.4100s/command", options->campaign);
    snprintf (temporary, sizeof temporary, "%.4100s/command.new", options->campaign);
    FILE *to = bytes ? fopen (temporary, "we") : NULL;
    if (!to)
        return;
    const int failed = fwrite (text, 1, bytes, to) != bytes;
    if (fclose (to) || failed || rename (temporary, path))
        unlink (temporary);
}

static wm_fault_t serve (const options_t *options, const wm_pins_t *pins, wm_campaign_t *campaign,
                         wm_error_t *error)
{
    wm_reactor_config_t config = { .check = look,
                                   .context = campaign,
                                   .endpoint = options->listen,
                                   .insecure = options->insecure,
                                   .mixed = options->mixed,
                                   .dir = options->campaign,
                                   .wmm = options->wmm,
                                   .shape = options->shape,
                                   .pins = pins,
                                   .budget_bytes = options->budget_bytes };
    wm_fault_t fault;
    char told[sizeof error->text] = "";
    while ((fault = wm_campaign_start (campaign, pins, error)) && waits_for_room (error, told)) {
    }
    if (fault)
        return fault;
    config.epoch = campaign->epoch;
    memcpy (config.campaign, campaign->id, 16);
    config.submitted_s = campaign->created_ns / 1000000000;
    config.journal = campaign->journal;
    config.ledger = campaign->ledger;
    wm_reactor_t *reactor = wm_reactor_new (&config, error);
    if (!reactor)
        return error->fault;
    fault = wm_campaign_announce (campaign, wm_reactor_endpoint (reactor), error);
    if (fault == WM_OK) {
        keep_command (options);
        fault = wm_reactor_run (reactor, &stop, error);
        if (fault != WM_EBATCH) /* it is not ours any more */
            wm_campaign_unannounce (campaign);
    }
    wm_reactor_destroy (&reactor);
    return fault;
}

int main (int argc, char **argv)
{
    options_t options;
    pid_t parent = getppid ();
    if (argc > 1 && strcmp (argv[1], "--bench") == 0)
        return wm_broker_bench_main (argc - 1, argv + 1);
    int code = parse (argc, argv, &options);
    if (code >= 0)
        return code;
    struct sigaction action = { .sa_handler = on_signal };
    sigaction (SIGTERM, &action, NULL);
    sigaction (SIGINT, &action, NULL);
    signal (SIGPIPE, SIG_IGN);
    if (options.parent && (prctl (PR_SET_PDEATHSIG, SIGTERM) || getppid () != parent))
        return WM_EXIT_AGAIN; /* it ended before this took effect */
    if (sodium_init () < 0) {
        fprintf (stderr, "wiremill-broker: libsodium cannot start\n");
        return WM_EXIT_FAILURE;
    }
    wm_error_t error;
    if (options.status || options.outputs)
        return show (&options, options.status ? print_status : print_outputs);
    if (options.rebuild)
        return rebuild (&options);
    wm_log_start ();
    struct rlimit files; /* a descriptor a peer and a few of our own */
    if (getrlimit (RLIMIT_NOFILE, &files) == 0) {
        files.rlim_cur = files.rlim_max < 8192 ? files.rlim_max : 8192;
        setrlimit (RLIMIT_NOFILE, &files);
    }
    if (options.insecure)
        fprintf (stderr,
                 "wiremill-broker: INSECURE: whoever can reach %s can read and write this "
                 "campaign; nothing is encrypted and nobody is asked for a key\n",
                 options.listen);
    static wm_pins_t pins;
    static wm_campaign_t campaign;
    if (read_pins (options.pins, &pins, &error) || check_wmm (options.wmm, &pins, &error))
        return fail (&error);
    campaign.lock_fd = -1;
    if (wm_campaign_lock (&campaign, options.campaign, WM_CAMPAIGN_SERVE, wm_times ()->lock_ms,
                          &error) ||
        open_it (&campaign, &error) || serve (&options, &pins, &campaign, &error))
        code = fail (&error);
    else
        code = WM_EXIT_OK;
    wm_campaign_close (&campaign);
    return code;
}
