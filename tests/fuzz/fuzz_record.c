/* fuzz_record.c - journal segments as another machine, or a bad disk, left them: replayed, and the
   ledger made of what was found.

   Input: the bytes of the segments of two epochs, after two bytes that choose. A mutation breaks
   checksums, so that with the first byte odd every head that begins like a record gets right ones
   before the journal sees it: what the checksums cover is tried too.  */
#include "broker/disk/wm_ledger.h"
#include "tests/fuzz/fuzz.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

const size_t fuzz_bytes_max = 64u << 20;

#define SEGMENTS 4
#define SEGMENT_BYTES (64u << 10)

/* ---- a disk that is only read ---------------------------------------------------------------- */

static struct {
    char name[40];
    uint64_t id;
    uint8_t data[SEGMENT_BYTES];
    int64_t size;
} file[SEGMENTS];

static const char *const names[SEGMENTS] = { "00000000000000000001-000001.keep",
                                             "00000000000000000001-000002.result",
                                             "00000000000000000002-000001.keep",
                                             "00000000000000000002-000002.result" };

static int disk_fine (void *context, const char *path)
{
    (void) context, (void) path;
    return 0;
}
static int disk_fine_fd (void *context, int fd)
{
    (void) context, (void) fd;
    return 0;
}
static int disk_list (void *context, const char *path, void (*each) (void *, const char *),
                      void *argument)
{
    (void) context, (void) path;
    for (int i = 0; i < SEGMENTS; i++)
        if (file[i].size)
            each (argument, file[i].name);
    return 0;
}
static int disk_create (void *context, const char *path)
{
    (void) context, (void) path;
    errno = ENOSPC;
    return -1;
}
static int disk_open (void *context, const char *path)
{
    (void) context;
    const char *slash = strrchr (path, '/');
    for (int i = 0; i < SEGMENTS; i++)
        if (!strcmp (file[i].name, slash ? slash + 1 : path))
            return i;
    errno = ENOENT;
    return -1;
}
static int64_t disk_size (void *context, int fd)
{
    (void) context;
    return file[fd].size;
}
static ssize_t disk_read (void *context, int fd, void *to, size_t bytes, int64_t offset)
{
    (void) context;
    if (offset >= file[fd].size)
        return 0;
    const size_t left = (size_t) (file[fd].size - offset), n = bytes < left ? bytes : left;
    memcpy (to, file[fd].data + offset, n);
    return (ssize_t) n;
}
static ssize_t disk_write (void *context, int fd, const void *from, size_t bytes, int64_t offset)
{
    (void) context, (void) fd, (void) from, (void) bytes, (void) offset;
    errno = ENOSPC;
    return -1;
}
static int disk_allocate (void *context, int fd, int64_t offset, int64_t bytes)
{
    (void) context, (void) fd, (void) offset, (void) bytes;
    errno = ENOSPC;
    return -1;
}
static const wm_storage_ops_t disk = { .make_folder = disk_fine,
                                       .list = disk_list,
                                       .create = disk_create,
                                       .open = disk_open,
                                       .close = disk_fine_fd,
                                       .size = disk_size,
                                       .allocate = disk_allocate,
                                       .read = disk_read,
                                       .write = disk_write,
                                       .sync = disk_fine_fd,
                                       .forget = disk_fine_fd,
                                       .sync_folder = disk_fine,
                                       .remove = disk_fine };

/* ---- inputs ---------------------------------------------------------------------------------- */

/* Gives every record its checksums; sizes that cannot be leave it broken.  */
static void checksums_put (int i)
{
    for (size_t at = 0; at + WM_RECORD_HEAD_BYTES <= (size_t) file[i].size; at += 8) {
        wm_record_t record;
        uint8_t *head = file[i].data + at;
        size_t bytes;
        memcpy (&record, head, WM_RECORD_HEAD_BYTES);
        if (record.magic != WM_RECORD_MAGIC || wm_record_size (&record, &bytes, NULL) ||
            bytes > (size_t) file[i].size - at)
            continue;
        uint8_t *part = malloc (bytes), *encoded = malloc (bytes);
        FUZZ_CHECK (part && encoded);
        memcpy (part, head + WM_RECORD_HEAD_BYTES, bytes - WM_RECORD_HEAD_BYTES);
        record.text = (const char *) part;
        record.name = record.text + record.text_bytes;
        record.payload = part + record.text_bytes + record.name_bytes;
        wm_record_encode (&record, file[i].id, at, encoded);
        memcpy (head, encoded, bytes);
        free (part);
        free (encoded);
        at += bytes - 8;
    }
}

