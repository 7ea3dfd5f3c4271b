/* wm_h5_reason.c - which links a file has; why the HDF5 library could not open a file or dataset,
   and what helps.

   The library keeps the messages of its last failed call. What they have in common from 1.10 to 2.0
   is looked for in them, the innermost first; the cures were tried with the files that they are
   for.  */
#include "producer/files/wm_h5_private.h"

#include "schema/base/wm_log.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

typedef struct {
    char innermost[100];
    bool is_newer, is_open, is_truncated, is_multi;
    char newer[80];
    unsigned long long bytes, bytes_wanted;
} stack_t;

const char *wm_h5_path (const wm_h5_t *self)
{
    return self->path;
}

/* As wm_h5_link_odd, from the file on.  */
static H5L_type_t link_odd (const wm_h5_t *self, const char *name)
{
    char part[96];
    for (const char *at = name; *at;) {
        at += strspn (at, "/");
        at += strcspn (at, "/");
        snprintf (part, sizeof part, "%.*s", (int) (at - name), name);
        H5L_info_t info;
        if (H5Lget_info (self->file, part, &info, H5P_DEFAULT) < 0)
            return H5L_TYPE_ERROR;
        if (info.type != H5L_TYPE_HARD)
            return info.type;
    }
    return H5L_TYPE_HARD;
}

hid_t wm_h5_place (const wm_h5_t *self, const char *name, const char **last)
{
    wm_h5_group_t *group = self->group;
    const char *slash = strrchr (name, '/');
    char part[sizeof group->name];
    *last = name;
    if (!slash || slash == name || !slash[1] || (size_t) (slash - name) >= sizeof part)
        return self->file;
    snprintf (part, sizeof part, "%.*s", (int) (slash - name), name);
    if (!group->id || strcmp (part, group->name) != 0) {
        if (group->id)
            H5Gclose (group->id);
        const hid_t id = link_odd (self, part) == H5L_TYPE_HARD
                             ? H5Gopen2 (self->file, part, H5P_DEFAULT)
                             : -1;
        group->id = id > 0 ? id : 0;
        strcpy (group->name, part);
        if (!group->id)
            return self->file;
    }
    *last = slash + 1;
    return group->id;
}

bool wm_h5_has (const wm_h5_t *self, const char *name)
{
    char part[96];
    const char *last;
    const hid_t place = wm_h5_place (self, name, &last);
    for (const char *slash = last; (slash = strchr (slash, '/')); slash++) {
        snprintf (part, sizeof part, "%.*s", (int) (slash - last), last);
        if (part[0] && H5Lexists (place, part, H5P_DEFAULT) <= 0)
            return false;
    }
    return H5Lexists (place, last, H5P_DEFAULT) > 0;
}

H5L_type_t wm_h5_link_odd (const wm_h5_t *self, const char *name)
{
    const char *last;
    H5L_info_t info;
    const hid_t place = wm_h5_place (self, name, &last);
    if (last == name)
        return link_odd (self, name);
    return H5Lget_info (place, last, &info, H5P_DEFAULT) < 0 ? H5L_TYPE_ERROR : info.type;
}

typedef struct {
    bool (*take) (void *arg, const char *name);
    void *arg;
} names_t;

static herr_t name_take (hid_t group, const char *name, const H5L_info_t *info, void *data)
{
    const names_t *names = data;
    (void) group, (void) info;
    return names->take (names->arg, name) ? 0 : 1;
}

void wm_h5_names (const wm_h5_t *self, const char *group,
                  bool (*take) (void *arg, const char *name), void *arg)
{
    names_t names = { take, arg };
    if (!strcmp (group, "/") ||
        (wm_h5_has (self, group) && wm_h5_link_odd (self, group) == H5L_TYPE_HARD))
        H5Literate_by_name (self->file, group, H5_INDEX_NAME, H5_ITER_NATIVE, NULL, name_take,
                            &names, H5P_DEFAULT);
}

/* "bad version number for layout message", "bad superblock version number": the forms in which the
   library meets what came after it. Versions of headers, trees and heaps have not changed since
   1.8: where one of these is wrong, the file is damaged.  */
static bool is_version (const char *text)
{
    return (strstr (text, "version") &&
            (strstr (text, " message") || strstr (text, "superblock version"))) ||
           strstr (text, "unknown chunk index type");
}

