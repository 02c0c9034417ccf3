"""Limits on what peers and files can make this package hold or do.

Each is a default or a fixed bound; docs/limits.md lists them all, with the setting that changes
each and what happens when it is reached.
"""

from __future__ import annotations

from typing import Final

MIB: Final = 1 << 20

# -- trials ------------------------------------------------------------------------------------

SHORTEST_TOKEN: Final = 16
"""Minimum characters of a token."""
LONGEST_TOKEN: Final = 4096
"""Maximum characters of a token, which travels in a header with every call."""
TOKENS_BYTES: Final = MIB
"""Bytes of a file of tokens."""
TLS_BYTES: Final = MIB
"""Bytes of a file of certificates, or of a private key, for TLS."""
MOST_PLACES: Final = 4096
"""Slots in trials whose secrets a client keeps in order to return; the oldest is dropped."""
METRICS_CONNECTIONS: Final = 16
"""Concurrent connections of a metrics listener; more are closed at once."""
METRICS_REQUEST_BYTES: Final = 16 << 10
"""Bytes of a request for metrics, headers included."""
METRICS_SECONDS: Final = 10.0
"""Seconds for a request for metrics, from its first byte to the end of the reply."""
MAX_MESSAGE: Final = 512 * MIB
"""Bytes of a message to or from an environment, agent, hook or data log, and of a reply."""
MAX_REQUEST: Final = 16 * MIB
"""Bytes of a message from a client or controller."""
MAX_TRIALS: Final = 4_096
"""Trials that have not ended. One event loop makes some 5,000 ticks per second over gRPC, about
one for each of them."""
MAX_WAITING_TRIALS: Final = 1_024
"""Trials that wait for clients to join, which only cost their caller a StartTrial."""
MAX_ACTORS: Final = 16_384
"""Actors of all trials that have not ended: 4 in each of those, or 4 of the largest trials. Each
has some 15 objects, which Python's garbage collector visits in one go."""
MAX_PARAMS_BYTES: Final = 256 * MIB
"""Bytes of the parameters of all trials that have not ended."""
MAX_WATCHERS: Final = 1_024
"""Concurrent WatchTrials. Each gets every change, so changes take time by their number."""
MAX_STREAMS: Final = 8_192
"""Concurrent calls per connection: a stream and a call for each actor of the largest trial."""
WATCH_BACKLOG: Final = 10_000
CLIENT_BACKLOG: Final = 10_000
CLIENT_BACKLOG_BYTES: Final = 64 * MIB
POST_BACKLOG: Final = 10_000
POST_BACKLOG_BYTES: Final = 64 * MIB
LATE_SOURCES: Final = 1_000
"""Sources of rewards in one request to a trial that has ended."""
LATE_WAITING: Final = 1_000
"""Requests with late rewards that wait for the end of one trial."""
LATE_AGENTS: Final = 4_096
"""Agents of ended trials that a server keeps for late rewards; the oldest is forgotten."""
LOG_BACKLOG: Final = 10_000
LOG_BACKLOG_BYTES: Final = 256 * MIB
STORE_BACKLOG_BYTES: Final = 256 * MIB
"""Bytes of all samples that wait to be written to a store of trials."""
MOST_ACTORS: Final = 4_096
"""Actors of a trial. Each gets the names of all, so memory grows with their square."""
MOST_ROSTER_BYTES: Final = 128 * MIB
"""Bytes of memory for the names and classes of all actors that the agents of a trial get, with 64
per actor added: enough for 1,000 agents and as many other actors."""
MOST_NAME_BYTES: Final = 1_024
"""UTF-8 bytes of an id, a name, a class, an endpoint, a user id."""
MOST_FILTERS: Final = 64
"""States in the filter of WatchTrials."""
LEAST_REPORT_PERIOD: Final = 500
"""Milliseconds between reports of WatchTrials."""
MOST_REPORTED_TRIALS: Final = 500
"""Trials in a report of WatchTrials, the oldest ones."""
MOST_FIELDS: Final = 131_072
"""Fields in a protobuf message, at all depths. Two bytes of a message can become 90 of memory."""
MOST_AT_ONCE: Final = 4
"""Requests per connection that are received and decoded at a time; the others wait."""
WOKEN_AT_ONCE: Final = 32
"""Watchers that are woken in one round of the event loop; the others are woken in the next."""
REST: Final = 3.0
"""Seconds of rest for each second of work for large requests."""
RECEIVE_TIMEOUT: Final = 60.0
"""Seconds for a request to be received, once its call has come and there is room for it."""
LARGE: Final = 16 * 1024
"""Bytes above which requests are large, and take turns."""
MANY: Final = 64
"""Items above which requests are large: messages, sources of one reward, actors."""
MOST_HEALTH_WATCHERS: Final = 100
"""Concurrent health Watch calls per port."""

