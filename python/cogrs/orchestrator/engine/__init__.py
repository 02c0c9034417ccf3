"""Trials as state machines: events come in as method calls, what is to be done goes out by ports.

A port returns at once, never raises, and never calls back from within a call; time comes from a
`Clock`. There are no gRPC, tasks or sockets here, so rules about minutes are tested in
microseconds, and a state machine of Hypothesis plays all parties.

Threads: all calls come from the thread of one event loop, and nothing is locked. Only two methods
of `Orchestrator` are coroutines: `start`, which awaits the hooks, and `wait_idle`; everything else
returns without a wait. The engine does not cut long work into slices: how much one call can make
it do is limited instead (`settings`, `params`, `message_router`).

| question | file |
|---|---|
| What do the services call? | `orchestrator` |
| Which trials are listed, how many may there be, who watches them? | `trial_registry` |
| What state is a trial in, and why does it end? | `trial_record`, `state`, `end_reason` |
| What are the rules of a trial, from its start to its final data? | `trial` |
| Which actions are missing in this tick? | `pending_actions` |
| What is an observation set, and which part does an actor see? | `observation` |
| Where do rewards and messages wait, and how are rewards combined? | `message_router` |
| How much may wait for a reader? | `backlog` |
| What do actors have in common? | `actor`, `actor_options` |
| How is an agent called, how the environment? | `service_actor`, `environment` |
| What does a client see, and what if it is lost? | `client_slot` |
| Which slot does a client get, and which calls may act for it? | `matchmaking`, `slot_secret` |
| What is the data log sent? | `trial_log_recorder` |
| Which parameters and endpoints are refused? | `params`, `endpoint` |
| Which durations and limits are there? | `settings` |
| Which errors do callers get? | `errors` |
| What is counted? | `metrics` |
| What does the engine need of the world? | `ports`, `clock` |
"""
