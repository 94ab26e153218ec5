"""Breaking a push at every step. Faults come from here: the product has no hook for them."""
