/* wm_note.h - small files in a campaign's folder that outlive its broker: paused, sample,
   arithmetic, distrusted, told.

   A note is there whole or not at all: written under another name, synced, renamed, the folder
   synced. A copy of the folder has them too. "paused" is one line, why an operator paused the
   campaign (the circuit breaker's pauses are not noted: the next broker tries again);
   wm_core_arithmetic.c, wm_core_distrust.c and wm_notify.h explain the others. Thread: any; one at
   a time for each name.  */
#ifndef WM_NOTE_H
#define WM_NOTE_H

#include <stddef.h>

/* Writes DIR/NAME, or with NULL data removes it. 0: durable; -1: not, errno is set, and the note is
   as it was before.  */
int wm_note_write (const char *dir, const char *name, const void *data, size_t bytes);

/* Reads a note: the caller's, with a NUL after its *bytes bytes (bytes may be NULL). NULL: it is
   not there, larger than `most`, or there is no memory.  */
char *wm_note_read (const char *dir, const char *name, size_t most, size_t *bytes);

/* What a core is restored from; NULL: not there.  */
typedef struct {
    char *arithmetic, *distrusted;
} wm_notes_t;
void wm_notes_read (wm_notes_t *self, const char *dir);
void wm_notes_free (wm_notes_t *self);

#endif
