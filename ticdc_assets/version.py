"""The version of this software: the only place that states it, for the build as well."""

VERSION = "0.1.0"
