/* fuzz_msg.c - headers of messages from peers: unseal, decode; what decodes is encoded and decoded
   again to the same message.  */
#include "schema/session/wm_msg.h"
#include "tests/fuzz/fuzz.h"

#include <string.h>

const size_t fuzz_bytes_max = 1u << 20;

static void decode (const uint8_t *frame, size_t bytes)
{
    static wm_msg_t msg, again;
    uint8_t back[WM_HEADER_BYTES_MAX], once_more[WM_HEADER_BYTES_MAX];
    wm_error_t error;
    if (wm_msg_decode (&msg, frame, bytes, &error))
        return;
    FUZZ_CHECK (memchr (msg.text, 0, sizeof msg.text) && memchr (msg.name, 0, sizeof msg.name));
    FUZZ_CHECK (memchr (msg.path, 0, sizeof msg.path) && memchr (msg.class, 0, sizeof msg.class));
    const size_t n = wm_msg_encode (&msg, back);
    FUZZ_CHECK (n <= WM_HEADER_BYTES_MAX && !wm_msg_decode (&again, back, n, &error));
    FUZZ_CHECK (wm_msg_encode (&again, once_more) == n && !memcmp (back, once_more, n));
}

int LLVMFuzzerTestOneInput (const uint8_t *data, size_t size)
{
    uint8_t frame[WM_HEADER_BYTES_MAX];
    decode (data, size); /* a header as it is, ... */
    const size_t bytes = wm_msg_unseal (data, size, 0, 0);
    FUZZ_CHECK (bytes <= size);
    if (size <= WM_HEADER_BYTES_MAX - 8) { /* ... and sealed by a peer that knows how */
        memcpy (frame, data, size);
        const size_t sealed = wm_msg_seal (frame, size, 5, 2);
        FUZZ_CHECK (wm_msg_unseal (frame, sealed, 5, 2) == size);
        FUZZ_CHECK (wm_msg_unseal (frame, sealed, 6, 2) == 0);
        FUZZ_CHECK (wm_msg_unseal (frame, sealed, 5, 3) == 0);
    }
    return 0;
}

void fuzz_seeds (void)
{
    for (int type = WM_MSG_HELLO; type < WM_MSG_TYPE_END; type++) {
        uint8_t frame[WM_HEADER_BYTES_MAX];
        static wm_msg_t msg;
        wm_msg_init (&msg, (wm_msg_type_t) type);
        if (!strcmp (wm_msg_name (msg.type), "?"))
            continue;
        msg.key = (wm_key_t){ 1, 70000, 3, 200 };
        msg.epoch = 1ull << 40, msg.size = 5000000000u, msg.mtime_ns = -3, msg.error = 0.25;
        memset (msg.digest, 0xab, sizeof msg.digest);
        strcpy (msg.text, "in words"), strcpy (msg.name, "events.h5.scores.h5");
        strcpy (msg.path, "/data/events.h5"), strcpy (msg.class, "avx2");
        fuzz_seed (frame, wm_msg_encode (&msg, frame));
    }
}
