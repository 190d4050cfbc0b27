"""The controller: brings jobs back without the faulty node."""
