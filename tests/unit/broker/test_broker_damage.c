/* test_broker_damage.c - flipped bits, cut files, zeroed sectors: never a wrong answer.

   Small campaigns of every state (finished and half finished, stopped and killed) are kept in
   memory as files; for each trial they are written out, damaged in one to three places, and opened
   as a broker opens them. A model that saw every record as it was acknowledged knows the truth:

     - whatever is answered was once true: an input that is called written was, with that digest;
       a result that can be read has the bytes that were acknowledged under its key
     - what is missing is said (records lost, a result that cannot be read, an output that is not
       as it was written), unless nothing that is left proves that it was there
     - after `rebuild` the same holds, an output that was damaged is open again, and no other is

   WM_SEED is the die, WM_TRIAL=n runs that one alone, with its words.  */
#include "broker/campaign/wm_campaign.h"
#include "broker/campaign/wm_rebuild.h"
#include "tests/proof.h"
#include "tests/unit/unit.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>

#define INPUTS 8u
#define EVENTS 2u
#define BATCHES 3u
#define ITEMS_MAX 600u
#define FILES_MAX 40u
#define WORLDS 12u

/* ---- the die --------------------------------------------------------------------------------- */

static uint64_t die;

static uint32_t roll (uint32_t sides)
{
    die = die * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t) (die >> 33) % sides;
}

/* ---- the truth ------------------------------------------------------------------------------- */

typedef struct {
    uint32_t state; /* of wm_ledger_input_state_t; 0: not there */
    uint32_t generation;
    int64_t size, n_event;
    uint8_t out_digest[16];
} input_state_t;

/* A record that was acknowledged.  */
typedef struct {
    wm_record_type_t type;
    wm_key_t key;
    uint64_t epoch, sequence, durable, payload;
    wm_place_t place;
    input_state_t after; /* of its input */
} item_t;

/* At [input][event][batch]: the item that is the result, + 1.  */
typedef uint32_t results_t[INPUTS + 1][EVENTS][BATCHES];

typedef struct {
    char name[300]; /* below the root: "c/..." of the campaign, "out/..." outputs */
    uint8_t *data;
    size_t bytes;
    int64_t mtime_s;
} file_t;

typedef struct {
    item_t item[ITEMS_MAX];
    uint32_t n_item;
    input_state_t input[INPUTS + 1];
    results_t result;
    file_t file[FILES_MAX];
    uint32_t n_file;
    uint64_t ledger_epoch, ledger_sequence; /* what its ledger accounts for */
    uint64_t epoch;                         /* the last */
} world_t;

static world_t worlds[WORLDS];
static char root[64], dir[80], out[80];
static wm_campaign_t campaign;
static wm_error_t error;

static void shell (const char *format, ...)
{
    char command[400];
    va_list arguments;
    va_start (arguments, format);
    vsnprintf (command, sizeof command, format, arguments);
    va_end (arguments);
    assert_int_equal (system (command), 0);
}

static void model (world_t *world, const wm_record_t *record, const wm_place_t *place)
{
    assert_true (world->n_item < ITEMS_MAX);
    item_t *item = &world->item[world->n_item++];
    *item = (item_t){ record->type,    record->key, record->epoch, record->sequence,
                      record->durable, 0,           *place,        { 0 } };
    input_state_t *input = &world->input[record->key.input];
    uint32_t *result = &world->result[record->key.input][0][0];
    const int of_input = record->key.ordinal == WM_ALL ||
                         (record->type != WM_RECORD_HELD && record->type != WM_RECORD_RESULT);
    if (record->payload)
        item->payload = XXH3_64bits (record->payload, record->payload_bytes);
    if (!of_input && input->state == WM_LEDGER_OPEN)
        world->result[record->key.input][record->key.ordinal][record->key.batch] =
            record->type == WM_RECORD_RESULT ? world->n_item : 0;
    if (record->type == WM_RECORD_INPUT)
        *input = (input_state_t){ WM_LEDGER_OPEN, record->key.generation, record->size, -1, { 0 } };
    if (record->type == WM_RECORD_INPUT_END || record->type == WM_RECORD_FILE_WRITTEN)
        input->n_event = (int64_t) record->n_event;
    if (record->type == WM_RECORD_KICK)
        *input = (input_state_t){ WM_LEDGER_OPEN, record->key.generation, -1, -1, { 0 } };
    if (record->type == WM_RECORD_FILE_LOST)
        input->state = WM_LEDGER_OPEN;
    if (record->type == WM_RECORD_HELD && of_input)
        input->state = WM_LEDGER_HELD;
    if (record->type == WM_RECORD_FILE_WRITTEN) {
        input->state = WM_LEDGER_WRITTEN;
        memcpy (input->out_digest, record->digest, 16);
    }
    if (of_input && record->type != WM_RECORD_INPUT_END && record->type != WM_RECORD_INPUT)
        memset (result, 0, sizeof world->result[0]);
    item->after = *input;
}

