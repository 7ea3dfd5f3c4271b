/* wm_table.h - a table from 64-bit hash to pointer.

   Owns its slots, not the items. Several items may have one hash: walk them with first and next.
   A zeroed table is empty; free (slot) ends it. Hashes must be mixed: their low bits pick the slot.
   Thread: one at a time.  */
#ifndef WM_TABLE_H
#define WM_TABLE_H

#include <stddef.h>
#include <stdint.h>

typedef struct {
    uint64_t hash;
    void *item; /* NULL: empty */
} wm_table_slot_t;

typedef struct {
    wm_table_slot_t *slot;
    size_t mask, count;
} wm_table_t;

/* Makes room for one more; -1 without memory. wm_table_put after it cannot fail.  */
int wm_table_reserve (wm_table_t *self);
void wm_table_put (wm_table_t *self, uint64_t hash, void *item);

/* First item of this hash; *at is for wm_table_next. NULL: no more.  */
void *wm_table_first (const wm_table_t *self, uint64_t hash, size_t *at);
void *wm_table_next (const wm_table_t *self, uint64_t hash, size_t *at);

/* The hash of a text.  */
uint64_t wm_table_text (const char *text);

/* Does nothing if it is not there.  */
void wm_table_remove (wm_table_t *self, uint64_t hash, const void *item);

/* Mixes an integer; a bijection (splitmix64's finalizer), so that equal hashes are equal integers.
 */
static inline uint64_t wm_table_mix (uint64_t value)
{
    value = (value ^ value >> 30) * 0xbf58476d1ce4e5b9u;
    value = (value ^ value >> 27) * 0x94d049bb133111ebu;
    return value ^ value >> 31;
}

#endif
