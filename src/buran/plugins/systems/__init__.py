"""System files: what all campaigns on a machine have in common, found by the machine's name."""
