/* fuzz_status.c - what a broker answers to `wiremill status` and `serve`, and endpoint.json as it
   lies in a campaign's folder: JSON of any content, printed as people and Prometheus see it.  */
#include "ops/status.c" /* what prints is static there */

#include "ops/serve/wm_metrics.h"
#include "tests/fuzz/fuzz.h"

#include <fcntl.h>

const size_t fuzz_bytes_max = 16u << 20;

int LLVMFuzzerTestOneInput (const uint8_t *data, size_t size)
{
    static int silent = -1;
    if (silent < 0) {
        silent = open ("/dev/null", O_WRONLY | O_CLOEXEC);
        dup2 (silent, STDOUT_FILENO);
    }
    json_t *status = json_loadb ((const char *) data, size, 0, NULL);
    if (!status)
        return 0;
    show_status (status, "/data/out/.wiremill");
    wm_arithmetic_rows (stdout, status, "scored with        ");
    wm_ask_advise (stdout, status, "");
    free (wm_metrics_text (status, "0123456789abcdef", 1));
    files_t files = { .input = 20, .output = 20, .is_cut = true };
    show_file (&files, status);
    const json_t *list = json_object_get (status, "files"), *one;
    size_t i;
    json_array_foreach (list, i, one) show_file (&files, one);
    json_decref (status);
    return 0;
}

void fuzz_seeds (void)
{
    static const char seed[] =
        "{\"schema\":\"wiremill-status-1\",\"dir\":\"/data/out/.wiremill\",\"endpoint\":"
        "\"tcp://127.0.0.1:5555\",\"pid\":77,\"up_s\":3.5,\"bytes\":{\"ledger\":4096,\"jo"
        "urnal\":1},\"campaign\":{\"output\":\"/data/out\",\"precision\":\"fp32\",\"max_e"
        "rror\":\"5e-03\"},\"hits\":{\"announced\":100,\"expected\":120,\"done\":50,\"hel"
        "d\":2,\"empty\":1},\"inputs\":{\"total\":3,\"open\":1,\"written\":1,\"held\":1,"
        "\"changed\":1},\"rate\":{\"hits_s\":1000.5,\"eta_s\":12},\"waiting_for\":\"a wor"
        "ker\",\"paused\":\"by me\",\"workers_total\":9,\"workers\":[{\"label\":\"host:1"
        "\",\"signature\":\"sparse avx2 fp32\",\"state\":\"busy\",\"batches\":3,\"hits_s"
        "\":1e4,\"gpu\":{\"gpu\":\"H200\",\"temperature_c\":50,\"power_w\":300,\"power_li"
        "mit_w\":700,\"load\":90,\"memory_used_mb\":10,\"memory_mb\":1000,\"ecc_uncorrect"
        "ed\":1,\"throttled\":\"heat\"},\"why\":\"late\"}],\"producers\":[{\"label\":\"ho"
        "st:2\",\"input\":\"/data/a.h5\",\"waits\":\"disk full\",\"late_s\":70}],\"held\""
        ":[{\"input\":1,\"path\":\"/data/a.h5\",\"event\":\"1:0:5\",\"batch\":2,\"reason"
        "\":\"poison\",\"text\":\"killed the engine\"}],\"held_files\":[{\"input\":1,\"pa"
        "th\":\"/data/a.h5\",\"output\":\"a.scores.h5\",\"state\":\"written\",\"why\":\""
        "\",\"hits\":10,\"scored\":8,\"empty\":0,\"held\":2,\"reasons\":{\"bad pixel\":2}"
        "}],\"held_files_left_out\":2,\"open\":[{\"output\":\"b.scores.h5\",\"path\":\"/d"
        "ata/b.h5\",\"why\":\"\",\"hits\":5}],\"rows\":{\"sparse avx2 fp32\":50},\"counte"
        "rs\":{\"again\":1},\"arithmetic\":[{\"class\":\"avx2\",\"signature\":\"sparse av"
        "x2 fp32\",\"error\":0.001,\"hits\":2000}],\"latency\":{\"queue\":{\"n\":2,\"sum_s\":0.5,"
        "\"buckets\":[1,0,1]}}}";
    fuzz_seed (seed, sizeof seed - 1);
    /* the same with no broker running */
    char *stopped = strdup (seed);
    memcpy (strstr (stopped, "tcp://127.0.0.1:5555\""), "\",\"was\":\"27.0.0.1:555", 21);
    fuzz_seed (stopped, strlen (stopped));
    free (stopped);
}
