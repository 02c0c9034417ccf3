"""The trial orchestrator: trials between an environment, agents and people, over gRPC.

`serve` runs it on an event loop, `cogrs.serve_orchestrator` on a thread.
"""

from cogrs.orchestrator.engine.settings import Settings
from cogrs.orchestrator.links.component import (
    AgentComponent,
    EnvironmentComponent,
    HookComponent,
    LogComponent,
)
from cogrs.orchestrator.service.config import Config
from cogrs.orchestrator.service.handle import OrchestratorHandle, serve_orchestrator
from cogrs.orchestrator.service.server import Server, serve

__all__ = [
    "AgentComponent",
    "Config",
    "EnvironmentComponent",
    "HookComponent",
    "LogComponent",
    "OrchestratorHandle",
    "Server",
    "Settings",
    "serve",
    "serve_orchestrator",
]
