"""An example of a package that extends Shoal by entry points, without a change in Shoal."""
