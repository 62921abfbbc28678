"""Memory: misses of caches from sampled accesses, what bounds call paths, and times on another machine."""
