"""What kills of any part of a campaign, at any of its calls, do to what was measured."""
