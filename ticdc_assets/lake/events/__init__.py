"""Decode: `raw` becomes `events`, and input that cannot be decoded goes into `quarantine`.

- `events` alone records progress: a `batch` row per batch and a `file` row per data file, written
  in the commit that holds their events.  A run killed anywhere repeats nothing.
- No input fails a run: what cannot be decoded becomes an event of kind `quarantined`.
- A row that the stream holds only the key of is fetched from upstream here (`large_rows`), and
  nowhere else.
- A data file that cannot be read yet (its schema is unknown, its storage does not answer) waits and
  holds up nothing else.
- `decode_topic` and `decode_folder` run on the driver, `decode_workers` in the workers, which read
  records from the files of `raw`; the small files of a folder (`schema_files`) are decoded on the
  driver.
- What was decoded before is decoded again (`decode_again`) only on request.
"""