# -- replay ------------------------------------------------------------------------------------

SMALL_FRAME: Final = 1 << 20
"""Bytes of a frame that every socket takes; headers and log lines are no larger."""
LARGEST_PUBLICATION: Final = 256 * MIB
"""Bytes of a message that a server publishes for a client."""
MOST_CLIENTS_TOPICS: Final = 1_024
"""Topics that only clients publish to and whose last message a server keeps."""
MOST_CLIENTS_TOPICS_BYTES: Final = 1 << 30
"""Bytes of those messages; the last one of all is kept whatever its size."""
LARGEST_CACHE: Final = 2 << 30
"""Bytes of a cache by the server's sizes, which decide how many rows a client draws."""
MOST_UNREAD: Final = 512 * MIB
"""Bytes of answers that a client has not received: samples of one request, at most."""
MOST_UNREAD_IN_ALL: Final = 4 << 30
"""Likewise of all clients of a socket; beyond that the connection with most of it is ended."""
LARGEST_REPLY: Final = 256 * MIB
"""Bytes of a frame of an answer; sizes grow with the dimensions of the reward."""
LONGEST_LINE: Final = 1_000_000
"""Bytes of a log line, which with its header fits into a small frame."""
LARGEST_SUBSCRIPTION: Final = 1 << 10
"""Bytes of a frame that a subscriber sends; a larger one ends its connection."""
MOST_SUBSCRIPTIONS: Final = 65_536
"""Subscriptions at a publisher; beyond that the connection with most of them is ended."""
MOST_SUBSCRIPTIONS_EACH: Final = 8_192
"""Subscriptions of one connection; one more ends it."""
MOST_STRIKES: Final = 16
"""Invalid messages from a subscriber to a publisher; one more ends the connection."""
MOST_UNDELIVERED: Final = 2 << 30
"""Bytes of published messages that wait for subscribers, each message counted once."""
MOST_IN_ZEROMQ: Final = 256 * MIB
"""Bytes of large messages that ZeroMQ holds for one subscriber, or a single larger one."""
MOST_TOPICS: Final = 2_000
"""Topics that a client subscribes to; each is up to four subscriptions."""
LARGEST_MESSAGE: Final = 1 << 30
"""Bytes of a message that a server publishes, and of a frame that a subscriber takes."""
MOST_WAITING_OF_SUBSCRIBER: Final = 1 << 18
"""Bytes that a publisher has received from a connection and not handled."""
PUBLICATION_PART: Final = 4 * MIB
"""Bytes of a message to publish that one request brings; a longer message comes in several."""
MOST_PARTS: Final = 1 << 30
"""Bytes of incomplete messages to publish; the one without news for longest is dropped."""
MOST_WAITING_OF_REQUESTS: Final = 320 * MIB
"""Likewise at a socket for requests, of a client that may sample: requests that it sends ahead."""
MOST_WAITING_OF_STRANGERS: Final = 8 * MIB
"""Likewise of a client that may not, or has not sent a request yet; and of one request."""
MOST_WAITING_OF_ANSWERS: Final = 1 << 30
"""Bytes that a client has received from a server, in answers, and not handled."""
MOST_WAITING_OF_PUBLISHER: Final = 2 << 30
"""Likewise in published messages."""
MOST_KEPT_OF_PUBLISHER: Final = 4 << 30
"""Bytes of published messages that a client keeps until they are taken, the newest of each topic
apart."""
MOST_WAITING_OF_PUSHES: Final = 64 * MIB
"""Bytes of a connection that wait at a socket for caches, apart from its high-water mark."""
MOST_PRIORITY_ROWS: Final = 32_768
"""Rows of a request with priorities."""
MOST_PRIORITY_CLIENTS: Final = 1_024
"""Clients whose priorities one request has; each gets a message of its own."""
MOST_SAMPLES: Final = 65_536
"""Samples per request."""
MOST_REFUSED_SAMPLERS: Final = 1_024
"""Samplers of which a server measures how long they wait for its rate limiter."""
MOST_CLIENTS_OF_KEY: Final = 4_096
"""Clients per key whose totals and caches only that key may send."""
LARGEST_KEY_FILE: Final = 1 << 16
"""Bytes of a file of keys."""

