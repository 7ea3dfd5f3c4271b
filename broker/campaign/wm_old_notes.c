/* wm_old_notes.c - see wm_old_notes.h.  */
#include "broker/campaign/wm_old_notes.h"
#include "schema/base/wm_file.h"
#include "schema/base/wm_folder.h"

#include <errno.h>
#include <math.h>
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

/* ---- arithmetic, sample ---------------------------------------------------------------------- */

#define ARITHMETIC "wiremill-arithmetic-1\n"

/* Lines: class, signature, error, hits, with tabs between.  */
static void read_arithmetic (reading_t *self, char *text, size_t bytes)
{
    char class[64], signature[64], *rest;
    double error;
    unsigned n_hit;
    wm_record_t record;
    (void) bytes;
    if (strncmp (text, ARITHMETIC, sizeof ARITHMETIC - 1) != 0)
        return;
    for (char *line = strtok_r (text + sizeof ARITHMETIC - 1, "\n", &rest); line;
         line = strtok_r (NULL, "\n", &rest)) {
        if (sscanf (line, "%63[^\t]\t%63[^\t]\t%lf\t%u", class, signature, &error, &n_hit) != 4 ||
            !(error >= 0) || isinf (error))
            continue;
        wm_record_init (&record, WM_RECORD_ARITHMETIC);
        record.name = class;
        record.name_bytes = (uint32_t) strlen (class);
        wm_record_text (&record, signature);
        record.n_hit = n_hit;
        memcpy (&record.n_event, &error, sizeof record.n_event);
        give (self, &record);
    }
}

static void read_sample (reading_t *self, char *text, size_t bytes)
{
    wm_record_t record;
    wm_record_init (&record, WM_RECORD_SAMPLE);
    record.payload = (const uint8_t *) text;
    record.payload_bytes = (uint32_t) bytes;
    give (self, &record);
}

/* ---- distrusted ------------------------------------------------------------------------------ */

#define DISTRUSTED "wiremill-distrusted-1\n"
#define SET_BYTES (1u << 21) /* a bit for each input that a campaign may have */

/* A text without "-", and its NUL.  */
static uint32_t put (char *to, uint32_t at, const char *text)
{
    const bool is_none = strcmp (text, "-") == 0;
    strcpy (to + at, is_none ? "" : text);
    return at + (is_none ? 0 : (uint32_t) strlen (text)) + 1;
}

/* Sets the bits that a text such as "3,7-90" names, up to its first error; returns their bytes.  */
static uint32_t parse_set (const char *text, uint8_t *set)
{
    unsigned first, last, bytes = 0;
    memset (set, 0, SET_BYTES);
    for (int n; sscanf (text, "%9u%n", &first, &n) == 1; text += *text == ',') {
        text += n;
        last = first;
        if (sscanf (text, "-%9u%n", &last, &n) == 1)
            text += n;
        for (unsigned id = first ? first : 1; id <= last && id / 8 < SET_BYTES; id++) {
            set[id / 8] |= (uint8_t) (1u << id % 8);
            bytes = id / 8 + 1 > bytes ? id / 8 + 1 : bytes;
        }
    }
    return bytes;
}

/* Lines: host, key, label, signature, why, whether the key counts alone, whether the host does, the
   inputs that are to begin again, with tabs between; "-": none. The last two may be missing.  */
