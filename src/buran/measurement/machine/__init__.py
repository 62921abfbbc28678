"""What builds and runs programs, and what it is like."""
