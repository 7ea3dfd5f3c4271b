"""framing.py - requests whose framing is wrong, as raw bytes, through every HTTP listener.

usage: framing.py framing NAME=ADDRESS:PORT,METHOD,PATH,keeps|closes ...      METHOD and PATH answer 200; "TLS" is by TLS
       framing.py streams GRPC
       framing.py leaves GRPC PROCESS         by TLS; its process id
       framing.py silent GRPC PROCESS         by TLS
       framing.py plain TLS GRPC              both by TLS
       framing.py methods|slow GATEWAY SERVE [GRPC]
       framing.py closing ADDRESS:PORT,PATH ...
       framing.py floods SERVE
       framing.py turns GATEWAY PROCESS LOG   its access log
       framing.py places GATEWAY GRPC         with --max-connections 4
       framing.py descriptors ADDRESS:PORT PROCESS PATH

A request whose end two readers could see in different places is answered by an error and the connection is closed: what follows
is never read as another request. Each row is sent with such a request behind it.
"""
import json
import math
import os
import resource
import signal
import socket
import ssl
import struct
import sys
import threading
import time
import urllib.request

BEHIND = b"GET /behind HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n"
HOST = b"Host: 127.0.0.1\r\n"
LAST = b"0\r\n\r\n"


def head(*lines, first=b"%s %s HTTP/1.1", host=HOST):
    return first + b"\r\n" + host + b"".join(line + b"\r\n" for line in lines) + b"\r\n"


def chunked(body, *lines):
    return head(b"Transfer-Encoding: chunked", *lines) + body


