"""gpu_networks.py - SqueezeNet, ResNet-50 and VGG-19: our engine for any CNN beside ONNX Runtime and PyTorch.

usage: gpu_networks.py GPU_NETWORKS [SECONDS [DEVICE [NETWORK...]]]    (GPU_NETWORKS: the program of gpu_networks.c)

The networks are those of PyPI's `onnx` (light: their weights are constants, which changes no time); PyTorch's are
torchvision's of the same names. What this Python lacks is named and left out. No new way begins after SECONDS (120).
Ours goes from patches in host memory to scores there; the peers have theirs on the device. DEVICE cpu: only to see
that this script works. Prints one Markdown table.
"""
import os
import subprocess
import sys
import time

NETWORKS = {"squeezenet": "squeezenet1_0", "resnet50": "resnet50", "vgg19": "vgg19"}
BATCHES = {"cuda": (64, 256), "cpu": (1, 2)}


def row(network, way, batch, rate, remark=""):
    print(f"| {network} | {way} | {batch} | {rate} | {remark} |", flush=True)


def rate_of(run, batch, wait, seconds=2):
    for _ in range(3):
        run()
    wait()
    start, n = time.perf_counter(), 0
    while n == 0 or time.perf_counter() - start < seconds:
        run()
        wait()
        n += 1
    rate = n * batch / (time.perf_counter() - start)
    return f"{rate:.0f}" if rate >= 10 else f"{rate:.2g}"


def batched(onnx, path):
    """The network with a batch of any size: the files have 1, also in the shapes of Reshape."""
    model = onnx.load(path)
    constant = {tensor.name: tensor for tensor in model.graph.initializer}
    for value in [*model.graph.input, *model.graph.output]:
        if value.name not in constant:
            value.type.tensor_type.shape.dim[0].dim_param = "batch"
    for name in {node.input[1] for node in model.graph.node if node.op_type == "Reshape"} & set(constant):
        shape = onnx.numpy_helper.to_array(constant[name]).copy()
        if shape[0] == 1 and -1 not in shape:
            shape[0] = -1
            constant[name].CopyFrom(onnx.numpy_helper.from_array(shape, name))
    return model


def onnx_runtime(network, path, device, end):
    import numpy
    import onnx
    import onnxruntime
    provider = "CUDAExecutionProvider" if device == "cuda" else "CPUExecutionProvider"
    if provider not in onnxruntime.get_available_providers():
        row(network, "ONNX Runtime", "", "", f"{onnxruntime.__version__} has no {provider}")
        return
    model, batch = batched(onnx, path), BATCHES[device][0]
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=[provider])
    source = session.get_inputs()[0]
    x = onnxruntime.OrtValue.ortvalue_from_numpy(numpy.ones([batch] + source.shape[1:], numpy.float32), device, 0)
    binding = session.io_binding()
    binding.bind_ortvalue_input(source.name, x)
    for output in session.get_outputs():
        binding.bind_output(output.name, device)
    if time.monotonic() < end:
        row(network, "ONNX Runtime, fp32", batch,
            rate_of(lambda: session.run_with_iobinding(binding), batch, binding.synchronize_outputs, 1 + (device == "cuda")),
            onnxruntime.__version__)


def pytorch(network, name, device, end):
    import torch
    import torchvision
    if device == "cuda" and not torch.cuda.is_available():
        row(network, "PyTorch", "", "", f"{torch.__version__} finds no GPU")
        return
    half, precision = (torch.half, "fp16") if device == "cuda" else (torch.bfloat16, "bf16")
    net = getattr(torchvision.models, name)(weights=None).eval().to(device, half).to(memory_format=torch.channels_last)
    wait = torch.cuda.synchronize if device == "cuda" else lambda: None
    ways = [("eager", net), ("compiled", torch.compile(net))]  # max-autotune takes minutes a network
    with torch.no_grad():
        for way, run in ways:
            for batch in BATCHES[device]:
                if time.monotonic() > end:
                    return
                x = torch.rand(batch, 3, 224, 224, device=device).to(half).contiguous(memory_format=torch.channels_last)
                row(network, f"PyTorch, {precision}, channels last, {way}", batch, rate_of(lambda: run(x), batch, wait),
                    torch.__version__)


def environment(program):
    """The libraries that came with the program are for it alone: this Python has its own."""
    folders = [os.path.join(os.path.dirname(os.path.abspath(program)), "lib"), os.environ.get("LD_LIBRARY_PATH")]
    return {**os.environ, "LD_LIBRARY_PATH": ":".join(filter(None, folders))} if os.path.isdir(folders[0]) else None


def main():
    program = sys.argv[1]
    end = time.monotonic() + (float(sys.argv[2]) if len(sys.argv) > 2 else 120)
    device = sys.argv[3] if len(sys.argv) > 3 else "cuda"
    print("| network | way | batch | patches/s | |\n|---|---|---|---|---|", flush=True)
    try:
        import onnx
        folder = os.path.join(os.path.dirname(onnx.__file__), "backend/test/data/light")
    except ImportError as why:
        row("", "ours, ONNX Runtime", "", "", f"left out: {why} (the networks are in PyPI's onnx)")
        folder = None
    failed = False
    for network in sys.argv[4:] or NETWORKS:
        path = folder and f"{folder}/light_{network}.onnx"
        if path and time.monotonic() < end:
            failed |= subprocess.run([program, path, network], env=environment(program), check=False).returncode != 0
        for peer, argument in ((onnx_runtime, path), (pytorch, NETWORKS[network])):
            if argument is None or time.monotonic() > end:
                continue
            try:
                peer(network, argument, device, end)
            except Exception as why:  # whatever a peer lacks
                row(network, peer.__name__, "", "", (str(why).splitlines() or [type(why).__name__])[0][:120])
    return failed


sys.exit(main())
