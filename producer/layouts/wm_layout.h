/* wm_layout.h - what a layout has to bring to be a reader; for the files that implement one.  */
#ifndef WM_LAYOUT_H
#define WM_LAYOUT_H

#include "producer/files/wm_index.h"
#include "producer/layouts/wm_reader.h"

/* Names of columns in hit_table; NULL: not there, all 0.  */
typedef struct {
    const char *cryostat, *tpc, *plane, *wire, *time, *id;
    const char *table;  /* NULL: hit_table */
    bool three_ids;     /* run, subrun and event are columns of their own */
    bool is_wire_float; /* wire numbers are floats: one that is no whole number is a bad wire */
} wm_hits_names_t;

typedef struct {
    wm_column_t event_id[3], cryostat, tpc, plane, wire, time, id; /* event_id: as wm_index.h */
    bool is_wire_float;
    wm_rows_t rows;
    void *space;
    size_t space_max;
} wm_hits_t;

typedef struct {
    const char *name;
    wm_fault_t (*event) (wm_reader_t *self, uint32_t ordinal, wm_event_t *event, wm_error_t *error);
    wm_fault_t (*rows) (wm_reader_t *self, uint64_t first, uint32_t count,
                        const wm_reader_rows_t *rows, wm_error_t *error); /* NULL: of its hits */
    void (*clear) (wm_reader_t *self); /* frees what the layout's object adds to wm_reader_t */
    const char *(*unmatched) (wm_reader_t *self); /* NULL: as the reader that it is over, or "" */
    const char *(*joined) (wm_reader_t *self);    /* likewise */
    /* Of event `ordinal`, which was reset: run, subrun, event, n_tick and planes, in order, without
       their samples. NULL: the layout has no planes, or none without hits.  */
    wm_fault_t (*planes) (wm_reader_t *self, uint32_t ordinal, wm_event_t *event,
                          wm_error_t *error);
    bool has_hits; /* `hits` of its object is the file's hit table */
} wm_layout_t;

/* First member of every layout's object, zeroed but for what the layout has of it.  */
struct wm_reader_t {
    const wm_layout_t *layout;
    const wm_spec_t *spec; /* lent */
    wm_reader_t *inner;    /* that it is over; NULL: it reads a file itself */
    wm_h5_t *file;         /* NULL: it reads no HDF5 */
    wm_index_t index;      /* the file's events; behind them those that only hits or points name */
    uint32_t n_present;    /* of `index`: the file's events */
    wm_hits_t hits;
    uint32_t n_event;
    uint32_t n_missing; /* of them: only their hits or space points, which are held, name them */
    uint64_t n_row;
    uint32_t n_dim; /* of ready-made patches: (N, dim...) ; 0: there are none */
    uint64_t dim[8];
};

/* Returns a layout's object of `bytes`, which has *file and *inner (each may be NULL; taken and
   nulled, also on failure). NULL with WM_EHOST: no memory.  */
void *wm_layout_new (size_t bytes, const wm_layout_t *layout, const wm_spec_t *spec, wm_h5_t **file,
                     wm_reader_t **inner, wm_error_t *error);

/* Opens a column, which has as many rows as `first` of its table. WM_EBATCH: it has not, or is
   missing or of another kind.  */
wm_fault_t wm_layout_column (wm_h5_t *file, const char *name, wm_h5_class_t class, uint32_t width,
                             const wm_column_t *first, wm_column_t *column, wm_error_t *error);

/* The same of several columns of a table, of which `wanted[0]` is the first.  */
typedef struct {
    const char *name;
    wm_h5_class_t class;
    uint32_t width;
    wm_column_t *column;
    bool is_optional;
} wm_wanted_t;
wm_fault_t wm_layout_columns (wm_h5_t *file, const wm_wanted_t *wanted, uint32_t count,
                              wm_error_t *error);

/* Ends the opening of a reader of a hit table: counts its events and rows. After a fault destroys
   it, and returns NULL.  */
wm_reader_t *wm_layout_done (wm_reader_t *self, wm_fault_t fault);

/* Writes into *event which one of `index` it is; returns whether only hits or points name it.  */
bool wm_layout_begin (const wm_reader_t *self, uint32_t i, wm_event_t *event);

/* Each takes the file (*file is taken and nulled, also on failure).  */
wm_reader_t *wm_exchange_open (wm_h5_t **file, const wm_spec_t *spec, wm_error_t *error);
wm_reader_t *wm_opensamples_open (wm_h5_t **file, const wm_spec_t *spec, wm_error_t *error);
wm_reader_t *wm_dense_open (wm_h5_t **file, const char *dataset, wm_error_t *error);
/* `hits` as above.  */
wm_reader_t *wm_joined_open (wm_h5_t **hits, const wm_reader_pair_t *pair, const wm_spec_t *spec,
                             wm_error_t *error);
/* The planes of frames alone, for windows; run and subrun are 0, the event is the frame.  */
wm_reader_t *wm_planes_open (const char *name, const char *channels, const char *pedestal,
                             const wm_spec_t *spec, wm_error_t *error);
wm_reader_t *wm_npy_open (const char *path, wm_error_t *error);

/* A library that had no memory for a sound file reports it as damaged. So if there is hardly any
   address space left, WM_EBATCH becomes WM_EHOST, and the input is read another time.  */
wm_fault_t wm_layout_blame (wm_fault_t fault, wm_error_t *error);

/* "file: event r:s:e", for errors.  */
void wm_layout_where (char *text, size_t bytes_max, const wm_h5_t *file, const wm_event_t *event);

/* ---- the hit table -------------------------------------------------------------------------- */

/* Opens the columns. wm_hits_scan, of the events of `index`, must follow before hits are read: it
   appends events that only hits name, which are read by wm_hits_read alone, as is_missing.  */
wm_fault_t wm_hits_columns (wm_hits_t *self, wm_h5_t *file, const wm_hits_names_t *names,
                            wm_error_t *error);
wm_fault_t wm_hits_scan (wm_hits_t *self, wm_index_t *index, wm_error_t *error);
/* The same by ordinals of segments, where an event is a stream.  */
wm_fault_t wm_hits_scan_segments (wm_hits_t *self, wm_index_t *index, const wm_segments_t *segments,
                                  wm_error_t *error);
void wm_hits_clear (wm_hits_t *self);

/* Reads the hits of an event, in input order; of a segment (which *event names) with times from its
   first tick on.  */
wm_fault_t wm_hits_read (wm_hits_t *self, uint32_t ordinal, wm_event_t *event, wm_error_t *error);
wm_fault_t wm_hits_rows (wm_hits_t *self, uint64_t first, uint32_t count,
                         const wm_reader_rows_t *rows, wm_error_t *error);

#endif
