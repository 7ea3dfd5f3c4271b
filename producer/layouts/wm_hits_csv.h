/* wm_hits_csv.h - hits in a text file, as a table in memory that is read as one of HDF5 is.

   The first line names the columns: run, subrun, event, tpc, plane, wire, time and hit_id must be
   there, cryostat may be, in any order; others are left aside, and lines that begin with '#'. A
   hit has one line, cells are separated by commas. The table is the group `csv` of an HDF5 file
   that has no place on disk. Thread: that of all readers.  */
#ifndef WM_HITS_CSV_H
#define WM_HITS_CSV_H

#include "producer/files/wm_h5.h"

/* Whether the file begins as text does.  */
bool wm_hits_csv_is (const char *path);

/* Reads the file. NULL: WM_EBATCH names line and column; WM_EHOST.  */
wm_h5_t *wm_hits_csv_open (const char *path, wm_error_t *error);

#endif
