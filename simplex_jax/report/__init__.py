"""The page that a run writes: charts, tables of numbers, and the templates that models share."""