# name: (bytes, code). %s %s is the listener's method and path.
BAD = {
    "Content-Length with Transfer-Encoding": (chunked(LAST, b"Content-Length: 5"), 400),
    "Transfer-Encoding behind Content-Length": (head(b"Content-Length: 5", b"Transfer-Encoding: chunked") + LAST, 400),
    "two Content-Length": (head(b"Content-Length: 2", b"Content-Length: 3") + b"[]", 400),
    "two equal Content-Length": (head(b"Content-Length: 2", b"Content-Length: 2") + b"[]", 400),
    "a list in Content-Length": (head(b"Content-Length: 2, 2") + b"[]", 400),
    "Content-Length -1": (head(b"Content-Length: -1") + b"[]", 400),
    "Content-Length +2": (head(b"Content-Length: +2") + b"[]", 400),
    "Content-Length 0x2": (head(b"Content-Length: 0x2") + b"{}", 400),
    "Content-Length 2x": (head(b"Content-Length: 2x") + b"{}", 400),
    "Content-Length 1 1": (head(b"Content-Length: 1 1") + b"{}", 400),
    "Content-Length without a number": (head(b"Content-Length:") + b"{}", 400),
    "Content-Length 2^64 + 2": (head(b"Content-Length: 18446744073709551618") + b"{}", 400),
    "Content-Length of 40 digits": (head(b"Content-Length: " + b"9" * 40) + b"{}", 400),
    "a blank before the colon": (head(b"Content-Length : 2") + b"{}", 400),
    "a blank before the colon of any header": (head(b"X : 2"), 400),
    "a tab before the colon": (head(b"Transfer-Encoding\t: chunked") + LAST, 400),
    "a blank before the first header": (head(b"X: y", host=b" " + HOST), 400),
    "a folded header": (head(b"X: y", b" z"), 400),
    "a folded Transfer-Encoding": (head(b"Transfer-Encoding:", b"\tchunked") + LAST, 400),
    "a header without a colon": (head(b"Content-Length 2") + b"{}", 400),
    "a header without a name": (head(b": 2"), 400),
    "a header whose name has a blank": (head(b"Content Length: 2"), 400),
    "a header whose name has a bracket": (head(b"X(y): 2"), 400),
    "a header whose name has a byte above 127": (head(b"X\xe9: 2"), 400),
    "a lone CR in a header": (head(b"X: y\rContent-Length: 2") + b"{}", 400),
    "a lone LF in a header": (head(b"X: y\nContent-Length: 2") + b"{}", 400),
    "a lone LF behind the request line": (b"%s %s HTTP/1.1\nHost: 127.0.0.1\r\n\r\n", 400),
    "a lone LF at the end of the headers": (b"%s %s HTTP/1.1\r\nHost: 127.0.0.1\r\n\n", 400),
    "NUL in a header": (head(b"X: y\0z"), 400),
    "NUL in a header's name": (head(b"X\0: y"), 400),
    "NUL in the request line": (head(first=b"%s %s\0 HTTP/1.1"), 400),
    "a control byte in a header": (head(b"X: y\x7fz\x01"), 400),
    "an unknown Transfer-Encoding": (head(b"Transfer-Encoding: gzip") + LAST, 501),
    "chunked and another": (head(b"Transfer-Encoding: gzip, chunked") + LAST, 501),
    "chunked twice": (head(b"Transfer-Encoding: chunked", b"Transfer-Encoding: chunked") + LAST, 400),
    "chunked before another": (head(b"Transfer-Encoding: chunked, gzip") + LAST, 501),
    "xchunked": (head(b"Transfer-Encoding: xchunked") + LAST, 501),
    "identity": (head(b"Transfer-Encoding: identity") + LAST, 501),
    "Transfer-Encoding without a value": (head(b"Transfer-Encoding:") + LAST, 400),
    "Transfer-Encoding in quotes": (head(b'Transfer-Encoding: "chunked"') + LAST, 501),
    "HTTP/1.0 with Transfer-Encoding": (head(b"Transfer-Encoding: chunked", first=b"%s %s HTTP/1.0") + LAST, 400),
    "no Host": (head(host=b""), 400),
    "two Host": (head(HOST[:-2]), 400),
    "Host with a blank": (head(host=b"Host: 127.0.0.1 b\r\n"), 400),
    "two blanks in the request line": (head(first=b"%s  %s HTTP/1.1"), 400),
    "a tab in the request line": (head(first=b"%s\t%s HTTP/1.1"), 400),
    "a blank behind the version": (head(first=b"%s %s HTTP/1.1 "), 400),
    "a blank before the method": (head(first=b" %s %s HTTP/1.1"), 400),
    "a method that is no token": (head(first=b"%s(: %s HTTP/1.1"), 400),
    "no version": (head(first=b"%s %s"), 400),
    "no target": (head(first=b"%s HTTP/1.1"), 400),
    "a fourth word": (head(first=b"%s %s x HTTP/1.1"), 400),
    "HTTP/1.x": (head(first=b"%s %s HTTP/1.x"), 400),
    "http/1.1": (head(first=b"%s %s http/1.1"), 400),
    "HTTP/2.0": (head(first=b"%s %s HTTP/2.0"), 505),
    "a lone CR in the request line": (head(first=b"%s %s\r HTTP/1.1"), 400),
    "chunk size -1": (chunked(b"-1\r\n{}\r\n" + LAST), 400),
    "chunk size +2": (chunked(b"+2\r\n{}\r\n" + LAST), 400),
    "chunk size 0x2": (chunked(b"0x2\r\n{}\r\n" + LAST), 400),
    "chunk size 2g": (chunked(b"2g\r\n{}\r\n" + LAST), 400),
    "chunk size of nothing": (chunked(b"\r\n{}\r\n" + LAST), 400),
    "a blank before a chunk's size": (chunked(b" 2\r\n{}\r\n" + LAST), 400),
    "chunk size 2^64 + 2": (chunked(b"10000000000000002\r\n{}\r\n" + LAST), 400),
    "chunk size with an LF": (chunked(b"2\n{}\r\n" + LAST), 400),
    "chunk size with a CR": (chunked(b"2\r{}\r\n" + LAST), 400),
    "a chunk's data longer than its size": (chunked(b"2\r\n{}x\r\n" + LAST), 400),
    "a chunk's data with an LF behind it": (chunked(b"2\r\n{}\n" + LAST), 400),
    "a chunk's data with nothing behind it": (chunked(b"2\r\n{}" + LAST), 400),
    "a chunk's extension that is too long": (chunked(b"2;x=" + b"y" * 70000 + b"\r\n{}\r\n" + LAST), 400),
    "a chunk's extension with an LF": (chunked(b"2;x\ny\r\n{}\r\n" + LAST), 400),
    "a chunk's extension with a NUL": (chunked(b"2;x\0y\r\n{}\r\n" + LAST), 400),
    "a trailer with a blank before the colon": (chunked(b"2\r\n{}\r\n0\r\nX : y\r\n\r\n"), 400),
    "a trailer with a lone LF": (chunked(b"2\r\n{}\r\n0\r\nX: y\n\r\n"), 400),
    "trailers of 42 kB": (chunked(b"2\r\n{}\r\n0\r\n" + b"X: y\r\n" * 7000 + b"\r\n"), 431),
    "a method that HTTP does not have": (head(first=b"X%s %s HTTP/1.1"), 501),
    "the last chunk with a lone LF": (chunked(b"2\r\n{}\r\n0\r\n\n"), 400),
}
# What is right, in all its ways: answered, and so is the request behind it where the listener keeps connections.
GOOD = {
    "no body": head(),
    "Content-Length": head(b"Content-Length: 2") + b"{}",
    "Content-Length with zeros and blanks": head(b"Content-Length: \t 002 ") + b"{}",
    "no blank behind the colon": head(b"Content-Length:2") + b"{}",
    "chunks": chunked(b"1\r\n{\r\n01\r\n}\r\n" + LAST),
    "Chunked in capitals": head(b"TRANSFER-ENCODING: Chunked") + b"2\r\n{}\r\n" + LAST,
    "a chunk's extension": chunked(b'2;x="y"\r\n{}\r\n0;z\r\n\r\n'),
    "a trailer": chunked(b"2\r\n{}\r\n0\r\nX: y\r\n\r\n"),
    "an empty line before the request": b"\r\n" + head(),
    "bytes above 127 and tabs in a value": head(b"X: \xe9\t\xff"),
    "a name of every letter": head(b"!#$%%&'*+-.^_`|~09azAZ: y".replace(b"%%", b"%")),
}


