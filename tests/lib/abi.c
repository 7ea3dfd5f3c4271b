/* abi.c - fails to compile where wiremill.h no longer fits programs that were compiled before.
   It is C99 and C++.  */
#include <wiremill.h>

#define SAME(name, what) typedef char name[(what) ? 1 : -1]
SAME (error_size, sizeof (wiremill_error_t) == 512);
SAME (error_text, offsetof (wiremill_error_t, text) == 4);
SAME (options_size, sizeof (wiremill_options_t) == 40);
SAME (options_engine, offsetof (wiremill_options_t, engine) == 8);
SAME (options_precision, offsetof (wiremill_options_t, precision) == 16);
SAME (options_outputs, offsetof (wiremill_options_t, outputs) == 24);
SAME (options_threads, offsetof (wiremill_options_t, threads) == 32);
SAME (connect_size, sizeof (wiremill_connect_options_t) == 32);
SAME (connect_join, offsetof (wiremill_connect_options_t, join_file) == 8);
SAME (connect_patience, offsetof (wiremill_connect_options_t, patience_ms) == 16);
SAME (connect_memory, offsetof (wiremill_connect_options_t, memory) == 24);
SAME (faults, WIREMILL_OK == 0 && WIREMILL_AGAIN == 1 && WIREMILL_INPUT == 3 &&
                  WIREMILL_HOST == 4 && WIREMILL_USAGE == 5);
SAME (statuses, WIREMILL_SCORED == 0 && WIREMILL_BAD_PIXEL == 3 && WIREMILL_HELD == 5 &&
                    WIREMILL_POISON == 4 && WIREMILL_NONFINITE == 6);
SAME (dims, WIREMILL_DIMS_MAX == 6);

/* The signatures: a function of another type cannot be assigned.  */
static wiremill_t *(*open_fn) (const char *, const wiremill_options_t *,
                               wiremill_error_t *) = wiremill_open;
static void (*close_fn) (wiremill_t **) = wiremill_close;
static wiremill_fault_t (*score_fn) (wiremill_t *, const float *, size_t, size_t, float *,
                                     uint8_t *, wiremill_error_t *) = wiremill_score;
static uint32_t (*shape_fn) (const wiremill_t *, uint32_t *) = wiremill_shape;
static size_t (*value_fn) (const wiremill_t *) = wiremill_n_value;
static size_t (*output_fn) (const wiremill_t *) = wiremill_n_output;
static const char *(*label_fn) (const wiremill_t *, size_t) = wiremill_label;
static const char *(*signature_fn) (const wiremill_t *) = wiremill_signature;
static const char *(*sha256_fn) (const wiremill_t *) = wiremill_sha256;
static const char *(*status_fn) (uint8_t) = wiremill_status_text;
static const char *(*version_fn) (void) = wiremill_version;

/* Of WIREMILL_2.  */
static wiremill_client_t *(*connect_fn) (const char *, const wiremill_connect_options_t *,
                                         wiremill_error_t *) = wiremill_connect;
static void (*client_close_fn) (wiremill_client_t **) = wiremill_client_close;
static size_t (*client_value_fn) (const wiremill_client_t *) = wiremill_client_n_value;
static size_t (*client_output_fn) (const wiremill_client_t *) = wiremill_client_n_output;
static uint32_t (*client_shape_fn) (const wiremill_client_t *, uint32_t *) = wiremill_client_shape;
static const char *(*client_label_fn) (const wiremill_client_t *, size_t) = wiremill_client_label;
static const char *(*client_sha256_fn) (const wiremill_client_t *) = wiremill_client_sha256;
static wiremill_fault_t (*submit_fn) (wiremill_client_t *, const float *, size_t, size_t, int,
                                      uint64_t *, wiremill_error_t *) = wiremill_submit;
static wiremill_fault_t (*poll_fn) (wiremill_client_t *, uint64_t, size_t *,
                                    wiremill_error_t *) = wiremill_poll;
static wiremill_fault_t (*wait_fn) (wiremill_client_t *, uint64_t, int, float *, uint8_t *,
                                    wiremill_error_t *) = wiremill_wait;
static void (*forget_fn) (wiremill_client_t *, uint64_t) = wiremill_forget;
static wiremill_fault_t (*client_score_fn) (wiremill_client_t *, const float *, size_t, size_t,
                                            float *, uint8_t *,
                                            wiremill_error_t *) = wiremill_client_score;

int main (void)
{
    return !(open_fn && close_fn && score_fn && shape_fn && value_fn && output_fn && label_fn &&
             signature_fn && sha256_fn && status_fn && version_fn && connect_fn &&
             client_close_fn && client_value_fn && client_output_fn && client_shape_fn &&
             client_label_fn && client_sha256_fn && submit_fn && poll_fn && wait_fn && forget_fn &&
             client_score_fn);
}
