"""Building, running and recording: backends, compiler wrappers, the write-once store."""
