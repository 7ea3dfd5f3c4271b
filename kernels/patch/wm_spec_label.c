/* wm_spec_label.c - labels for a model whose specification names none.  */
#include "kernels/model/wm_model.h"
#include "kernels/patch/wm_spec_private.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

/* What no label may hold becomes '_'; 0 where nothing usable is left.  */
static int make_label (char label[32], const char *name, bool numbered, uint32_t k)
{
    char text[160];
    int n = numbered ? snprintf (text, sizeof text, "%s_%u", name, k)
                     : snprintf (text, sizeof text, "%s", name);
    if (n < 1 || n >= 32)
        return 0;
    for (int i = 0; i < n; i++)
        if (!(text[i] >= '0' && text[i] <= '9') &&
            !((text[i] | 32) >= 'a' && (text[i] | 32) <= 'z'))
            text[i] = text[i] == '-' ? '-' : '_';
    if (wm_spec_is_column (text))
        return 0;
    memcpy (label, text, (size_t) n + 1);
    return 1;
}

static int make_labels (wm_spec_t *self, const wm_model_t *model, bool all_numbered)
{
    uint32_t n = 0;
    memset (self->label, 0, sizeof self->label);
    for (uint32_t i = 0; i < wm_model_n_output_port (model); i++) {
        const wm_port_t *port = wm_model_output (model, i);
        for (uint32_t k = 0; k < port->n_value; k++, n++) {
            if (!make_label (self->label[n], port->name, all_numbered || port->n_value > 1, k))
                return 0;
            for (uint32_t other = 0; other < n; other++)
                if (!strcmp (self->label[n], self->label[other]))
                    return 0;
        }
    }
    self->n_label = n;
    return 1;
}

void wm_spec_label (wm_spec_t *self, const wm_model_t *model)
{
    self->n_label = 0;
    if (wm_model_n_output (model) <= WM_SPEC_LABELS_MAX &&
        (make_labels (self, model, false) || make_labels (self, model, true)))
        return;
    memset (self->label, 0, sizeof self->label);
}
