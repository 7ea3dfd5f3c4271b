/* unit.h - cmocka, and the four headers that it wants before its own. Few tests use the state that
   cmocka gives them: no warning of it, nor of what a helper does not use.  */
#ifndef TESTS_UNIT_H
#define TESTS_UNIT_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#pragma GCC diagnostic ignored "-Wunused-parameter"

#endif
