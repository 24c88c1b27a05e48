"""Releases, models, SQL, help and error texts of two versions of Shoal, compared.

Run ``python -m benchmarks.same_releases write FOLDER`` on the earlier version and
``python -m benchmarks.same_releases compare FOLDER`` on the later one. The comparison makes everything again with the same
seeds, compares all files, figures and texts, and prints the differences; the exit status is 1 if there is any. The later
version also opens the owner folders, recodings and models that the earlier one wrote. The methods, their parameters and the
requirements are those of the registries.

The result does not depend on paths, the date, the number of threads or the hash seed of Python.
"""
