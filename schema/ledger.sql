-- ledger.sql - the ledger: an index of the journal, made again from it whenever it is in doubt.
--
-- For people: the views at the end (progress, inputs, held, workers, rates, faults, marks) are a stable interface:
-- columns may be added, none is renamed or removed. `wiremill sql DIR QUERY` asks them, of a campaign that
-- runs too; `sqlite3 DIR/ledger.db` of one that does not. The tables may change with any release.
--
-- sum is a checksum (XXH3) of a row, in the layout of broker/disk/wm_ledger_columns.h: SQLite would believe a
-- flipped bit. position counts the rows of input and batch, so that rows that went missing are missed.
-- Never write here: a row whose sum is wrong has the ledger renamed and made again.
-- A change is a new WM_LEDGER_SCHEMA, and a step in broker/disk/wm_ledger_version.c.
--
-- Names as in the journal: _ns and _s are times since 1970 (UTC) in nanoseconds and seconds; _ms are milliseconds.

-- The one campaign: its id and when it was made; what it is pinned to.
CREATE TABLE campaign (
    one INTEGER PRIMARY KEY CHECK (one = 1),
    id BLOB NOT NULL,
    created_ns INTEGER NOT NULL,
    pins TEXT NOT NULL,
    sum INTEGER NOT NULL
) STRICT;

-- The journal's (epoch, sequence) that the other tables account for; how many rows they have.
CREATE TABLE position (
    one INTEGER PRIMARY KEY CHECK (one = 1),
    epoch INTEGER NOT NULL,
    sequence INTEGER NOT NULL,
    n_input INTEGER NOT NULL,
    n_batch INTEGER NOT NULL,
    sum INTEGER NOT NULL
) STRICT;

-- A row per input, kept to the end. state: 1 open, 2 written, 3 held. code: of a held one its exit code, of a written
-- one how many of its batches are held. suspect: 1 of one that begins again because a machine's scores were
-- wrong, until that is done. n_event: -1 until its end is known. text: why it is held; of a
-- written one, how many of its hits have nothing but zeros in their patch, if any; else ''.
CREATE TABLE input (
    id INTEGER PRIMARY KEY,
    generation INTEGER NOT NULL,
    state INTEGER NOT NULL,
    suspect INTEGER NOT NULL,
    code INTEGER NOT NULL,
    size INTEGER NOT NULL,
    mtime_ns INTEGER NOT NULL,
    n_event INTEGER NOT NULL,
    out_size INTEGER NOT NULL,
    out_mtime_ns INTEGER NOT NULL,
    out_digest BLOB NOT NULL,
    n_hit INTEGER NOT NULL,
    n_held INTEGER NOT NULL,
    path TEXT NOT NULL,
    name TEXT NOT NULL,
    text TEXT NOT NULL,
    sum INTEGER NOT NULL
) STRICT;

-- Engine signatures, so that batches name them by number.
CREATE TABLE signature (
    id INTEGER PRIMARY KEY,
    text TEXT NOT NULL,
    sum INTEGER NOT NULL
) STRICT;

-- A row per batch returned (state 1) or held (2), while its input is open. event and batch are places, from 0;
-- 4294967295: all. segment, offset, bytes: of its result in the journal. text: why it is held; else ''.
CREATE TABLE batch (
    input INTEGER NOT NULL,
    event INTEGER NOT NULL,
    batch INTEGER NOT NULL,
    generation INTEGER NOT NULL,
    state INTEGER NOT NULL,
    code INTEGER NOT NULL,
    n_batch INTEGER NOT NULL,
    n_hit INTEGER NOT NULL,
    n_held INTEGER NOT NULL,
    attempt INTEGER NOT NULL,
    signature INTEGER NOT NULL,
    digest BLOB NOT NULL,
    segment INTEGER NOT NULL,
    offset INTEGER NOT NULL,
    bytes INTEGER NOT NULL,
    text TEXT NOT NULL,
    sum INTEGER NOT NULL,
    PRIMARY KEY (input, event, batch)
) STRICT, WITHOUT ROWID;

