"""The history of versions: every finished campaign in one file of the user, and an alarm when one changed."""
