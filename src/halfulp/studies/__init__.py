"""One module per system of the paper: what it runs and how it is judged."""
