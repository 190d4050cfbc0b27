"""What a node keeps for itself under `paths.state`, from one hook to the next."""
