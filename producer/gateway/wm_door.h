/* wm_door.h - a listening socket in the loop: accepts connections while there is room for them.

   Thread: the loop's.  */
#ifndef WM_DOOR_H
#define WM_DOOR_H

#include "producer/gateway/wm_front.h"
#include "producer/gateway/wm_io.h"

typedef struct wm_door_t wm_door_t;

/* Takes a connection, which its address may have: a descriptor, and "ADDRESS:PORT" of its peer. It
   counts it in front->connections[kind].  */
typedef void wm_enter_t (void *argument, int fd, const char *peer);

/* Takes the listening descriptor. NULL with errno: it is closed.  */
wm_door_t *wm_door_new (wm_front_t *front, wm_front_kind_t kind, int listener, wm_enter_t *enter,
                        void *argument);
/* Accepts no more.  */
void wm_door_destroy (wm_door_t **self_p);

#endif
