"""The metrics of a replay server elsewhere, as Prometheus reads them."""

from __future__ import annotations

import urllib.request
from typing import Any
from urllib.parse import urlsplit

from cogrs.limits import WEB_METRICS_BYTES
from cogrs.optional_dependency import import_optional

_SECONDS = 5.0
"""Time of a request."""
_PREFIX = "cogrs_replay_"


class ReplayMetrics:
    """Reads a page of metrics, such as that of `cogrs replay-server --metrics-port`."""

    def __init__(self, url: str) -> None:
        """Do not connect yet.

        Raises:
            ImportError: prometheus-client is not installed.
            ValueError: It is not a URL of HTTP.
        """
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ValueError(f"expected http://HOST:PORT/metrics, got {url!r}")
        self._url = url
        self._parser: Any = import_optional(
            "prometheus_client.parser",
            "metrics of replay servers need prometheus-client",
            "'cogrs[metrics]'",
        )

    def stats(self) -> dict[str, float]:
        """Return the figures by their names without `cogrs_replay_`, added up over labels.

        Raises:
            OSError: The server does not answer.
            ValueError: It answers something else.
        """
        with urllib.request.urlopen(self._url, timeout=_SECONDS) as reply:
            content = reply.read(WEB_METRICS_BYTES + 1)
        if len(content) > WEB_METRICS_BYTES:
            raise ValueError(f"{self._url}: expected at most {WEB_METRICS_BYTES} bytes of metrics")
        found: dict[str, float] = {}
        for family in self._parser.text_string_to_metric_families(content.decode()):
            for sample in family.samples:
                if sample.name.startswith(_PREFIX) and not sample.name.endswith("_created"):
                    name = sample.name.removeprefix(_PREFIX).removesuffix("_total")
                    found[name] = found.get(name, 0.0) + sample.value
        if not found:
            raise ValueError(f"{self._url}: expected metrics of a replay server, got none")
        return found
