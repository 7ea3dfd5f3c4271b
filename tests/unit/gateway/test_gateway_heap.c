/* test_gateway_heap.c - items of a heap come in the order of their keys, whatever was added and
   removed meanwhile.  */
#include "producer/net/wm_heap.h"
#include "tests/unit/unit.h"

#include <stdbool.h>
#include <stdlib.h>
/* cmocka.h needs those before it */

#define ITEMS 300

static bool is_before (const wm_heap_item_t *item, const wm_heap_item_t *other)
{
    for (int k = 0; k < 3; k++)
        if (item->key[k] != other->key[k])
            return item->key[k] < other->key[k];
    return false;
}

static void check_first (const wm_heap_t *heap, const wm_heap_item_t *item, const bool *is_in)
{
    const wm_heap_item_t *first = NULL;
    for (int i = 0; i < ITEMS; i++)
        if (is_in[i] && (!first || is_before (&item[i], first)))
            first = &item[i];
    assert_ptr_equal (wm_heap_first (heap), first);
}

static void test_order (void **state)
{
    wm_heap_t heap = { 0 };
    wm_heap_item_t item[ITEMS];
    bool is_in[ITEMS] = { false };
    uint64_t number = 0;
    srand (7);
    check_first (&heap, item, is_in);
    for (int round = 0; round < 20000; round++) {
        const int i = round % 5 == 4 && heap.n ? (int) (wm_heap_first (&heap) - item)
                                               : rand () % (round < 10000 ? ITEMS : 20);
        if (is_in[i])
            wm_heap_remove (&heap, &item[i]);
        else {
            item[i].key[0] = (uint64_t) rand () % 3;
            item[i].key[1] = (uint64_t) rand () % 4;
            item[i].key[2] = ++number;
            wm_heap_add (&heap, &item[i]);
        }
        is_in[i] = !is_in[i];
        check_first (&heap, item, is_in);
    }
    free (heap.item);
}

int main (void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test (test_order) };
    return cmocka_run_group_tests (tests, NULL, NULL);
}
