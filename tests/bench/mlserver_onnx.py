"""mlserver_onnx.py - ONNX Runtime as a model of MLServer, the peer of the gateway in `make bench`."""
import os

import onnxruntime as ort
from mlserver import MLModel
from mlserver.codecs import NumpyCodec
from mlserver.types import InferenceResponse


class Onnx(MLModel):
    async def load(self):
        options = ort.SessionOptions()
        options.intra_op_num_threads = len(os.sched_getaffinity(0))
        self.session = ort.InferenceSession(self.settings.parameters.uri, options, providers=["CPUExecutionProvider"])
        return True

    async def predict(self, payload):
        asked = payload.inputs[0]
        scores = self.session.run(None, {asked.name: NumpyCodec.decode_input(asked)})
        outputs = [NumpyCodec.encode_output(of.name, each) for of, each in zip(self.session.get_outputs(), scores)]
        return InferenceResponse(model_name=self.name, outputs=outputs)
