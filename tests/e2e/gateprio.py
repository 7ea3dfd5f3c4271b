"""gateprio.py - clients of the gateway that keep its workers busy.

usage: gateprio.py flood ADDRESS FILE      several clients ask until FILE is there; prints when each has an answer
       gateprio.py some ADDRESS N          one client asks N times, one request after the other
"""
import http.client
import json
import os
import sys
import threading

import numpy as np

MODEL = os.environ.get("MODEL", "m")
CLIENTS, ROWS = 6, 2000  # of a request: eight batches, so that some wait at the worker, however slow the clients are


def ask(address, n, begun=lambda: None):
    """A client's n requests, one after the other; None: until it is told. Tells when the first is answered."""
    connection = http.client.HTTPConnection(address, timeout=120)
    connection.request("GET", f"/v2/models/{MODEL}")
    side = json.loads(connection.getresponse().read())["inputs"][0]["shape"][1]
    values = np.zeros((ROWS, side, side, 1), "<f4")
    head = json.dumps({"inputs": [{"name": "main_input", "shape": values.shape, "datatype": "FP32",
                                   "parameters": {"binary_data_size": values.nbytes}}]}).encode()
    done = 0
    while done < n if n is not None else not os.path.exists(sys.argv[3]):
        connection.request("POST", f"/v2/models/{MODEL}/infer", head + values.tobytes(),
                           {"Inference-Header-Content-Length": str(len(head))})
        answer = connection.getresponse()
        data = answer.read()
        assert answer.status == 200, data
        done += 1
        if done == 1:
            begun()
    return done


def flood():
    done, all_begun = [], threading.Barrier(CLIENTS, lambda: print("all are answered", flush=True))
    threads = [threading.Thread(target=lambda: done.append(ask(sys.argv[2], None, all_begun.wait))) for _ in range(CLIENTS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(done) == CLIENTS, done


def some():
    ask(sys.argv[2], int(sys.argv[3]))


globals()[sys.argv[1]]()