/* ---- making a world -------------------------------------------------------------------------- */

typedef struct {
    wm_record_t record;
    wm_place_t place;
    uint8_t payload[600];
    char text[64], name[64];
} draft_t;

static draft_t draft[8];
static uint32_t n_draft;

/* Appends; it counts from the next settle on.  */
static void add (world_t *world, wm_record_type_t type, uint32_t id, uint32_t ordinal,
                 uint32_t batch)
{
    draft_t *d = &draft[n_draft++];
    const input_state_t *input = &world->input[id];
    wm_record_init (&d->record, type);
    d->record.key = (wm_key_t){ id, ordinal, batch, input->generation + (type == WM_RECORD_KICK) };
    d->record.n_event = EVENTS;
    d->record.n_batch = BATCHES;
    d->record.n_hit = 5;
    d->record.code = type == WM_RECORD_HELD ? 5 : 0;
    d->record.size = type == WM_RECORD_KICK ? -1 : (int64_t) (1000 + roll (1000));
    snprintf (d->text, sizeof d->text, type == WM_RECORD_INPUT ? "/in/%u.h5" : "words", id);
    wm_record_text (&d->record, d->text);
    if (type == WM_RECORD_INPUT) {
        snprintf (d->name, sizeof d->name, "%u.scores.h5", id);
        d->record.name = d->name;
        d->record.name_bytes = (uint32_t) strlen (d->name);
    }
    if (type == WM_RECORD_RESULT) {
        for (size_t i = 0; i < sizeof d->payload; i++)
            d->payload[i] = (uint8_t) roll (256);
        d->record.payload = d->payload;
        d->record.payload_bytes = 100 + roll (500);
    }
    assert_int_equal (wm_journal_append (campaign.journal, &d->record, &d->place, &error), WM_OK);
}

static void settle (world_t *world)
{
    wm_journal_sync (campaign.journal);
    for (uint32_t i = 0; i < n_draft; i++) {
        model (world, &draft[i].record, &draft[i].place);
        wm_ledger_apply (campaign.ledger, &draft[i].record, &draft[i].place);
    }
    n_draft = 0;
}

/* A file of random bytes, and its record.  */
static void write_output (world_t *world, uint32_t id)
{
    static uint8_t bytes[3000];
    char path[200];
    const size_t n = 500 + roll (2500);
    for (size_t i = 0; i < n; i++)
        bytes[i] = (uint8_t) roll (256);
    snprintf (path, sizeof path, "%s/%u.scores.h5", out, id);
    FILE *file = fopen (path, "w");
    assert_int_equal (fwrite (bytes, 1, n, file), n);
    fclose (file);
    struct stat status;
    assert_int_equal (stat (path, &status), 0);
    struct timespec when[2] = { { .tv_sec = 1000000 + roll (1000) }, { .tv_sec = 0 } };
    when[1] = when[0];
    assert_int_equal (utimensat (AT_FDCWD, path, when, 0), 0);
    XXH128_canonical_t digest;
    XXH128_canonicalFromHash (&digest, XXH3_128bits (bytes, n));
    draft_t *d = &draft[n_draft++];
    wm_record_init (&d->record, WM_RECORD_FILE_WRITTEN);
    d->record.key = (wm_key_t){ id, 0, 0, world->input[id].generation };
    d->record.size = (int64_t) n;
    d->record.mtime_ns = when[0].tv_sec * 1000000000ll;
    d->record.n_event = EVENTS;
    memcpy (d->record.digest, digest.digest, 16);
    assert_int_equal (wm_journal_append (campaign.journal, &d->record, &d->place, &error), WM_OK);
    settle (world);
}

