"""What Buran's methods are worth: evaluations, their rivals, published methods and programs of known complexity.

Nothing in Buran needs this package. It brings the verbs ``buran evaluate`` and ``buran generate``.
"""
