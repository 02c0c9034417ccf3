"""`cogrs demo`: all parts of the package at their main job, in processes of their own.

The parent (`run`) has the orchestrator and starts trials. Its child processes are `environment`,
`actor`, which plays with one policy for all trials, and `learner`, whose parameters go back to the
actors. Each child ends with its parent (`parent`, `child_process`).
"""
