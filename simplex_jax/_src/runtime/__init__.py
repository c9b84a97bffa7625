"""The host side of a run: the driver, its hooks and the files."""
