"""Files of Minari's data sets: written aside and renamed, so that a failure leaves nothing.

Minari reads a data set's folder by its id, below `MINARI_DATASETS_PATH`. Folders that begin with a
dot are hidden from it: there data sets are written, on the same file system.
"""

from __future__ import annotations

import os
import re
import shutil
import tempfile
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from cogrs.datasets.hdf5_writer import Hdf5Writer
from cogrs.optional_dependency import import_optional
from cogrs.spaces import parts_of

if TYPE_CHECKING:
    from collections.abc import Iterable

_ID = re.compile(r"(?:(?P<namespace>[-\w/]+)/)?(?P<name>[-\w]+)-v(?P<version>\d+)", re.ASCII)
_RESERVED = "data"
"""A folder of this name makes Minari take its parent for a data set."""
MAIN_FILE = "main_data.hdf5"
"""The file of a data set's arrays, in its folder `data`."""
_LONGEST = 200
"""Characters of each part of an id; file systems take 255 bytes."""
_BUFFERED = 1 << 26
"""Bytes of episodes that are kept until they are written."""


def minari() -> Any:
    """Return the module `minari`.

    Raises:
        ImportError: It, Pillow or h5py is not installed.
    """
    need, extra = "data sets of Minari need {}", "'cogrs[minari]'"
    # Minari imports these itself, but its errors name extras that do not have them.
    for module, name in (("minari", "Minari"), ("h5py", "h5py"), ("PIL", "Pillow")):
        import_optional(module, need.format(name), extra)
    return import_optional("minari", need.format("Minari"), extra)


def check_dataset_id(name: str, value: object) -> tuple[str | None, str, str]:
    """Return name space, name and version of a data set's id.

    Raises:
        TypeError: It is not text.
        ValueError: Minari could not keep a data set under this id, or not find it again.
    """
    if not isinstance(value, str):
        raise TypeError(f"{name}: expected an id such as 'cartpole/expert-v0', got {value!r}")
    found = _ID.fullmatch(value)
    parts = value.split("/")
    if found is None or not all(parts) or any(len(each) > _LONGEST for each in parts):
        expected = "NAME-vN or NAMESPACE/NAME-vN of letters, digits, - and _"
        raise ValueError(f"{name}: expected {expected}, got {value!r}")
    namespace = found["namespace"]
    if namespace is not None and len(namespace) < 2:
        expected = "a name space of two letters and more"
        raise ValueError(f"{name}: expected {expected}, got {namespace!r} in {value!r}")
    if _RESERVED in parts[:-1]:
        raise ValueError(f"{name}: expected a name space other than {_RESERVED!r}, got {value!r}")
    return namespace, found["name"], found["version"]


def check_space(name: str, space: Any) -> None:
    """Refuse a space that Minari would not keep as it is, which a round trip would change.

    Raises:
        TypeError: It is not a Gymnasium space of arrays, or a Dict or Tuple of them.
        ValueError: It comes back different, or a key of a Dict cannot be a name in the file.
    """
    from cogrs.replay.spaces import template

    template(space, name)
    _check_keys(name, space)
    try:
        serialization = import_optional(
            "minari.serialization", "data sets of Minari need Minari", "'cogrs[minari]'"
        )
        again = serialization.deserialize_space(serialization.serialize_space(space))
    except (NotImplementedError, TypeError, ValueError) as error:
        raise ValueError(f"{name}: expected a space that Minari keeps: {error}") from error
    if again != space or _dtypes(again) != _dtypes(space):
        expected = "a space that Minari keeps as it is"
        raise ValueError(f"{name}: expected {expected}, got {space}, which it makes {again}")


def _check_keys(name: str, space: Any) -> None:
    parts = parts_of(space)
    if isinstance(parts, dict):
        for key in parts:
            if "/" in key or "\0" in key or key == ".":
                expected = "keys that can be names in an HDF5 file, without '/'"
                raise ValueError(f"{name}: expected {expected}, got {key!r}")
    for key, part in parts.items() if isinstance(parts, dict) else enumerate(parts or ()):
        _check_keys(f"{name}[{key!r}]", part)


def _dtypes(space: Any) -> Any:
    parts = parts_of(space)
    if parts is None:
        return np.dtype(space.dtype)
    if isinstance(parts, dict):
        return {key: _dtypes(part) for key, part in parts.items()}
    return [_dtypes(part) for part in parts]


