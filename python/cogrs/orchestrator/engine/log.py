"""The log of an orchestrator, whose records name the trial that they are about."""

from __future__ import annotations

import logging

logger = logging.getLogger("cogrs.orchestrator")


def trial_logger(trial_id: str) -> logging.LoggerAdapter[logging.Logger]:
    """Return a logger whose records have the attribute `trial_id`."""
    return logging.LoggerAdapter(logger, {"trial_id": trial_id})
