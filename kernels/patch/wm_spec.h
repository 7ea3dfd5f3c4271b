/* wm_spec.h - the patch specification: how a plane becomes a patch.

   The user writes it as YAML (or names a preset). A campaign is pinned to its canonical form, which
   is YAML with every key in a fixed order. Detector facts that belong to
   the event (tick length, trigger offset, lifetime) come from the input unless given here.
   Source of the semantics: LArSoft larreco DataProviderAlg, larrecodnn PointIdAlg (v10).
   Thread: any; plain values.  */
#ifndef WM_SPEC_H
#define WM_SPEC_H

#include "schema/base/wm_fault.h"

#include <stddef.h>
#include <stdint.h>

#define WM_SPEC_BYTES_MAX (64u << 10) /* of its text, which is about a page */
#define WM_SPEC_AMPLITUDES_MAX 8
#define WM_SPEC_LABELS_MAX 64
#define WM_SPEC_PATCH_MAX 512u    /* wires, and drift bins */
#define WM_SPEC_WINDOW_MAX 16384u /* the same of windows */
#define WM_SPEC_CHANNELS_MAX 8u

typedef enum { WM_MEAN, WM_MAXPOOL, WM_MAXMEAN } wm_downscale_t;
typedef enum { WM_FULL_VIEW, WM_OWN_VIEW } wm_spec_view_t;
typedef enum { WM_POINTS_HITS, WM_POINTS_SPACEPOINTS, WM_POINTS_WINDOWS } wm_points_t;
typedef enum { WM_RESULT_SCORES, WM_RESULT_IMAGE } wm_result_t;
typedef enum { WM_HIT_CHECK_CHARGE, WM_HIT_CHECK_NONE } wm_hit_check_t;
typedef enum { WM_LIFETIME_NONE, WM_LIFETIME_EXP, WM_LIFETIME_TABLE } wm_lifetime_t;

typedef struct {
    char table[64];                 /* name of the output table */
    uint32_t patch_wire, patch_bin; /* wires, drift bins */
    uint32_t drift_window;          /* ticks a drift bin: W */
    wm_downscale_t downscale;
    wm_spec_view_t view;
    double adc_min, adc_max; /* clamp, after amplitude */
    double out_min, out_max;
    uint32_t n_amplitude;
    double
        amplitude[WM_SPEC_AMPLITUDES_MAX]; /* per plane; a plane beyond the list takes the last */
    wm_lifetime_t lifetime;
    double tau_us, t0_us, tick_us, trigger_offset; /* NaN: from the input (t0_us: 0) */
    uint32_t n_wire;  /* 0: from the input; else wires of every plane */
    uint32_t n_label; /* 0: out_0, out_1, ... */
    char label[WM_SPEC_LABELS_MAX][32];

    wm_points_t points;                 /* where patches are cut */
    uint32_t step_wire, step_bin;       /* windows: from one to the next; 0: a patch */
    uint32_t n_channel;                 /* of a patch; 1 or more */
    uint32_t n_tag;                     /* windows: 0, or n_channel */
    char tag[WM_SPEC_CHANNELS_MAX][32]; /* of the frames that fill the channels */
    wm_result_t result;       /* image: a value for each cell of the patch, stitched to frames */
    wm_hit_check_t hit_check; /* charge: an input whose hits miss the charge is held */
    uint32_t channels_last;   /* no key: 1 where the model's input is (wire, bin, channel) */
} wm_spec_t;

/* Fills in a preset: "protodune-2021", "dunefd-44x48", "waveform-200". WM_EBATCH lists those that
   exist.  */
wm_fault_t wm_spec_preset (wm_spec_t *self, const char *name, wm_error_t *error);

/* Parses YAML text (a user's file or the canonical form). A missing key gets its value in preset
   WM_DEFAULT_SPEC. WM_EBATCH with the line: an unknown key (the text names the nearest known one),
   a repeated key, a value of the wrong shape or out of its range. `where` names the text in
   errors.  */
wm_fault_t wm_spec_parse (wm_spec_t *self, const char *text, size_t bytes, const char *where,
                          wm_error_t *error);

/* Parses a user's file. *given: the keys that it has, for wm_spec_gives; what it leaves out need
   not fit the model (ops/campaign/wm_setup.c, ops/campaign/wm_columns.h).  */
wm_fault_t wm_spec_parse_user (wm_spec_t *self, const char *text, size_t bytes, const char *where,
                               uint32_t *given, wm_error_t *error);

/* Returns whether the file had this key.  */
int wm_spec_gives (uint32_t given, const char *key);

/* Derives labels from a model's output names: the name of an output of one value; name_0, name_1,
   ... of several values; characters that labels cannot have become '_'. If two are equal (Keras
   freezes "Identity" of three values beside "Identity_1" of one), or one equals another column of
   an output file, all are numbered: Identity_1_0. If that does not help, or they are too many or
   too long, there are none (n_label 0), and the columns are out_0, ...  */
struct wm_model_t;
void wm_spec_label (wm_spec_t *self, const struct wm_model_t *model);

/* Prints the canonical text, NUL-terminated. A key that came later is printed only where it has not
   its default, so that the text of no campaign changes. Returns its length. `bytes_max` is 4096 or
   more.  */
size_t wm_spec_print (const wm_spec_t *self, char *text, size_t bytes_max);

/* Prints the specification as a file, each key with a comment, in at most 80 columns; --spec reads
   this file. `preset`: the name of these values. As wm_spec_print, of 8,192 bytes or more.  */
size_t wm_spec_print_page (const wm_spec_t *self, const char *preset, char *text, size_t bytes_max);

/* Explains the specification, a line for each key with its unit; marks the keys that are not
   `given`. As wm_spec_print, of 8,192 bytes or more.  */
size_t wm_spec_explain (const wm_spec_t *self, uint32_t given, char *text, size_t bytes_max);

static inline uint32_t wm_spec_channels (const wm_spec_t *self)
{
    return self->n_channel > 1 ? self->n_channel : 1;
}

/* Returns the values of a patch, of all its channels.  */
static inline uint64_t wm_spec_values (const wm_spec_t *self)
{
    return (uint64_t) wm_spec_channels (self) * self->patch_wire * self->patch_bin;
}

/* Returns the zero level Z: the value of 0 ADC, of bad or missing wires and of everything
   outside.  */
float wm_spec_zero (const wm_spec_t *self);

#endif