/* Something that a broker would do.  */
static void act (world_t *world)
{
    const uint32_t id = 1 + roll (INPUTS), what = roll (40);
    const input_state_t *input = &world->input[id];
    uint32_t first = 1;
    while (first <= INPUTS && world->input[first].state)
        first++;
    if (!input->state) {
        settle (world);
        if (first <= INPUTS)
            add (world, WM_RECORD_INPUT, first, 0, 0); /* ids one by one */
        settle (world);
    } else if (input->state != WM_LEDGER_OPEN) {
        settle (world);
        if (what < 3)
            add (world, WM_RECORD_KICK, id, WM_ALL, WM_ALL);
        else if (what < 6 && input->state == WM_LEDGER_WRITTEN)
            add (world, WM_RECORD_FILE_LOST, id, 0, 0);
        settle (world);
    } else if (input->size < 0) {
        settle (world);
        add (world, WM_RECORD_INPUT, id, 0, 0);
        settle (world);
    } else if (what < 28)
        add (world, WM_RECORD_RESULT, id, roll (EVENTS), roll (BATCHES));
    else if (what < 30)
        add (world, WM_RECORD_HELD, id, roll (EVENTS), roll (BATCHES));
    else if (what < 33)
        add (world, WM_RECORD_INPUT_END, id, 0, 0);
    else if (what < 38) {
        settle (world);
        write_output (world, id);
    } else {
        settle (world);
        add (world, WM_RECORD_HELD, id, WM_ALL, WM_ALL);
        settle (world);
    }
    if (n_draft == 8 || !roll (4))
        settle (world);
}

static void open_campaign (const wm_pins_t *pins)
{
    assert_int_equal (wm_campaign_lock (&campaign, dir, WM_CAMPAIGN_SERVE, 0, &error), WM_OK);
    assert_int_equal (wm_campaign_open (&campaign, NULL, NULL, &error), WM_OK);
    assert_int_equal (wm_campaign_start (&campaign, pins, &error), WM_OK);
    const wm_ledger_load_t nothing = { .batch = NULL };
    assert_int_equal (
        wm_ledger_load (campaign.ledger, campaign.journal, &nothing, NULL, NULL, &error), WM_OK);
    wm_journal_sweep (campaign.journal);
}

static void keep_file (world_t *world, const char *folder, const char *name)
{
    char path[500];
    struct stat status;
    assert_true (world->n_file < FILES_MAX);
    file_t *file = &world->file[world->n_file++];
    snprintf (file->name, sizeof file->name, "%s%s", folder, name);
    snprintf (path, sizeof path, "%s/%s", root, file->name);
    FILE *from = fopen (path, "r");
    assert_int_equal (stat (path, &status), 0);
    file->data = malloc ((size_t) status.st_size + 1);
    file->bytes = fread (file->data, 1, (size_t) status.st_size, from);
    file->mtime_s = status.st_mtim.tv_sec;
    fclose (from);
    if (!strstr (folder, "journal"))
        return;
    while (file->bytes && !file->data[file->bytes - 1])
        file->bytes--;
    file->bytes = (file->bytes + 4096) & ~4095ul; /* and some of what is allocated ahead */
}

static void keep_folder (world_t *world, const char *folder)
{
    char path[200];
    snprintf (path, sizeof path, "%s/%s", root, folder);
    DIR *list = opendir (path);
    for (const struct dirent *entry; (entry = readdir (list));)
        if (entry->d_type == DT_REG && strcmp (entry->d_name, "lock") != 0)
            keep_file (world, folder, entry->d_name);
    closedir (list);
}

