"""The local step in C++, if it was built: its library, and calls to it from traced code."""
