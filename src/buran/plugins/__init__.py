"""Further products that come with Buran. Each is a folder, found by entry points and never imported by the core."""
