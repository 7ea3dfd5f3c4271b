/* wm_wire.h - a protobuf file of unknown origin, bounded before the parser sees it.

   protobuf-c recurses into messages and allocates what their fields say; so the wire format is
   walked along the message's own description first, without recursion. Private to kernels/.
   Thread: any.  */
#ifndef WM_WIRE_H
#define WM_WIRE_H

#include "schema/base/wm_fault.h"

#include <protobuf-c/protobuf-c.h>
#include <stddef.h>
#include <stdint.h>

#define WM_WIRE_DEPTH_MAX 32        /* messages inside messages; real files reach 6 to 12 */
#define WM_WIRE_FIELDS_MAX 16777216 /* what parsing allocates; real files stay below 1e6 */

/* WM_EBATCH where the bytes are no such message: `what` names its kind. *seen (may be NULL): whether
   the field `watched` of any message is in them.  */
wm_fault_t wm_wire_check (const char *path, const uint8_t *bytes, size_t size,
                          const ProtobufCMessageDescriptor *type, const char *what,
                          const ProtobufCFieldDescriptor *watched, int *seen, wm_error_t *error);

/* Whether a model's file is a TensorFlow graph: that begins with a node, which is a message; an ONNX
   file begins with its version, a number.  */
int wm_wire_is_graphdef (const uint8_t *bytes, size_t size);

#endif
