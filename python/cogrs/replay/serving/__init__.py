"""The parts of a server that handle messages of clients.

| question | file |
|---|---|
| which sockets a server listens at | `listeners.py` |
| how a message comes from a socket to the state, and its reply back | `worker.py` |
| what is done with a message | `server_state.py`, `client_keys.py`, `message_assembler.py` |
| when a batch can be made | `sample_source.py` |
| what a rate limiter counts, and tells | `server_limiter.py` |
| how a proxy carries messages | `forwarder.py` |
| which replies are not sent, for the client reads none | `unread_replies.py` |
| how lines of clients get into the log file | `log_file.py` |
| what a server logs of itself | `stats_reporter.py` |
"""
