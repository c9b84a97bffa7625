"""The report page of a run: charts, formatting of numbers, and templates that models share."""
