"""The only code that knows files, hosts, buckets and secrets; no logic of TiCDC's lives here.

Whatever is opened here is opened for reading.
"""