def answers(said):
    """The answers until the server closes the connection: (code, headers) of each."""
    data = b""
    try:
        while piece := said.recv(65536):
            data += piece
    except ConnectionError:
        pass
    except TimeoutError:
        raise AssertionError(f"it is open; it sent {data[:200]}")
    found = []
    while data:
        top, _, rest = data.partition(b"\r\n\r\n")
        assert top[:8] == b"HTTP/1.1" and top[8:9] == b" ", data[:200]
        fields = dict(line.lower().split(b": ", 1) for line in top.split(b"\r\n")[1:])
        found.append((int(top[9:12]), fields))
        data = rest[int(fields.get(b"content-length", 0)):]
    return found


def connect(address, name=""):
    said = socket.create_connection(address.rsplit(":", 1), timeout=60)
    said.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    if name == "TLS":
        context = ssl.create_default_context()
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        said = context.wrap_socket(said, suppress_ragged_eofs=True)
    return said


def tried(name, address, method, path, data, pieces):
    said = connect(address, name)
    data = data.replace(b"%s", method.encode(), 1).replace(b"%s", path.encode(), 1) + BEHIND
    try:
        for i in range(0, len(data), pieces):
            said.sendall(data[i:i + pieces])
    except ConnectionError:
        pass  # it has seen enough
    try:
        return answers(said)
    except AssertionError as error:
        return [(str(error), {})]
    finally:
        said.close()


