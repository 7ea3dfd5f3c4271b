/* wm_input_set.h - a set of inputs, by id: a bit for each.

   A zeroed one is empty. Without memory an input is left out. Thread: one.  */
#ifndef WM_INPUT_SET_H
#define WM_INPUT_SET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct {
    uint8_t *bits; /* NULL: none was ever added, or wm_input_set_free */
    size_t bytes;
} wm_input_set_t;

void wm_input_set_add (wm_input_set_t *self, uint32_t id);
void wm_input_set_remove (wm_input_set_t *self, uint32_t id);
bool wm_input_set_has (const wm_input_set_t *self, uint32_t id);
/* The next input after `id` (0: the first); 0: no input follows.  */
uint32_t wm_input_set_next (const wm_input_set_t *self, uint32_t id);
/* Removes all inputs and keeps the memory; gives the memory back, too.  */
void wm_input_set_clear (wm_input_set_t *self);
void wm_input_set_free (wm_input_set_t *self);

#endif
