/* wm_msg.c - encodes and decodes message headers from one table of fields.

   Every type is a row of field names; encoder and decoder walk the same row, so that they cannot
   disagree. Packing is msgpack-c's; reading is a walker of our own over at most 4 KiB, because the
   library's unpacker reserves gigabytes for five hostile bytes.  */
#include "schema/session/wm_msg.h"

#include <assert.h>
#include <msgpack.h>
#include <stddef.h>
#include <string.h>
#include <xxhash.h>

typedef enum { U32, U64, I64, F64, BIN16, STRING } kind_t;

typedef struct {
    kind_t kind;
    size_t offset, size; /* in wm_msg_t; size of a string includes its NUL */
} field_t;

enum {
    F_END,
    F_INPUT,
    F_ORDINAL,
    F_BATCH,
    F_GENERATION,
    F_DIGEST,
    F_INSTANCE,
    F_PROTOCOL,
    F_ROLE,
    F_CODE,
    F_N_BATCH,
    F_N_HIT,
    F_N_HELD,
    F_ATTEMPT,
    F_EPOCH,
    F_COUNT,
    F_RECEIVED,
    F_OFFSET,
    F_SIZE,
    F_MTIME,
    F_RUN,
    F_SUBRUN,
    F_EVENT,
    F_TEXT,
    F_NAME,
    F_PATH,
    F_ERROR,
    F_CLASS,
    F_COUNT_OF
};

#define AT(member) offsetof (wm_msg_t, member), sizeof (((wm_msg_t *) 0)->member)
static const field_t fields[F_COUNT_OF] = {
    [F_INPUT] = { U32, AT (key.input) },   [F_ORDINAL] = { U32, AT (key.ordinal) },
    [F_BATCH] = { U32, AT (key.batch) },   [F_GENERATION] = { U32, AT (key.generation) },
    [F_DIGEST] = { BIN16, AT (digest) },   [F_INSTANCE] = { BIN16, AT (instance) },
    [F_PROTOCOL] = { U32, AT (protocol) }, [F_ROLE] = { U32, AT (role) },
    [F_CODE] = { U32, AT (code) },         [F_N_BATCH] = { U32, AT (n_batch) },
    [F_N_HIT] = { U32, AT (n_hit) },       [F_N_HELD] = { U32, AT (n_held) },
    [F_ATTEMPT] = { U32, AT (attempt) },   [F_EPOCH] = { U64, AT (epoch) },
    [F_COUNT] = { U64, AT (count) },       [F_RECEIVED] = { U64, AT (received) },
    [F_OFFSET] = { U64, AT (offset) },     [F_SIZE] = { U64, AT (size) },
    [F_MTIME] = { I64, AT (mtime_ns) },    [F_RUN] = { I64, AT (run) },
    [F_SUBRUN] = { I64, AT (subrun) },     [F_EVENT] = { I64, AT (event) },
    [F_TEXT] = { STRING, AT (text) },      [F_NAME] = { STRING, AT (name) },
    [F_PATH] = { STRING, AT (path) },      [F_ERROR] = { F64, AT (error) },
    [F_CLASS] = { STRING, AT (class) },
};

enum {
    TO_W = 1 << WM_ROLE_WORKER,
    TO_P = 1 << WM_ROLE_PRODUCER,
    TO_O = 1 << WM_ROLE_OPERATOR,
    TO_ALL = TO_W | TO_P | TO_O,
};

