"""Tables as integer codes: attributes, counted cells, and the groups of a published table."""
