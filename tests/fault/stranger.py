"""stranger.py - a peer that is not ours: CURVE and the wire protocol by libzmq, libsodium and libxxhash alone.

usage: stranger.py try CAMPAIGN PORT FILE...
           connects to each listener with the key of each join file ("-": without one), and prints what came of it
       stranger.py waits CAMPAIGN PORT TEXT
           a producer without a key that reports TEXT as what it waits for, as releases before numbers did; for 90 s
       stranger.py mutate CAMPAIGN PORT N SEED FILE...
           N damaged messages, with the join files' keys in turn
It derives keys by itself from the line of a join file, as schema/session/wm_join.h describes it.
"""
import ctypes, ctypes.util, hashlib, os, random, struct, sys, time

zmq = ctypes.CDLL (ctypes.util.find_library ("zmq"), use_errno=True)
sodium = ctypes.CDLL (ctypes.util.find_library ("sodium"))
xxhash = ctypes.CDLL (ctypes.util.find_library ("xxhash"))
for name in ("zmq_ctx_new", "zmq_socket"):
    getattr (zmq, name).restype = ctypes.c_void_p
xxhash.XXH3_64bits_withSeed.restype = ctypes.c_uint64
xxhash.XXH3_64bits_withSeed.argtypes = [ctypes.c_char_p, ctypes.c_size_t, ctypes.c_uint64]
DEALER, PAIR, SNDMORE, DONTWAIT = 5, 0, 2, 1
LINGER, RCVTIMEO, RECONNECT, PUBLIC, SECRET, SERVER = 17, 27, 18, 48, 49, 50
SUCCEEDED, NO_DETAIL, PROTOCOL, AUTH, DISCONNECTED = 0x1000, 0x800, 0x2000, 0x4000, 0x200
ROLES = ["worker", "producer", "operator", "monitor"]
context = ctypes.c_void_p (zmq.zmq_ctx_new ())


def option (socket, number, value):
    data = value if isinstance (value, bytes) else struct.pack ("i", value)
    assert zmq.zmq_setsockopt (socket, number, data, ctypes.c_size_t (len (data))) == 0


def key_of (path):
    """The pair and the server's key of a join file; None without one."""
    if path == "-":
        return None
    digits, n = "0123456789abcdefghjkmnpqrstvwxyz", 0
    for c in open (path).read ().strip ()[4:]:
        n = n * 32 + digits.index (c)
    line = n.to_bytes (80, "big")
    assert hashlib.blake2b (line[:73], digest_size=32).digest ()[:7] == line[73:]
    role = ROLES[line[0] - 1]
    private = hashlib.blake2b (role.encode (), key=line[9:41], digest_size=32).digest ()
    public = ctypes.create_string_buffer (32)
    assert sodium.crypto_scalarmult_base (public, private) == 0
    return public.raw, private, line[41:73]


class Peer:
    def __init__ (self, port, listener, key):
        self.sent = 0 # messages, whose number is in their seals
        self.socket, self.monitor = (ctypes.c_void_p (zmq.zmq_socket (context, kind)) for kind in (DEALER, PAIR))
        option (self.socket, LINGER, 1000)
        option (self.monitor, LINGER, 0)
        option (self.monitor, RCVTIMEO, 20000)
        option (self.socket, RCVTIMEO, 5000)
        option (self.socket, RECONNECT, 1000000000)
        if key:
            for number, value in zip ((PUBLIC, SECRET, SERVER), key):
                option (self.socket, number, value)
        name = f"inproc://{id (self)}-{random.getrandbits (64)}".encode ()
        assert zmq.zmq_socket_monitor (self.socket, name, 0xffff) == 0
        assert zmq.zmq_connect (self.monitor, name) == 0
        assert zmq.zmq_connect (self.socket, f"tcp://127.0.0.1:{port + listener}".encode ()) == 0

    def outcome (self):
        """How the handshake ends: "in", "refused 400", "closed"."""
        data = ctypes.create_string_buffer (256)
        while zmq.zmq_recv (self.monitor, data, ctypes.c_size_t (256), 0) == 6:
            event, value = struct.unpack ("<HI", data.raw[:6])
            zmq.zmq_recv (self.monitor, data, ctypes.c_size_t (256), 0)
            if event == SUCCEEDED:
                return "in"
            if event == AUTH:
                return f"refused {value}"
            if event in (NO_DETAIL, PROTOCOL, DISCONNECTED):
                return "closed"
        return "silent"

    def send (self, header, payload=None):
        """Seals and sends a message."""
        check = xxhash.XXH3_64bits_withSeed (payload, len (payload), 0) if payload is not None else 0
        seed = (check + self.sent) % 2**64
        header += struct.pack ("<Q", xxhash.XXH3_64bits_withSeed (header, len (header), seed))
        self.sent += 1
        more = SNDMORE if payload is not None else 0
        zmq.zmq_send (self.socket, header, ctypes.c_size_t (len (header)), DONTWAIT | more)
        if payload is not None:
            zmq.zmq_send (self.socket, payload, ctypes.c_size_t (len (payload)), DONTWAIT)

    def answer (self):
        """The type of the next message; None within 5 s."""
        data = ctypes.create_string_buffer (65536)
        bytes = zmq.zmq_recv (self.socket, data, ctypes.c_size_t (65536), 0)
        return data.raw[1] if bytes > 1 else None

    def leave (self):
        zmq.zmq_socket_monitor (self.socket, None, 0)
        zmq.zmq_close (self.socket)
        zmq.zmq_close (self.monitor)