#define KEY F_INPUT, F_ORDINAL, F_BATCH, F_GENERATION
#define FIELDS_MAX 12
static const struct {
    const char *name;
    bool has_payload;
    uint8_t to;                /* the roles that a broker sends it to: TO_...; 0: peers send it */
    uint8_t field[FIELDS_MAX]; /* ends with F_END */
} types[WM_MSG_TYPE_END] = {
    /* clang-format off */
    [WM_MSG_HELLO]        = { "HELLO", true, 0,
                              { F_PROTOCOL, F_ROLE, F_INSTANCE, F_NAME, F_TEXT, F_CLASS, F_ERROR,
                                F_N_HIT } },
    [WM_MSG_WELCOME]      = { "WELCOME", true, TO_ALL,
                              { F_PROTOCOL, F_EPOCH, F_INSTANCE, F_DIGEST, F_CODE, F_TEXT } },
    [WM_MSG_REJECT]       = { "REJECT", false, TO_ALL, { F_CODE, F_TEXT } },
    [WM_MSG_BYE]          = { "BYE", false, TO_ALL, { F_CODE, F_TEXT } },
    [WM_MSG_HEARTBEAT]    = { "HEARTBEAT", false, TO_ALL, { KEY, F_COUNT, F_RECEIVED, F_TEXT } },
    [WM_MSG_ACK]          = { "ACK", false, TO_P | TO_O, { KEY, F_CODE } },
    [WM_MSG_INPUT]        = { "INPUT", false, 0, { F_CODE, F_SIZE, F_MTIME, F_NAME, F_PATH } },
    [WM_MSG_INPUT_ACK]    = { "INPUT_ACK", false, TO_P,
                              { KEY, F_CODE, F_SIZE, F_MTIME, F_DIGEST, F_NAME, F_TEXT, F_PATH } },
    [WM_MSG_SUBMIT]       = { "SUBMIT", true, 0,
                              { KEY, F_RUN, F_SUBRUN, F_EVENT, F_N_BATCH, F_N_HIT, F_N_HELD } },
    [WM_MSG_SUBMIT_ACK]   = { "SUBMIT_ACK", true, TO_P, { KEY } },
    [WM_MSG_NEED]         = { "NEED", false, TO_P, { KEY, F_DIGEST } },
    [WM_MSG_BATCH]        = { "BATCH", true, 0, { KEY, F_DIGEST } },
    [WM_MSG_EVENT_DONE]   = { "EVENT_DONE", false, TO_P, { KEY, F_N_HELD } },
    [WM_MSG_INPUT_END]    = { "INPUT_END", false, 0, { KEY, F_COUNT } },
    [WM_MSG_FETCH]        = { "FETCH", false, 0, { KEY } },
    [WM_MSG_RESULTS]      = { "RESULTS", true, TO_P,
                              { KEY, F_DIGEST, F_N_HIT, F_CODE, F_ERROR, F_TEXT } },
    [WM_MSG_FILE_WRITTEN] = { "FILE_WRITTEN", false, 0, { KEY, F_SIZE, F_MTIME, F_DIGEST } },
    [WM_MSG_FILE_LOST]    = { "FILE_LOST", false, 0, { KEY, F_TEXT } },
    [WM_MSG_INPUT_HELD]   = { "INPUT_HELD", false, 0, { KEY, F_CODE, F_TEXT } },
    [WM_MSG_MODEL_GET]    = { "MODEL_GET", false, 0, { F_OFFSET } },
    [WM_MSG_MODEL]        = { "MODEL", true, TO_W, { F_OFFSET, F_SIZE } },
    [WM_MSG_CREDIT]       = { "CREDIT", false, 0, { F_COUNT } },
    [WM_MSG_TASK]         = { "TASK", true, TO_W,
                              { KEY, F_DIGEST, F_N_BATCH, F_N_HIT, F_ATTEMPT } },
    [WM_MSG_RESULT]       = { "RESULT", true, 0,
                              { KEY, F_DIGEST, F_N_BATCH, F_N_HIT, F_ATTEMPT, F_TEXT, F_NAME } },
    [WM_MSG_RESULT_ACK]   = { "RESULT_ACK", false, TO_W, { KEY } },
    [WM_MSG_NACK]         = { "NACK", false, 0, { KEY, F_ATTEMPT, F_CODE, F_TEXT } },
    [WM_MSG_REVOKE]       = { "REVOKE", false, TO_W, { KEY } },
    [WM_MSG_DRAIN]        = { "DRAIN", false, TO_W | TO_P, { F_TEXT } },
    [WM_MSG_STATUS]       = { "STATUS", false, 0, { F_END } },
    [WM_MSG_STATUS_REPLY] = { "STATUS_REPLY", true, TO_O, { F_END } },
    [WM_MSG_CONTROL]      = { "CONTROL", false, 0, { F_NAME, F_TEXT } },
    [WM_MSG_SAMPLE]       = { "SAMPLE", true, 0, { F_N_HIT } },
    [WM_MSG_TRIAL_GET]    = { "TRIAL_GET", false, 0, { F_END } },
    [WM_MSG_TRIAL]        = { "TRIAL", true, TO_W, { F_CODE } },
    /* clang-format on */
};

static bool type_exists (uint64_t type)
{
    return type >= WM_MSG_HELLO && type < WM_MSG_TYPE_END && types[type].name;
}

static size_t field_count (wm_msg_type_t type)
{
    size_t count = 0;
    while (types[type].field[count] != F_END)
        count++;
    return count;
}

