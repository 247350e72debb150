"""What is optimised or measured: each target knows its surfaces and runs cases under them."""
