"""Score-P as measurement system: its wrappers, profiles and hooks, and what its tools say of filters."""
