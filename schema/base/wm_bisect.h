/* wm_bisect.h - finds a place in what is sorted.

   Thread: any.  */
#ifndef WM_BISECT_H
#define WM_BISECT_H

/* Returns the first index from `from` on whose item is not before the place; `end`: all are.
   `is_before` asks it of index `i`: it is true of the first items, and false of those behind
   them.  */
#define WM_BISECT(from, end, i, is_before)                                                         \
    ({                                                                                             \
        __typeof__ ((end) + 0) low_ = (from), high_ = (end);                                       \
        while (low_ < high_) {                                                                     \
            const __typeof__ ((end) + 0) i = low_ + (high_ - low_) / 2;                            \
            if (is_before)                                                                         \
                low_ = i + 1;                                                                      \
            else                                                                                   \
                high_ = i;                                                                         \
        }                                                                                          \
        low_;                                                                                      \
    })

#endif
