/* wm_setup_private.h - what wm_setup.c calls in wm_setup_folders.c: makes a campaign's folders.  */
#ifndef WM_SETUP_PRIVATE_H
#define WM_SETUP_PRIVATE_H

#include "ops/campaign/wm_setup.h"

/* Makes both folders, and gives them to --group. Fills in output, campaign, pins.output, had_output
   and had_campaign. Warns of outputs whose campaign is elsewhere.  */
wm_fault_t wm_setup_folders (wm_setup_t *self, const wm_choices_t *choices, wm_error_t *error);

/* After a refusal: removes what this command made, if there is nothing else in it.  */
void wm_setup_take_back (const wm_setup_t *self);

/* Warns where the campaign's folder lies in the output folder.  */
void wm_setup_warn (const wm_setup_t *self);

/* Checks what the shell allows.  */
wm_fault_t wm_setup_limits (wm_error_t *error);

/* Returns whether a file is an output, by its name.  */
bool wm_setup_is_output (const char *path);

#endif
