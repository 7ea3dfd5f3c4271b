"""triton_kserve.py - KServe's own client, gRPC and REST, against the gateway.

usage: triton_kserve.py GRPC HTTP
"""
import asyncio
import sys

import httpx
import numpy as np
from grpc.aio import AioRpcError
from kserve import InferInput, InferRequest
from kserve.inference_client import InferenceGRPCClient, InferenceRESTClient, RESTConfig
from kserve.protocol.infer_type import RequestedOutput

OUTPUT = "michel_netout/Sigmoid"


async def main(grpc, web):
    by_grpc, by_rest = InferenceGRPCClient(grpc, timeout=60), InferenceRESTClient(RESTConfig(protocol="v2", timeout=60))
    side = 16 if len(sys.argv) < 4 else int(sys.argv[3])
    rng = np.random.default_rng(3)
    values = (rng.random((5, side, side, 1)) * (rng.random((5, side, side, 1)) < 0.1) * 9).astype("f4")
    assert await by_grpc.is_server_live() and await by_grpc.is_server_ready() and await by_grpc.is_model_ready("m")
    assert await by_rest.is_server_live(web) and await by_rest.is_server_ready(web) and await by_rest.is_model_ready(web, "m")
    assert not await by_grpc.is_model_ready("none") and not await by_rest.is_model_ready(web, "none")
    scores = []
    for is_binary in (False, True):
        tensor = InferInput("main_input", list(values.shape), "FP32")
        tensor.set_data_from_numpy(values, binary_data=is_binary)
        wanted = [RequestedOutput(OUTPUT, parameters={"binary_data": is_binary})]
        for outputs in (None, wanted):
            scores.append(await by_grpc.infer(InferRequest("m", [tensor], "7", request_outputs=outputs)))
            scores.append(await by_rest.infer(web, InferRequest("m", [tensor], "7", request_outputs=outputs), model_name="m"))
    found = [one.as_numpy() for score in scores for one in score.outputs if one.name == OUTPUT]
    assert len(found) == 8 and all(score.id == "7" for score in scores), scores
    assert all(np.array_equal(one, found[0]) and one.shape == (5, 1) for one in found), found
    for call, error in ((by_grpc.infer(InferRequest("none", [tensor])), AioRpcError),
                        (by_rest.infer(web, InferRequest("none", [tensor]), model_name="none"), httpx.HTTPStatusError)):
        try:
            await call
            raise AssertionError("it should have failed")
        except error as told:
            assert "unknown model: 'none'" in str(told), told
    await by_grpc.close()


asyncio.run(main(sys.argv[1], "http://" + sys.argv[2]))
