/* fuzz_text.c - texts that people and peers write: patch specifications (YAML) and a campaign's
   pins. What is accepted is printed canonically and read again to the same text.  */
#include "kernels/patch/wm_spec.h"
#include "schema/wm_pins.h"
#include "tests/fuzz/fuzz.h"

#include <string.h>

const size_t fuzz_bytes_max = 16u << 20;

static void specification (const uint8_t *data, size_t size)
{
    static wm_spec_t spec, again;
    static char text[16384], once_more[16384];
    wm_error_t error;
    uint32_t given;
    wm_spec_parse_user (&spec, (const char *) data, size, "fuzz.yaml", &given, &error);
    if (wm_spec_parse (&spec, (const char *) data, size, "fuzz.yaml", &error))
        return;
    const size_t n = wm_spec_print (&spec, text, sizeof text);
    FUZZ_CHECK (n == strlen (text) && n < 4096);
    FUZZ_CHECK (!wm_spec_parse (&again, text, n, "canonical", &error));
    wm_spec_print (&again, once_more, sizeof once_more);
    FUZZ_CHECK (!strcmp (text, once_more));
    wm_spec_print_page (&spec, "none", text, sizeof text);
    wm_spec_explain (&spec, given, text, sizeof text);
    FUZZ_CHECK (wm_spec_zero (&spec) == wm_spec_zero (&again));
}

static void pins (const uint8_t *data, size_t size)
{
    static wm_pins_t self, again;
    static char text[WM_PINS_BYTES_MAX], once_more[WM_PINS_BYTES_MAX];
    wm_error_t error;
    if (wm_pins_parse (&self, (const char *) data, size, &error))
        return;
    const size_t n = wm_pins_print (&self, text);
    FUZZ_CHECK (!wm_pins_parse (&again, text, n, &error));
    FUZZ_CHECK (wm_pins_print (&again, once_more) == n && !memcmp (text, once_more, n));
    FUZZ_CHECK (!wm_pins_compare (&self, &again, &error));
}

int LLVMFuzzerTestOneInput (const uint8_t *data, size_t size)
{
    if (size && data[0] == 'P')
        pins (data + 1, size - 1);
    else if (size)
        specification (data + 1, size - 1);
    return 0;
}

void fuzz_seeds (void)
{
    static const char *const preset[] = { "protodune-2021", "dunefd-44x48" };
    static char text[1 + 16384];
    wm_spec_t spec;
    for (int i = 0; i < 2; i++) {
        FUZZ_CHECK (!wm_spec_preset (&spec, preset[i], NULL));
        text[0] = 'S';
        fuzz_seed (text, 1 + wm_spec_print (&spec, text + 1, sizeof text - 1));
        fuzz_seed (text, 1 + wm_spec_print_page (&spec, preset[i], text + 1, sizeof text - 1));
    }
    wm_pins_t self = { .precision = "split",
                       .n_output = 4,
                       .n_value = 2304,
                       .batch_hits = 4096,
                       .batch_bytes = 1u << 20,
                       .output = "/data/out",
                       .max_error = "5e-03",
                       .cut = "even" };
    memset (self.model, 'a', 64);
    memset (self.wmm, 'b', 64);
    wm_spec_print (&spec, self.spec, sizeof self.spec);
    text[0] = 'P';
    fuzz_seed (text, 1 + wm_pins_print (&self, text + 1));
    self.max_error[0] = self.cut[0] = 0;
    strcpy (self.precision, "fp32");
    fuzz_seed (text, 1 + wm_pins_print (&self, text + 1));
}
