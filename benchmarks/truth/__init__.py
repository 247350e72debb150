"""Whether burnish's decisions are true: null runs, real gains, and cheats that must lose."""