static void world_make (world_t *world)
{
    static wm_pins_t pins;
    pins = (wm_pins_t){ .precision = "fp32",
                        .n_output = 4,
                        .n_value = 1,
                        .batch_hits = 5,
                        .batch_bytes = 4096,
                        .spec = "none: 0\n" };
    memset (pins.model, 'a', 64);
    memset (pins.wmm, 'b', 64);
    snprintf (pins.output, sizeof pins.output, "%s", out);
    shell ("rm -rf %s %s && mkdir %s", dir, out, out);
    for (uint32_t epochs = 1 + roll (3); epochs--;) {
        open_campaign (&pins);
        world->epoch = campaign.epoch;
        for (uint32_t acts = 30 + roll (100); acts--;) {
            act (world);
            if (!roll (15))
                assert_int_equal (wm_ledger_commit (campaign.ledger, &error), WM_OK);
            if (!roll (30))
                wm_journal_sweep (campaign.journal);
        }
        settle (world);
        wm_ledger_position (campaign.ledger, &world->ledger_epoch, &world->ledger_sequence);
        if (epochs == 0 && roll (2)) { /* killed: the WAL is there, and the journal is ahead */
            keep_folder (world, "c/");
            keep_folder (world, "c/journal/");
        }
        if (roll (2))
            assert_int_equal (wm_ledger_commit (campaign.ledger, &error), WM_OK);
        if (!world->n_file)
            wm_ledger_position (campaign.ledger, &world->ledger_epoch, &world->ledger_sequence);
        wm_campaign_close (&campaign);
    }
    if (!world->n_file) {
        keep_folder (world, "c/");
        keep_folder (world, "c/journal/");
    }
    keep_folder (world, "out/");
}

/* ---- damage ---------------------------------------------------------------------------------- */

typedef struct {
    const file_t *file;
    size_t first, last; /* bytes that are not what they were; last: one past */
} blow_t;

static blow_t blow[3];
static uint32_t n_blow;
static char story[400];

