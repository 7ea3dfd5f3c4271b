/* wm_urls.h - checks remote inputs and outputs before a campaign begins: URLs that nothing here can
   copy are refused; and where copies go.  */
#ifndef WM_URLS_H
#define WM_URLS_H

#include "schema/base/wm_fault.h"
#include "schema/option/wm_option.h"

#include <limits.h>

/* WM_EUSAGE: no URL of one file that a program here copies; WM_EHOST: that program is missing.  */
wm_fault_t wm_urls_check (const char *given, wm_error_t *error);

/* A root:// folder for outputs, in the one form in which a campaign has it: no slash at its end.
   WM_EUSAGE: no URL of such a folder; WM_EHOST: no program here copies to it.  */
wm_fault_t wm_urls_output (const char *given, char url[PATH_MAX], wm_error_t *error);

/* The folder for copies: --scratch, else CAMPAIGN/staged, else ("" for the campaign) one of this
   user in TMPDIR.  */
void wm_urls_scratch (const wm_args_t *args, const char *campaign, char path[PATH_MAX]);

#endif
