/* wm_order.h - defines functions by which qsort and bsearch order.

   Each is static and has the first argument as its name. Thread: any.  */
#ifndef WM_ORDER_H
#define WM_ORDER_H

#include <string.h>

#define WM_ORDER(a, b) (((a) > (b)) - ((a) < (b)))

/* Orders numbers of this type, least first.  */
#define WM_ORDER_NUMBERS(name, type)                                                               \
    static int name (const void *a, const void *b)                                                 \
    {                                                                                              \
        return WM_ORDER (*(const type *) a, *(const type *) b);                                    \
    }

/* Orders objects of this type by a member that is a number.  */
#define WM_ORDER_BY(name, type, member)                                                            \
    static int name (const void *a, const void *b)                                                 \
    {                                                                                              \
        return WM_ORDER (((const type *) a)->member, ((const type *) b)->member);                  \
    }

/* Orders objects of this type by a member that is a text.  */
#define WM_ORDER_BY_TEXT(name, type, member)                                                       \
    static int name (const void *a, const void *b)                                                 \
    {                                                                                              \
        return strcmp (((const type *) a)->member, ((const type *) b)->member);                    \
    }

#endif
