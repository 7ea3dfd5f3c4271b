/* wm_produce_tell.c - tells the command that started this producer what became of each input.

   Lines on an inherited pipe; N is the place of an input in the list of inputs, from 0:

     output FOLDER   where outputs lie; sent before any input is read, so that a hostile one cannot
                     choose it
     written N NAME  the broker has journaled that the output is written
     held N          no output, as it is reported
     changed N       its output is written, and stays; the input was changed since
     edited N        its output was changed by others since it was written, and stays
     placed N SLOT NAME
                     with --sidecars: the output is whole in the folder SLOT/out of --scratch, and
                     goes to its server; its sidecar is to be written there, as NAME.json
     low             nothing is left to read, and half of the events on their way are done
     away            the outputs' server does not answer: this producer ends with 75 and may be
                     started again (producer/produce.c, before there is a session)

   Each line is one write of less than PIPE_BUF bytes, so that a kill leaves no part of one. A
   producer that is started again tells what was told before again.  */
#include "producer/session/wm_produce_private.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static void tell (const wm_produce_t *self, const char *format, ...)
    __attribute__ ((format (printf, 2, 3)));
static void tell (const wm_produce_t *self, const char *format, ...)
{
    char line[2048];
    va_list arguments;
    va_start (arguments, format);
    const int n = vsnprintf (line, sizeof line, format, arguments);
    va_end (arguments);
    /* who listens has ended where this fails, and ends this process, too */
    while (self->options->tell && n > 0 && n < (int) sizeof line &&
           write (self->options->tell, line, (size_t) n) < 0 && errno == EINTR)
        ;
}

void wm_produce_tell_output (const wm_produce_t *self)
{
    tell (self, "output %s\n", self->pins.output);
}

void wm_produce_tell_end (const wm_produce_t *self, const wm_input_t *input)
{
    if (input->is == WM_INPUT_IS_WRITTEN && !input->changed)
        tell (self, "written %u %s\n", input->line, input->name);
    else if (input->is == WM_INPUT_IS_WRITTEN)
        tell (self, "%s %u\n", input->edited ? "edited" : "changed", input->line);
    else if (input->is == WM_INPUT_IS_HELD)
        tell (self, "held %u\n", input->line);
}

void wm_produce_tell_placed (const wm_produce_t *self, const wm_input_t *input)
{
    const char *slot = strrchr (self->options->staged, '/') + 1;
    tell (self, "placed %u %s %s\n", input->line, slot, input->name);
}

void wm_produce_tell_low (wm_produce_t *self)
{
    uint64_t n_event = 0, n_done = 0;
    if (!self->options->tell || self->told_low || self->n_ended + self->n_active < self->n_input)
        return;
    for (uint32_t i = 0; i < self->n_active; i++) {
        const wm_input_t *input = self->active[i];
        if (!input->event || input->next < input->n_event)
            return;
        n_event += input->n_event;
        n_done += input->n_done;
    }
    if (2 * n_done < n_event)
        return;
    self->told_low = true;
    tell (self, "low\n");
}
