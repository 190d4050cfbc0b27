"""What can be set about `node`."""

import msgspec


class NodeSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What can be set about `node`."""
