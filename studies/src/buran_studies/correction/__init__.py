"""The study `correction`: what correcting an analytical model is worth."""
