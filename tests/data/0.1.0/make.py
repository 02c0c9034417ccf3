"""Write the files of this folder; run by cogrs 0.1.0: `python make.py FOLDER`."""

import asyncio
import json
import sys
import threading
from contextlib import suppress
from pathlib import Path

import grpc
import numpy as np
import zmq

from cogrs import KeyPair, ReplayMemory, ReplayMemoryClient, ReplayMemoryServer, orchestrator, sdk

FOLDER = Path(sys.argv[1])
INFO = np.dtype([("step", "i4"), ("late", "?")])
PAIR = np.zeros(2, np.float32)
TEMPLATES = (
    np.zeros((2, 2), np.uint8),  # state
    np.int64(0),  # action
    PAIR,  # reward
    np.float32(0),  # prob
    PAIR,  # value
    PAIR,  # qvest
    np.zeros((), INFO),
)


def write_checkpoint():
    """Three episodes: one terminated, one truncated, one with its final state and a late reward."""
    memory = ReplayMemory(*TEMPLATES, max_step=64, uuid=77, seed=3)
    memory.discount_factor, memory.mix_lambda, memory.reward_coeff = [0.5, 0.25], 0.5, [1.0, 2.0]
    memory.priority_exponent, memory.frame_stack, memory.multi_step = 0.6, 2, 2
    for episode, end in enumerate(
        ({}, {"bootstrap_value": [4.0, 2.0]}, {"final_state": np.ones((2, 2), np.uint8)})
    ):
        memory.new_episode()
        ids = [
            memory.add_entry(
                np.full((2, 2), 10 * episode + step, np.uint8),
                step,
                [step, -step],
                0.5,
                [1.0, 0.5],
                np.array((step, False), INFO),
                1.0 + episode,
            )
            for step in range(8)
        ]
        memory.close_episode(**end)
    memory.add_reward(ids[2], [3.0, 0.0])
    memory.save(FOLDER / "memory.checkpoint")


class Count(sdk.Environment):
    """Shows the tick; pays the action; ends after three steps."""

    def start(self, trial):
        self.tick = 0
        return sdk.Update(np.zeros(2, np.float32))

    def step(self, actions):
        self.tick += 1
        rewards = [sdk.Reward("ann", float(actions["ann"]))]
        seen = np.full(2, self.tick, np.float32)
        return sdk.Update(seen, rewards, final=self.tick == 3)


class Tap(grpc.GenericRpcHandler):
    """Passes calls on to an orchestrator, and keeps the bytes of their requests."""

    def __init__(self, channel):
        self.channel, self.calls = channel, []

    def service(self, details):
        metadata = [
            each for each in details.invocation_metadata if each[0] in ("trial-id", "actor-name")
        ]
        call = {"method": details.method, "metadata": metadata, "requests": []}
        self.calls.append(call)

        async def requests(each):
            async for request in each:
                call["requests"].append(request.hex())
                yield request

        async def unary(request, context):
            call["requests"].append(request.hex())
            return await self.channel.unary_unary(details.method)(request, metadata=metadata)

        async def watch(request, context):
            call["requests"].append(request.hex())
            async for reply in self.channel.unary_stream(details.method)(
                request, metadata=metadata
            ):
                yield reply

        async def stream(each, context):
            passed = self.channel.stream_stream(details.method)(requests(each), metadata=metadata)
            async for reply in passed:
                yield reply

        if details.method.endswith("/ActionStream"):
            return grpc.stream_stream_rpc_method_handler(stream)
        if details.method.endswith("/WatchTrials"):
            return grpc.unary_stream_rpc_method_handler(watch)
        return grpc.unary_unary_rpc_method_handler(unary)


