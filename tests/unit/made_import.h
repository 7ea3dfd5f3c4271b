/* made_import.h - a graph as an ONNX file, and imported, in a folder of the test's own.  */
#ifndef MADE_IMPORT_H
#define MADE_IMPORT_H

#include "kernels/import/wm_import.h"
#include "kernels/wm_device.h"
#include "tests/unit/onnx_graph.h"

#include <stdio.h>
#include <unistd.h>

static char folder[40], onnx_path[64], wmm_path[64];

/* Set-up and tear-down of a group of tests.  */
static int make_folder (void **state)
{
    strcpy (folder, "/tmp/wm-import-XXXXXX");
    if (!mkdtemp (folder))
        return -1;
    snprintf (onnx_path, sizeof onnx_path, "%s/m.onnx", folder);
    snprintf (wmm_path, sizeof wmm_path, "%s/m.wmm", folder);
    return 0;
}

static int remove_folder (void **state)
{
    unlink (onnx_path);
    unlink (wmm_path);
    return rmdir (folder);
}

/* Writes the graph, which is empty then, to onnx_path.  */
static void save_graph (graph_t *g)
{
    size_t size;
    uint8_t *bytes = packed (g, &size);
    FILE *file = fopen (onnx_path, "wb");
    assert_non_null (file);
    assert_int_equal (fwrite (bytes, 1, size, file), size);
    fclose (file);
    free (bytes);
    wm_arena_clear (&g->arena);
}

/* The model of onnx_path; the caller destroys it.  */
static wm_model_t *imported (const wm_import_choices_t *choices)
{
    char why[480];
    wm_error_t error = { 0 };
    if (wm_import (onnx_path, choices, wmm_path, why, &error))
        fail_msg ("%s", error.text);
    wm_model_t *model = wm_model_open (wmm_path, &error);
    if (!model)
        fail_msg ("%s", error.text);
    assert_int_equal (wm_model_kind (model), WM_MODEL_GENERAL);
    return model;
}

#endif