def framing():
    wrong = []
    for word in sys.argv[2:]:
        name, how = word.split("=", 1)
        address, method, path, kept = how.split(",")
        for pieces in (1 << 20, 7, 1):
            for what, (data, code) in BAD.items():
                if len(wrong) < 3 and (pieces > 1000 or len(data) < 5000):  # a wrong one may take a minute
                    got = tried(name, address, method, path, data, pieces)
                    if [one for one, _ in got] != [code] or got[0][1].get(b"connection") != b"close":
                        wrong.append(f"{name}, {pieces} bytes at once: {what}: not {code} and closed, but {got}")
            for what, data in GOOD.items():
                got = [one for one, _ in tried(name, address, method, path, data, pieces)]
                if got != ([200, 404] if kept == "keeps" else [200]):
                    wrong.append(f"{name}, {pieces} bytes at once: {what}: {got}")
    print(*wrong, sep="\n")
    assert not wrong
    print(f"{len(BAD)} wrong and {len(GOOD)} right framings")


# ---- HTTP/2 --------------------------------------------------------------------------------------

def frame(kind, flags, stream, payload=b""):
    return struct.pack(">I", len(payload))[1:] + bytes([kind, flags]) + struct.pack(">I", stream) + payload


GREETING = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + frame(4, 0, 0)
DATA, HEADERS, RST, GOAWAY = 0, 1, 3, 7
LIVE = b"\0\0\0\0\0"  # a message without fields, framed
USUAL = ((":method", "POST"), (":scheme", "http"), (":path", "/inference.GRPCInferenceService/ServerLive"), (":authority", "x"),
         ("content-type", "application/grpc"), ("te", "trailers"))


def heads(pairs):
    return b"".join(b"\0" + bytes([len(word[0])]) + word[0].encode() + bytes([len(word[1])]) + word[1].encode() for word in pairs)


def read_frame(said):
    head = b""
    while len(head) < 9:
        piece = said.recv(9 - len(head))
        if not piece:
            return None
        head += piece
    body = b""
    while len(body) < int.from_bytes(head[:3], "big"):
        body += said.recv(int.from_bytes(head[:3], "big") - len(body))
    return head[3], head[4], int.from_bytes(head[5:], "big"), body


def streams():
    """Each bad request is stream 1 of a connection, with a good one beside it: the bad one is reset (PROTOCOL_ERROR), and nothing
    of it is answered; the good one is."""
    def plus(*more):
        return USUAL + more

    rows = {
        "content-length longer than the data": (plus(("content-length", "9")), LIVE),
        "content-length shorter than the data": (plus(("content-length", "2")), LIVE),
        "content-length 0 with data": (plus(("content-length", "0")), LIVE),
        "two content-length": (plus(("content-length", "5"), ("content-length", "5")), LIVE),
        "content-length -5": (plus(("content-length", "-5")), LIVE),
        "content-length +5": (plus(("content-length", "+5")), LIVE),
        "content-length 2^64 + 5": (plus(("content-length", "18446744073709551621")), LIVE),
        "transfer-encoding": (plus(("transfer-encoding", "chunked")), LIVE),
        "connection": (plus(("connection", "close")), LIVE),
        "keep-alive": (plus(("keep-alive", "1")), LIVE),
        "proxy-connection": (plus(("proxy-connection", "close")), LIVE),
        "upgrade": (plus(("upgrade", "h2c")), LIVE),
        "te: gzip": (USUAL[:-1] + (("te", "gzip"),), LIVE),
        "capitals in a name": (plus(("Content-Length", "5")), LIVE),
        "a blank in a name": (plus(("content-length ", "5")), LIVE),
        "CR LF in a value": (plus(("x", "y\r\ncontent-length: 2")), LIVE),
        "NUL in a value": (plus(("x", "y\0")), LIVE),
        "no :path": (USUAL[:2] + USUAL[3:], LIVE),
        "two :path": (USUAL[:3] + USUAL[2:], LIVE),
        "no :method": (USUAL[1:], LIVE),
        "an unknown pseudo-header": (((":x", "y"),) + USUAL, LIVE),
        "a pseudo-header behind a header": (USUAL[:2] + (("x", "y"),) + USUAL[2:], LIVE),
    }
    for what, (bad, data) in rows.items():
        said = connect(sys.argv[2])
        said.sendall(GREETING + frame(HEADERS, 4, 1, heads(bad)) + frame(DATA, 1, 1, data) +
                     frame(HEADERS, 4, 3, heads(USUAL)) + frame(DATA, 1, 3, LIVE))
        resets, data, is_done = {}, b"", False
        while not (is_done and resets) and (one := read_frame(said)):
            kind, flags, stream, body = one
            assert kind != GOAWAY and (stream != 1 or kind == RST), (what, one)
            if kind == RST:
                resets[stream] = body
            elif stream == 3:
                data += body if kind == DATA else b""
                is_done |= flags & 1
        assert resets == {1: b"\0\0\0\1"} and data == b"\0\0\0\0\2\x08\1", (what, resets, data)
        said.close()


