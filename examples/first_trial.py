"""A first trial: in one process, or in three.

python examples/first_trial.py
python examples/first_trial.py environment 9001 &
python examples/first_trial.py agent 9002 &
python examples/first_trial.py trial grpc://localhost:9001 grpc://localhost:9002
"""

import sys

import cogrs
from cogrs import sdk

PARTS = {
    "environment": {"environments": {"": sdk.GymnasiumEnvironment.factory("CartPole-v1", seed=0)}},
    "agent": {"agents": {"": sdk.FunctionAgent(lambda seen: int(seen.value[2] > 0))}},
}
LOCAL = {
    "environment": sdk.local_environments(PARTS["environment"]["environments"]),
    "agent": sdk.local_agents(PARTS["agent"]["agents"]),
}


def main(role: str = "trial", *where: str) -> None:
    """Serve a part at a port, or run a trial between parts that are here or at endpoints."""
    if role in PARTS:
        with sdk.serve_endpoint(**PARTS[role], port=int(where[0])) as endpoint:
            print(endpoint.address, flush=True)
            while not endpoint.wait(1.0):
                pass
    environment, agent = where or ("local://environment", "local://agent")
    actor = {"name": "player", "actor_class": "player", "endpoint": agent}
    params = {"environment": {"endpoint": environment}, "actors": [actor]}
    with cogrs.serve_orchestrator({"trial_params": params}, port=0, local=LOCAL) as server:
        print("played", sdk.run_trial(f"127.0.0.1:{server.port}", timeout=60).id)


if __name__ == "__main__":
    main(*sys.argv[1:])