def text (value):
    return bytes ([0xd9, len (value)]) + value.encode ()


def hello (role):
    return (bytes ([0x99, 1, 8, role, 0xc4, 16]) + os.urandom (16) + text (f"stranger:{os.getpid ()}") +
            text ("strange/v1") + text ("x86-64") + b"\xcb" + struct.pack (">d", 0) + b"\0")


def field (chance):
    return chance.choice ([lambda: bytes ([chance.randrange (128)]), lambda: b"\xcf" + chance.randbytes (8),
                           lambda: b"\xd3" + chance.randbytes (8), lambda: b"\xcb" + chance.randbytes (8),
                           lambda: b"\xc4" + bytes ([16]) + chance.randbytes (16), lambda: b"\xc0",
                           lambda: text ("x" * chance.randrange (200)), lambda: b"\x94" + chance.randbytes (4),
                           lambda: b"\xdd\xff\xff\xff\xff", lambda: b"\xc6\xff\xff\xff\xff", lambda: b"\x91" * 40]) ()


def mutate (port, n, seed, keys):
    """A sound HELLO, then a message that is none, on a new connection each: the first of them ends a session."""
    chance = random.Random (seed)
    inside = welcomed = 0
    for i in range (n):
        which = i % len (keys)
        role = min (which, 2) if chance.random () < .8 else chance.randrange (3)
        peer = Peer (port, role, keys[which])
        if peer.outcome () != "in":
            peer.leave ()
            continue
        inside += 1
        if chance.random () < .8:
            peer.send (hello (role + 1), b"")
            if i < 100:
                welcomed += peer.answer () == 2
        parts = [bytes ([chance.randrange (36)])] + [field (chance) for _ in range (chance.randrange (12))]
        header = bytes ([0x90 | min (15, len (parts))]) + b"".join (parts)
        if chance.random () < .3:
            header = bytes (b ^ (1 << chance.randrange (8)) if chance.random () < .05 else b for b in header)
        payload = chance.choice ([None, b"", chance.randbytes (chance.randrange (2000))])
        peer.send (header[:4000], payload)
        peer.leave ()
    print (inside, "messages inside,", n - inside, "peers refused,", welcomed, "of the first ones welcomed")


def waits (port, what):
    peer = Peer (port, 1, None)
    peer.send (hello (2), b"")
    peer.answer ()
    for _ in range (900):
        peer.send (bytes ([0x98, 5, 0, 0, 0, 0, 0, 0]) + text (what))
        time.sleep (.1)


def main ():
    what, port = sys.argv[1], int (sys.argv[3])
    if what == "waits":
        waits (port, sys.argv[4])
        return
    if what == "mutate":
        mutate (port, int (sys.argv[4]), int (sys.argv[5]), [key_of (path) for path in sys.argv[6:]])
        return
    for path in sys.argv[4:]:
        for listener in range (3):
            peer = Peer (port, listener, key_of (path))
            print (os.path.basename (path), ROLES[listener], peer.outcome ())
            peer.leave ()


main ()
