"""The learner's parameters: saved in a file, and published to the actors."""

import numpy as np
from dqn import draw_params
from shared import TOPIC

from cogrs.workers import pack_arrays, unpack_arrays


def load(path, seed):
    """Return the parameters in a file; draw random ones if the file does not exist."""
    if not path.exists():
        return draw_params(seed)
    return {name: np.array(array) for name, array in unpack_arrays(path.read_bytes()).items()}


def publish(server, params, path):
    """Publish parameters to the actors, and save them for a learner that is started again."""
    packed = pack_arrays({name: np.asarray(array) for name, array in params.items()})
    server.pub_bytes(TOPIC, packed)
    aside = path.with_name(path.name + ".part")
    aside.write_bytes(packed)
    aside.replace(path)
