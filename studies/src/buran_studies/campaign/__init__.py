"""The study `campaign`: the whole loop against the manual way and PIRA II's."""
