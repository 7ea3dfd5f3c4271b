"""gateload.py - clients of the gateway while a model is loaded from other files.

usage: gateload.py steady ADDRESS OLD NEW FOLDER     clients ask without a pause until FOLDER/enough is there; FOLDER/begun: all are
                                                     answered; FOLDER/loaded: what is asked from now on is of NEW
       gateload.py of ADDRESS MODEL [VERSION]        one request is answered by this model's scores
       gateload.py refused ADDRESS TEXT [VERSION]    one request is refused with 503 and a text with this pattern in it
OLD, NEW, MODEL: files of `wiremill import`; the gateway calls the model m.
"""
import os
import re
import sys
import threading

import numpy as np

from gatemodels import infer, patches

CLIENTS = 4


def scores(address, values, version="", code=200):
    model = f"m/versions/{version}" if version else "m"
    found = infer(address, model, [("main_input", "FP32", values)], code=code)
    if code != 200:
        return found
    return np.concatenate([found["em_trk_none_netout/Softmax"], found["michel_netout/Sigmoid"]], 1)


def steady(address, old, new, folder):
    """Every answer is that of one of the models, all of its rows."""
    values, of_old = patches(old)
    of_new, failed, counts, all_begun = patches(new)[1], [], [0, 0], threading.Barrier(CLIENTS)

    def client():
        try:
            is_first, is_new = True, False
            while not (is_new and os.path.exists(f"{folder}/enough")):
                is_loaded = os.path.exists(f"{folder}/loaded")
                found = scores(address, values)
                is_new = np.array_equal(found, of_new)
                assert is_new or (np.array_equal(found, of_old) and not is_loaded)
                counts[is_new] += 1
                if is_first:
                    all_begun.wait(60)
                    open(f"{folder}/begun", "w").close()
                is_first = False
        except BaseException as error:  # told by the main thread
            failed.append(repr(error))

    threads = [threading.Thread(target=client) for _ in range(CLIENTS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failed and all(counts), (failed[:2], counts)


def of(address, model, version=""):
    values, want = patches(model)
    assert np.array_equal(scores(address, values, version), want)


def refused(address, text, version=""):
    size = int(os.environ["SIDE"])
    error = scores(address, np.zeros((300, size, size, 1), np.float32), version, 503)
    assert re.search(text, error), error


if __name__ == "__main__":
    globals()[sys.argv[1]](*sys.argv[2:])