static herr_t take (unsigned n, const H5E_error2_t *one, void *to)
{
    stack_t *self = to;
    const char *text = one->desc ? one->desc : "", *numbers;
    if (n == 0)
        snprintf (self->innermost, sizeof self->innermost, "%s", text);
    if (!self->is_newer && is_version (text))
        self->is_newer = snprintf (self->newer, sizeof self->newer, "%s", text) > 0;
    if (strstr (text, "already open for write"))
        self->is_open = true;
    if (strstr (text, "driver should be used"))
        self->is_multi = true;
    if (strstr (text, "truncated file") && (numbers = strstr (text, "eof = "))) {
        self->is_truncated = true;
        sscanf (numbers, "eof = %llu", &self->bytes);
        if ((numbers = strstr (text, "stored_eof = ")))
            sscanf (numbers, "stored_eof = %llu", &self->bytes_wanted);
    }
    return 0;
}

static stack_t stack_read (void)
{
    stack_t self = { .innermost = "" };
    H5Ewalk2 (H5E_DEFAULT, H5E_WALK_UPWARD, take, &self);
    return self;
}

static void newer_say (const stack_t *stack, char *text, size_t bytes_max)
{
    unsigned major, minor, release;
    H5get_libversion (&major, &minor, &release);
    snprintf (text, bytes_max,
              "of a newer format (HDF5 2.0 with libver=\"latest\"?) than this HDF5 %u.%u.%u reads: "
              "%.50s. Write it with libver=(\"earliest\", \"v110\"), or type: " WM_H5_CONVERT,
              major, minor, release, stack->newer);
}

/* Whether it begins as a part of a file in several: a driver's name is behind the superblock.  */
static bool is_member (const char *path, const char *driver)
{
    char head[2048];
    const int fd = open (path, O_RDONLY | O_CLOEXEC);
    const ssize_t n = fd < 0 ? 0 : pread (fd, head, sizeof head, 0);
    if (fd >= 0)
        close (fd);
    return n > 0 && memmem (head, (size_t) n, driver, strlen (driver));
}

const char *wm_h5_short (const char *path, char text[WM_H5_SHORT_BYTES])
{
    const size_t n = strlen (path), most = WM_H5_SHORT_BYTES - 1;
    if (n <= most)
        return path;
    snprintf (text, WM_H5_SHORT_BYTES, "...%s", path + n - (most - 3));
    return text;
}

bool wm_h5_reason_file (const char *path, char text[WM_H5_REASON_BYTES])
{
    const stack_t stack = stack_read ();
    if (is_member (path, "NCSAfami"))
        snprintf (text, WM_H5_REASON_BYTES,
                  "a part of a file that HDF5's driver family wrote in several; put them together: "
                  "h5repart -family_to_sec2 'NAME%%d.h5' WHOLE.h5");
    else if (stack.is_multi || is_member (path, "NCSAmult"))
        snprintf (text, WM_H5_REASON_BYTES,
                  "a part of a file that HDF5's driver split or multi wrote in several; put them "
                  "together: h5repack NAME WHOLE.h5, where this part is NAME-m.h5");
    else if (stack.is_open)
        snprintf (text, WM_H5_REASON_BYTES,
                  "its writer has it open still, or was killed. Wait until it has closed the file; "
                  "if it was killed, type: h5clear -s FILE (of the package hdf5-tools)");
    else if (stack.is_truncated)
        snprintf (
            text, WM_H5_REASON_BYTES,
            "truncated: it has %llu bytes of %llu. Copy it again; or its writer did not close "
            "it, and must write it again",
            stack.bytes, stack.bytes_wanted);
    else if (stack.is_newer)
        newer_say (&stack, text, WM_H5_REASON_BYTES);
    else
        return false;
    return true;
}

void wm_h5_reason_dataset (char text[WM_H5_REASON_BYTES])
{
    const stack_t stack = stack_read ();
    if (stack.is_newer)
        newer_say (&stack, text, WM_H5_REASON_BYTES);
    else
        snprintf (text, WM_H5_REASON_BYTES, "no dataset, or is damaged%s%s%s",
                  stack.innermost[0] ? " (HDF5: " : "", stack.innermost,
                  stack.innermost[0] ? ")" : "");
}