async def write_trial():
    """A trial with a client, as logs of both forms and as the requests of client and controller."""
    local = {
        "count": sdk.local_environments({"": Count}),
        "lines": sdk.local_datalog(lambda: sdk.JsonLinesSink(FOLDER)),
        "parquet": sdk.local_datalog(lambda: sdk.ParquetSink(FOLDER)),
    }
    ann = {"name": "ann", "actor_class": "person", "endpoint": "client"}
    config = {"trial_params": {"environment": {"endpoint": "local://count"}, "actors": [ann]}}
    for log in ("lines", "parquet"):
        config["datalog"] = {"type": "grpc", "url": f"local://{log}"}
        async with await orchestrator.serve(config, port=0, local=local) as server:
            tapped = grpc.aio.server()
            async with grpc.aio.insecure_channel(f"127.0.0.1:{server.port}") as channel:
                tap = Tap(channel)
                tapped.add_generic_rpc_handlers([tap])
                where = f"127.0.0.1:{tapped.add_insecure_port('127.0.0.1:0')}"
                await tapped.start()
                async with (
                    sdk.TrialController(where, user_id="u") as controller,
                    sdk.ClientActor(where) as client,
                ):
                    trial = await controller.start_trial()
                    await client.play(lambda seen: int(seen.tick) + 1, trial.id, name="ann")
                    await controller.wait_ended(trial.id)
                await tapped.stop(1)
    calls = [call for call in tap.calls if not call["method"].endswith("/Heartbeat")]
    text = json.dumps({"trial": trial.id, "calls": calls}, indent=1)
    (FOLDER / "trial.json").write_text(text + "\n")


def use_client(endpoints, done):
    """Send one message of each kind."""
    with ReplayMemoryClient(*endpoints, max_step=64, input_uuid=5) as client:
        client.rem.new_episode()
        for step in range(8):
            state, info = np.full((2, 2), step, np.uint8), np.array((step, True), INFO)
            client.rem.add_entry(state, step, [1, 2], 1, [0, 0], info, 1.0)
        client.rem.close_episode()
        client.update_counter()
        client.push_cache()
        client.write_log("a line")
        with suppress(TimeoutError):
            client.sub_bytes("model", last=True, timeout=0.5)
    done.set()


def pass_on(poller, others, kept):
    """Pass on what has come to a socket; keep what the client sent."""
    for socket, _ in poller.poll(100):
        name, other = others[socket]
        frames = socket.recv_multipart()
        other.send_multipart(frames)
        if name:
            sent = frames[2:] if name == "request" else frames
            kept.append({"socket": name, "frames": [each.hex() for each in sent]})


def write_replay():
    """What a client of replay sends: requests, a cache, a line for the log, subscriptions."""
    context, poller, others, kept, endpoints = zmq.Context(), zmq.Poller(), {}, [], []
    with ReplayMemoryServer(*TEMPLATES, 0, "tcp://127.0.0.1:*", n_caches=1) as server:
        server.rem.cache_size = 4
        server.start()
        for name, front, back, there in (
            ("subscription", zmq.XPUB, zmq.XSUB, server.pub_endpoint),
            ("request", zmq.ROUTER, zmq.DEALER, server.rep_endpoint),
            ("push", zmq.PULL, zmq.PUSH, server.pull_endpoint),
        ):
            front, back = context.socket(front), context.socket(back)
            endpoints.append(f"tcp://127.0.0.1:{front.bind_to_random_port('tcp://127.0.0.1')}")
            back.connect(there)
            others |= {front: (name, back), back: ("", front)}
            for socket in (front, back)[: 1 if name == "push" else 2]:
                poller.register(socket, zmq.POLLIN)
        done = threading.Event()
        thread = threading.Thread(target=use_client, args=(endpoints, done))
        thread.start()
        while not done.is_set() or poller.poll(300):
            pass_on(poller, others, kept)
        thread.join()
    context.destroy(linger=0)
    (FOLDER / "replay.jsonl").write_text("".join(json.dumps(each) + "\n" for each in kept))


write_checkpoint()
KeyPair.new().save("learner", FOLDER)
asyncio.run(write_trial())
for path in (*FOLDER.glob("*-*.jsonl"), *FOLDER.glob("*-*.parquet")):
    path.rename(FOLDER / f"trial{path.suffix}")
write_replay()
