"""
CRC-32 of something whole from the CRC-32 of its parts, so that several threads can digest one file.

A CRC is the remainder of a polynomial over GF(2); bytes appended to a message multiply what came
before them by a power of x. Numbers here hold the coefficient of x^0 in their highest bit, as
zlib's do.
"""

from functools import lru_cache

DIVISOR = 0xEDB88320
"""The polynomial of zlib's CRC-32, without its x^32."""
ONE = 1 << 31
X = 1 << 30


def joined(first: int, second: int, second_bytes: int) -> int:
    """The CRC-32 of two parts, one after the other, of which the second has *second_bytes*."""
    return _product(_moved_by(second_bytes), first) ^ second


@lru_cache(maxsize=64)
def _moved_by(count_bytes: int) -> int:
    """What appending so many bytes multiplies by: x^(8 * count)."""
    power, square, exponent = ONE, X, 8 * count_bytes
    while exponent:
        if exponent & 1:
            power = _product(power, square)
        square = _product(square, square)
        exponent >>= 1
    return power


def _product(one: int, other: int) -> int:
    total = 0
    for bit in range(31, -1, -1):
        if one >> bit & 1:
            total ^= other
        other = (other >> 1) ^ (DIVISOR if other & 1 else 0)
    return total
