"""tritonwire.py - the requests of Wire-Cell's TritonService, as its options make them, for tritonwire.t.

usage: tritonwire.py ADDRESS MODEL IN.f4 OUT.f4 HEIGHT WIDTH      one tensor of IN.f4 at a time; the answers to OUT.f4
       tritonwire.py ADDRESS MODEL faults HEIGHT WIDTH            what TritonService's soft_fail turns into zeros
"""
import sys
import time

import numpy as np
import tritonclient.grpc as triton


def client(address, keepalive_ms=120000):
    """The channel of TritonService: no limits of messages, keepalive without calls, any number of pings, probes of bandwidth."""
    return triton.InferenceServerClient(address, channel_args=[
        ("grpc.max_receive_message_length", -1), ("grpc.max_send_message_length", -1), ("grpc.max_metadata_size", 32 << 20),
        ("grpc.keepalive_time_ms", keepalive_ms), ("grpc.keepalive_timeout_ms", 20000),
        ("grpc.keepalive_permit_without_calls", 1), ("grpc.http2.max_pings_without_data", 0), ("grpc.http2.bdp_probe", 1)])


def forward(connection, model, tensor, name="INPUT__0", output="OUTPUT__0"):
    """One rank-4 FP32 input by its bytes, one output, no version, no id: then the checks of TritonService, and its zeros."""
    given = triton.InferInput(name, list(tensor.shape), "FP32")
    given.set_data_from_numpy(np.ascontiguousarray(tensor))
    try:
        result = connection.infer(model, [given], outputs=[triton.InferRequestedOutput(output)])
    except triton.InferenceServerException as why:
        return None, f"{why.status()} {why.message()}"
    shape = list(result.get_output(output).shape)
    if len(shape) == 3:
        shape.insert(1, 1)
    assert len(shape) == 4, shape
    raw = result.get_response().raw_output_contents
    assert len(raw) == 1 and len(raw[0]) == 4 * np.prod(shape), "no raw bytes of the output's size"
    return np.frombuffer(raw[0], np.float32).reshape(shape), None


def scores(address, model, source, to, height, width):
    tensors = np.fromfile(source, np.float32).reshape(-1, 3, int(height), int(width))
    connection = client(address)
    assert connection.is_server_live() and connection.is_model_ready(model)
    answers = []
    for tensor in tensors:
        answer, why = forward(connection, model, tensor[None])
        assert why is None and answer.shape == (1, 1, int(height), int(width)), why or answer.shape
        answers.append(answer)
    several, why = forward(connection, model, tensors)
    assert why is None and several.tobytes() == np.concatenate(answers).tobytes(), why or "N at once differs"
    quick = client(address, keepalive_ms=50)        # a connection without calls, whose pings come often
    for _ in range(2):
        answer, why = forward(quick, model, tensors[:1])
        assert why is None and answer.tobytes() == answers[0].tobytes(), why
        time.sleep(1)
    several.tofile(to)


def faults(address, model, height, width):
    connection, right = client(address), np.zeros((1, 3, int(height), int(width)), np.float32)
    for what, wanted, answer in (
            ("a plane of another size", "StatusCode.INVALID_ARGUMENT", forward(connection, model, right[:, :, :-1])),
            ("two channels", "StatusCode.INVALID_ARGUMENT", forward(connection, model, right[:, :2])),
            ("an input of another name", "StatusCode.INVALID_ARGUMENT", forward(connection, model, right, name="x")),
            ("an output of another name", "StatusCode.INVALID_ARGUMENT", forward(connection, model, right, output="y")),
            ("no such model", "StatusCode.NOT_FOUND", forward(connection, "dnn", right))):
        assert answer[0] is None and answer[1].startswith(wanted), f"{what}: {answer}"
        print(f"{what}: {answer[1]}")
    right[0, 0, 0, 0] = np.nan
    answer, why = forward(connection, model, right)
    assert why is None and np.isnan(answer).all(), f"a NaN: {why or answer}"


if __name__ == "__main__":
    if len(sys.argv) < 6:
        sys.exit(__doc__)
    if sys.argv[3] == "faults":
        faults(*sys.argv[1:3], *sys.argv[4:])
    else:
        scores(*sys.argv[1:])
