"""net.py - a network of the EmTrkMichelId family in NumPy: scores, gradients, Adam, ONNX.

Conv 5x5, ReLU -> Dense, ReLU -> Dense 32, ReLU -> softmax (track, em, none) and sigmoid (michel), as the sparse
engine runs it. Each gradient is written out; `python ops/train/net.py` compares them with differences.
Why no framework: ops/train/README.md.
"""
import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # one thread: sums in one order, and a neighbour for others
import numpy as np

SIDE, KERNEL = 48, 5
OUT = SIDE - KERNEL + 1


MAKER = "wiremill ops/train"

class Net:
    """Weights in `w`, by name; all float32. In here filters come before positions: dense_1 is
    (filter, position, dense), what is computed by the convolution (filter, patch, position)."""

    def __init__(self, random, filters, dense, tail=32, side=SIDE):
        self.side, self.out = side, side - KERNEL + 1
        cells = self.out * self.out

        def normal(*shape, n_in, gain=2.0):
            return (random.standard_normal(shape) * np.sqrt(gain / n_in)).astype(np.float32)

        def zeros(n):
            return np.zeros(n, np.float32)

        self.w = {"conv": normal(filters, KERNEL * KERNEL, n_in=KERNEL * KERNEL), "conv_b": zeros(filters),
                  "dense_1": normal(filters, cells, dense, n_in=filters * cells), "dense_1_b": zeros(dense),
                  "dense_2": normal(dense, tail, n_in=dense), "dense_2_b": zeros(tail),
                  "label": normal(tail, 3, n_in=tail, gain=1.0), "label_b": zeros(3),
                  "michel": normal(tail, 1, n_in=tail, gain=1.0), "michel_b": zeros(1)}
        self.moment = {k: [np.zeros_like(v) for _ in range(3)] for k, v in self.w.items()}
        self.steps = 0

    def forward(self, x):
        """x (n, side, side) -> softmax (n, 3), sigmoid (n); keeps what backward needs."""
        w, n, out = self.w, len(x), self.out
        windows = np.empty((KERNEL, KERNEL, n, out, out), x.dtype)
        for i in range(KERNEL):
            for j in range(KERNEL):
                windows[i, j] = x[:, i:i + out, j:j + out]
        self.windows = windows.reshape(KERNEL * KERNEL, -1)
        conv = w["conv"] @ self.windows
        conv += w["conv_b"][:, None]
        self.conv = np.maximum(conv, 0, out=conv).reshape(len(conv), n, -1)
        self.dense_1 = np.maximum(sum(c @ d for c, d in zip(self.conv, w["dense_1"])) + w["dense_1_b"], 0)
        self.dense_2 = np.maximum(self.dense_1 @ w["dense_2"] + w["dense_2_b"], 0)
        z = self.dense_2 @ w["label"] + w["label_b"]
        e = np.exp(z - z.max(axis=1, keepdims=True))
        michel = self.dense_2 @ w["michel"] + w["michel_b"]
        return e / e.sum(axis=1, keepdims=True), 1 / (1 + np.exp(-michel[:, 0]))

    def backward(self, softmax, sigmoid, label, michel):
        """The mean loss (cross entropies of both heads), and its gradient by name.
        label (n): 0 track, 1 em, 2 none; michel (n): 0 or 1."""
        w, n = self.w, len(label)
        loss = -np.log(softmax[np.arange(n), label] + 1e-12).mean()
        loss -= np.log(np.where(michel > 0, sigmoid, 1 - sigmoid) + 1e-12).mean()
        d_label = softmax.copy()
        d_label[np.arange(n), label] -= 1
        d_label /= n
        d_michel = ((sigmoid - michel) / n)[:, None].astype(softmax.dtype)
        d_2 = (d_label @ w["label"].T + d_michel @ w["michel"].T) * (self.dense_2 > 0)
        d_1 = (d_2 @ w["dense_2"].T) * (self.dense_1 > 0)
        d_conv = np.empty_like(self.conv)
        for to, conv, dense in zip(d_conv, self.conv, w["dense_1"]):
            np.matmul(d_1, dense.T, out=to)
            to *= conv > 0
        d_conv = d_conv.reshape(len(d_conv), -1)
        return loss, {"conv": d_conv @ self.windows.T, "conv_b": d_conv.sum(axis=1),
                      "dense_1": np.stack([c.T @ d_1 for c in self.conv]), "dense_1_b": d_1.sum(axis=0),
                      "dense_2": self.dense_1.T @ d_2, "dense_2_b": d_2.sum(axis=0),
                      "label": self.dense_2.T @ d_label, "label_b": d_label.sum(axis=0),
                      "michel": self.dense_2.T @ d_michel, "michel_b": d_michel.sum(axis=0)}

    def step(self, gradient, rate, decay):
        """One step of AdamW (Kingma, Ba 2015; Loshchilov, Hutter 2019). decay: of weights, not of biases."""
        self.steps += 1
        rate *= np.sqrt(1 - 0.999 ** self.steps) / (1 - 0.9 ** self.steps)
        for name, g in gradient.items():
            first, second, space = self.moment[name]
            first *= np.float32(0.9)
            first += np.multiply(g, np.float32(0.1), out=space)
            second *= np.float32(0.999)
            np.multiply(g, g, out=space)
            space *= np.float32(0.001)
            second += space
            np.sqrt(second, out=space)
            space += np.float32(1e-8)
            np.divide(first, space, out=space)
            space *= np.float32(rate)
            if decay and not name.endswith("_b"):
                self.w[name] *= np.float32(1 - rate * decay)
            self.w[name] -= space

    def score(self, x, batch=256):
        """Scores of patches (n, side, side): (n, 4) track, em, none, michel."""
        parts = []
        for i in range(0, len(x), batch):
            softmax, sigmoid = self.forward(x[i:i + batch].astype(np.float32))
            parts.append(np.concatenate([softmax, sigmoid[:, None]], axis=1))
        return np.concatenate(parts)

    def write(self, target, note):
        """Writes ONNX (target: ops/train/target.py): weights in 16 bits, cast to 32 where they are used, in the field's order and names."""
        import onnx
        from onnx import TensorProto, helper, numpy_helper
        nodes, constants = [], []

        def constant(name, value):
            constants.append(numpy_helper.from_array(np.ascontiguousarray(value, np.float16), name + "_16"))
            nodes.append(helper.make_node("Cast", [name + "_16"], [name], name + "_cast", to=TensorProto.FLOAT))
            return name

        def dense(source, name, activation, output):
            weight = self.w[name]
            if weight.ndim == 3:  # the field's order is position, filter
                weight = weight.transpose(1, 0, 2).reshape(-1, weight.shape[2])
            nodes.append(helper.make_node("MatMul", [source, constant(name, weight)], [name + "_product"]))
            nodes.append(helper.make_node("Add", [name + "_product", constant(name + "_b", self.w[name + "_b"])],
                                          [name + "_sum"]))
            nodes.append(helper.make_node(activation, [name + "_sum"], [output]))
            return output

        kernel = self.w["conv"].reshape(-1, 1, KERNEL, KERNEL)
        nodes.append(helper.make_node("Transpose", ["main_input"], ["channels_first"], perm=[0, 3, 1, 2]))
        nodes.append(helper.make_node("Conv", ["channels_first", constant("conv", kernel),
                                               constant("conv_b", self.w["conv_b"])], ["conv_sum"]))
        nodes.append(helper.make_node("Relu", ["conv_sum"], ["conv_out"]))
        nodes.append(helper.make_node("Transpose", ["conv_out"], ["channels_last"], perm=[0, 2, 3, 1]))
        nodes.append(helper.make_node("Flatten", ["channels_last"], ["flat"], axis=1))
        dense(dense("flat", "dense_1", "Relu", "dense_1_out"), "dense_2", "Relu", "dense_2_out")
        outputs = ["em_trk_none_netout/Softmax", "michel_netout/Sigmoid"]
        dense("dense_2_out", "label", "Softmax", outputs[0])
        dense("dense_2_out", "michel", "Sigmoid", outputs[1])
        graph = helper.make_graph(
            nodes, "EmTrkMichelId",
            [helper.make_tensor_value_info("main_input", TensorProto.FLOAT, ["N", self.side, self.side, 1])],
            [helper.make_tensor_value_info(name, TensorProto.FLOAT, ["N", k]) for name, k in zip(outputs, (3, 1))],
            constants, doc_string=note)
        model = helper.make_model(graph, producer_name=MAKER, ir_version=8,
                                  opset_imports=[helper.make_opsetid("", 13)])
        onnx.checker.check_model(model)
        target.write(model.SerializeToString())


def check():
    """Compares each gradient with differences, in double; exits 1 where one is wrong."""
    random = np.random.default_rng(1)
    net = Net(random, 3, 6, 5, side=9)
    net.w = {k: v.astype(np.float64) + (0.1 if k.endswith("_b") else 0) for k, v in net.w.items()}
    x = random.standard_normal((4, 9, 9))
    label, michel = np.array([0, 1, 2, 1]), np.array([0.0, 1, 0, 0])
    _, gradient = net.backward(*net.forward(x), label, michel)
    worst = 0.0
    for name, value in net.w.items():
        for at in random.choice(value.size, min(value.size, 20), replace=False):
            losses, kept = [], value.flat[at]
            for d in (1e-6, -1e-6):
                value.flat[at] = kept + d
                losses.append(net.backward(*net.forward(x), label, michel)[0])
            value.flat[at] = kept
            worst = max(worst, abs((losses[0] - losses[1]) / 2e-6 - gradient[name].flat[at]))
    print(f"largest difference of a gradient: {worst:.1e}")
    raise SystemExit(int(worst > 1e-7))


if __name__ == "__main__":
    check()
