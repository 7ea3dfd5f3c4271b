"""elsewhere.py - where inputs lie in tests: an HTTP server with ranges, and a slow TCP proxy before any server.

usage: elsewhere.py http PORT FOLDER [CERTIFICATE]    elsewhere.py slow PORT TO_PORT BYTES_PER_SECOND

The proxy slows both ways. The HTTP server logs one line a request to FOLDER/log: path ("HEAD " before it where only that
is asked), Range, If-Range, Authorization ("-": none). FOLDER/mode has one word that it reads at each request: fine; cut (half
of what was asked for, then the connection ends); busy (503); weak (no ETag, no ranges); blind (ranges of whatever file is
there now, If-Range is not looked at); digest (Digest: adler32, of other bytes). Both end after 15 minutes.
"""
import http.server, os, socket, ssl, sys, threading, time, zlib

kind, port = sys.argv[1], int(sys.argv[2])


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def do_HEAD(self):
        self.do_GET()

    def do_GET(self):
        folder = sys.argv[3]
        asked, if_range = self.headers.get("Range"), self.headers.get("If-Range")
        path = self.path.split("?")[0]
        with open(folder + "/log", "a") as log:
            print(("HEAD " if self.command == "HEAD" else "") + path, asked or "-", if_range or "-", self.headers.get("Authorization") or "-", file=log)
        mode = open(folder + "/mode").read().strip()
        if mode == "busy":
            return self.send_error(503)
        if not os.path.isfile(folder + path):
            return self.send_error(404)
        data = open(folder + path, "rb").read()
        tag, first = '"%08x"' % zlib.adler32(data), 0
        if asked and (if_range == tag or mode == "blind") and mode != "weak":
            first = int(asked.split("=")[1].split("-")[0])
        self.send_response(206 if first else 200)
        if first:
            self.send_header("Content-Range", f"bytes {first}-{len(data) - 1}/{len(data)}")
        if mode != "weak":
            self.send_header("ETag", tag)
        if mode == "digest":
            self.send_header("Digest", "adler32=00000001")
        data = data[first:]
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        if self.command == "HEAD":
            return
        self.wfile.write(data[: len(data) // 2] if mode in ("cut", "weak") else data)
        if mode in ("cut", "weak"):
            self.close_connection = True


def pump(a, b, rate):
    try:
        end = time.monotonic()
        while data := a.recv(max(16384, int(rate / 200))):
            b.sendall(data)
            end = max(end, time.monotonic() - 0.02) + len(data) / rate  # a pause that took long is not made up for
            time.sleep(max(0, end - time.monotonic()))
    except OSError:
        pass
    for end in (a, b):
        try:
            end.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass


def slow(to, rate):
    listener = socket.create_server(("127.0.0.1", port))
    while True:
        a = listener.accept()[0]
        try:
            b = socket.create_connection(("127.0.0.1", to), 5)
        except OSError:
            a.close()
            continue
        b.settimeout(None)
        threading.Thread(target=pump, args=(a, b, rate), daemon=True).start()
        threading.Thread(target=pump, args=(b, a, rate), daemon=True).start()


threading.Timer(900, lambda: os._exit(1)).start()
if kind == "slow":
    slow(int(sys.argv[3]), float(sys.argv[4]))
server = http.server.ThreadingHTTPServer(("127.0.0.1", port), Handler)
if len(sys.argv) > 4:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(sys.argv[4])
    server.socket = context.wrap_socket(server.socket, server_side=True)
server.serve_forever()
