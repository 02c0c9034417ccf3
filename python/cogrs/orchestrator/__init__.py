"""The trial orchestrator: trials between an environment, agents and people, over gRPC.

`serve` runs it on an event loop, `cogrs.serve_orchestrator` on a thread.
"""

from cogrs.orchestrator.engine.actor_options import ActorOptions
from cogrs.orchestrator.engine.settings import Settings
from cogrs.orchestrator.links.component import (
    AgentComponent,
    EnvironmentComponent,
    HookComponent,
    LogComponent,
)
from cogrs.orchestrator.service.config import Config
from cogrs.orchestrator.service.handle import OrchestratorHandle, serve_orchestrator
from cogrs.orchestrator.service.log_format import JsonFormatter
from cogrs.orchestrator.service.security import Security
from cogrs.orchestrator.service.server import Server, serve
from cogrs.orchestrator.service.stats import OrchestratorStats
from cogrs.tls import ClientTls, ServerTls

__all__ = [
    "ActorOptions",
    "AgentComponent",
    "ClientTls",
    "Config",
    "EnvironmentComponent",
    "HookComponent",
    "JsonFormatter",
    "LogComponent",
    "OrchestratorHandle",
    "OrchestratorStats",
    "Security",
    "Server",
    "ServerTls",
    "Settings",
    "serve",
    "serve_orchestrator",
]