void wm_msg_init (wm_msg_t *self, wm_msg_type_t type)
{
    memset (self, 0, sizeof *self);
    self->type = type;
}

const char *wm_msg_name (wm_msg_type_t type)
{
    return type_exists (type) ? types[type].name : "?";
}

bool wm_msg_has_payload (wm_msg_type_t type)
{
    return type_exists (type) && types[type].has_payload;
}

bool wm_msg_is_for (wm_msg_type_t type, wm_role_t role)
{
    return type_exists (type) && types[type].to & 1u << role;
}

/* msgpack-c's packer writes through this: into the caller's 4 KiB, never beyond.  */
typedef struct {
    uint8_t *frame;
    size_t bytes;
} sink_t;

static int sink_write (void *data, const char *bytes, size_t count)
{
    sink_t *sink = data;
    assert (sink->bytes + count <= WM_HEADER_BYTES_MAX);
    memcpy (sink->frame + sink->bytes, bytes, count);
    sink->bytes += count;
    return 0;
}

static void field_pack (msgpack_packer *packer, const field_t *field, const uint8_t *at)
{
    uint32_t u32;
    uint64_t u64;
    int64_t i64;
    switch (field->kind) {
    case U32:
        memcpy (&u32, at, 4);
        msgpack_pack_uint32 (packer, u32);
        return;
    case U64:
        memcpy (&u64, at, 8);
        msgpack_pack_uint64 (packer, u64);
        return;
    case I64:
        memcpy (&i64, at, 8);
        msgpack_pack_int64 (packer, i64);
        return;
    case F64: {
        double f64;
        memcpy (&f64, at, 8);
        msgpack_pack_double (packer, f64);
        return;
    }
    case BIN16:
        msgpack_pack_bin (packer, 16);
        msgpack_pack_bin_body (packer, at, 16);
        return;
    case STRING: {
        size_t length = strnlen ((const char *) at, field->size);
        assert (length < field->size);
        msgpack_pack_str (packer, length);
        msgpack_pack_str_body (packer, at, length);
        return;
    }
    }
}

size_t wm_msg_encode (const wm_msg_t *self, uint8_t frame[WM_HEADER_BYTES_MAX])
{
    assert (type_exists (self->type));
    sink_t sink = { frame, 0 };
    msgpack_packer packer;
    msgpack_packer_init (&packer, &sink, sink_write);
    size_t count = field_count (self->type);
    msgpack_pack_array (&packer, count + 1);
    msgpack_pack_uint32 (&packer, (uint32_t) self->type);
    for (size_t i = 0; i < count; i++) {
        const field_t *field = &fields[types[self->type].field[i]];
        field_pack (&packer, field, (const uint8_t *) self + field->offset);
    }
    return sink.bytes;
}

uint64_t wm_msg_check (const void *payload, size_t bytes)
{
    return payload ? XXH3_64bits (payload, bytes) : 0;
}

size_t wm_msg_seal (uint8_t frame[WM_HEADER_BYTES_MAX], size_t bytes, uint64_t payload_check,
                    uint64_t number)
{
    const uint64_t check = XXH3_64bits_withSeed (frame, bytes, payload_check + number);
    assert (bytes + sizeof check <= WM_HEADER_BYTES_MAX);
    memcpy (frame + bytes, &check, sizeof check);
    return bytes + sizeof check;
}

size_t wm_msg_unseal (const uint8_t *frame, size_t bytes, uint64_t payload_check, uint64_t number)
{
    uint64_t check;
    if (bytes <= sizeof check || bytes > WM_HEADER_BYTES_MAX)
        return 0;
    bytes -= sizeof check;
    memcpy (&check, frame + bytes, sizeof check);
    return check == XXH3_64bits_withSeed (frame, bytes, payload_check + number) ? bytes : 0;
}

/* The walker: reads one value at a time, checking every length against the bytes left.  */
typedef struct {
    const uint8_t *at, *end;
} walk_t;

static int walk_bytes (walk_t *walk, size_t count, uint64_t *value)
{
    if ((size_t) (walk->end - walk->at) < count)
        return -1;
    *value = 0;
    for (size_t i = 0; i < count; i++)
        *value = *value << 8 | *walk->at++;
    return 0;
}

