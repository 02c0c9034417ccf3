"""Messages of a server to its clients, by topic.

| question | file |
|---|---|
| which message goes to which subscriber, and when | `publisher.py`, `subscriber_queues.py` |
| how a client receives and waits | `subscriber.py`, `topic_queue.py` |
| how priorities that wait are merged | `merging_queue.py` |
| how topics and subscriptions look on the wire | `topic_key.py` |
"""
