"""Find a data file of a folder, and the schema files that it needs.

A folder may hold millions of files, so its directories are listed one by one, and few of them.
"""

from collections.abc import Iterable

from ticdc_assets.resources.local_files import FileEntry
from ticdc_assets.resources.storage import Folder
from ticdc_assets.stream.folder_files import is_named_like_data, is_named_like_schema

_MOST_DIRECTORIES = 50
_MOST_BYTES = 64 << 20


def find_sample(folder: Folder) -> list[str]:
    """Return the paths of a small data file and of the schemas of its version; [] without one.

    Of directories, the last one comes first: it has the newest date or table version.
    """
    pending: list[tuple[str, tuple[str, ...]]] = [("", ())]
    for _ in range(_MOST_DIRECTORIES):
        if not pending:
            break
        directory, schemas = pending.pop()
        directories, files = folder.list_directory(directory)
        schemas += _select_schemas(files)
        for name in directories:
            if name.rpartition("/")[2] == "meta":
                schemas += _select_schemas(folder.list_directory(name)[1])
        sizes = {entry.path: entry.size for entry in files if is_named_like_data(entry.path)}
        if sizes:
            smallest = min(sizes, key=lambda path: sizes[path])
            versions = smallest.split("/")
            needed = [path for path in schemas if _is_of(path, versions)]
            return [*needed, smallest] if sizes[smallest] <= _MOST_BYTES else []
        pending += [(name, schemas) for name in sorted(directories)]
    return []


def _select_schemas(files: Iterable[FileEntry]) -> tuple[str, ...]:
    return tuple(entry.path for entry in files if is_named_like_schema(entry.path))


def _is_of(schema: str, versions: Iterable[str]) -> bool:
    """Return whether a schema file states one of these table versions, or names none."""
    name = schema.rpartition("/")[2]
    return "_" not in name or name.split("_")[1] in versions
