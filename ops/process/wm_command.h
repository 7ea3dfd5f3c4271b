/* wm_command.h - the command that continues a campaign: typed once, kept in the campaign's folder
   by the broker (CAMPAIGN/command), printed to whoever asks how to continue.

   The file's first line is the folder it is of, since a copy of the folder brings the original's
   along. Then the command, so that it works from any folder; for `wiremill broker` also those that
   go with it.  */
#ifndef WM_COMMAND_H
#define WM_COMMAND_H

#include "schema/base/wm_fault.h"
#include "schema/option/wm_option.h"

#include <stdbool.h>
#include <stdio.h>

/* The word so that a shell reads it as this word; the command that was typed, with `option` (may be
   NULL) in it, and its line's end.  */
void wm_command_word (FILE *out, const char *word);
void wm_command_print (FILE *out, const wm_args_t *args, const char *option);

/* Notes where this command's campaign is: its folder, or, where that is "", its broker.  */
void wm_command_at (const char *campaign, const char *endpoint);

/* Prints the command of a verb for that campaign, in backticks, as it can be typed in any folder,
   then `after` and the line's end; `rest`: one more word of it, "" for none.  */
void wm_command_verb (FILE *out, const char *verb, const char *rest, const char *after);

/* The text for CAMPAIGN/command as a memory file that programs started from here inherit, by the
   name in `path`. campaign "": it is elsewhere. endpoint: of a broker started by hand; NULL:
   `wiremill run` starts all of them.  */
wm_fault_t wm_command_keep (const wm_args_t *args, const char *campaign, const char *endpoint,
                            char path[32], wm_error_t *error);

/* Prints the command that a person types for `purpose` ("to continue"), or which command it was
   where its text is not known; ends a sentence and its line.  */
void wm_command_advise (FILE *out, const char *campaign, const char *purpose);

/* Prints the command that scores again what is held, as wm_command_advise prints one.  */
void wm_command_retry (FILE *out, const char *campaign);

/* Prints the commands as they were kept, a line each; false: their text is not known.  */
bool wm_command_show (FILE *out, const char *campaign);

/* Who sends the inputs of this campaign: "wiremill run" or "wiremill produce"; where that is not
   known, both (static).  */
const char *wm_command_sender (const char *campaign);

#endif