def leaves():
    """Clients over TLS leave with what the gateway sent unread, which resets the connection behind close_notify. The gateway, which
    is stopped meanwhile, then reads calls and close_notify at once, and cannot send the answers: that ends this connection alone."""
    address, gateway = sys.argv[2], int(sys.argv[3])
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    context.set_alpn_protocols(["h2"])
    calls = b"".join(frame(HEADERS, 4, i, heads(USUAL)) + frame(DATA, 1, i, LIVE) for i in range(1, 100, 2))
    assert len(GREETING + calls) < 16000  # of one TLS record
    for _ in range(3):
        said, come, go = connect(address), ssl.MemoryBIO(), ssl.MemoryBIO()
        tls = context.wrap_bio(come, go)
        while True:
            try:
                tls.do_handshake()
                break
            except ssl.SSLWantReadError:
                said.sendall(go.read())
                come.write(said.recv(65536))
        said.sendall(go.read())
        said.recv(1, socket.MSG_PEEK)  # stays unread
        os.kill(gateway, signal.SIGSTOP)
        try:
            tls.write(GREETING + calls)
            try:
                tls.unwrap()
            except ssl.SSLWantReadError:
                pass
            said.sendall(go.read())
            said.close()
        finally:
            os.kill(gateway, signal.SIGCONT)
    with context.wrap_socket(connect(address)) as said:
        said.sendall(GREETING + frame(HEADERS, 4, 1, heads(USUAL)) + frame(DATA, 1, 1, LIVE))
        while (one := read_frame(said))[0] != DATA:
            pass
        assert one[3] == b"\0\0\0\0\2\x08\1", one


# ---- methods, ends of connections, turns, places -------------------------------------------------

def asks(said, line, *lines):
    """Sends a request, and reads its answer's head: (code, headers)."""
    said.sendall(line + b" HTTP/1.1\r\n" + HOST + b"".join(one + b"\r\n" for one in lines) + b"\r\n")
    data = b""
    while not data.endswith(b"\r\n\r\n"):
        piece = said.recv(1)
        assert piece, data
        data += piece
    fields = dict(one.lower().split(b": ", 1) for one in data.split(b"\r\n")[1:-2])
    return int(data[9:12]), fields


def methods():
    """What a resource does not take is 405, and Allow names what it takes; what is no resource is 404, whatever the method."""
    gateway, page = sys.argv[2:4]
    rows = [(gateway, path, b"post") for path in (b"/v2/models/m/infer", b"/v2/models/m/versions/1/infer", b"/v2/repository/index",
                                                  b"/v2/repository/models/m/load", b"/v2/repository/models/m/unload")]
    rows += [(gateway, path, b"get, head") for path in (b"/v2", b"/v2/health/live", b"/v2/health/ready", b"/v2/models/m", b"/metrics",
                                                        b"/v2/models/m/ready", b"/v2/models/m/config", b"/v2/models/stats")]
    rows += [(gateway, path, b"get, head, post") for path in (b"/v2/logging", b"/v2/trace/setting", b"/v2/models/m/trace/setting")]
    rows += [(page, path, b"get, head") for path in (b"/", b"/health/live", b"/metrics")]
    for address, path, allowed in rows:
        for method in (b"GET", b"HEAD", b"POST", b"PUT", b"DELETE", b"OPTIONS", b"TRACE", b"PATCH"):
            if method.lower() in allowed:
                continue
            code, fields = asks(connect(address), method + b" " + path, b"Content-Length: 0")
            assert code == 405 and fields[b"allow"] == allowed, (address, method, path, code, fields)
    for method in (b"GET", b"POST", b"DELETE"):
        assert asks(connect(gateway), method + b" /v2/nothing", b"Content-Length: 0")[0] == 404
    assert asks(connect(gateway), b"HEAD /metrics")[0] == 200


