"""Performance model normal form: terms, hypothesis spaces, batched regression."""
