"""The fuzzer: damaged and hostile input through whole pipelines, from bytes to tables.

`python -m tests.fuzz` runs it for as long as you like, `make soak` for hours, and every test run
some of it for a few seconds.  An input follows from its target and number alone, so a finding is
repeated with `python -m tests.fuzz TARGET NUMBER`.

The recorded data is the seed: `corpus` cuts it into short streams of one table each, `mutation`
damages them, `targets` says what an input of each kind is, and `pipeline` takes a stream through
decoder, reference model and plan and looks for rows that vanish.  `campaign` counts and watches.
"""
