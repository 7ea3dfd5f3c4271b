/* wm_infer.h - one inference request on its way through a transport: decoded, answered, encoded.

   Tensors point into the message, which the transport keeps until the request is answered; all
   else lies in blocks of the request. A decoder checks what it can without knowing the model: that
   texts are UTF-8, that a tensor has the bytes of its shape.

   Values that are not in the message as a tensor has them (JSON, protobuf's `contents`) are read in
   a second step, wm_infer_values, when the transport has the memory for them: values_bytes. Thread:
   the loop's.  */
#ifndef WM_INFER_H
#define WM_INFER_H

#include "producer/net/wm_proto.h"
#include "producer/serving/wm_front.h"
#include "producer/serving/wm_json.h"
#include "producer/serving/wm_kserve.h"
#include "producer/serving/wm_shared.h"

#define WM_INFER_TENSORS_MAX 256 /* in one request */
#define WM_INFER_NAME_MAX 1024   /* bytes of a name */

typedef struct wm_infer_t {
    wm_ks_request_t request;
    /* Called by wm_infer_calls.reply.  */
    void (*reply) (struct wm_infer_t *self, const wm_ks_answer_t *answer);
    void *owner;
    wm_front_t *front;
    wm_hold_t *hold; /* the memory of the request, and whose share it is of */
    wm_share_t *share;
    size_t kept;         /* of the hold: what the models keep, or will as soon as they have it */
    uint64_t timeout_us; /* of the parameter; 0: none */
    uint8_t *is_json;    /* HTTP: outputs that are wanted as JSON; NULL: see all_json */
    bool all_json;       /* HTTP: of outputs that are not named */
    const wm_ks_answer_t *answer; /* that it keeps; NULL: none */
    struct wm_infer_block_t *block;
    size_t values_bytes;    /* of tensors whose values are still to be read; 0: there are none */
    wm_json_data_t *values; /* where they are, of each input; text NULL: its data is there */
    uint32_t n_read;        /* inputs that are read; the next one, where it has begun: */
    wm_json_reader_t reader;
    size_t n_copied;            /* ... its bytes that were copied from shared memory */
    wm_shared_part_t *in, *out; /* of each input and output that is wanted; NULL: none has any */
    /* Reads values of an input whose data has been allocated. True: there is more.  */
    bool (*read) (struct wm_infer_t *self, wm_kserve_tensor_t *tensor, uint8_t *to, size_t *bytes,
                  wm_ks_error_t *error);
} wm_infer_t;

/* For the requests of both transports, whose `transport` is a wm_infer_t.  */
extern const wm_transport_calls_t wm_infer_calls;

/* Makes `self` the transport of its request, before that is decoded.  */
void wm_infer_begin (wm_infer_t *self);

/* A zeroed one is empty. Frees what decoding took, and makes it empty.  */
void wm_infer_free (wm_infer_t *self);

/* Zeroed memory, 16-byte aligned, that lives as long as the request.  */
void *wm_infer_alloc (wm_infer_t *self, size_t bytes);
char *wm_infer_text (wm_infer_t *self, const void *text, size_t bytes);

/* Multiplies the dimensions and the type's size. False: a negative one, or more than SIZE_MAX. Of
   WM_TYPE_BYTES *bytes is the number of values.  */
bool wm_infer_bytes (const wm_kserve_tensor_t *tensor, size_t *bytes);

/* Names what is wrong with the shape of an input of which wm_infer_bytes is false.  */
wm_ks_code_t wm_infer_misshapen (const wm_ks_request_t *request, const wm_kserve_tensor_t *tensor,
                                 wm_ks_error_t *error);

/* Checks an input whose data is there: its shape's bytes, or the lengths of its BYTES.  */
wm_ks_code_t wm_infer_check (const wm_ks_request_t *request, const wm_kserve_tensor_t *tensor,
                             wm_ks_error_t *error);

/* Finds what the request will need beside its message: sets `kept`, and returns the bytes of that
   and of the values to be read in *more; or EXHAUSTED where either is more than a message may have.
   After decoding.  */
wm_ks_code_t wm_infer_need (wm_infer_t *self, size_t *more, wm_ks_error_t *error);

/* Reads values until *bytes of their text are read; takes what it read from *bytes. True: there is
   more. False: all inputs have their data, or error->code is not OK.  */
