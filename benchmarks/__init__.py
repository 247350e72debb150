"""What burnish costs: `make bench` prints a table of figures beside their goals."""
