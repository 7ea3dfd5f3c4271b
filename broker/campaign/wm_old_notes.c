/* wm_old_notes.c - see wm_old_notes.h.  */
#include "broker/campaign/wm_old_notes.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define PATH_BYTES 4200

typedef struct {
    wm_ledger_t *ledger;
    wm_old_notes_take_t *take;
    void *argument;
    wm_fault_t fault;
    wm_error_t *error;
} reading_t;

static void give (reading_t *self, wm_record_t *record)
{
    if (!self->fault && !wm_ledger_has_standing (self->ledger, record))
        self->fault = self->take (self->argument, record, self->error);
}

/* One line: why an operator paused the campaign.  */
static void read_paused (reading_t *self, char *text, size_t bytes)
{
    wm_record_t record;
    (void) bytes;
    text[strcspn (text, "\n")] = 0;
    wm_record_init (&record, WM_RECORD_PAUSE);
    record.code = 1;
    wm_record_text (&record, text);
    give (self, &record);
}

static const struct {
    const char *name;
    size_t most; /* bytes; a larger one is none of ours */
    void (*read) (reading_t *self, char *text, size_t bytes);
} notes[] = {
    { "paused", 4096, read_paused },
};
#define NOTES (sizeof notes / sizeof *notes)

/* Reads a whole file: the caller's, with a NUL behind it; NULL: it is not there, larger than
   `most`, or there is no memory.  */
static char *read_file (const char *dir, const char *name, size_t most, size_t *bytes)
{
    char path[PATH_BYTES];
    snprintf (path, sizeof path, "%s/%s", dir, name);
    FILE *file = fopen (path, "re");
    char *data = file ? malloc (most + 2) : NULL;
    *bytes = data ? fread (data, 1, most + 1, file) : 0;
    if (data && (*bytes > most || ferror (file))) {
        free (data);
        data = NULL;
    }
    if (file)
        fclose (file);
    if (data)
        data[*bytes] = 0;
    return data;
}

wm_fault_t wm_old_notes_read (const char *dir, wm_ledger_t *ledger, wm_old_notes_take_t *take,
                              void *argument, wm_error_t *error)
{
    reading_t self = { ledger, take, argument, WM_OK, error };
    for (size_t i = 0; i < NOTES && !self.fault; i++) {
        size_t bytes;
        char *text = read_file (dir, notes[i].name, notes[i].most, &bytes);
        if (text)
            notes[i].read (&self, text, bytes);
        free (text);
    }
    return self.fault;
}

void wm_old_notes_remove (const char *dir)
{
    char path[PATH_BYTES];
    for (size_t i = 0; i < NOTES; i++) {
        snprintf (path, sizeof path, "%s/%s", dir, notes[i].name);
        unlink (path);
    }
}