# -- files -------------------------------------------------------------------------------------

CONFIG_BYTES: Final = 256 << 10
"""Bytes of a configuration: of its file, and of its text with references expanded."""
CONFIG_NODES: Final = 20_000
"""Values in a configuration with references expanded."""
CONFIG_DEPTH: Final = 32
"""Levels of nested values in a configuration."""
CONFIG_DIGITS: Final = 64
"""Characters of a number in a configuration."""
PROTO_FILES: Final = 256
"""`.proto` files that a configuration compiles, imports included."""
PROTO_BYTES: Final = 4 * MIB
"""Bytes of all these files."""
PROTO_SECONDS: Final = 60.0
"""Seconds for compiling them."""
DESCRIPTOR_BYTES: Final = 64 * MIB
"""Bytes of a descriptor set."""
DTYPE_TEXT: Final = 1 << 16
"""Characters of a dtype as text."""
ENTRY_BYTES: Final = 1 << 31
"""Bytes of an entry of a replay memory that a file or a peer describes."""
SPACES_BYTES: Final = 64 * MIB
"""Bytes of the text of an environment's spaces, and of each array that it stands for."""
SPACES_DEPTH: Final = 32
"""Levels of nested spaces."""
LOG_SAMPLE_BYTES: Final = 256 * MIB
"""Bytes of a sample in a data log file: all observations, actions, rewards and messages."""
LOG_LINE_BYTES: Final = 1 << 30
"""Bytes of a line of JSON in a data log."""
LOG_CONTAINERS: Final = 100_000
"""Lists and objects in a line of JSON of a data log."""
LOG_GROUP_BYTES: Final = 1 << 30
"""Bytes of a column in a row group of a Parquet file, uncompressed."""
LOG_GROUP_VALUES: Final = 1 << 18
"""Values of a column in a row group of a Parquet file."""

# -- pages -------------------------------------------------------------------------------------

WEB_MESSAGE_BYTES: Final = 16 << 10
"""Bytes of a message of a page."""
WEB_MESSAGES_PER_SECOND: Final = 240
"""Messages of a page per second, over a second; keys make two each."""
WEB_CONNECTIONS: Final = 256
"""Concurrent connections of pages; twice as many sockets, with those that ask for files."""
WEB_SEATS: Final = 4096
"""Links, and sessions, that a server of pages remembers."""
WEB_METRICS_BYTES: Final = 4 << 20
"""Bytes of a page of metrics that a console reads."""
WEB_RECORDING_BYTES: Final = 4 << 30
"""Bytes of a stored trial's pictures and ticks in the temporary file of a console."""
WEB_JOIN_SECONDS: Final = 10.0
"""Seconds for a request of a browser, and for the first message of a page."""
