"""`cogrs play`: play an environment, or judge a policy, in a browser."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from cogrs.commands import pages
from cogrs.commands.parser import Parser, fail, integer

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable

    from cogrs.sdk import ClientSession, Observation, Reward
    from cogrs.stop_signal import StopSignal
    from cogrs.store import Store
    from cogrs.store.location import Location
    from cogrs.web import Game

_PLAYER = "player"
_STORED_WITHIN = 30.0
"""Seconds in which a trial that has ended is in the store, unless that cannot be written."""


def add_play(commands: argparse._SubParsersAction[Parser]) -> None:
    """Add the command."""
    play = commands.add_parser(
        "play",
        help="play an environment in a browser",
        description="Serve a page on which a person plays an environment by keys, buttons and "
        "touch, or judges a policy and takes over from it. Environment, orchestrator and page run "
        "in this process, on the loopback. Prints a link, and opens a browser.",
        epilog=pages.CODES,
    )
    add = play.add_argument
    add(
        "environment",
        metavar="ENV",
        help="id of a Gymnasium environment, with the module in front that registers it if that is "
        "another package's (ale_py:ALE/Pong-v5); or module:function that returns one, or one of "
        "PettingZoo",
    )
    add("--actor", default="", metavar="NAME", help="agent of a PettingZoo environment to play")
    add(
        "--policy",
        metavar="MODULE:FUNCTION",
        help="function from an observation (cogrs.sdk.Observation) to an action; it plays, and the "
        "person judges and can take over. With --actor it plays the other agents",
    )
    add("--trials", type=_trials, default=1, help="number of trials, one by one (default: 1)")
    add("--seed", type=_seed, help="seed of the first trial; each later one has the next number")
    pages.add_store_options(play, "keep the trials, with all judgements; cogrs data shows them")
    add("--no-browser", action="store_true", help="do not open a browser")
    pages.add_page_options(play)
    play.set_defaults(run=_run)


def _trials(text: str) -> int:
    return integer(text, 1, 10**9)


def _seed(text: str) -> int:
    return integer(text, 0, 2**32 - 1)


def _run(given: argparse.Namespace, stop: StopSignal) -> int:
    import asyncio

    if (missing := pages.find_missing()) is not None:
        return fail("play", missing)
    try:
        store = pages.store_of(given)
        parts = _parts(given)
        with pages.opened(store, create=True) as keeper:
            return asyncio.run(_play(given, parts, stop, store, keeper))
    except (ImportError, OSError, TypeError, ValueError) as error:
        return fail("play", str(error))


class _Parts(NamedTuple):
    """What is played."""

    game: Game
    local: dict[str, Any]
    actors: list[dict[str, str]]
    player: str
    policy: Callable[[Observation], Any] | None


def _parts(given: argparse.Namespace) -> _Parts:
    from cogrs import sdk
    from cogrs.web import game_of
    from cogrs.web.environments import environment_maker, import_callable

    make = environment_maker(given.environment)
    policy = None if given.policy is None else import_callable("--policy", given.policy)
    title = given.environment.rpartition("/")[2]
    options = pages.game_options(given)
    if given.actor:
        return _parts_of_many(given, make, policy, title)
    _refuse_many(make, given.environment)
    game = game_of(make, title, takeover=policy is not None, **options)
    environment = sdk.GymnasiumEnvironment.factory(
        make, seed=given.seed, **_frames(given, make, _PLAYER)
    )
    client = {"name": _PLAYER, "actor_class": _PLAYER, "endpoint": "client"}
    local = {"environment": sdk.local_environments({"": environment})}
    return _Parts(game, local, [client], _PLAYER, policy)


def _refuse_many(make: Callable[[], Any], name: str) -> None:
    env = make()
    try:
        agents = getattr(env, "possible_agents", None)
        if agents is not None:
            known = ", ".join(map(str, agents))
            raise ValueError(f"--actor: expected one of {known}, as {name} has several agents")
        if not hasattr(env, "action_space"):
            kind = type(env).__name__
            raise ValueError(f"environment: expected one of Gymnasium, got {kind} from {name}")
    finally:
        env.close()


def _parts_of_many(
    given: argparse.Namespace,
    make: Callable[[], Any],
    policy: Callable[[Observation], Any] | None,
    title: str,
) -> _Parts:
    from cogrs import sdk
    from cogrs.suggest import suggestion
    from cogrs.web import Controls, Game

    env = make()
    try:
        agents = [str(agent) for agent in getattr(env, "possible_agents", ())]
        if given.actor not in agents:
            known = ", ".join(agents) or "no agents: it is not an environment of PettingZoo"
            close = suggestion(given.actor, agents)
            refusal = f"--actor: expected one of {known}; got {given.actor!r}"
            raise ValueError("; ".join(filter(None, (refusal, close))))
        spaces = {agent: env.action_space(agent) for agent in agents}
    finally:
        env.close()
    game = Game(
        title=f"{title}: {given.actor}",
        controls=Controls(spaces[given.actor]),
        **pages.game_options(given),
    )
    environment = sdk.PettingZooEnvironment.factory(
        make, seed=given.seed, **_frames(given, make, given.actor)
    )
    actors, agents_of = [], {}
    for agent in agents:
        mine = agent == given.actor
        endpoint = "client" if mine else "local://agents"
        actors.append({"name": agent, "actor_class": agent, "endpoint": endpoint})
        if not mine:
            actors[-1]["implementation"] = agent
            plays = policy or partial(_random_action, spaces[agent])
            agents_of[agent] = sdk.FunctionAgent(plays)
    local: dict[str, Any] = {"environment": sdk.local_environments({"": environment})}
    if agents_of:
        local["agents"] = sdk.local_agents(agents_of)
    return _Parts(game, local, actors, given.actor, None)


def _random_action(space: Any, observation: Observation) -> Any:
    """Return a random action, a legal one where there is a mask of a Discrete space."""
    import numpy as np

    value = observation.value
    mask = value.get("action_mask") if isinstance(value, dict) else None
    if mask is None or not hasattr(space, "n") or not np.any(mask):
        return space.sample()
    return space.sample(np.asarray(mask, np.int8))


def _frames(given: argparse.Namespace, make: Callable[[], Any], player: str) -> dict[str, Any]:
    """Return the options of an environment that say who is sent its pictures, and how."""
    from cogrs.web import compress_frame
    from cogrs.web.environments import renders

    # Stored trials have all messages, so that each picture would take its pixels there.
    encode = compress_frame if given.store is not None else None
    return {"frames_to": [player] if renders(make) else [], "encode_frame": encode}


async def _play(
    given: argparse.Namespace,
    parts: _Parts,
    stop: StopSignal,
    store: Location | None,
    keeper: Store | None,
) -> int:
    import asyncio

    from cogrs import orchestrator, sdk
    from cogrs.event_loop import handle_exception
    from cogrs.orchestrator.service.config import read_config
    from cogrs.web import Console, Page, Place, serve_page

    asyncio.get_running_loop().set_exception_handler(handle_exception)
    params = {"environment": {"endpoint": "local://environment"}, "actors": parts.actors}
    config = replace(read_config({"trial_params": params}), store=store)
    server = await orchestrator.serve(config, port=0, local=parts.local)
    where = f"127.0.0.1:{server.port}"
    async with sdk.TrialController(where) as controller, sdk.ClientActor(where) as client:
        left = given.trials

        async def join() -> ClientSession | None:
            nonlocal left
            if not left:
                return None
            left -= 1
            trial = await controller.start_trial()
            return await client.join(trial.id, name=parts.player)

        place = Place(
            parts.game,
            join,
            policy=parts.policy,
            leave=controller.terminate_trial,
            keep_late=None if keeper is None else partial(_keep_late, keeper, parts.player),
        )
        console = Console(controller, where, store=keeper)
        page = Page(pages.hosts_of(given), console=console)
        try:
            listener = serve_page(
                page,
                host=given.host,
                port=given.port,
                tls=pages.server_tls(given),
                insecure=given.insecure,
            )
            async with listener:
                url = pages.link(given, listener, page.invite(place))
                spectator = pages.link(given, listener, page.invite(place, "spectator"))
                operator = pages.link(given, listener, console.invite(), "console")
                links = {
                    "url": url,
                    "spectator": spectator,
                    "console": operator,
                    "port": listener.port,
                    "orchestrator": where,
                }
                lines = [f"play     {url}", f"watch    {spectator}", f"console  {operator}"]
                pages.tell(given, links, lines)
                if not given.no_browser:
                    await pages.open_browser(url)
                return await pages.until_signal(stop)
        finally:
            await server.stop(1.0)
            await place.finish_judging(1.0)  # whose trials are in the store now


def _keep_late(store: Store, sender: str, trial_id: str, reward: Reward) -> bool:
    """Add a reward to a trial of the store; see `Place`."""
    store.add_reward(
        trial_id,
        reward.receiver,
        reward.tick,
        reward.value,
        sender=sender,
        confidence=reward.confidence,
        timeout=_STORED_WITHIN,
    )
    return True
