"""The main job, end to end: trials, batched policy, replay, learning, parameters back to actors."""
