/* fuzz_join.c - lines of join files, and the table of keys as it lies in a campaign's folder. A
   line is a line whoever printed it; a change of any digit is noticed.

   Input: "T" and a table; "K", 73 bytes of a key, and changes (place, digit) of the line that is
   printed of it; else a join file.  */
#include "schema/session/wm_join.h"
#include "schema/session/wm_keys.h"
#include "tests/fuzz/fuzz.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

const size_t fuzz_bytes_max = 4u << 20;

/* What is accepted is printed canonically, and read again to the same.  */
static void accepted (const wm_join_t *join)
{
    wm_join_t again;
    wm_error_t error;
    char once[WM_JOIN_LINE_BYTES], twice[WM_JOIN_LINE_BYTES];
    FUZZ_CHECK (join->role >= WM_ROLE_WORKER && join->role <= WM_ROLE_MONITOR);
    FUZZ_CHECK (strlen (join->id) == WM_JOIN_ID_BYTES - 1 && join->expires_s >= 0);
    wm_join_print (join, once);
    FUZZ_CHECK (!wm_join_parse (&again, once, &error));
    FUZZ_CHECK (!memcmp (again.secret, join->secret, 32) && again.role == join->role);
    wm_join_print (&again, twice);
    FUZZ_CHECK (!strcmp (once, twice));
}

static void file (const uint8_t *data, size_t size)
{
    wm_join_t join;
    wm_error_t error;
    if (!wm_join_read (&join, fuzz_file (data, size), &error))
        accepted (&join);
    else
        FUZZ_CHECK (error.fault == WM_EUSAGE && !strstr (error.text, "wm1-0"));
}

static void changed (fuzz_take_t *in)
{
    wm_join_t join = { 0 }, again;
    wm_error_t error;
    char line[WM_JOIN_LINE_BYTES], other[WM_JOIN_LINE_BYTES];
    join.role = (wm_role_t) (fuzz_take (in, 1) % 8);
    snprintf (join.id, sizeof join.id, "%08x", (unsigned) fuzz_take (in, 4));
    join.expires_s = (int64_t) fuzz_take (in, 4);
    fuzz_take_bytes (in, join.secret, 32);
    fuzz_take_bytes (in, join.server, 32);
    wm_join_print (&join, line);
    memcpy (other, line, sizeof line);
    while (in->at < in->end) {
        const size_t at = fuzz_take (in, 1) % (sizeof line - 1);
        other[at] = (char) fuzz_take (in, 1);
    }
    const bool is_sound = join.role >= WM_ROLE_WORKER && join.role <= WM_ROLE_MONITOR;
    FUZZ_CHECK (!wm_join_parse (&again, line, &error) == is_sound);
    if (wm_join_parse (&again, other, &error))
        return;
    accepted (&again); /* another case, or a letter that stands for a digit */
    FUZZ_CHECK (!memcmp (again.secret, join.secret, 32) && !memcmp (again.server, join.server, 32));
}

static void remove_all (void)
{
    char path[128];
    snprintf (path, sizeof path, "%s/keys", fuzz_scratch ());
    unlink (path);
    rmdir (fuzz_scratch ());
}

static void table (const uint8_t *data, size_t size)
{
    static bool is_made;
    wm_keys_t keys = { 0 };
    wm_error_t error;
    char path[128];
    snprintf (path, sizeof path, "%s/keys", fuzz_scratch ());
    if (!is_made) {
        FUZZ_CHECK (!mkdir (fuzz_scratch (), 0700) || errno == EEXIST);
        atexit (remove_all);
        is_made = true;
    }
    FILE *to = fopen (path, "wb");
    FUZZ_CHECK (to && fwrite (data, 1, size, to) == size && !fclose (to));
    if (wm_keys_read (&keys, fuzz_scratch (), &error)) {
        FUZZ_CHECK (error.fault == WM_EBATCH && !keys.n && !keys.row);
        return;
    }
    FUZZ_CHECK (keys.n <= WM_KEYS_MAX);
    for (size_t i = 0; i < keys.n; i++) {
        const wm_keys_row_t *row = &keys.row[i];
        FUZZ_CHECK (memchr (row->note, 0, sizeof row->note) && *wm_role_name (row->role));
        FUZZ_CHECK (wm_keys_of_id (&keys, row->id) && wm_keys_of_public (&keys, row->public_key));
        wm_keys_why_not (row, 1795000000);
    }
    wm_keys_free (&keys);
}

int LLVMFuzzerTestOneInput (const uint8_t *data, size_t size)
{
    fuzz_take_t in = { data + 1, data + size };
    if (size && data[0] == 'T')
        table (data + 1, size - 1);
    else if (size && data[0] == 'K')
        changed (&in);
    else
        file (data, size);
    return 0;
}

void fuzz_seeds (void)
{
    char line[WM_JOIN_LINE_BYTES + 2];
    uint8_t key[1 + 73 + 4] = { 'K', WM_ROLE_PRODUCER, 1, 2, 3, 4 };
    wm_join_t join = { .role = WM_ROLE_WORKER, .id = "0011aabb", .expires_s = 1795000000 };
    memset (join.secret, 7, sizeof join.secret);
    memset (join.server, 9, sizeof join.server);
    wm_join_print (&join, line);
    strcat (line, "\n");
    fuzz_seed (line, strlen (line));
    key[75] = '0', key[76] = 20, key[77] = 'o';
    fuzz_seed (key, sizeof key);
    static const char rows[] = "Twiremill-keys 1\n"
                               "worker\t0011aabb\t"
                               "0707070707070707070707070707070707070707070707070707070707070707"
                               "\t1795000000\t0\t0\tsite A\n"
                               "monitor\t0011aabc\t"
                               "0807070707070707070707070707070707070707070707070707070707070707"
                               "\t1795000000\t1796000000\t1795000001\t\n"
                               "end 2\n";
    fuzz_seed (rows, sizeof rows - 1);
}
