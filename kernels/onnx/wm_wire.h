/* wm_wire.h - a protobuf file of unknown origin, bounded before the parser sees it.

   protobuf-c recurses into messages and allocates as much as their fields state. This walks the
   wire format first, along the message's description and without recursion. Private to kernels/.
   Thread: any.  */
#ifndef WM_WIRE_H
#define WM_WIRE_H

#include "schema/base/wm_fault.h"

#include <protobuf-c/protobuf-c.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define WM_WIRE_DEPTH_MAX 32        /* messages inside messages; real files reach 6 to 12 */
#define WM_WIRE_FIELDS_MAX 16777216 /* what parsing allocates; real files stay below 1e6 */

/* Checks the bytes. WM_EBATCH: not such a message; `what` names its kind in the text. *seen (may be
   NULL): whether the field `watched` of any message occurs.  */
wm_fault_t wm_wire_check (const char *path, const uint8_t *bytes, size_t size,
                          const ProtobufCMessageDescriptor *type, const char *what,
                          const ProtobufCFieldDescriptor *watched, int *seen, wm_error_t *error);

/* Returns whether a model's file is a TensorFlow graph: it begins with a node, which is a message;
   an ONNX file begins with its version, a number.  */
bool wm_wire_is_graphdef (const uint8_t *bytes, size_t size);

#endif
