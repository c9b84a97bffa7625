"""The local step in C++, where it was built: its library, and calls of it inside of traced code."""
