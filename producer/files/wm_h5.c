/* wm_h5.c - opens HDF5 files, and reads what they contain beside columns: names, attributes, texts.

   Everything that leads out of a file is refused. wm_h5_column.c has the columns.  */
#include "producer/files/wm_h5_private.h"

#include "producer/files/wm_chunks.h"
#include "schema/base/wm_file.h"
#include "schema/base/wm_kind.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define FREE_LIST_BYTES (4 << 20) /* what the library keeps of freed memory, of each kind */

#define TEXT_BYTES_MAX 256
#define TEXTS_MAX 65536

static herr_t (*set_end) (H5FD_t *file, H5FD_mem_t type, haddr_t end); /* of the library */

void wm_h5_init (void)
{
    static bool done;
    if (done)
        return;
    done = true;
    /* Shared file systems often cannot lock; a file that is being written is no input anyway.  */
    setenv ("HDF5_USE_FILE_LOCKING", "FALSE", 0);
    /* A file whose closing failed (disk full) would be tried again, noisily, at exit.  */
    H5dont_atexit ();
    H5open ();
    H5Eset_auto2 (H5E_DEFAULT, NULL, NULL);
    H5PLset_loading_state (0);
    H5set_free_list_limits (FREE_LIST_BYTES, -1, FREE_LIST_BYTES, -1, FREE_LIST_BYTES, -1);
}

/* Takes the place of the library's own function, which allocates what a header states, up to 64
   bits of it, before the library reads and sees that the file ends. NULL makes it refuse a header.
   (A library that does not export its own never calls this one.)  */
static void *bounded_malloc (size_t bytes)
{
    static void *(*take) (size_t bytes);
    if (!take)
        take = (void *(*) (size_t)) (uintptr_t) dlsym (RTLD_NEXT, "H5MM_malloc");
    return bytes <= WM_H5_CHUNK_BYTES_MAX ? take (bytes) : NULL;
}
void *H5MM_malloc (size_t bytes) __attribute__ ((alias ("bounded_malloc")));

/* Refuses an end of addresses beyond the end of the file: the library moves it to where a header
   states that something ends, and fills with zeros what the file lacks.  */
static herr_t bound (H5FD_t *file, H5FD_mem_t type, haddr_t end)
{
    return end <= file->cls->get_eof (file, type) ? set_end (file, type, end) : -1;
}

/* Has files that this list opens obey `bound`; all else of their driver is the library's.  */
static bool set_bound (hid_t access, const char *path)
{
    static H5FD_class_t class;
    static hid_t driver;
    if (driver <= 0) {
        H5FD_t *file = H5FDopen (path, H5F_ACC_RDONLY, access, HADDR_UNDEF);
        if (!file)
            return false;
        class = *file->cls;
        H5FDclose (file);
        set_end = class.set_eoa;
        class.set_eoa = bound;
        driver = H5FDregister (&class);
    }
    return H5Pset_driver (access, driver, NULL) >= 0;
}

