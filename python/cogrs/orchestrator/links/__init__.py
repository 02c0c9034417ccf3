"""The engine's ports: to environments, agents, hooks and data logs, by gRPC or in this process.

Threads: everything here runs on the thread of one event loop, and nothing is locked. A port returns
at once: its work is done by tasks of `background_tasks`, and its answers reach the engine from
these.

A link makes its calls one after the other: OnReward, OnMessage, then the observation, so an agent
knows its reward before it acts. Whatever a component raises is its failure; an error of our own
code ends the trial as an internal error; neither touches another trial. When a link's queue is
idle, sends that need no waiting bypass it: actions and observations go straight to their stream,
and only calls are queued.

A data log never holds a trial up: its queue is bounded by samples and bytes, and what it could not
take is counted.

| question | file |
|---|---|
| Which methods does a component have? | `component` |
| How are they called by gRPC, and which answers are refused? | `remote` |
| Which link does an endpoint get? | `factory` |
| What do the links to environments and agents have in common? | `link` |
| What is called when, and what if it fails? | `environment`, `agent`, `hook`, `datalog` |
| In which order are calls and items taken? | `queues` |
| Which task goes on next? | `cooperative_scheduler` |
| Which tasks are there, and what becomes of their errors? | `background_tasks` |
| Which channels are open? | `channel_pool` |
| How many calls may wait at an endpoint? | `concurrency_limiter` |
"""
