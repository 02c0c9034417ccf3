"""The services, and the servers that they run on. They decode, call the engine, and encode."""
