/* wm_made.c - see wm_made.h.  */
#include "schema/wm_made.h"

#include <stdint.h>
#include <string.h>

#define PAGE "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n<title>"
#define BEGINS(...)                                                                                \
    (const char *const[])                                                                          \
    {                                                                                              \
        __VA_ARGS__, NULL                                                                          \
    }

/* Synthetic events differ from others of the layout by an attribute.  */
static bool is_synthetic (const char *begin, size_t bytes)
{
    return memmem (begin, bytes, WM_MADE_SYNTH, strlen (WM_MADE_SYNTH)) != NULL;
}

/* An array of float32 with three or four dimensions, whose head is as long as cut makes it.  */
static bool is_patches (const char *begin, size_t bytes)
{
    static const char head[] = "{'descr': '<f4', 'fortran_order': False, 'shape': (";
    const size_t at = 10 + strlen (head);
    const size_t length = bytes < 10 ? 0 : (uint8_t) begin[8] + 256u * (uint8_t) begin[9];
    if (bytes <= at || 10 + length != WM_MADE_HEAD_BYTES ||
        memcmp (begin + 10, head, strlen (head)) != 0)
        return false;
    const char *end = memchr (begin + at, ')', bytes - at);
    int n_comma = 0;
    for (const char *c = begin + at; end && c < end; c++)
        n_comma += *c == ',';
    return n_comma == 2 || n_comma == 3;
}

/* Pages have a title of their own; of a sheet it follows its size.  */
static bool is_picture (const char *begin, size_t bytes)
{
    return begin[1] != 's' || memmem (begin, bytes < 400 ? bytes : 400, "\n<title>Event ", 14);
}

/* A line of a list is a path, or up to three words: DID PFN RSE.  */
static bool is_line_of_names (const char *line, size_t n)
{
    size_t n_word = 0, length = 0;
    bool has_comma = false, has_slash = false, is_path = n == 0;
    for (size_t i = 0; i <= n; i++) {
        if (i == n || line[i] == ' ' || line[i] == '\t') {
            if (length && (line[i - 1] == ':' || (has_comma && !has_slash)))
                return false;
            n_word += length > 0;
            length = 0;
            has_comma = has_slash = false;
        } else if ((unsigned char) line[i] < ' ' || (!length && strchr ("{[<#\"", line[i])))
            return false;
        else {
            has_comma |= line[i] == ',';
            has_slash |= line[i] == '/';
            is_path |= strchr ("/.:", line[i]) != NULL;
            length++;
        }
    }
    return is_path && n_word <= 3;
}

static bool is_names (const char *begin, size_t bytes)
{
    const char *end;
    for (; (end = memchr (begin, '\n', bytes)); begin = end + 1) {
        if (!is_line_of_names (begin, (size_t) (end - begin)))
            return false;
        bytes -= (size_t) (end - begin) + 1;
    }
    return !memchr (begin, 0, bytes); /* a kill may have left a part of a line */
}

static bool is_access_log (const char *begin, size_t bytes)
{
    const size_t n = bytes < 200 ? bytes : 200;
    return memmem (begin, n, "Z ", 2) &&
           (memmem (begin, n, " grpc ", 6) || memmem (begin, n, " http ", 6));
}

static bool is_farm (const char *begin, size_t bytes)
{
    static const char farm[] = " of wiremill's farm ";
    return memmem (begin, bytes < 200 ? bytes : 200, farm, strlen (farm)) != NULL;
}

/* clang-format off */
const wm_target_kind_t wm_made_events = {
    .name = "event file of wiremill synth", .ends = ".h5 or .hdf5",
    .begins = BEGINS ("\x89HDF\r\n\x1a\n"), .is = is_synthetic };
const wm_target_kind_t wm_made_patches = {
    .name = ".npy file of wiremill cut", .ends = ".npy",
    .begins = BEGINS ("\x93NUMPY"), .is = is_patches };
const wm_target_kind_t wm_made_picture = {
    .name = "picture or page of wiremill show",
    .begins = BEGINS ("<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=", PAGE "Event "),
    .is = is_picture };
const wm_target_kind_t wm_made_comparison = {
    .name = "page of wiremill compare", .ends = ".html or .htm",
    .begins = BEGINS (PAGE "Comparison of scores<") };
const wm_target_kind_t wm_made_rows = { .name = "file of wiremill export" };
const wm_target_kind_t wm_made_report = {
    .name = "page of wiremill report", .ends = ".html or .htm",
    .begins = BEGINS (PAGE "Campaign ") };
const wm_target_kind_t wm_made_wmm = {
    .name = ".wmm of wiremill import", .begins = BEGINS ("\x89WMM\r\n\x1a"), .has_campaign = true };
const wm_target_kind_t wm_made_onnx = { /* IR version 7 and the producer's name */
    .name = "ONNX file of wiremill model new", .ends = ".onnx",
    .begins = BEGINS ("\x08\x07\x12\x08wiremill:") };
const wm_target_kind_t wm_made_bench_json = {
    .name = "JSON of wiremill bench", .ends = ".json or .txt",
    .begins = BEGINS ("{\n  \"schema\": \"wiremill-bench-1\""),
    .streams = true };
const wm_target_kind_t wm_made_join = { .name = "join file", .ends = ".txt" };
const wm_target_kind_t wm_made_worker_state = {
    .name = "state file of a worker", .ends = ".json",
    .begins = BEGINS ("{\"schema\": \"wiremill-worker-1\"") };
const wm_target_kind_t wm_made_names = {
    .name = "list of files", .is = is_names, .appends = true };
const wm_target_kind_t wm_made_sidecar = {
    .name = "sidecar of wiremill", .begins = BEGINS ("{\n \"name\": ") };
const wm_target_kind_t wm_made_access_log = {
    .name = "access log of wiremill gateway", .is = is_access_log, .appends = true,
    .streams = true };
const wm_target_kind_t wm_made_farm_script = {
    .name = "script of wiremill farm", .begins = BEGINS ("#!/bin/bash\n"), .is = is_farm };
const wm_target_kind_t wm_made_farm_file = {
    .name = "file of wiremill farm", .begins = BEGINS ("# Workers"), .is = is_farm };
const wm_target_kind_t wm_made_farm_state = {
    .name = "state of wiremill farm", .begins = BEGINS ("{\n  \"schema\": \"wiremill-farm-1\"") };
/* clang-format on */
