/* wm_record.c - encodes and checks one record of the journal.

   Two checksums: a short one of the head, so that a search for the next record after damage costs
   a head's bytes a candidate whatever a payload imitates, and one of everything. Both are XXH3
   seeded by the place (xxHash, Y. Collet).  */
#include "schema/wm_record.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <string.h>

#define NAME_BYTES_MAX 255u
#define OFFSET_CHECK offsetof (wm_record_t, head_check)
#define OFFSET_CHECKSUM offsetof (wm_record_t, checksum)

const char *wm_record_name (uint32_t type)
{
    static const char *const names[WM_RECORD_TYPE_END] = {
        [WM_RECORD_CAMPAIGN] = "CAMPAIGN",
        [WM_RECORD_INPUT] = "INPUT",
        [WM_RECORD_INPUT_END] = "INPUT_END",
        [WM_RECORD_RESULT] = "RESULT",
        [WM_RECORD_HELD] = "HELD",
        [WM_RECORD_KICK] = "KICK",
        [WM_RECORD_FILE_WRITTEN] = "FILE_WRITTEN",
        [WM_RECORD_FILE_LOST] = "FILE_LOST",
        [WM_RECORD_EPOCH] = "EPOCH",
        [WM_RECORD_DROPPED] = "DROPPED",
        [WM_RECORD_PAUSE] = "PAUSE",
        [WM_RECORD_ARITHMETIC] = "ARITHMETIC",
        [WM_RECORD_SAMPLE] = "SAMPLE",
        [WM_RECORD_DISTRUST] = "DISTRUST",
        [WM_RECORD_TOLD] = "TOLD",
    };
    return type < WM_RECORD_TYPE_END && names[type] ? names[type] : "?";
}

void wm_record_init (wm_record_t *self, wm_record_type_t type)
{
    memset (self, 0, sizeof *self);
    self->type = type;
}

void wm_record_text (wm_record_t *self, const char *text)
{
    self->text = text;
    self->text_bytes = (uint32_t) strlen (text);
}

static size_t whole_bytes (const wm_record_t *self)
{
    const size_t bytes =
        WM_RECORD_HEAD_BYTES + (size_t) self->text_bytes + self->name_bytes + self->payload_bytes;
    return (bytes + 7) & ~(size_t) 7;
}

static int is_within_limits (const wm_record_t *self)
{
    return self->text_bytes <= WM_RECORD_TEXT_BYTES_MAX && self->name_bytes <= NAME_BYTES_MAX &&
           self->payload_bytes <= WM_PATCH_BYTES_MAX;
}

wm_fault_t wm_record_size (const wm_record_t *self, size_t *bytes, wm_error_t *error)
{
    if (!is_within_limits (self))
        return wm_fault (error, WM_EHOST,
                         "a %s record with %u bytes of text, %u of name and %u of payload is over "
                         "the limits of the journal (%u, %u, %u)",
                         wm_record_name (self->type), self->text_bytes, self->name_bytes,
                         self->payload_bytes, WM_RECORD_TEXT_BYTES_MAX, NAME_BYTES_MAX,
                         WM_PATCH_BYTES_MAX);
    *bytes = whole_bytes (self);
    return WM_OK;
}

/* Spreads a place over 64 bits; any odd constant does (this is 2^64 over the golden ratio).  */
static uint64_t place_seed (uint64_t segment, uint64_t offset)
{
    return segment * 0x9e3779b97f4a7c15u ^ offset;
}

static uint32_t head_check_of (const uint8_t *buffer, uint64_t segment, uint64_t offset)
{
    return (uint32_t) XXH3_64bits_withSeed (buffer, OFFSET_CHECK, place_seed (segment, offset));
}

static uint64_t checksum_of (const uint8_t *buffer, size_t bytes, uint64_t segment, uint64_t offset)
{
    const uint64_t head =
        XXH3_64bits_withSeed (buffer, OFFSET_CHECKSUM, place_seed (segment, offset));
    return XXH3_64bits_withSeed (buffer + WM_RECORD_HEAD_BYTES, bytes - WM_RECORD_HEAD_BYTES, head);
}

static uint8_t *put (uint8_t *to, const void *from, size_t bytes)
{
    if (bytes)
        memcpy (to, from, bytes);
    return to + bytes;
}

size_t wm_record_encode (wm_record_t *self, uint64_t segment, uint64_t offset, uint8_t *buffer)
{
    assert (is_within_limits (self));
    const size_t bytes = whole_bytes (self);
    self->magic = WM_RECORD_MAGIC;
    self->bytes = (uint32_t) bytes;
    uint8_t *end = put (buffer, self, OFFSET_CHECK);
    self->head_check = head_check_of (buffer, segment, offset);
    memcpy (end, &self->head_check, sizeof self->head_check);
    end = put (buffer + WM_RECORD_HEAD_BYTES, self->text, self->text_bytes);
    end = put (end, self->name, self->name_bytes);
    end = put (end, self->payload, self->payload_bytes);
    memset (end, 0, (size_t) (buffer + bytes - end));
    self->checksum = checksum_of (buffer, bytes, segment, offset);
    memcpy (buffer + OFFSET_CHECKSUM, &self->checksum, sizeof self->checksum);
    return bytes;
}

size_t wm_record_peek (const uint8_t *buffer, uint64_t segment, uint64_t offset)
{
    wm_record_t head;
    memcpy (&head, buffer, WM_RECORD_HEAD_BYTES);
    if (head.magic != WM_RECORD_MAGIC || head.head_check != head_check_of (buffer, segment, offset))
        return 0;
    if (!is_within_limits (&head) || head.bytes != whole_bytes (&head) || head.type == 0 ||
        head.type >= WM_RECORD_TYPE_END)
        return 0;
    return head.bytes;
}

size_t wm_record_check (wm_record_t *self, const uint8_t *buffer, size_t bytes, uint64_t segment,
                        uint64_t offset)
{
    if (bytes < WM_RECORD_HEAD_BYTES)
        return 0;
    const size_t whole = wm_record_peek (buffer, segment, offset);
    if (whole == 0 || whole > bytes)
        return 0;
    memset (self, 0, sizeof *self);
    memcpy (self, buffer, WM_RECORD_HEAD_BYTES);
    if (self->checksum != checksum_of (buffer, whole, segment, offset))
        return 0;
    const uint8_t *part = buffer + WM_RECORD_HEAD_BYTES;
    self->text = self->text_bytes ? (const char *) part : NULL;
    part += self->text_bytes;
    self->name = self->name_bytes ? (const char *) part : NULL;
    part += self->name_bytes;
    self->payload = self->payload_bytes ? part : NULL;
    return whole;
}
