"""Things that search: each finds a strategy of low cost within a budget."""
