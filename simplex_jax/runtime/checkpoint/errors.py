"""What the checkpoints of a run may raise."""


class CheckpointError(ValueError):
    """A checkpoint cannot be written, cannot be read, or is that of another run."""


class CheckpointWarning(UserWarning):
    """A checkpoint is damaged and an older one is used, or other versions wrote it."""


class Damaged(Exception):
    """A checkpoint is not what was written; never leaves `Store`."""
