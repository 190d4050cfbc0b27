"""What can be set about `watch`."""

import msgspec


class WatchSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What can be set about `watch`."""
