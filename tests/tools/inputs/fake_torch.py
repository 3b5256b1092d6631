"""A worker like tools/torch_rows.py, without PyTorch. FAKE_TORCH says how it behaves; the rows that
it is asked for go into the file FAKE_TORCH_LOG.

    works    answers, with a line before that is no answer
    refuses  says at the start that it cannot
    dies     at torch/gather
    hangs    at torch/gather
    babbles  answers torch/gather with what is no answer
"""
import json
import os
import sys
import time

behaviour = os.environ["FAKE_TORCH"]


def send(message):
    print(json.dumps(message), flush=True)


if "LD_LIBRARY_PATH" in os.environ or os.environ["NCCL_NVLS_ENABLE"] != "0":
    behaviour = "refuses"
print("a library says hello", flush=True)
send({"id": 0, "failure": "no torch here"} if behaviour == "refuses" else
     {"id": 0, "device": "a fake"})
for line in sys.stdin:
    request = json.loads(line)
    if "end" in request:
        break
    row = request["row"]
    with open(os.environ["FAKE_TORCH_LOG"], "a", encoding="utf-8") as log:
        print(row, request["warm_up"], request["warm_up_us"], request["idle_gap_us"], request["bursts"], file=log)
    if row == "torch/gather" and behaviour == "dies":
        sys.exit(1)
    if row == "torch/gather" and behaviour == "hangs":
        time.sleep(600)
    if row == "torch/gather" and behaviour == "babbles":
        send({"id": request["id"], "samples_us": ["soon", None]})
        continue
    if row == "torch/fused":
        send({"id": request["id"], "failure": f"not {request['m']} rows"})
        continue
    send({"id": request["id"] - 1, "samples_us": [1]})  # too late: nobody asks any more
    send({"id": request["id"], "samples_us": [7.0] * request["iterations"],
          "burst_us": [5.0] * request["bursts"]})
