-- ledger.sql - the ledger: an index of the journal, made again from it whenever it is in doubt.
--
-- Numbers of a row lie together in `data`, a little-endian struct of broker/disk/wm_ledger_private.h that
-- ends in a checksum (XXH3) of itself and of the row's texts: SQLite would believe a flipped bit,
-- and a million rows are read three times faster so than as "one column a number". progress.data
-- counts the rows of input and batch, so that rows that went missing are missed.
-- `wiremill status --json` shows all of it in words.
-- A change here is a new WM_LEDGER_SCHEMA, and a step in broker/disk/wm_ledger_version.c.

-- The one campaign: its id and when it was made; what it is pinned to.
CREATE TABLE campaign (
    one INTEGER PRIMARY KEY CHECK (one = 1),
    data BLOB NOT NULL,
    pins TEXT NOT NULL
) STRICT;

-- The journal's (epoch, sequence) that the other tables account for.
CREATE TABLE progress (
    one INTEGER PRIMARY KEY CHECK (one = 1),
    data BLOB NOT NULL
) STRICT;

-- A row per input, for ever. text: why it is held; of a written one, how many of its hits have nothing
-- but zeros in their patch, if any; else ''.
CREATE TABLE input (
    id INTEGER PRIMARY KEY,
    path TEXT NOT NULL,
    name TEXT NOT NULL,
    text TEXT NOT NULL,
    data BLOB NOT NULL
) STRICT;

-- Engine signatures, so that batches name them by number.
CREATE TABLE signature (
    id INTEGER PRIMARY KEY,
    text TEXT NOT NULL,
    sum INTEGER NOT NULL
) STRICT;

-- A row per batch returned or held, while its input is open. text: why, else ''.
CREATE TABLE batch (
    input INTEGER NOT NULL,
    ordinal INTEGER NOT NULL,
    batch INTEGER NOT NULL,
    data BLOB NOT NULL,
    text TEXT NOT NULL,
    PRIMARY KEY (input, ordinal, batch)
) STRICT, WITHOUT ROWID;

-- What outlives a broker and is in no journal: a rebuilt ledger begins at 0.
CREATE TABLE counter (
    name TEXT PRIMARY KEY,
    value INTEGER NOT NULL,
    sum INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- A row per minute of the last week and per hour before (broker/disk/wm_history.h). begin_s: Unix time; 0:
-- results whose time is not known. span_s: 60 or 3600.
CREATE TABLE minute (
    begin_s INTEGER PRIMARY KEY,
    span_s INTEGER NOT NULL,
    data BLOB NOT NULL
) STRICT;

-- A row per session of a worker, the latest 20,000. id: epoch << 32 | session.
CREATE TABLE worker (
    id INTEGER PRIMARY KEY,
    label TEXT NOT NULL,
    device TEXT NOT NULL,
    why TEXT NOT NULL,
    data BLOB NOT NULL
) STRICT;
