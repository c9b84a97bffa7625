"""What surrounds a kernel on the host: the driver, its hooks and the files of a run."""
