"""Beside the ranks: heartbeats, the agent of a node, and what a stall is and whom it accuses."""
