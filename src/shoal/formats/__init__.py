"""Text of numbers, dates, labels, column names and files. This package needs no frame library.

`numbers`, `dates` and `labels` write and read published values; `column_pairs` names the two columns of ``write="lo-hi"``;
`normalize` makes spellings equal; `formulas` escapes spreadsheet formulas in CSV; `yaml_text` and `checked_json` read files
that may be damaged.
"""
