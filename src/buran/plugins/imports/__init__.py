"""Measurements that exist already, which models of times read beside those of a campaign."""
