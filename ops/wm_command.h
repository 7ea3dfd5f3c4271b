/* wm_command.h - the command that goes on with a campaign: typed by somebody, kept in its folder by the
   broker (CAMPAIGN/command), named to whoever asks how it goes on.

   The file's first line is the folder it is of, since a copy of the folder brings the original's along.
   Then the command, from wherever one is; of a `wiremill broker` also those that go with it.  */
#ifndef WM_COMMAND_H
#define WM_COMMAND_H

#include "schema/base/wm_option.h"
#include "schema/base/wm_fault.h"

#include <stdio.h>

/* The word so that a shell reads it as this word; the command that was typed, with `option` (may be
   NULL) in it, and its line's end.  */
void wm_command_word (FILE *out, const char *word);
void wm_command_print (FILE *out, const wm_args_t *args, const char *option);

/* The text for CAMPAIGN/command as a memory file that programs started from here inherit, by the name in
   `path`. endpoint: of a broker started by hand; NULL: `wiremill run` starts all of them.  */
wm_fault_t wm_command_keep (const wm_args_t *args, const char *campaign, const char *endpoint,
                            char path[32], wm_error_t *error);

/* Ends a sentence and its line: the command that goes on with a campaign `does` this. The command itself
   where it is known, else in words.  */
void wm_command_say (FILE *out, const char *campaign, const char *does);

/* Who sends the inputs of this campaign: "wiremill run" or "wiremill produce"; where that is not known,
   both (static).  */
const char *wm_command_sender (const char *campaign);

#endif