def closing():
    """What comes behind the last request of a connection is read, and does not destroy its answer, of which little has been sent."""
    for address, path in (word.split(",") for word in sys.argv[2:]):
        said = socket.socket()
        said.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2048)
        said.settimeout(60)
        said.connect((address.rsplit(":", 1)[0], int(address.rsplit(":", 1)[1])))
        said.sendall(b"GET %s HTTP/1.1\r\n%sConnection: close\r\n\r\n" % (path.encode(), HOST))
        said.recv(1, socket.MSG_PEEK)
        said.sendall(b"x" * 300_000)
        data = b""
        while piece := said.recv(65536):
            data += piece
        top, _, body = data.partition(b"\r\n\r\n")
        length = int(top.lower().split(b"content-length: ")[1].split(b"\r\n")[0])
        assert len(body) == length > 3000, (address, length, len(body))
        said.close()


def floods():
    """Who never ends is cut off."""
    said, sent = connect(sys.argv[2]), 0
    said.sendall(b"GET /health/live HTTP/1.1\r\n" + HOST + b"\r\n")
    try:
        while sent < 1 << 30:
            sent += said.send(b"x" * 65536)
    except ConnectionError:
        pass
    assert sent < 1 << 28, sent


def turns():
    """A client that has sent hundreds of requests at once is answered beside another, which has sent one: the access log has the
    order."""
    address, process, log = sys.argv[2], int(sys.argv[3]), sys.argv[4]
    many, one = connect(address), connect(address)
    for said in (many, one):
        assert asks(said, b"GET /v2/health/live")[0] == 200
    os.kill(process, signal.SIGSTOP)
    try:
        many.sendall(b"GET /v2/many HTTP/1.0\r\nConnection: keep-alive\r\n\r\n" * 300)
        one.sendall(b"GET /v2/one HTTP/1.0\r\n\r\n")
    finally:
        os.kill(process, signal.SIGCONT)
    found, end = [], time.monotonic() + 60
    while len(found) < 301:
        assert time.monotonic() < end, found
        with open(log) as lines:
            found = [word for line in lines for word in ("many", "one") if f":/v2/{word} " in line]
        time.sleep(0.1)
    assert found.index("one") <= 64, found.index("one")


def places():
    """With 4 places: who comes when all are taken gets that of the connection that is idle for longest, never one that is not
    idle. HTTP, then gRPC."""
    web, grpc = sys.argv[2:4]

    def live(said):
        assert asks(said, b"GET /v2/health/live")[0] == 200
        said.recv(13)  # {"live":true}

    used, begun, *others = [connect(web) for _ in range(4)]
    for said in (used, *others):
        live(said)
    begun.sendall(b"GET /v2/health/live HTTP/1.1\r\nX: ")
    live(used)
    for idle in (*others, used):  # the one that has begun a request is idle for longer than the last
        late = connect(web)
        live(late)
        assert idle.recv(1) == b"", "it is open"
        others.append(late)
    begun.sendall(b"y\r\n" + HOST + b"\r\n")
    assert begun.recv(65536).startswith(b"HTTP/1.1 200")

    def call(said, stream):
        said.sendall((GREETING if stream == 1 else b"") + frame(HEADERS, 4, stream, heads(USUAL)) + frame(DATA, 1, stream, LIVE))
        while (got := read_frame(said))[0] != HEADERS or not got[1] & 1:
            assert got[0] != GOAWAY, got

    used, open_, *others = [connect(grpc) for _ in range(4)]
    for said in (used, *others):
        call(said, 1)
    open_.sendall(GREETING + frame(HEADERS, 4, 1, heads(USUAL)))
    call(used, 3)
    for idle in (*others, used):
        late = connect(grpc)
        call(late, 1)
        kinds = []
        while got := read_frame(idle):
            kinds.append(got[0])
        assert GOAWAY in kinds, kinds
        others.append(late)
    open_.sendall(frame(DATA, 1, 1, LIVE))
    while (got := read_frame(open_))[0] != DATA:
        assert got[0] != GOAWAY, got


