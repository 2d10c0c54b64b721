"""Benchmarks: they measure and print, and never pass or fail."""
