"""What models of the topics of tokens share: documents, the local step, concentrations, shares."""
