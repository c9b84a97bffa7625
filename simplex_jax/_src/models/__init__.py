"""The models: a subpackage each, over one pipeline."""

NAMES = {
    "lda": "Find the topics of a corpus, and use them.",
    "sam": "Find topics that are directions, and use them.",
    "dpm": "Find clusters and their number, and use them.",
    "hdp": "Find topics and their number, and use them.",
    "dtm": "Find topics that change through time or between groups, and use them.",
}
"""The models, in the order of the commands, with the help text of each command."""