def sleeps(process, times=10):
    """No thread of it computes all the time, while its first one goes to sleep so often."""
    def threads():
        """Of each: how often it has slept, and its CPU time."""
        found = {}
        for task in os.listdir(f"/proc/{process}/task"):
            with open(f"/proc/{process}/task/{task}/status") as status, open(f"/proc/{process}/task/{task}/stat") as stat:
                found[int(task)] = (int(status.read().split("\nvoluntary_ctxt_switches:")[1].split()[0]),
                                    sum(int(word) for word in stat.read().rsplit(")", 1)[1].split()[11:13]))
        return found

    began, end = threads(), time.monotonic() + 60
    while threads()[process][0] < began[process][0] + times:
        assert time.monotonic() < end, "it does not sleep"
        time.sleep(0.05)
    for task, (slept, ticks) in threads().items():
        assert slept > began[task][0] + 3 or ticks <= began[task][1] + 5, "a thread does not sleep"


def silent():
    """A client of TLS that says nothing yet."""
    process = int(sys.argv[3])
    before = len(os.listdir(f"/proc/{process}/fd"))
    said, end = [connect(sys.argv[2]) for _ in range(3)], time.monotonic() + 60
    while len(os.listdir(f"/proc/{process}/fd")) < before + len(said):
        assert time.monotonic() < end
    sleeps(process, 5)
    assert len(os.listdir(f"/proc/{process}/fd")) >= before + len(said), "they were closed meanwhile"


def descriptors():
    """Without a descriptor for a new connection the server sleeps between its tries, and goes on when there is one."""
    address, process, path = sys.argv[2], int(sys.argv[3]), sys.argv[4].encode()
    before = resource.prlimit(process, resource.RLIMIT_NOFILE)
    free = next(n for n in range(3, 1 << 20) if not os.path.exists(f"/proc/{process}/fd/{n}"))
    resource.prlimit(process, resource.RLIMIT_NOFILE, (free + 3, before[1]))
    said = [connect(address) for _ in range(12)]
    sleeps(process)
    for one in said:
        one.close()
    assert asks(connect(address), b"GET " + path)[0] == 200
    resource.prlimit(process, resource.RLIMIT_NOFILE, before)


def plain():
    """HTTP without TLS to ports of TLS: HTTP's and gRPC's."""
    web, grpc = sys.argv[2:4]
    for address in (web, grpc):
        for method in (b"GET", b"POST", b"OPTIONS", b"DELETE"):
            said = connect(address)
            said.sendall(method + b" /v2 HTTP/1.1\r\n" + HOST + b"Content-Length: 100000\r\n\r\n" + b"x" * 100_000 * (address == web))
            data = b""
            while piece := said.recv(65536):
                data += piece
            assert data.startswith(b"HTTP/1.1 400 ") and b"use https" in data, (address, data)
    said = connect(grpc)
    said.sendall(GREETING + frame(HEADERS, 4, 1, heads(USUAL)) + frame(DATA, 1, 1, LIVE))
    while (one := read_frame(said))[0] != GOAWAY:
        pass
    assert one[3][4:8] == b"\0\0\0\x0c" and b"use https" in one[3], one


