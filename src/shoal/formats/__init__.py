"""Text formats of numbers, counts, dates, labels, column names and files. This package needs no frame library.

`numbers`, `dates` and `labels` format and parse published values; `column_pairs` names the two columns of ``write="lo-hi"``;
`normalize` maps the spellings of a value to one text; `formulas` escapes spreadsheet formulas in CSV; `surrogates` finds
texts that are not valid Unicode; `yaml_text` and `checked_json` read files that may be damaged.
"""
