"""protobuf.py - protobuf messages made by hand, for tests that need no library for it."""


def varint(number):
    out = b""
    while number > 127:
        out += bytes([number & 127 | 128])
        number >>= 7
    return out + bytes([number])


def field(tag, value):
    """An integer (negative ones as 64 bits), a text or bytes."""
    if isinstance(value, int):
        return varint(tag << 3) + varint(value & (1 << 64) - 1)
    value = value.encode() if isinstance(value, str) else value
    return varint(tag << 3 | 2) + varint(len(value)) + value
