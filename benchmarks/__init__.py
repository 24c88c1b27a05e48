"""Benchmarks: time, memory and information kept, compared with other packages."""