const char *wm_h5_reason_type (hid_t type, bool takes_floats)
{
    const H5T_class_t is = type < 0 ? H5T_NO_CLASS : H5Tget_class (type);
    const size_t bytes = type < 0 ? 0 : H5Tget_size (type);
    switch (is) {
    case H5T_FLOAT:
        return takes_floats ? "floats of more than 8 bytes; store it as float64"
                            : "floats; store it as int32 or int64";
    case H5T_INTEGER:
        return "integers of more than 8 bytes; store it as int64";
    case H5T_STRING:
        return "texts";
    case H5T_ENUM:
        return "an enum (h5py: bool); store it as uint8";
    case H5T_BITFIELD:
        return "a bit field; store it as an unsigned integer";
    case H5T_COMPOUND:
        return "a compound (h5py: complex, or a table); store each part as a dataset of its own";
    case H5T_OPAQUE:
        return bytes == 2 ? "opaque bytes (h5py: bfloat16); store it as float32" : "opaque bytes";
    case H5T_VLEN:
        return "rows of different lengths; store one value a row";
    default:
        return "another type";
    }
}

const char *wm_h5_shape (char text[200], const char *first, const uint64_t *dim, uint32_t n)
{
    snprintf (text, 200, "(%s", first);
    for (uint32_t d = 0; d < n; d++) {
        const size_t at = strlen (text);
        snprintf (text + at, 200 - at, at > 1 ? ", %llu" : "%llu", (unsigned long long) dim[d]);
    }
    const size_t at = strlen (text);
    snprintf (text + at, 200 - at, ")");
    return text;
}

/* A list for people, "a (50, 16, 16), g/b (50)", that ends with dots where it is too long.  */
typedef struct {
    const wm_h5_t *file;
    const char *group; /* "": the root */
    char *text;
    size_t bytes_max, n;
    bool is_full; /* it has its dots */
} list_t;

static void shape_print (const wm_h5_t *file, const char *name, char text[96])
{
    hsize_t dim[8];
    uint64_t size[8];
    const hid_t id = H5Dopen2 (file->file, name, H5P_DEFAULT),
                space = id < 0 ? -1 : H5Dget_space (id);
    const int n = space < 0 ? -1 : H5Sget_simple_extent_ndims (space);
    char shape[200];
    *text = 0;
    if (n >= 0 && n <= 8 && H5Sget_simple_extent_dims (space, dim, NULL) == n) {
        for (int d = 0; d < n; d++)
            size[d] = dim[d];
        snprintf (text, 96, " %s", wm_h5_shape (shape, "", size, (uint32_t) n));
    }
    if (space >= 0)
        H5Sclose (space);
    if (id >= 0)
        H5Dclose (id);
}

/* Takes a dataset, and those of a group: deeper than that no input has any.  */
static bool list_take (void *arg, const char *name)
{
    list_t *self = arg;
    char path[192], shape[96];
    H5O_info_t object;
    snprintf (path, sizeof path, "%s%s%s", self->group, *self->group ? "/" : "", name);
    const bool is_hard =
        wm_h5_link_odd (self->file, path) == H5L_TYPE_HARD &&
        H5Oget_info_by_name2 (self->file->file, path, &object, H5O_INFO_BASIC, H5P_DEFAULT) >= 0;
    if (is_hard && object.type == H5O_TYPE_GROUP) {
        list_t inner = *self;
        if (*self->group)
            return true;
        inner.group = name;
        wm_h5_names (self->file, name, list_take, &inner);
        self->n = inner.n;
        self->is_full = inner.is_full;
        return !self->is_full;
    }
    *shape = 0;
    if (is_hard)
        shape_print (self->file, path, shape);
    const size_t at = strlen (self->text);
    const bool fits = at + strlen (path) + strlen (shape) + 8 < self->bytes_max;
    snprintf (self->text + at, self->bytes_max - at, "%s%s%s", self->n++ ? ", " : "",
              fits ? path : "...", fits ? shape : "");
    self->is_full = !fits;
    return fits;
}

const char *wm_h5_list (const wm_h5_t *self, const char *group, char text[WM_H5_LIST_BYTES])
{
    list_t list = { self, group, text, WM_H5_LIST_BYTES, 0, false };
    *text = 0;
    wm_h5_names (self, *group ? group : "/", list_take, &list);
    wm_log_sanitize (text);
    return list.n ? text : "no dataset";
}

void wm_h5_reason_missing (const wm_h5_t *self, const char *name, char text[WM_H5_REASON_BYTES])
{
    char list[WM_H5_LIST_BYTES], group[96];
    const char *slash = strrchr (name, '/');
    snprintf (group, sizeof group, "%.*s", slash ? (int) (slash - name) : 0, name);
    if (*group && !wm_h5_has (self, group))
        *group = 0;
    snprintf (text, WM_H5_REASON_BYTES, "no dataset %s; %s has %s", name,
              *group ? group : "the file", wm_h5_list (self, group, list));
}
