/* wm_spec_preset.c - specifications that have a name. Needs no library.  */
#include "kernels/patch/wm_spec.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static void set_labels (wm_spec_t *self, const char *const label[4])
{
    memset (self->label, 0, sizeof self->label); /* as wm_spec_parse: equal in every byte */
    self->n_label = 4;
    for (int i = 0; i < 4; i++)
        snprintf (self->label[i], sizeof self->label[i], "%s", label[i]);
}

/* ProtoDUNE since February 2021 (dunesw featurelabelingmodules.fcl).  */
static void preset_protodune_2021 (wm_spec_t *self)
{
    memset (self, 0, sizeof *self); /* padding too: equal specifications are equal bytes */
    snprintf (self->table, sizeof self->table, "emtrkmichel");
    self->patch_wire = self->patch_bin = 48;
    self->drift_window = 6;
    self->downscale = WM_MEAN;
    self->view = WM_FULL_VIEW;
    self->adc_min = -10, self->adc_max = 30;
    self->out_min = -5, self->out_max = 15;
    self->n_amplitude = 3;
    self->amplitude[0] = 1.3285, self->amplitude[1] = 1.1665, self->amplitude[2] = 1.3636;
    self->lifetime = WM_LIFETIME_EXP;
    self->tau_us = self->tick_us = self->trigger_offset = NAN;
    self->t0_us = 0;
    set_labels (self, (const char *const[]){ "track", "em", "none", "michel" });
    self->n_channel = 1;
}

/* The far detector's set-ups with 44 wires cut their own view and have another label order.  */
static void preset_dunefd_44x48 (wm_spec_t *self)
{
    preset_protodune_2021 (self);
    self->patch_wire = 44;
    self->view = WM_OWN_VIEW;
    set_labels (self, (const char *const[]){ "track", "em", "michel", "none" });
}

/* Regions of one wire as larrecodnn's WaveformRecog cuts them: 200 ticks, every 150, in ADC as they
   are: limits that no ADC reaches, and a scale of exactly 1.  */
static void preset_waveform_200 (wm_spec_t *self)
{
    preset_protodune_2021 (self);
    memset (self->table, 0, sizeof self->table);
    snprintf (self->table, sizeof self->table, "waveform");
    self->points = WM_POINTS_WINDOWS;
    self->patch_wire = 1, self->patch_bin = 200;
    self->step_bin = 150;
    self->drift_window = 1;
    self->adc_min = self->out_min = -1e6, self->adc_max = self->out_max = 1e6;
    self->n_amplitude = 1;
    self->amplitude[0] = 1, self->amplitude[1] = self->amplitude[2] = 0;
    self->lifetime = WM_LIFETIME_NONE;
    self->n_label = 0;
    memset (self->label, 0, sizeof self->label);
}

wm_fault_t wm_spec_preset (wm_spec_t *self, const char *name, wm_error_t *error)
{
    if (strcmp (name, "protodune-2021") == 0)
        preset_protodune_2021 (self);
    else if (strcmp (name, "dunefd-44x48") == 0)
        preset_dunefd_44x48 (self);
    else if (strcmp (name, "waveform-200") == 0)
        preset_waveform_200 (self);
    else
        return wm_fault (error, WM_EBATCH,
                         "no preset is called '%.64s': there are protodune-2021, dunefd-44x48 and "
                         "waveform-200; or give a YAML file",
                         name);
    return WM_OK;
}