static void write_file (const file_t *file, const uint8_t *data, size_t bytes)
{
    char path[500];
    snprintf (path, sizeof path, "%s/%s", root, file->name);
    const int fd = open (path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    assert_true (fd >= 0 && write (fd, data, bytes) == (ssize_t) bytes);
    const struct timespec when[2] = { { .tv_sec = file->mtime_s }, { .tv_sec = file->mtime_s } };
    futimens (fd, when); /* the disk's own damage does not change the time */
    close (fd);
}

/* One bit, a cut, or a sector of zeros.  */
static void strike (const file_t *file)
{
    static uint8_t data[1 << 20];
    size_t used = file->bytes, bytes = file->bytes;
    if (!bytes || bytes > sizeof data)
        return;
    memcpy (data, file->data, bytes);
    while (used > 1 && !data[used - 1])
        used--;
    blow_t *b = &blow[n_blow++];
    const size_t at = roll ((uint32_t) used);
    const uint32_t how = roll (4);
    *b = (blow_t){ file, at, at + 1 };
    if (how < 2)
        data[at] ^= (uint8_t) (1u << roll (8));
    else if (how == 2) {
        bytes = at;
        b->last = file->bytes;
    } else {
        b->first = at & ~511ul;
        b->last = b->first + 512 < bytes ? b->first + 512 : bytes;
        memset (data + b->first, 0, b->last - b->first);
    }
    static const char *const words[] = { "a bit at", "a bit at", "cut at", "zeros at" };
    snprintf (story + strlen (story), sizeof story - strlen (story), "; %s %zu of %s", words[how],
              b->first, file->name);
    write_file (file, data, bytes);
}

static void world_write (const world_t *world)
{
    shell ("rm -rf %s %s && mkdir -p %s/journal %s", dir, out, dir, out);
    for (uint32_t i = 0; i < world->n_file; i++)
        write_file (&world->file[i], world->file[i].data, world->file[i].bytes);
    /* The lock of a killed broker of this very folder.  */
    assert_int_equal (wm_campaign_lock (&campaign, dir, WM_CAMPAIGN_SERVE, 0, &error), WM_OK);
    close (campaign.lock_fd);
    campaign.lock_fd = -1;
}

static void damage_lock (void)
{
    char path[200], text[200];
    snprintf (path, sizeof path, "%s/lock", dir);
    FILE *file = fopen (path, "r+");
    const size_t n = fread (text, 1, sizeof text, file), at = roll ((uint32_t) n);
    text[at] ^= (char) (1 << roll (7));
    rewind (file);
    fwrite (text, 1, n, file);
    fclose (file);
    snprintf (story + strlen (story), sizeof story - strlen (story), "; a bit at %zu of lock", at);
}

static int is_hit (const char *name, uint64_t first, uint64_t last)
{
    for (uint32_t i = 0; i < n_blow; i++)
        if (strcmp (blow[i].file->name, name) == 0 && blow[i].first < last && blow[i].last > first)
            return 1;
    return 0;
}

/* Damaged, or deleted because it was of no use any more.  */
static int is_item_hit (const world_t *world, const item_t *item)
{
    char name[100];
    snprintf (name, sizeof name, "c/journal/%010" PRIu64 "-%06" PRIu64 ".%s",
              item->place.segment >> 24, item->place.segment & 0xffffff,
              item->type == WM_RECORD_RESULT ? "result" : "keep");
    uint32_t i = 0;
    while (i < world->n_file && strcmp (world->file[i].name, name) != 0)
        i++;
    return i == world->n_file ||
           is_hit (name, item->place.offset, item->place.offset + item->place.bytes);
}

static int is_ledger_hit (void)
{
    return is_hit ("c/ledger.db", 0, SIZE_MAX) || is_hit ("c/ledger.db-wal", 0, SIZE_MAX);
}

/* Whether anything that is left says that this record was durable.  */
static int is_proven (const world_t *world, const item_t *item)
{
    char name[100];
    snprintf (name, sizeof name, "c/journal/%010" PRIu64 "-000001.keep", item->epoch + 1);
    if (!is_ledger_hit () &&
        (item->epoch < world->ledger_epoch ||
         (item->epoch == world->ledger_epoch && item->sequence <= world->ledger_sequence)))
        return 1;
    if (item->epoch < world->epoch && !is_hit (name, 0, WM_RECORD_HEAD_BYTES))
        return 1; /* EPOCH of the next one */
    for (uint32_t i = 0; i < world->n_item; i++)
        if (world->item[i].epoch == item->epoch && world->item[i].durable >= item->sequence &&
            !is_item_hit (world, &world->item[i]))
            return 1;
    return 0;
}

/* ---- what is answered, against the truth ----------------------------------------------------- */

typedef struct {
    input_state_t input[INPUTS + 1];
    results_t result; /* as in world_t; item WM_ALL: its record cannot be read */
    const world_t *world;
    const char *wrong; /* the first that is */
    int refused, n_unreadable;
} answer_t;

static void see_input (void *argument, const wm_ledger_input_t *row)
{
    answer_t *answer = argument;
    char path[64];
    snprintf (path, sizeof path, "/in/%u.h5", row->id);
    if (row->id > INPUTS || strcmp (row->path, path) != 0) {
        answer->wrong = "an input that was never there";
        return;
    }
    input_state_t *input = &answer->input[row->id];
    *input = (input_state_t){ row->state, row->generation, row->size, row->n_event, { 0 } };
    memcpy (input->out_digest, row->out_digest, 16);
    int was = row->state == WM_LEDGER_OPEN;
    for (uint32_t i = 0; i < answer->world->n_item; i++) {
        const item_t *item = &answer->world->item[i];
        was |= item->key.input == row->id && item->after.state == row->state &&
               item->after.generation == row->generation &&
               (row->state != WM_LEDGER_WRITTEN ||
                memcmp (item->after.out_digest, row->out_digest, 16) == 0);
    }
    if (!was)
        answer->wrong = "an input in a state that it never had";
    if (row->generation > answer->world->input[row->id].generation)
        answer->wrong = "an input of a generation that never was";
    if (row->n_event >= 0 && row->n_event != EVENTS)
        answer->wrong = "a number of events that is not so";
}

static void see_batch (void *argument, const wm_ledger_batch_t *batch)
{
    answer_t *answer = argument;
    wm_record_t record;
    const wm_key_t key = batch->key;
    if (key.input > INPUTS || key.ordinal >= EVENTS || key.batch >= BATCHES) {
        answer->wrong = "a batch that was never there";
        return;
    }
    if (batch->state != WM_LEDGER_RETURNED)
        return;
    uint32_t *result = &answer->result[key.input][key.ordinal][key.batch];
    if (wm_journal_read (campaign.journal, &batch->place, &record, &error) != WM_OK ||
        record.type != WM_RECORD_RESULT || memcmp (&record.key, &key, sizeof key)) {
        *result = WM_ALL;
        answer->n_unreadable++;
        return;
    }
    const uint64_t payload = XXH3_64bits (record.payload, record.payload_bytes);
    for (uint32_t i = answer->world->n_item; i-- > 0 && !*result;) {
        const item_t *item = &answer->world->item[i];
        if (item->type == WM_RECORD_RESULT && memcmp (&item->key, &key, sizeof key) == 0 &&
            item->payload == payload)
            *result = i + 1;
    }
    if (!*result)
        answer->wrong = "a result with bytes that were never acknowledged";
}

/* Whether the loss of this record was to be said, or is no loss.  */
static int is_excused (const world_t *world, const item_t *item, int said)
{
    return said || !is_proven (world, item);
}

static void compare (const world_t *world, answer_t *answer, int said)
{
    for (uint32_t id = 1; id <= INPUTS && !answer->wrong; id++) {
        const input_state_t *is = &answer->input[id], *was = &world->input[id];
        const item_t *last = NULL;
        for (uint32_t i = 0; i < world->n_item; i++)
            if (world->item[i].key.input == id && world->item[i].type != WM_RECORD_RESULT &&
                (world->item[i].type != WM_RECORD_HELD || world->item[i].key.ordinal == WM_ALL))
                last = &world->item[i];
        if (last &&
            (is->state != was->state || is->generation != was->generation ||
             is->size != was->size || is->n_event != was->n_event) &&
            !is_excused (world, last, said))
            answer->wrong = "an input is not what it was, and nobody says so";
        for (uint32_t b = 0; b < EVENTS * BATCHES && is->state == WM_LEDGER_OPEN; b++) {
            const uint32_t there = (&answer->result[id][0][0])[b],
                           item = (&world->result[id][0][0])[b];
            if (item && there != item && there != WM_ALL &&
                !is_excused (world, &world->item[item - 1], said))
                answer->wrong = "a result is gone or an older one, and nobody says so";
        }
    }
}

/* Opens the campaign as it lies there.  */
static answer_t look (const world_t *world)
{
    const wm_ledger_load_t to = { .input = see_input, .batch = see_batch };
    answer_t answer = { .world = world };
    uint64_t n_gone = 0;
    if (wm_campaign_lock (&campaign, dir, WM_CAMPAIGN_SERVE, 0, &error) ||
        wm_campaign_open (&campaign, NULL, NULL, &error) ||
        wm_ledger_load (campaign.ledger, campaign.journal, &to, &answer, &n_gone, &error))
        answer.refused = 1;
    else
        compare (world, &answer, campaign.found.n_lost || n_gone);
    return answer;
}

/* ---- trials ---------------------------------------------------------------------------------- */

static int is_output_hit (uint32_t id)
{
    char name[64];
    snprintf (name, sizeof name, "out/%u.scores.h5", id);
    return is_hit (name, 0, SIZE_MAX);
}

/* Rebuild, as people ask for it; then the outputs are those that were written, or open.  */
static const char *rebuild (const world_t *world)
{
    const wm_rebuild_options_t options = { .dir = dir };
    bool is_whole;
    if (wm_rebuild (&options, &is_whole, &error) || !is_whole)
        return "rebuild fails";
    answer_t answer = { .world = world };
    const wm_ledger_load_t to = { .input = see_input, .batch = see_batch };
    if (wm_campaign_lock (&campaign, dir, WM_CAMPAIGN_SERVE, 0, &error) ||
        wm_campaign_open (&campaign, NULL, NULL, &error) ||
        wm_ledger_load (campaign.ledger, NULL, &to, &answer, NULL, &error))
        return "what was rebuilt cannot be opened";
    int of_outputs_only = 1;
    for (uint32_t i = 0; i < n_blow; i++)
        of_outputs_only &= strncmp (blow[i].file->name, "out/", 4) == 0;
    for (uint32_t id = 1; id <= INPUTS && !answer.wrong; id++) {
        if (is_output_hit (id) && answer.input[id].state == WM_LEDGER_WRITTEN)
            answer.wrong = "a damaged output counts as written";
        if (of_outputs_only && !is_output_hit (id) &&
            answer.input[id].state != world->input[id].state)
            answer.wrong = "an input that nothing had happened to is another";
    }
    if (of_outputs_only && answer.n_unreadable)
        answer.wrong = "a result that nothing had happened to cannot be read";
    wm_campaign_close (&campaign);
    return answer.wrong;
}

static uint64_t n_said, n_refused;

/* NULL: all is well.  */
static const char *trial (const world_t *world, uint64_t seed)
{
    die = seed;
    n_blow = 0;
    story[0] = 0;
    world_write (world);
    for (uint32_t i = roll (4) ? 1 : 1 + roll (3); i--;)
        strike (&world->file[roll (world->n_file)]);
    if (!roll (10))
        damage_lock ();
    answer_t answer = look (world);
    n_said += campaign.found.n_lost || answer.n_unreadable || answer.refused ||
              (campaign.ledger && *wm_ledger_set_aside (campaign.ledger));
    if (answer.refused) {
        n_refused++;
        if (n_blow == 1)
            answer.wrong = error.text; /* one blow never costs a campaign */
    }
    const int started = !answer.refused && !answer.wrong && !roll (3) &&
                        wm_campaign_start (&campaign, &campaign.pins, &error) == WM_OK;
    wm_campaign_close (&campaign);
    if (started && !answer.wrong) { /* the next broker finds what this one did */
        answer_t again = look (world);
        if (again.refused || memcmp (again.input, answer.input, sizeof answer.input) ||
            memcmp (again.result, answer.result, sizeof answer.result))
            answer.wrong = "the next start says something else";
        wm_campaign_close (&campaign);
    }
    if (!answer.wrong && !answer.refused && !roll (2))
        answer.wrong = rebuild (world);
    return answer.wrong;
}

static void every_damage (void **state)
{
    const char *seed_text = getenv ("WM_SEED"), *one = getenv ("WM_TRIAL");
    const uint64_t seed = seed_text ? strtoull (seed_text, NULL, 10) : 1;
    const uint64_t n = proof_size (700, 7000, 1000000);
    const double start = proof_clock ();
    uint64_t survived = 0, n_item = 0;
    const int words = dup (2), reports = dup (1), quiet = open ("/dev/null", O_WRONLY);
    fflush (NULL);
    dup2 (quiet, 2);
    die = seed;
    for (uint32_t w = 0; w < WORLDS; w++) {
        world_make (&worlds[w]);
        n_item += worlds[w].n_item;
    }
    for (uint64_t i = one ? strtoull (one, NULL, 10) : 0; i < n; i++) {
        fflush (NULL);
        dup2 (one ? words : quiet, 2);
        dup2 (one ? reports : quiet, 1);
        const char *wrong = trial (&worlds[i % WORLDS], seed * 1000003 + i);
        fflush (NULL);
        dup2 (reports, 1);
        if (wrong)
            printf ("WM_SEED=%" PRIu64 " WM_TRIAL=%" PRIu64 ": %s%s\n", seed, i, wrong, story);
        survived += !wrong;
        if (one)
            break;
    }
    dup2 (words, 2);
    close (words);
    close (reports);
    close (quiet);
    if (one)
        return;
    printf ("damage: %" PRIu64 " blows to %u campaigns of %" PRIu64 " records: %" PRIu64
            " said at the start, %" PRIu64 " refused by name\n",
            n, WORLDS, n_item, n_said, n_refused);
    proof_line ("P5", n, survived, start);
    assert_int_equal (survived, n);
    assert_true (n_said > n / 10);
}

int main (void)
{
    /* In memory, where there is one: thousands of starts, each with its fsyncs.  */
    const char *folder = getenv ("TMPDIR"), *memory = "/dev/shm";
    if (!folder || strncmp (folder, memory, strlen (memory)) != 0)
        folder = access (memory, W_OK) ? "/tmp" : memory;
    if ((size_t) snprintf (root, sizeof root, "%s/wm-damage-XXXXXX", folder) >= sizeof root)
        return 1;
    if (!mkdtemp (root))
        return 1;
    snprintf (dir, sizeof dir, "%s/c", root);
    snprintf (out, sizeof out, "%s/out", root);
    campaign.lock_fd = -1;
    const struct CMUnitTest tests[] = { cmocka_unit_test (every_damage) };
    const int failed = cmocka_run_group_tests (tests, NULL, NULL);
    char command[100];
    snprintf (command, sizeof command, "rm -rf %s", root);
    return system (command) || failed;
}
