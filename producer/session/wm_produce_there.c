/* wm_produce_there.c - outputs that lie there already: as written, changed, or somebody else's.

   What is a person's is never lost: an output that somebody changed stays or is kept under another
   name, and a file that is not this campaign's ends the process.  */
#include "producer/session/wm_produce_private.h"
#include "schema/base/wm_file.h"
#include "schema/base/wm_path.h"
#include "schema/wm_pair.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#define OUTPUT_MADE_AGAIN_MAX 2u /* by one producer: something removes them faster than we write */

/* The output, where people find it.  */
static void output_path (const wm_produce_t *self, const wm_input_t *input, char path[1400])
{
    snprintf (path, 1400, "%s/%s", self->options->store ? self->options->store : self->pins.output,
              input->name);
}

bool wm_produce_in_the_way (wm_produce_t *self, const wm_input_t *input)
{
    char path[1400], text[480];
    output_path (self, input, path);
    if (self->options->store /* looked at when it is claimed */ ||
        faccessat (AT_FDCWD, path, F_OK, AT_SYMLINK_NOFOLLOW) || /* a link to nothing is there */
        wm_writer_is_ours (path, self->campaign, NULL))
        return false;
    snprintf (text, sizeof text,
              "%.300s is in the way: it was not written by this campaign; move it, or choose "
              "another output folder",
              path);
    wm_produce_fatal (self, WM_EXIT_INPUT, text);
    return true;
}

/* Keeps what lies where an output of ours was written under another name, "<output>.<how>-1": `how`
   is "changed" by a person, or "damaged", not to be read as an output of this campaign.  */
static bool put_aside (wm_produce_t *self, const char *path, const char *how)
{
    char aside[1450];
    for (unsigned n = 1; n < 1000; n++) {
        snprintf (aside, sizeof aside, "%.1400s.%s-%u", path, how, n);
        if (!access (aside, F_OK))
            continue;
        if (rename (path, aside))
            break;
        if (!strcmp (how, "changed"))
            wm_produce_warn (self,
                             "output %s was changed since it was written: it is kept as %s, and "
                             "made again",
                             path, aside);
        else
            wm_produce_warn (self,
                             "output %s is not as it was written: it is kept as %s, and made again",
                             path, aside);
        return true;
    }
    return false;
}

void wm_produce_written_send (wm_produce_t *self, const wm_input_t *input)
{
    wm_msg_t msg;
    wm_msg_init (&msg, WM_MSG_FILE_WRITTEN);
    msg.key = wm_produce_key (input, 0,
                              input->n_empty < UINT32_MAX ? (uint32_t) input->n_empty : UINT32_MAX);
    msg.size = input->result.size;
    msg.mtime_ns = input->result.mtime_ns;
    memcpy (msg.digest, input->result.digest, 16);
    wm_produce_send (self, &msg, NULL, 0);
}

bool wm_produce_as_written (wm_produce_t *self, wm_input_t *input, bool *there)
{
    char path[1400];
    uint64_t size;
    int64_t mtime_ns;
    uint8_t digest[16];
    output_path (self, input, path);
    if (self->options->store) { /* of its own, this process knows that they are as it stored them */
        *there = wm_produce_store_has (self, input, &size);
        return *there && (input->is_there || size == input->result.size);
    }
    *there = wm_path_stat (path, &size, &mtime_ns) == 0;
    if (!*there || size != input->result.size || mtime_ns == input->result.mtime_ns)
        return *there && size == input->result.size;
    if (wm_file_digest (path, digest, NULL, NULL) || memcmp (digest, input->result.digest, 16) != 0)
        return false;
    input->result.mtime_ns = mtime_ns;
    if (!input->touched) /* a broker of an older release refuses it; once is enough then */
        wm_produce_written_send (self, input);
    input->touched = true;
    return true;
}

/* Somebody changed the output, for example added a dataset to it. It stays, and is reported: what
   was added is nowhere else. alone: its input is as it was.  */