static void files_take (const uint8_t *data, size_t size)
{
    const uint8_t how = size > 0 ? data[0] : 0;
    data += size > 0, size -= size > 0;
    for (int i = 0; i < SEGMENTS; i++) {
        const size_t share = size / SEGMENTS;
        strcpy (file[i].name, names[i]);
        file[i].id = ((uint64_t) (i / 2 + 1) << 24) + (uint64_t) (i % 2) + 1;
        file[i].size = (int64_t) (share < SEGMENT_BYTES ? share : SEGMENT_BYTES);
        memset (file[i].data, 0, SEGMENT_BYTES);
        if (share)
            memcpy (file[i].data, data + (size_t) i * share, (size_t) file[i].size);
        if (how % 2)
            checksums_put (i);
    }
}

/* ---- the target ------------------------------------------------------------------------------ */

static uint64_t seen;
static void on_input (void *argument, const wm_ledger_input_t *input)
{
    (void) argument;
    seen += strlen (input->path) + strlen (input->name) + strlen (input->text);
}
static void on_batch (void *argument, const wm_ledger_batch_t *batch)
{
    (void) argument;
    seen += strlen (batch->text) + strlen (wm_ledger_signature (argument, batch->signature));
}
static void on_campaign (void *argument, const wm_ledger_campaign_t *campaign)
{
    (void) argument;
    seen += campaign->pins_bytes + strlen (campaign->pins);
}

int LLVMFuzzerTestOneInput (const uint8_t *data, size_t size)
{
    static const wm_ledger_load_t load = { .campaign = on_campaign,
                                           .input = on_input,
                                           .batch = on_batch };
    wm_journal_found_t found;
    wm_error_t error;
    files_take (data, size);
    wm_journal_t *journal = wm_journal_open ("fuzz", &disk, &error);
    wm_ledger_t *ledger = journal ? wm_ledger_open (NULL, NULL, &error) : NULL;
    if (ledger && !wm_ledger_catch_up (ledger, journal, &found, &error)) {
        FUZZ_CHECK (memchr (found.text, 0, sizeof found.text));
        uint64_t n_gone;
        wm_ledger_load (ledger, journal, &load, ledger, &n_gone, &error);
    }
    wm_ledger_destroy (&ledger);
    wm_journal_destroy (&journal);
    return 0;
}

/* ---- seeds ----------------------------------------------------------------------------------- */

static uint8_t text[1 + SEGMENTS * 4096];
static size_t end[SEGMENTS];
static uint64_t sequence;

static void record_put (int segment, wm_record_t *record, const char *words)
{
    size_t bytes;
    uint8_t encoded[2048];
    wm_record_text (record, words);
    record->epoch = (uint64_t) segment / 2 + 1;
    record->sequence = ++sequence;
    FUZZ_CHECK (!wm_record_size (record, &bytes, NULL) && bytes <= sizeof encoded);
    FUZZ_CHECK (end[segment] + bytes <= 4096);
    wm_record_encode (record, ((uint64_t) (segment / 2 + 1) << 24) + (uint64_t) (segment % 2) + 1,
                      end[segment], encoded);
    memcpy (text + 1 + 4096 * segment + end[segment], encoded, bytes);
    end[segment] += bytes;
}

void fuzz_seeds (void)
{
    static const uint8_t scores[3 * 17];
    for (int epoch = 0; epoch < 2; epoch++) {
        const int keep = 2 * epoch, result = keep + 1;
        sequence = 0;
        for (int part = 0; part < 2; part++) {
            wm_record_t first;
            wm_record_init (&first, WM_RECORD_EPOCH);
            first.code = WM_JOURNAL_FORMAT, first.size = epoch, first.n_event = 8;
            record_put (keep + part, &first, "");
        }
        for (int type = WM_RECORD_CAMPAIGN; type < WM_RECORD_EPOCH; type++) {
            wm_record_t record;
            wm_record_init (&record, (wm_record_type_t) type);
            record.key = (wm_key_t){ 1 + (uint32_t) epoch, 0, type == WM_RECORD_HELD ? 1 : 0, 0 };
            record.n_batch = 2, record.n_hit = 3, record.n_event = 1, record.size = 100;
            memset (record.digest, 7, sizeof record.digest);
            if (type == WM_RECORD_INPUT)
                record.name = "a.scores.h5", record.name_bytes = 11;
            if (type == WM_RECORD_RESULT)
                record.payload = scores, record.payload_bytes = sizeof scores;
            if (type == WM_RECORD_KICK || type == WM_RECORD_FILE_LOST)
                record.key.ordinal = record.key.batch = WM_ALL;
            if (type == WM_RECORD_FILE_WRITTEN && !epoch)
                continue; /* the first input stays open */
            record_put (type == WM_RECORD_RESULT ? result : keep, &record,
                        type == WM_RECORD_CAMPAIGN ? "model: abc\n" : "/data/a.h5");
        }
    }
    fuzz_seed (text, sizeof text);
    text[0] = 1;
    fuzz_seed (text, sizeof text);
}
