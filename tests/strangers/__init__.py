"""What somebody does who has just installed burnish, in an empty folder and from the wheel."""