/* An integer of either sign, in any of the msgpack integer formats.  */
static int walk_integer (walk_t *walk, uint64_t *value, bool *negative)
{
    uint64_t tag;
    *negative = false;
    if (walk_bytes (walk, 1, &tag))
        return -1;
    if (tag <= 0x7f) {
        *value = tag;
        return 0;
    }
    if (tag >= 0xe0) {
        *value = (uint64_t) (int64_t) (int8_t) tag;
        *negative = true;
        return 0;
    }
    if (tag >= 0xcc && tag <= 0xcf)
        return walk_bytes (walk, (size_t) 1 << (tag - 0xcc), value);
    if (tag >= 0xd0 && tag <= 0xd3) {
        size_t bytes = (size_t) 1 << (tag - 0xd0);
        if (walk_bytes (walk, bytes, value))
            return -1;
        uint64_t sign = (uint64_t) 1 << (8 * bytes - 1);
        *value = (*value ^ sign) - sign;
        *negative = *value >> 63 != 0;
        return 0;
    }
    return -1;
}

/* Length of a string or of binary data; that many bytes are known to follow.  */
static int walk_length (walk_t *walk, bool binary, size_t *length)
{
    uint64_t tag, value;
    if (walk_bytes (walk, 1, &tag))
        return -1;
    if (!binary && (tag & 0xe0) == 0xa0)
        value = tag & 0x1f;
    else {
        uint64_t first = binary ? 0xc4 : 0xd9;
        if (tag < first || tag > first + 2 ||
            walk_bytes (walk, (size_t) 1 << (tag - first), &value))
            return -1;
    }
    if (value > (uint64_t) (walk->end - walk->at))
        return -1;
    *length = (size_t) value;
    return 0;
}

static int field_read (walk_t *walk, const field_t *field, uint8_t *to)
{
    uint64_t value;
    bool negative;
    size_t length = 0;
    switch (field->kind) {
    case U32:
        if (walk_integer (walk, &value, &negative) || negative || value > UINT32_MAX)
            return -1;
        memcpy (to, &(uint32_t){ (uint32_t) value }, 4);
        return 0;
    case U64:
        if (walk_integer (walk, &value, &negative) || negative)
            return -1;
        memcpy (to, &value, 8);
        return 0;
    case I64:
        if (walk_integer (walk, &value, &negative) || (!negative && value > INT64_MAX))
            return -1;
        memcpy (to, &value, 8);
        return 0;
    case F64:
        if (walk_bytes (walk, 1, &value) || value != 0xcb || walk_bytes (walk, 8, &value))
            return -1;
        memcpy (to, &value, 8);
        return 0;
    case BIN16:
        if (walk_length (walk, true, &length) || length != 16)
            return -1;
        break;
    case STRING:
        if (walk_length (walk, false, &length) || length >= field->size ||
            memchr (walk->at, 0, length))
            return -1;
        break;
    }
    memcpy (to, walk->at, length);
    walk->at += length;
    return 0;
}

wm_fault_t wm_msg_decode (wm_msg_t *self, const uint8_t *frame, size_t bytes, wm_error_t *error)
{
    memset (self, 0, sizeof *self);
    if (bytes > WM_HEADER_BYTES_MAX)
        return wm_fault (error, WM_EPEER, "header of %zu bytes, more than %u", bytes,
                         WM_HEADER_BYTES_MAX);
    walk_t walk = { frame, frame + bytes };
    uint64_t tag, type;
    bool negative;
    if (walk_bytes (&walk, 1, &tag) || (tag & 0xf0) != 0x90)
        return wm_fault (error, WM_EPEER, "header is not a msgpack array of at most 15 values");
    if (walk_integer (&walk, &type, &negative) || negative || !type_exists (type))
        return wm_fault (error, WM_EPEER, "unknown message type");
    size_t count = field_count ((wm_msg_type_t) type);
    if ((tag & 0x0f) != count + 1)
        return wm_fault (error, WM_EPEER, "%s with %d fields instead of %zu", types[type].name,
                         (int) (tag & 0x0f) - 1, count);
    for (size_t i = 0; i < count; i++) {
        const field_t *field = &fields[types[type].field[i]];
        if (field_read (&walk, field, (uint8_t *) self + field->offset))
            return wm_fault (error, WM_EPEER, "%s: field %zu does not fit the grammar",
                             types[type].name, i + 1);
    }
    if (walk.at != walk.end)
        return wm_fault (error, WM_EPEER, "%s with %zu bytes too many", types[type].name,
                         (size_t) (walk.end - walk.at));
    self->type = (wm_msg_type_t) type;
    return WM_OK;
}
