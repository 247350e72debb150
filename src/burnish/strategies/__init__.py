"""How candidates are proposed and pursued: plain async code over a Run."""
