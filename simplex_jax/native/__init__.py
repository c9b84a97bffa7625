"""What the native code of the rooms shares: how it is loaded, its threads and its vectors."""