-- What outlives a broker and is in no journal: a rebuilt ledger begins at 0.
CREATE TABLE counter (
    name TEXT PRIMARY KEY,
    value INTEGER NOT NULL,
    sum INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- A row per second of the last two hours, per minute of the last week and per hour before (schema/wm_history.h).
-- begin_s 0: results whose time is not known. span_s: 1, 60 or 3600. A step of a batch: how many took it, for how many milliseconds
-- together, and how many took less than 1, 2, 4 ... ms, the last all above.
CREATE TABLE minute (
    begin_s INTEGER PRIMARY KEY,
    span_s INTEGER NOT NULL,
    workers_max INTEGER NOT NULL,
    journal_bytes INTEGER NOT NULL,
    up_ms INTEGER NOT NULL,
    hits INTEGER NOT NULL,
    batches INTEGER NOT NULL,
    held INTEGER NOT NULL,
    events INTEGER NOT NULL,
    payload_in INTEGER NOT NULL,
    task_out INTEGER NOT NULL,
    result_in INTEGER NOT NULL,
    fail INTEGER NOT NULL,
    lost INTEGER NOT NULL,
    preempt INTEGER NOT NULL,
    duplicate INTEGER NOT NULL,
    late INTEGER NOT NULL,
    alarm INTEGER NOT NULL,
    copies INTEGER NOT NULL,
    again INTEGER NOT NULL,
    worker_ms INTEGER NOT NULL,
    busy_ms INTEGER NOT NULL,
    cpu_ms INTEGER NOT NULL,
    stage_n INTEGER NOT NULL,
    stage_ms INTEGER NOT NULL,
    stage_latency TEXT NOT NULL,
    queue_n INTEGER NOT NULL,
    queue_ms INTEGER NOT NULL,
    queue_latency TEXT NOT NULL,
    compute_n INTEGER NOT NULL,
    compute_ms INTEGER NOT NULL,
    compute_latency TEXT NOT NULL,
    commit_n INTEGER NOT NULL,
    commit_ms INTEGER NOT NULL,
    commit_latency TEXT NOT NULL,
    sum INTEGER NOT NULL
) STRICT;

-- A row per session of a worker, the latest 20,000. id: epoch << 32 | session. cpu_ms -1: not reported.
CREATE TABLE worker (
    id INTEGER PRIMARY KEY,
    from_s INTEGER NOT NULL,
    to_s INTEGER NOT NULL,
    batches INTEGER NOT NULL,
    hits INTEGER NOT NULL,
    busy_ms INTEGER NOT NULL,
    cpu_ms INTEGER NOT NULL,
    signature INTEGER NOT NULL,
    has_ended INTEGER NOT NULL,
    label TEXT NOT NULL,
    device TEXT NOT NULL,
    why TEXT NOT NULL,
    sum INTEGER NOT NULL
) STRICT;

-- A row per mark of the time line, at most 500 (schema/wm_history.h). kind: its name there. A burst of n is one mark, from its
-- first to its last; text is of the first.
CREATE TABLE mark (
    id INTEGER PRIMARY KEY,
    from_s INTEGER NOT NULL,
    to_s INTEGER NOT NULL,
    n INTEGER NOT NULL,
    kind TEXT NOT NULL,
    text TEXT NOT NULL,
    sum INTEGER NOT NULL
) STRICT;

-- The records that stand until the next of their type and name (schema/wm_record.h), in the order in which they
-- came. data: the head of the record, and its place in the journal.
CREATE TABLE standing (
    id INTEGER PRIMARY KEY,
    type INTEGER NOT NULL,
    name BLOB NOT NULL,
    text BLOB NOT NULL,
    data BLOB NOT NULL,
    UNIQUE (type, name)
) STRICT;

-- ---- for people: times are UTC, NULL is "not known" --------------------------------------------

-- One row: where the campaign stands. hits are those in outputs; hits_waiting those returned for inputs that
-- are not written yet.
CREATE VIEW progress AS
SELECT datetime (c.created_ns / 1000000000, 'unixepoch') AS made,
       count (i.id) AS inputs,
       count (*) FILTER (WHERE i.state = 2) AS written,
       count (*) FILTER (WHERE i.state = 3) AS held,
       count (*) FILTER (WHERE i.state = 1) AS open,
       coalesce (sum (i.n_event) FILTER (WHERE i.state = 2), 0) AS events,
       coalesce (sum (i.n_hit) FILTER (WHERE i.state = 2), 0) AS hits,
       coalesce (sum (i.n_held) FILTER (WHERE i.state = 2), 0) AS hits_held,
       (SELECT coalesce (sum (n_hit), 0) FROM batch WHERE state = 1) AS hits_waiting,
       (SELECT datetime (max (begin_s + span_s), 'unixepoch') FROM minute WHERE begin_s > 0) AS last_minute
  FROM campaign c LEFT JOIN input i;

-- A row per input. hits_held of hits have no score. why: of a held one.
CREATE VIEW inputs AS
SELECT id,
       path,
       name AS output,
       CASE state WHEN 1 THEN 'open' WHEN 2 THEN 'written' WHEN 3 THEN 'held' END AS state,
       generation AS kicks,
       nullif (size, -1) AS bytes,
       nullif (n_event, -1) AS events,
       CASE state WHEN 2 THEN n_hit END AS hits,
       CASE state WHEN 2 THEN n_held END AS hits_held,
       CASE state WHEN 2 THEN code END AS batches_held,
       CASE state WHEN 2 THEN out_size END AS output_bytes,
       CASE state WHEN 2 THEN datetime (out_mtime_ns / 1000000000, 'unixepoch') END AS written_at,
       CASE state WHEN 3 THEN text END AS why
  FROM input;

-- A row per input that is held, per written one that has hits without a score, and per batch that is held while its
-- input is open. event, batch: NULL for all of the input, of the event. status: as of a hit in an output.
CREATE VIEW held AS
WITH status (code, word) AS (VALUES (1, 'bad time'), (2, 'bad wire'), (3, 'bad pixel'), (4, 'poison'), (5, 'held'),
                                    (6, 'non-finite score'), (7, 'no such event')),
     some (input, path, event, batch, hits, code, why) AS (
SELECT id, path, NULL, NULL, NULL, code, text FROM input WHERE state = 3
UNION ALL
SELECT id, path, NULL, NULL, n_held, NULL,
       CASE WHEN code > 0 THEN code || ' of its batches are held' ELSE 'some of its hits are held: its output has their statuses' END
  FROM input WHERE state = 2 AND n_held > 0
UNION ALL
SELECT b.input, i.path, nullif (b.event, 4294967295), nullif (b.batch, 4294967295), b.n_hit, b.code, b.text
  FROM batch b JOIN input i ON i.id = b.input WHERE b.state = 2)
SELECT input, path, event, batch, hits, word AS status, why FROM some LEFT JOIN status USING (code);

-- A row per session of a worker. busy: which part of its time it had a batch.
CREATE VIEW workers AS
SELECT w.id,
       w.label AS worker,
       w.device,
       s.text AS engine,
       datetime (w.from_s, 'unixepoch') AS "from",
       datetime (w.to_s, 'unixepoch') AS "to",
       w.has_ended AS ended,
       w.batches,
       w.hits,
       round (1.0 * w.hits / nullif (w.to_s - w.from_s, 0), 1) AS hits_per_s,
       round (w.busy_ms / 1000.0 / nullif (w.to_s - w.from_s, 0), 3) AS busy,
       CASE WHEN w.cpu_ms >= 0 THEN w.cpu_ms / 1000.0 END AS cpu_s,
       nullif (w.why, '') AS dismissed_because
  FROM worker w LEFT JOIN signature s ON s.id = w.signature;

-- A row per second of the last two hours, per minute of the last week and per hour before. Mean times of a batch in milliseconds.
CREATE VIEW rates AS
SELECT CASE WHEN begin_s > 0 THEN datetime (begin_s, 'unixepoch') END AS begin,
       span_s AS seconds,
       workers_max AS workers,
       hits,
       round (1000.0 * hits / nullif (up_ms, 0), 1) AS hits_per_s,
       batches,
       events,
       payload_in AS bytes_from_producers,
       task_out AS bytes_to_workers,
       result_in AS bytes_from_workers,
       journal_bytes,
       round (1.0 * busy_ms / nullif (worker_ms, 0), 3) AS workers_busy,
       round (1.0 * stage_ms / nullif (stage_n, 0), 1) AS stage_ms,
       round (1.0 * queue_ms / nullif (queue_n, 0), 1) AS queue_ms,
       round (1.0 * compute_ms / nullif (compute_n, 0), 1) AS compute_ms,
       round (1.0 * commit_ms / nullif (commit_n, 0), 1) AS commit_ms
  FROM minute;

-- What went wrong, as far as anything did: as the counters of `wiremill status --json`.
CREATE VIEW faults AS
SELECT CASE WHEN begin_s > 0 THEN datetime (begin_s, 'unixepoch') END AS begin,
       span_s AS seconds,
       held, fail, lost, preempt, duplicate, late, alarm, again
  FROM minute
 WHERE held + fail + lost + preempt + duplicate + late + alarm + again > 0;

-- What a person looks for on the time line, in the order in which it happened. times: of a burst of the same. why: of the first.
CREATE VIEW marks AS
SELECT id,
       datetime (from_s, 'unixepoch') AS "from",
       datetime (to_s, 'unixepoch') AS "to",
       kind,
       n AS times,
       nullif (text, '') AS why
  FROM mark ORDER BY id;