# ---- slow clients --------------------------------------------------------------------------------

def drained(said):
    while said.recv(65536):
        pass


def inference(web, blanks):
    """(head, body) of a request for the model m that is answered by 200: so many blanks lie among its values."""
    with urllib.request.urlopen(f"http://{web}/v2/models/m") as page:
        one = json.load(page)["inputs"][0]
    shape = [max(n, 1) for n in one["shape"]]
    given = {"name": one["name"], "datatype": one["datatype"], "shape": shape, "data": [0] * math.prod(shape)}
    body = json.dumps({"inputs": [given]}).encode().replace(b"[0,", b"[0" + b" " * blanks + b",")
    return b"POST /v2/models/m/infer HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n", body


def slow():
    """All at once. (name, address, what is sent first, then how much of what how often, the answer, when it must be there)"""
    web, page, grpc = sys.argv[2:5]
    post = b"POST /v2/repository/index HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n"
    get = b"GET /health/live HTTP/1.1\r\nHost: 127.0.0.1\r\n"
    infer, body = inference(web, 3_300_000)
    rows = (
        ("a head that never ends", web, post + b"X: ", b"x", 1, [408], 29, 45),
        ("a body that never ends", web, post + b"Content-Length: 999999\r\n\r\n", b"x", 1, [408], 29, 45),
        ("a body that stops", web, infer + b"Content-Length: %d\r\n\r\n" % len(body) + body[:-1], b"", 1, [408], 29, 45),
        ("a chunk's size that never ends", web, post + b"Transfer-Encoding: chunked\r\n\r\n0;", b"x", 1, [408], 29, 45),
        ("trailers that never end", web, post + b"Transfer-Encoding: chunked\r\n\r\n0\r\nX:", b"x", 1, [408], 29, 45),
        ("nothing is sent", web, b"", b"", 1, [], 59, 75),
        ("a head of 2.5 kB at 100 B/s", web, post + b"X: ", b"x" * 2500 + b"\r\n\r\n", 100, [200], 24, 29),
        ("a body of 3.3 MB at 75 kB/s", web, infer + b"Content-Length: %d\r\n\r\n" % len(body), body, 75000, [200], 40, 75),
        ("a page's head that never ends", page, get + b"X: ", b"x", 1, [], 9, 20),
        ("a page's body that never ends", page, get + b"Content-Length: 9999\r\n\r\n", b"x", 1, [], 9, 20),
        ("no request for a page", page, b"", b"", 1, [], 9, 20),
        ("HTTP/2: nothing is sent", grpc, b"", b"", 1, None, 9, 20),
        ("HTTP/2: headers that never end", grpc, GREETING + b"\0\x03\xe8\1\4\0\0\0\1\0\x7f\x7f", b"x", 1, None, 9, 20),
    )
    wrong = []

    def try_one(what, address, first, more, rate, want, least_s, most_s):
        said, start, end = connect(address), time.monotonic(), []
        said.settimeout(200)

        def read():
            try:
                end.append([code for code, _ in answers(said)] if want is not None else drained(said))
            except (AssertionError, OSError) as error:
                end.append(error)
            end.append(time.monotonic() - start)

        reader = threading.Thread(target=read)
        reader.start()
        try:
            said.sendall(first)
            at = 0
            while not end and more and (at < len(more) or len(more) < 10):
                said.sendall(more[at:at + rate] if len(more) > 9 else more)
                at += rate
                time.sleep(max(0, start + at / rate - time.monotonic()))
        except ConnectionError:
            pass
        reader.join()
        if (want is not None and end[0] != want) or not least_s <= end[1] <= most_s:
            wrong.append(f"{what}: {end[0]} after {end[1]:.1f} s, not {want} after {least_s} to {most_s} s")

    threads = [threading.Thread(target=try_one, args=row) for row in rows]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    print(*wrong, sep="\n")
    assert not wrong


if __name__ == "__main__":
    globals()[sys.argv[1]]()
