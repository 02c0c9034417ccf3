"""From the engine to environments, agents, hooks and data logs: the ports, on an event loop."""
