"""Sockets: created, secured, watched and closed; only `request_socket` knows messages.

| question | file |
|---|---|
| how a socket is created, used in a loop, and closed | `socket_context.py` |
| how it binds or connects, with keys | `transport.py`, `curve.py` |
| which peers may connect | `authenticator.py`, `key_folder.py` |
| which connections are ended | `connection_monitor.py`, `receive_quota.py` |
| what the system knows of a connection | `peer.py` |
| how threads share a socket | `shared_socket.py`, `request_socket.py`, `push_socket.py` |
| how a loop is woken, how long a call waits | `waker.py`, `deadline.py` |
"""
