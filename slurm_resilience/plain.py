"""Text that others wrote -> what may stand in a line for people."""

MOST = 1000


def plain(text: str, *, most: int = MOST) -> str:
    """
    *text* on one line of at most *most* characters, and a word about what was cut.

    An incident file, a Comment, a path or a job's name is a user's: what a terminal or a log
    would obey (line ends, escape sequences, marks that turn the writing direction) is shown
    instead, as Python writes it.
    """
    shown = "".join(
        one if one.isprintable() else one.encode("unicode_escape").decode("ascii")
        for one in text[:most]
    )
    is_whole = len(text) <= most and len(shown) <= most
    return shown if is_whole else f"{shown[:most]}… (cut)"
