/* ways.h - the ways in which a test writes its network, WAYS (X), as flags and names.

   Included behind the definition of WAYS: NAME is a flag, N_WAY how many, way_name[] in words.  */
#ifndef WAYS_H
#define WAYS_H

enum {
#define BIT(name) BIT_##name,
    WAYS (BIT)
#undef BIT
        N_WAY
};
enum {
#define WAY(name) name = 1 << BIT_##name,
    WAYS (WAY)
#undef WAY
};
static const char *const way_name[] = {
#define NAME(name) #name,
    WAYS (NAME)
#undef NAME
};

#endif
