"""Reads tensors of a checkpoint: a safetensors file, the index of several files, or the folder of either.

Files come from strangers: a header that breaks a rule of the format is refused by name, and an index may only name
files of its own folder. Values are views of the files, so a tensor that nobody reads costs no memory.
"""

import json
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from cubit._arrays import numpy_type
from cubit._table import NAMES
from cubit.errors import InvalidArgumentError

BYTES = {"BOOL": 1, "U8": 1, "I8": 1, "F8_E4M3": 1, "F8_E5M2": 1, "I16": 2, "U16": 2, "F16": 2, "BF16": 2, "I32": 4,
         "U32": 4, "F32": 4, "I64": 8, "U64": 8, "F64": 8}
LARGEST_HEADER = 100_000_000
INDEX, TENSORS = ".safetensors.index.json", ".safetensors"


class Entry(NamedTuple):
    """Where a file holds one tensor: from byte `begin` to byte `end`."""

    file: Path
    name: str
    type: str
    shape: tuple[int, ...]
    begin: int
    end: int

    def __str__(self) -> str:
        return f"tensor {self.name!r} {self.type} {list(self.shape)}"

    def refuse(self, rule: str, remedy: str) -> InvalidArgumentError:
        return InvalidArgumentError(str(self), rule, remedy)

    def array(self) -> Any:
        """The values, read from the file when they are used. Changes of them never reach the file."""
        import numpy

        if self.type not in NAMES and self.type != "I64":
            raise self.refuse("cubit has no such type", f"accepted: {', '.join(NAMES)}")
        dtype = numpy.dtype("int64") if self.type == "I64" else numpy_type(self.type)
        if self.begin == self.end:
            return numpy.empty(self.shape, dtype)
        mapped = numpy.memmap(self.file, numpy.uint8, "c", self.begin, (self.end - self.begin,))
        return numpy.asarray(mapped).view(dtype).reshape(self.shape)


def entries(path: str) -> dict[str, Entry]:
    """All tensors of a checkpoint by name; of the files only the headers are read."""
    file = _file_of(Path(path))
    if file.suffix != ".json":
        return {one.name: one for one in _header(file)}
    shards = _shards(file)
    found = {one.name: one for shard in sorted(set(shards.values())) for one in _header(file.with_name(shard))
             if shards.get(one.name) == shard}
    for name in shards.keys() - found.keys():
        raise InvalidArgumentError(str(file.with_name(shards[name])),
                                   f"has no tensor {name!r}, although the index names it",
                                   "give files that belong together: copy the checkpoint again")
    return found


def _file_of(path: Path) -> Path:
    if not path.is_dir():
        return path
    for end in (INDEX, TENSORS):
        files = sorted(one for one in path.iterdir() if one.name.endswith(end))
        if len(files) == 1:
            return files[0]
        if files:
            raise InvalidArgumentError(str(path), f"the folder holds {len(files)} files *{end}",
                                       "give the path of one file")
    raise InvalidArgumentError(str(path), f"the folder holds neither *{INDEX} nor *{TENSORS}",
                               "give a checkpoint's folder")


def _shards(index: Path) -> dict[str, str]:
    try:
        shards = json.loads(_bytes(index, 0, index.stat().st_size))["weight_map"]
        wrong = next((one for one in shards.values() if Path(one).name != one or not one.endswith(TENSORS)), None)
    except (KeyError, TypeError, AttributeError, ValueError):
        raise InvalidArgumentError(str(index), "the index has no weight_map, which names the file of each tensor",
                                   "give the index as it was published") from None
    if wrong is not None:
        raise InvalidArgumentError(str(index), f"{wrong!r} is not the name of a safetensors file beside the index",
                                   "give the index as it was published")
    return dict(shards)


def _header(file: Path) -> Iterator[Entry]:
    size = file.stat().st_size
    start = _bytes(file, 0, min(size, 8))
    if start.startswith(b"version "):
        raise InvalidArgumentError(str(file), "is a pointer of git-lfs, not the file", "git lfs pull gets the file")
    length = int.from_bytes(start, "little")
    if size < 8 or not 2 <= length <= min(size - 8, LARGEST_HEADER):
        raise InvalidArgumentError(str(file), "is no safetensors file: its header does not fit", "give a whole file")
    data = 8 + length
    try:
        listed = json.loads(_bytes(file, 8, length))
        tensors = [Entry(file, name, one["dtype"], tuple(one["shape"]), data + one["data_offsets"][0],
                         data + one["data_offsets"][1]) for name, one in listed.items() if name != "__metadata__"]
        for one in tensors:
            if (any(type(extent) is not int or extent < 0 for extent in one.shape) or one.begin < data or
                    one.end > size or one.end - one.begin != math.prod(one.shape) * BYTES[one.type]):
                raise one.refuse(f"{file} does not hold it at the bytes that the header names", "copy the file again")
    except (KeyError, TypeError, AttributeError, IndexError, RecursionError, json.JSONDecodeError, UnicodeDecodeError):
        raise InvalidArgumentError(str(file), "the header is not one of safetensors", "give a whole file") from None
    return iter(tensors)


def _bytes(file: Path, begin: int, count: int) -> bytes:
    if begin == 0 and count > LARGEST_HEADER:
        raise InvalidArgumentError(str(file), f"holds {count} bytes", f"an index has at most {LARGEST_HEADER}")
    with file.open("rb") as opened:
        opened.seek(begin)
        return opened.read(count)
