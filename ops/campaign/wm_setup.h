/* wm_setup.h - turns what people type into what the programs take.

   Makes the folders of a campaign, imports the model into it, reads the specification, writes the
   pins, expands the inputs. Owns nothing of a running campaign: the broker is its only writer; what
   is made here (folders, models/<sha256>.wmm) is made again by anyone with the same bytes.
   Texts that a program reads once (pins, list of inputs) travel as memory files that the program
   inherits: a second command on the same campaign cannot overwrite them.  */
#ifndef WM_SETUP_H
#define WM_SETUP_H

#include "ops/campaign/wm_columns.h"
#include "schema/base/wm_fault.h"
#include "schema/base/wm_file.h"
#include "schema/option/wm_option.h"
#include "schema/wm_pins.h"

#include <limits.h>

#define WM_SETUP_SHAPE_BYTES 80

typedef struct {
    char output[PATH_MAX];             /* absolute, or a root:// folder */
    char campaign[PATH_MAX];           /* absolute */
    char wmm[PATH_MAX];                /* the imported model in the campaign */
    char checked[WM_FILE_STAMP_BYTES]; /* of that file, which is the one pinned; "": not known */
    bool had_output, had_campaign;     /* the folders were there before */
    bool family;                       /* the sparse engine runs the model */
    char why[480];                     /* which engine the model gets, and why */
    /* Of its input, "3x32x32", of several "1x48x48+4"; "": too long, or free dimensions.  */
    char shape[WM_SETUP_SHAPE_BYTES];
    char spec_name[PATH_MAX];           /* as people call it */
    char columns[WM_COLUMNS_BYTES_MAX]; /* names of the scores, and where from, one line */
    wm_pins_t pins;
    int pins_fd;        /* holds the pins' text; inherited */
    char pins_path[32]; /* its name for a program that inherited it */
} wm_setup_t;

typedef struct {
    int fd;                    /* one path a line; inherited */
    char path[32];             /* its name for a program that inherited it */
    size_t n_file, n_left_out; /* left out: outputs and folders that a pattern matched */
    size_t n_repeated;         /* left out: names of a file that was given already */
    size_t n_url;              /* of those: root://, https:// */
    char first[PATH_MAX];
} wm_inputs_t;

typedef struct {
    const char *model, *output, *precision;
    const char *plugin; /* scores; model: the file that it takes, NULL: none. NULL: --model */
    const char *campaign, *spec, *max_error, *group; /* NULL: not chosen */
    const char *planes, *channels, *hit_time;        /* NULL: none, likewise */
    const char *hit_offset, *pedestal, *layout;
    bool for_clients;    /* no output: scores go to who asks for them */
    bool exact;          /* ... and types that float32 does not hold are kept */
    uint32_t batch_hits; /* 0: as suits the model */
} wm_choices_t;

/* Makes folders, imports the model. Warns where a hostile event file could reach the campaign's
   folder, since it lies in the output folder. WM_EBATCH: the model or the specification is bad;
   WM_EUSAGE: the output folder has no place beside it; WM_EHOST: files, or a place that cannot hold
   a campaign.  */
wm_fault_t wm_setup (wm_setup_t *self, const wm_choices_t *choices, wm_error_t *error);

/* --model --output --campaign --spec --precision --batch-hits of `args`.  */
wm_choices_t wm_setup_choices (const wm_args_t *args);

/* Expands every --input, every argument that is no option from `first` on, and --input-list.
   WM_EBATCH names a pattern that matches nothing.  */
wm_fault_t wm_setup_inputs (wm_inputs_t *self, const wm_args_t *args, int first, wm_error_t *error);

/* Returns the path of a model that is given (NULL stays): WM_SETUP_OURS, where there is no such
   file, is the network that comes with wiremill, beside the programs. Static.  */
#define WM_SETUP_OURS "synthetic"
const char *wm_setup_model_path (const char *given);

/* Returns WM_EBATCH, with the reason, unless the model's file can be read.  */
wm_fault_t wm_setup_model (const char *path, wm_error_t *error);

/* Reads --spec: a preset's name, or a file (a name with '/' or '.', or of a file that exists).
   *given: the keys that the file has (wm_spec_gives). WM_EUSAGE: the file cannot be read;
   WM_EBATCH: no such preset, or a mistake, by line.  */
wm_fault_t wm_setup_spec (wm_spec_t *spec, const char *name, bool *is_file, uint32_t *given,
                          wm_error_t *error);

/* Writes the first words of the command line of a campaign's broker, as `wiremill broker` and
   `wiremill run` begin it; returns their number, at most WM_SETUP_BROKER_WORDS. `command`: the
   memory file of wm_command_keep. All are lent.  */
#define WM_SETUP_BROKER_WORDS 15
unsigned wm_setup_broker (const wm_setup_t *self, const char *listen, const char *command,
                          const char *argv[]);

#endif
