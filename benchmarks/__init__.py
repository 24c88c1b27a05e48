"""How fast Shoal is and how much it keeps, beside the other packages of its field."""