bool wm_h5_has_room (size_t bytes)
{
    void *room = mmap (NULL, bytes, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    return room != MAP_FAILED && munmap (room, bytes) == 0;
}

/* What people give as an input that cannot be opened, and what to do about it.  */
static const char *no_input (const char *path)
{
    const size_t n = strlen (path);
    switch (wm_kind_of (path)) {
    case WM_KIND_EMPTY:
        return "the file is empty (0 bytes)";
    case WM_KIND_HDF5:
        return "an HDF5 file that is truncated or damaged";
    case WM_KIND_NPY:
        return "a .npy array has no datasets: leave out what follows its name";
    case WM_KIND_GZIP:
        return n > 3 && !strcmp (path + n - 3, ".gz")
                   ? "compressed by gzip; type: gunzip -k FILE, and give what it makes, without .gz"
                   : "compressed by gzip, whatever its name; type: mv FILE FILE.gz && gunzip "
                     "FILE.gz";
    case WM_KIND_ZIP:
    case WM_KIND_PICKLE:
        return "an archive of NumPy or PyTorch, or a pickle: save the array as .npy (numpy.save)";
    case WM_KIND_MODEL:
        return "a model, neither events nor scores: give it by --model";
    case WM_KIND_ROOT:
        return "a ROOT file: convert it to HDF5, whose layouts `wiremill help formats` describes";
    default:
        return "neither an HDF5 file nor a .npy array; `wiremill help formats` describes inputs";
    }
}

wm_h5_t *wm_h5_open (const char *path, wm_error_t *error)
{
    if (!wm_h5_has_room (WM_H5_ROOM_BYTES)) {
        wm_fault (error, WM_EHOST, "%.300s: no memory to open it", path);
        return NULL;
    }
    wm_h5_init ();
    uint64_t bytes;
    const int fd = wm_file_open (path, &bytes, error);
    if (fd < 0)
        return NULL;
    close (fd);
    wm_h5_t *self = calloc (1, sizeof *self);
    if (!self || !(self->path = strdup (path)) ||
        !(self->group = calloc (1, sizeof *self->group))) {
        free (self ? self->path : NULL);
        free (self);
        wm_fault (error, WM_EHOST, "out of memory");
        return NULL;
    }
    self->file_bytes = bytes;
    hid_t access = H5Pcreate (H5P_FILE_ACCESS);
    H5Pset_evict_on_close (access, true); /* the indexes of chunks of a dataset that is closed */
    self->file = set_bound (access, path) ? H5Fopen (path, H5F_ACC_RDONLY, access) : -1;
    if (self->file < 0) {
        char reason[WM_H5_REASON_BYTES], end[WM_H5_SHORT_BYTES];
        const bool is_known = wm_h5_reason_file (path, reason);
        wm_fault (error, WM_EBATCH, "%.300s: %s", is_known ? wm_h5_short (path, end) : path,
                  is_known ? reason : no_input (path));
        wm_h5_close (&self);
    }
    H5Pclose (access);
    return self;
}

wm_h5_t *wm_h5_take (int64_t file, const char *path, uint64_t bytes, wm_error_t *error)
{
    wm_h5_t *self = calloc (1, sizeof *self);
    if (self)
        *self = (wm_h5_t){ .file = file,
                           .group = calloc (1, sizeof *self->group),
                           .file_bytes = bytes,
                           .path = strdup (path) };
    else
        H5Fclose (file);
    if (self && self->path && self->group)
        return self;
    wm_fault (error, WM_EHOST, "out of memory");
    wm_h5_close (&self);
    return NULL;
}

void wm_h5_close (wm_h5_t **self_p)
{
    wm_h5_t *self = *self_p;
    if (!self)
        return;
    if (self->group && self->group->id)
        H5Gclose (self->group->id);
    if (self->file >= 0)
        H5Fclose (self->file);
    free (self->group);
    free (self->path);
    free (self->space);
    free (self);
    *self_p = NULL;
}

static bool read_text (const wm_h5_t *self, const char *name, bool keeps_lines, char *text,
                       size_t bytes_max)
{
    bool found = false;
    if (H5Aexists (self->file, name) <= 0)
        return false;
    hid_t attribute = H5Aopen (self->file, name, H5P_DEFAULT);
    if (attribute < 0)
        return false;
    hid_t type = H5Aget_type (attribute), space = H5Aget_space (attribute);
    if (H5Tget_class (type) == H5T_STRING && H5Sget_simple_extent_npoints (space) == 1) {
        if (H5Tis_variable_str (type) > 0) {
            char *string = NULL;
            if (H5Aread (attribute, type, &string) >= 0 && string) {
                found = strlen (string) < bytes_max;
                snprintf (text, bytes_max, "%s", string);
                H5free_memory (string);
            }
        } else if (H5Tget_size (type) < bytes_max) {
            memset (text, 0, bytes_max);
            found = H5Aread (attribute, type, text) >= 0;
        }
    }
    for (char *c = text; found && *c; c++)
        if (((unsigned char) *c < ' ' || *c == 0x7f) && !(keeps_lines && *c == '\n'))
            *c = '?';
    H5Sclose (space);
    H5Tclose (type);
    H5Aclose (attribute);
    return found;
}

bool wm_h5_text (const wm_h5_t *self, const char *name, char *text, size_t bytes_max)
{
    return read_text (self, name, false, text, bytes_max);
}

bool wm_h5_lines (const wm_h5_t *self, const char *name, char *text, size_t bytes_max)
{
    return read_text (self, name, true, text, bytes_max);
}

bool wm_h5_number (const wm_h5_t *self, const char *name, int64_t *number)
{
    char group[96];
    const char *slash = strrchr (name, '/'), *last = slash ? slash + 1 : name;
    snprintf (group, sizeof group, "%.*s", slash ? (int) (slash - name) : 1, slash ? name : ".");
    if (H5Aexists_by_name (self->file, group, last, H5P_DEFAULT) <= 0)
        return false;
    hid_t attribute = H5Aopen_by_name (self->file, group, last, H5P_DEFAULT, H5P_DEFAULT);
    if (attribute < 0)
        return false;
    hid_t type = H5Aget_type (attribute), space = H5Aget_space (attribute);
    bool found = H5Tget_class (type) == H5T_INTEGER && H5Sget_simple_extent_npoints (space) == 1 &&
                 H5Aread (attribute, H5T_NATIVE_INT64, number) >= 0;
    H5Sclose (space);
    H5Tclose (type);
    H5Aclose (attribute);
    return found;
}

void wm_h5_texts (const wm_h5_t *self, const char *name, void (*take) (void *arg, const char *text),
                  void *arg)
{
    hid_t id = wm_h5_has (self, name) && wm_h5_link_odd (self, name) == H5L_TYPE_HARD
                   ? H5Dopen2 (self->file, name, H5P_DEFAULT)
                   : -1;
    if (id < 0)
        return;
    hid_t type = H5Dget_type (id), space = H5Dget_space (id);
    const size_t bytes = H5Tget_class (type) == H5T_STRING && H5Tis_variable_str (type) == 0
                             ? H5Tget_size (type)
                             : 0;
    const hssize_t n = H5Sget_simple_extent_npoints (space);
    char *texts = bytes > 0 && bytes <= TEXT_BYTES_MAX && n > 0 && n <= TEXTS_MAX
                      ? calloc ((size_t) n, bytes)
                      : NULL;
    char text[TEXT_BYTES_MAX + 1];
    bool is_short = false;
    if (texts && !wm_chunks_check (id, 0, (uint64_t) n, &is_short, NULL) && !is_short &&
        wm_h5_dataset_read (id, true, type, H5S_ALL, H5S_ALL, H5P_DEFAULT, texts,
                            (size_t) n * bytes))
        for (hssize_t i = 0; i < n; i++) {
            snprintf (text, sizeof text, "%.*s", (int) bytes, texts + (size_t) i * bytes);
            take (arg, text);
        }
    free (texts);
    H5Sclose (space);
    H5Tclose (type);
    H5Dclose (id);
}

typedef struct {
    char *name;
    size_t bytes_max;
    unsigned count;
} search_t;

static herr_t visit (hid_t group, const char *name, const H5L_info_t *info, void *data)
{
    search_t *search = data;
    if (info->type != H5L_TYPE_HARD)
        return 0;
    hid_t id = H5Dopen2 (group, name, H5P_DEFAULT);
    H5O_info_t object;
    if (id < 0) { /* a dataset that cannot be opened is one whose reason people should get */
        if (H5Oget_info_by_name2 (group, name, &object, H5O_INFO_BASIC, H5P_DEFAULT) >= 0 &&
            object.type == H5O_TYPE_DATASET) {
            search->count++;
            snprintf (search->name, search->bytes_max, "%s", name);
        }
        return 0;
    }
    hid_t space = H5Dget_space (id);
    if (H5Sget_simple_extent_ndims (space) >= 2 && strcmp (name, "event_id")) {
        search->count++;
        snprintf (search->name, search->bytes_max, "%s", name);
    }
    H5Sclose (space);
    H5Dclose (id);
    return 0;
}

bool wm_h5_only_dataset (const wm_h5_t *self, char *name, size_t bytes_max)
{
    search_t search = { name, bytes_max, 0 };
    H5Literate (self->file, H5_INDEX_NAME, H5_ITER_INC, NULL, visit, &search);
    return search.count == 1;
}