class DatasetDraft:
    """A data set that is being written aside."""

    def __init__(self, folder: Path, spaces: tuple[Any, Any], env_spec: Any) -> None:
        """Create its files."""
        self._library = minari()
        self.folder = folder
        folder.mkdir()
        storage = self._library.dataset.minari_storage.MinariStorage
        self._storage = storage.new(
            folder / _RESERVED,
            observation_space=spaces[0],
            action_space=spaces[1],
            env_spec=env_spec,
            data_format="hdf5",
            # JPEG loses detail, and breaks on images of one channel.
            jpeg_encoding=False,
        )
        self.episodes = self.steps = 0
        self._waiting: list[tuple[Mapping[str, Any], dict[str, Any]]] = []
        self._bytes = 0

    def add(self, arrays: Mapping[str, Any], metadata: dict[str, Any]) -> None:
        """Add an episode: its arrays as Minari names them, and its metadata."""
        self._waiting.append((arrays, metadata))
        self.episodes += 1
        self.steps += len(arrays["rewards"])
        self._bytes += _size(arrays)
        if self._bytes >= _BUFFERED:
            self.flush()

    def flush(self) -> None:
        """Write the episodes that are waiting."""
        waiting, self._waiting, self._bytes = self._waiting, [], 0
        if not waiting:
            return
        h5py = import_optional("h5py", "data sets of Minari need h5py", "'cogrs[minari]'")
        writer = Hdf5Writer()
        with h5py.File(self._storage.data_path / MAIN_FILE, "a", track_order=True) as file:
            for number, (arrays, metadata) in enumerate(waiting, self.episodes - len(waiting)):
                group = writer.group(file.id, f"episode_{number}")
                writer.write(group, arrays)
                about = {"id": number, "total_steps": len(arrays["rewards"]), **metadata}
                writer.describe(group, about)
        sizes = {"total_episodes": self.episodes, "total_steps": self.steps}
        self._storage.update_metadata({**sizes, "dataset_size": self._storage.get_size()})

    def finish(self, dataset_id: str, metadata: Mapping[str, Any]) -> None:
        """Write what is waiting, and the metadata of the whole."""
        self.flush()
        version = self._library.__version__
        self._storage.update_metadata(
            {"dataset_id": dataset_id, "minari_version": version, **metadata}
        )


def _size(tree: Any) -> int:
    if isinstance(tree, Mapping):
        return sum(map(_size, tree.values()))
    if isinstance(tree, tuple):
        return sum(map(_size, tree))
    return int(getattr(tree, "nbytes", 0))


class DatasetFiles:
    """The folder of Minari's data sets, and those that are being written.

    A context manager, at whose end all is gone that was not published.
    """

    def __init__(self) -> None:
        """Create a hidden folder."""
        self._root = Path(minari().storage.get_dataset_path())
        self._aside = Path(tempfile.mkdtemp(prefix=".cogrs-", dir=self._root))
        self._drafts = 0

    def __enter__(self) -> Self:
        """Return this."""
        return self

    def __exit__(self, *_: object) -> None:
        """Remove the hidden folder."""
        shutil.rmtree(self._aside, ignore_errors=True)

    def draft(self, spaces: tuple[Any, Any], env_spec: Any) -> DatasetDraft:
        """Create an empty data set of these spaces."""
        self._drafts += 1
        return DatasetDraft(self._aside / str(self._drafts), spaces, env_spec)

    def publish(self, drafts: Mapping[str, DatasetDraft]) -> dict[str, Path]:
        """Give finished data sets their ids: all of them or, after an error, none.

        Returns:
            Their folders.

        Raises:
            FileExistsError: There is a data set of one of these ids, or a file in its place.
            OSError: A folder cannot be made.
        """
        check_free(drafts)
        published: dict[str, Path] = {}
        made: list[Path] = []
        try:
            for dataset_id, draft in drafts.items():
                path = self._root / dataset_id
                made += self._make_namespace(path.parent)
                # Onto a folder that has something in it this fails.
                os.rename(draft.folder, path)
                published[dataset_id] = path
        except BaseException:
            for path in published.values():
                shutil.rmtree(path, ignore_errors=True)
            for path in reversed(made):
                with suppress(OSError):
                    (path / "namespace_metadata.json").unlink(missing_ok=True)
                    path.rmdir()
            raise
        return published

    def _make_namespace(self, folder: Path) -> list[Path]:
        """Make the folders of a name space as Minari does; return those that were missing."""
        missing = [
            each
            for each in (folder, *folder.parents)
            if self._root in each.parents and not each.exists()
        ]
        for each in reversed(missing):
            each.mkdir()
            (each / "namespace_metadata.json").write_text("{}", encoding="utf-8")
        return missing[::-1]


def check_free(dataset_ids: Iterable[str]) -> None:
    """Refuse ids that are taken, with a FileExistsError."""
    root = Path(minari().storage.get_dataset_path())
    for dataset_id in dataset_ids:
        path = root / dataset_id
        if path.exists():
            raise FileExistsError(f"dataset_id: expected a new id, got {dataset_id!r} of {path}")
        for parent in path.parents:
            if root in parent.parents and (parent / _RESERVED).exists():
                raise FileExistsError(
                    f"dataset_id: expected a name space, got {parent.relative_to(root)}, which is "
                    f"a data set, in {dataset_id!r}"
                )
