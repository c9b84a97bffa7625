"""The models: a room each, over one pipeline."""

NAMES = {
    "lda": "Find the topics of a corpus, and use them.",
    "sam": "Find topics that are directions, and use them.",
    "dpm": "Find clusters, and how many there are, and use them.",
    "hdp": "Find topics, and how many there are, and use them.",
}
"""The rooms, in the order of the commands, and what each is for."""