static void read_distrusted (reading_t *self, char *text, size_t bytes)
{
    char part[5][240], rest[4008], name[480], texts[720];
    uint8_t *set = malloc (SET_BYTES);
    (void) bytes;
    if (set && strncmp (text, DISTRUSTED, sizeof DISTRUSTED - 1) == 0)
        text += sizeof DISTRUSTED - 1;
    else
        text += strlen (text);
    for (; *text; text += strcspn (text, "\n"), text += *text == '\n') {
        wm_record_t record;
        wm_record_init (&record, WM_RECORD_DISTRUST);
        if (sscanf (text, "%63[^\t\n]\t%15[^\t\n]\t%63[^\t\n]\t%63[^\t\n]\t%239[^\t\n]\t%4007[^\n]",
                    part[0], part[1], part[2], part[3], part[4], rest) != 6)
            continue;
        record.code = WM_DISTRUST_MACHINE | (rest[0] == '1' ? WM_DISTRUST_KEY : 0) |
                      (strncmp (rest + 1, "\t1", 2) == 0 ? WM_DISTRUST_HOST : 0);
        if (strcmp (part[0], "-") == 0 && strcmp (part[1], "-") == 0)
            record.code = 0; /* it is trusted again, and not all of it has begun again */
        record.name = name;
        record.name_bytes = put (name, put (name, 0, part[0]), part[1]);
        record.text = texts;
        record.text_bytes = put (texts, put (texts, put (texts, 0, part[2]), part[3]), part[4]);
        record.payload = set;
        record.payload_bytes = strlen (rest) > 4 && rest[3] == '\t' ? parse_set (rest + 4, set) : 0;
        give (self, &record);
    }
    free (set);
}

/* ---- told ------------------------------------------------------------------------------------ */

static void read_told (reading_t *self, char *text, size_t bytes)
{
    unsigned long long inputs, written, n_held, stops;
    unsigned is_done;
    wm_record_t record;
    (void) bytes;
    if (sscanf (text, "done %u %llu %llu\nheld %llu\npause %llu", &is_done, &inputs, &written,
                &n_held, &stops) != 5)
        return;
    wm_record_init (&record, WM_RECORD_TOLD);
    record.code = is_done != 0;
    record.n_hit = inputs;
    record.n_event = written;
    record.n_held = n_held;
    record.size = (int64_t) (stops << 1); /* "1" was a pause by an operator */
    give (self, &record);
}

/* ---- all ------------------------------------------------------------------------------------- */

static const struct {
    const char *name;
    size_t most; /* bytes; the broker never wrote a larger one */
    void (*read) (reading_t *self, char *text, size_t bytes);
} notes[] = {
    { "paused", 4096, read_paused },
    { "arithmetic", 1u << 16, read_arithmetic },
    { "sample", WM_RAW_BYTES_MAX, read_sample },
    { "distrusted", 1u << 19, read_distrusted },
    { "told", 511, read_told },
};
#define NOTES (sizeof notes / sizeof *notes)

wm_fault_t wm_old_notes_read (const char *dir, wm_ledger_t *ledger, wm_old_notes_take_t *take,
                              void *argument, wm_error_t *error)
{
    reading_t self = { ledger, take, argument, WM_OK, error };
    for (size_t i = 0; i < NOTES && !self.fault; i++) {
        size_t bytes;
        char path[PATH_BYTES];
        snprintf (path, sizeof path, "%s/%s", dir, notes[i].name);
        char *text = wm_file_text (path, notes[i].most, &bytes);
        if (text)
            notes[i].read (&self, text, bytes);
        free (text);
    }
    return self.fault;
}

wm_fault_t wm_old_notes_remove (const char *dir, bool measured, wm_error_t *error)
{
    char path[PATH_BYTES];
    bool any = false;
    for (size_t i = 0; i < NOTES; i++) {
        if (measured && notes[i].read != read_arithmetic && notes[i].read != read_sample)
            continue;
        snprintf (path, sizeof path, "%s/%s", dir, notes[i].name);
        if (unlink (path) == 0)
            any = true;
        else if (errno != ENOENT)
            return wm_fault (error, WM_EHOST,
                             "cannot remove %s, which an earlier wiremill left: %s; move it to "
                             "another folder",
                             path, strerror (errno));
    }
    if (any && wm_folder_sync (dir))
        return wm_fault (error, WM_EHOST, "cannot sync the folder %s: %s", dir, strerror (errno));
    return WM_OK;
}
