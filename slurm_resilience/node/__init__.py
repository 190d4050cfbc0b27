"""Is this node fit: probes read, rules judge, policy decides, the hooks act."""
