/* fuzz_endpoint.c - endpoint.json as it lies in a folder that others share, and addresses as people
   type them. What is accepted gives addresses that parse, and no text of it steers a terminal.

   Input: "A" and a text of addresses, "L" and one to listen on, else the file.  */
#include "schema/session/wm_endpoint.h"
#include "tests/fuzz/fuzz.h"

#include <stdlib.h>
#include <string.h>

const size_t fuzz_bytes_max = 4u << 20;

/* Each address is printed, and read again to the same.  */
static void addresses (const char *text, wm_address_use_t use)
{
    wm_address_t list[WM_ADDRESSES_MAX], again[WM_ADDRESSES_MAX];
    wm_error_t error;
    const int n = wm_address_parse (list, text, use, &error);
    FUZZ_CHECK (n >= 0 && n <= WM_ADDRESSES_MAX);
    for (int i = 0; i < n; i++) {
        char once[WM_ADDRESS_BYTES], twice[WM_ADDRESS_BYTES];
        FUZZ_CHECK (memchr (list[i].host, 0, sizeof list[i].host));
        wm_address_print (&list[i], NULL, once);
        FUZZ_CHECK (wm_address_parse (again, once, use, &error) == 1);
        wm_address_print (&again[0], NULL, twice);
        FUZZ_CHECK (!strcmp (once, twice));
        FUZZ_CHECK (wm_address_is_near (&list[i]) == wm_address_is_near (&again[0]));
    }
}

static void is_plain (const char *text)
{
    for (; *text; text++)
        FUZZ_CHECK ((unsigned char) *text > ' ' && *text != 127);
}

static void file (const uint8_t *data, size_t size)
{
    wm_endpoint_t self;
    wm_address_t list[WM_ADDRESSES_MAX];
    wm_error_t error;
    char text[WM_ENDPOINT_BYTES], last[WM_ADDRESS_BYTES + 200];
    if (wm_endpoint_read (&self, fuzz_file (data, size), &error)) {
        FUZZ_CHECK (error.fault == WM_EAGAIN && memchr (error.text, 0, sizeof error.text));
        return;
    }
    is_plain (self.host);
    is_plain (self.campaign);
    is_plain (self.version);
    FUZZ_CHECK (wm_address_parse (list, self.endpoint, WM_ADDRESS_CONNECT, &error) == 1);
    if (*self.advertise)
        FUZZ_CHECK (wm_address_parse (list, self.advertise, WM_ADDRESS_CONNECT, &error) > 0);
    wm_endpoint_last (&self, last);
    FUZZ_CHECK (memchr (last, 0, sizeof last));
    for (size_t bytes = 1; bytes <= sizeof text; bytes *= 4) {
        if (wm_endpoint_choose (&self, text, bytes, &error))
            continue;
        FUZZ_CHECK (strlen (text) < bytes);
        FUZZ_CHECK (wm_address_parse (list, text, WM_ADDRESS_CONNECT, &error) > 0);
    }
}

int LLVMFuzzerTestOneInput (const uint8_t *data, size_t size)
{
    if (!size || (data[0] != 'A' && data[0] != 'L')) {
        file (data, size);
        return 0;
    }
    char *text = malloc (size);
    FUZZ_CHECK (text);
    memcpy (text, data + 1, size - 1);
    text[size - 1] = 0;
    addresses (text, data[0] == 'A' ? WM_ADDRESS_CONNECT : WM_ADDRESS_LISTEN);
    free (text);
    return 0;
}

void fuzz_seeds (void)
{
    static const char *const text[] = {
        "Atcp://head.example.org:5555,tcp://[fe80::1%eth0]:7/8/9,ipc:///tmp/b",
        "Afile:///data/out/.wiremill/endpoint.json",
        "Ltcp://*:5500-5600,tcp://eth0:*,tcp://[::]:0",
        "{\"endpoint\": \"ipc:///tmp/b\", \"pid\": 7}",
        "{\"endpoint\": \"tcp://127.0.0.1:5555\", \"pid\": 77, \"campaign\": "
        "\"00112233445566778899aabbccddeeff\", \"version\": \"0.1.0\", \"host\": \"head\", "
        "\"started\": 1795000000, \"listen\": [\"tcp://*:5555\", \"tcp://[::]:5555\"], "
        "\"advertise\": [\"tcp://head.example.org:5555\", \"tcp://10.1.2.3:1/2/3\"], "
        "\"keys\": true}",
    };
    for (size_t i = 0; i < sizeof text / sizeof *text; i++)
        fuzz_seed (text[i], strlen (text[i]));
}
