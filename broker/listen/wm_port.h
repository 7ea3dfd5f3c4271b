/* wm_port.h - which process of this machine listens on a TCP port.  */
#ifndef WM_PORT_H
#define WM_PORT_H

#define WM_PORT_HOLDER_BYTES 80

/* Prints "process 4711 (wiremill-broker)"; "another program" where the process cannot be found:
   it is another user's, or the port has been released since. Reads /proc. Thread: any.  */
void wm_port_holder (int port, char text[WM_PORT_HOLDER_BYTES]);

#endif