bool wm_infer_values (wm_infer_t *self, size_t *bytes, wm_ks_error_t *error);

/* ---- shared memory --------------------------------------------------------------------------- */

/* A parameter of a tensor; texts are lent.  */
typedef struct {
    const char *key, *text; /* text: "" where it is a number */
    size_t key_bytes, text_bytes;
    int64_t number;
} wm_infer_parameter_t;
/* Reads one into *wish; those that are not of shared memory leave it.  */
void wm_infer_wish (wm_infer_t *self, wm_shared_wish_t *wish,
                    const wm_infer_parameter_t *parameter);
/* Takes where an input's data is; it is copied by wm_infer_values. The wish has a region.  */
wm_ks_code_t wm_infer_share_input (wm_infer_t *self, wm_kserve_tensor_t *tensor,
                                   const wm_shared_wish_t *wish, wm_ks_error_t *error);
/* Takes where a wanted output's data is to be; without a region: nowhere. All outputs are
   known.  */
wm_ks_code_t wm_infer_share_output (wm_infer_t *self, uint32_t output, const wm_shared_wish_t *wish,
                                    wm_ks_error_t *error);
/* Returns the part of an output; NULL: it is in the message.  */
const wm_shared_part_t *wm_infer_shared_out (const wm_infer_t *self, uint32_t output);

/* ---- gRPC ------------------------------------------------------------------------------------ */

/* Decodes a ModelInferRequest, but for values (wm_infer_values). On an error the request has its id
   all the same, where it was read.  */
wm_ks_code_t wm_infer_decode (wm_infer_t *self, const void *data, size_t bytes,
                              wm_ks_error_t *error);

/* Values of an answer, which are sent from where they lie, behind so many bytes of its buffer.  */
typedef struct {
    size_t before;
    uint8_t *data; /* allocated, or NULL of no bytes */
    size_t bytes;
} wm_piece_t;

/* Appends a ModelInferResponse but for the values of outputs, which it takes from the answer:
   piece[i] is that of its i-th output. Returns their bytes.  */
size_t wm_infer_encode (wm_buffer_t *to, const wm_infer_t *infer, const wm_ks_answer_t *answer,
                        wm_piece_t piece[]);

/* ---- HTTP ------------------------------------------------------------------------------------ */

/* Decodes a body: `json_bytes` of JSON, then the tensors' bytes; values in JSON are read later
   (wm_infer_values).  */
wm_ks_code_t wm_infer_decode_http (wm_infer_t *self, const void *data, size_t bytes,
                                   size_t json_bytes, wm_ks_error_t *error);

/* The same for a body that is the bytes of the model's only input, one row, and nothing else
   (Inference-Header-Content-Length: 0). All outputs are answered in binary.  */
wm_ks_code_t wm_infer_decode_raw (wm_infer_t *self, const void *data, size_t bytes,
                                  wm_ks_error_t *error);

/* The body of an answer, while it is written. Large ones take long: a slice at a time.  */
typedef struct {
    const wm_infer_t *infer;
    const wm_ks_answer_t *answer;
    wm_buffer_t to;     /* what is written; the caller's */
    size_t json_bytes;  /* of its JSON, where binary tensors follow; else SIZE_MAX */
    uint32_t n_written; /* outputs whose JSON is complete, then those whose binary values are */
    bool is_begun;      /* the next one's JSON is begun, or the binary part */
    size_t at;          /* bytes of its data that are written */
} wm_infer_page_t;

/* Begins the body of an answer, which must stay as it is until all is written. INVALID: JSON has no
   such values.  */
wm_ks_code_t wm_infer_page (wm_infer_page_t *self, const wm_infer_t *infer,
                            const wm_ks_answer_t *answer, wm_ks_error_t *error);

/* Writes until *left bytes are written; takes what it wrote from *left. True: there is more.  */
bool wm_infer_write (wm_infer_page_t *self, size_t *left);

/* Returns how many bytes the values have in the body at most.  */
size_t wm_infer_text_bytes (const wm_infer_t *infer, const wm_ks_answer_t *answer);

/* Copies the answer and takes its data, so that it lives as long as the request.  */
const wm_ks_answer_t *wm_infer_keep (wm_infer_t *self, const wm_ks_answer_t *answer);

#endif
