"""The trial orchestrator: trials between an environment, agents and people, over gRPC.

`serve` runs it on an event loop, `cogrs.serve_orchestrator` on a thread.
"""

