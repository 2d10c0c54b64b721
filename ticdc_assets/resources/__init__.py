"""The only code that knows files, hosts, buckets and secrets; it has no TiCDC logic.

- Sources are opened read-only.
- A credential never appears in an error, a log line or the Dagster UI.
- Every error names the setting to change.
"""