static void changed_stays (wm_produce_t *self, wm_input_t *input, const char *path, bool alone)
{
    uint64_t size = 0;
    int64_t mtime_ns = 0;
    if (self->options->store)
        wm_produce_store_has (self, input, &size);
    else
        wm_path_stat (path, &size, &mtime_ns);
    wm_produce_warn (self,
                     "output %s was changed since it was written: it stays as it is; --retry-held "
                     "keeps it as %s.changed-1 and writes it again",
                     path, path);
    input->result.size = size; /* from now on it is compared with this state */
    input->result.mtime_ns = mtime_ns;
    wm_writer_is_ours (path, self->campaign, &input->n_held);
    input->changed = true;
    input->edited = alone;
    wm_produce_end (self, input, WM_INPUT_IS_WRITTEN);
}

void wm_produce_lost (wm_produce_t *self, wm_input_t *input, const char *text)
{
    wm_msg_t lost;
    wm_msg_init (&lost, WM_MSG_FILE_LOST);
    lost.key = wm_produce_key (input, 0, 0);
    snprintf (lost.text, sizeof lost.text, "%s", text);
    wm_produce_end (self, input, WM_INPUT_IS_LOST);
    wm_produce_send (self, &lost, NULL, 0);
}

void wm_produce_warn_of (wm_produce_t *self, const wm_input_t *input, const char *head,
                         const char *text)
{
    char last[PATH_MAX];
    const bool names =
        strstr (text, "changed since") && wm_pair_last (&self->pins, input->path, last);
    wm_produce_warn (self, "%s%s: %s%s%s", head, input->path, text,
                     names ? "; modified last: " : "", names ? last : "");
}

void wm_produce_written_check (wm_produce_t *self, wm_input_t *input, const wm_msg_t *msg)
{
    char path[1400];
    bool there;
    output_path (self, input, path);
    input->result.size = msg->size;
    input->result.mtime_ns = msg->mtime_ns;
    memcpy (input->result.digest, msg->digest, 16);
    if (wm_produce_as_written (self, input, &there)) {
        if (wm_produce_store_sidecar (self, input))
            return;
        wm_writer_is_ours (path, self->campaign, &input->n_held);
        input->changed = msg->text[0] != 0;
        if (input->changed)
            wm_produce_warn_of (self, input, "", msg->text);
        wm_produce_end (self, input, WM_INPUT_IS_WRITTEN);
        return;
    }
    if (input->checking) { /* since another session */
        wm_produce_set_is (self, input, WM_INPUT_IS_LOST);
        return;
    }
    if (wm_produce_store_look (self, input))
        return;
    const bool is_changed =
        there && (self->options->store || wm_writer_is_ours (path, self->campaign, NULL));
    if (is_changed && !self->options->retry_held) {
        changed_stays (self, input, path, !*msg->text);
        return;
    }
    if (input->n_lost++ == OUTPUT_MADE_AGAIN_MAX) {
        char text[480];
        snprintf (text, sizeof text,
                  "output %.300s was written %u times and is %s again: end what removes or changes "
                  "it; then the same command makes it again",
                  path, OUTPUT_MADE_AGAIN_MAX, there ? "not as it was written" : "gone");
        wm_produce_fatal (self, WM_EXIT_FAILURE, text);
        return;
    }
    if (there && self->options->store) {
        wm_produce_store_move (self, input);
        return;
    }
    if (there && !put_aside (self, path, is_changed ? "changed" : "damaged")) {
        char text[480];
        snprintf (text, sizeof text,
                  "%.300s is not as it was written, and cannot be renamed: %s; move it away", path,
                  strerror (errno));
        wm_produce_fatal (self, WM_EXIT_FAILURE, text);
        return;
    }
    if (!there) /* what is there was named when it was put aside */
        wm_produce_warn (self, "output %s is gone: made again", path);
    wm_produce_lost (self, input, there ? "changed" : "missing");
}

bool wm_produce_outputs_missed (wm_produce_t *self)
{
    bool there, missed = false;
    for (uint32_t i = 0; i < self->n_input; i++)
        if (self->input[i].is == WM_INPUT_IS_WRITTEN &&
            !wm_produce_as_written (self, &self->input[i], &there)) {
            wm_produce_set_is (self, &self->input[i], WM_INPUT_IS_NEW);
            missed = true;
        }
    return missed;
}
