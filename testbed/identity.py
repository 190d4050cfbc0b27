"""Who and what a machine of the cluster is: texts of passwd, group and hosts."""

from testbed.layout import USERS, Spec


def passwd(existing: str) -> str:
    """The machine's own accounts and the cluster's users."""
    ours = [f"{user.name}:x:{user.id}:{user.id}::{user.home}:/bin/bash" for user in USERS]
    return _joined(existing, ours)


def group(existing: str) -> str:
    """The machine's own groups and one for each user of the cluster."""
    return _joined(existing, [f"{user.name}:x:{user.id}:" for user in USERS])


def hosts(spec: Spec) -> str:
    """Names and addresses of the whole cluster."""
    lines = [f"{spec.address(host)} {host}" for host in spec.hosts]
    return "\n".join(["127.0.0.1 localhost", *lines]) + "\n"


def _joined(existing: str, ours: list[str]) -> str:
    taken = {user.name for user in USERS} | {str(user.id) for user in USERS}
    kept = [
        line
        for line in existing.splitlines()
        if not taken & {line.split(":")[0], *line.split(":")[2:3]}
    ]
    return "\n".join([*kept, *ours]) + "\n"
