"""What can be set about `requeue`."""

import msgspec


class RequeueSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What can be set about `requeue`."""
