"""Messages of a topic that come before the reply which the last one was."""

from __future__ import annotations

from cogrs.api.replay_pb2 import Publication
from cogrs.replay.pubsub.topic_queue import TopicQueue


def heard(topic: TopicQueue, numbers: range) -> None:
    for number in numbers:
        topic.add(Publication(stream=7, number=number), b"%d" % number)


def taken(topic: TopicQueue) -> list[bytes]:
    return list(iter(topic.take, None))


def test_topic_that_starts_with_the_last_message_gives_no_older_message() -> None:
    topic = TopicQueue(8)
    topic.start_with_last(alone=True)
    heard(topic, range(1, 4))
    assert taken(topic) == []
    topic.add_last(Publication(stream=7, number=3), b"3")
    assert taken(topic) == [b"3"]


def test_topic_keeps_messages_that_came_before_the_last_one_is_known() -> None:
    topic = TopicQueue(2)
    topic.start_with_last(alone=False)
    heard(topic, range(1, 6))
    topic.add_last(Publication(stream=7, number=5), b"5")
    assert taken(topic) == [b"4", b"5"]
    assert topic.dropped == 3


def test_topic_gives_messages_that_came_before_the_last_one_is_known() -> None:
    topic = TopicQueue(8)
    topic.start_with_last(alone=False)
    assert topic.misses(Publication(stream=7, number=0))
    heard(topic, range(1, 3))
    assert taken(topic) == [b"1", b"2"]
    assert topic.misses(Publication(stream=7, number=2))


def test_last_message_from_before_the_subscription_comes_first() -> None:
    topic = TopicQueue(8)
    topic.start_with_last(alone=False)
    topic.add_last(Publication(stream=7, number=4), b"4")
    heard(topic, range(5, 7))
    assert taken(topic) == [b"4", b"5", b"6"]
    assert topic.dropped == 0
    assert not topic.misses(Publication(stream=7, number=6))
