"""`python -m burnish`: the command line."""

import sys

if __name__ == "__main__":
    if not sys.flags.safe_path:
        # The current folder, in which the command `burnish` looks for no modules either.
        del sys.path[0]
    from burnish.cli import main

    main()
