"""The files of Iceberg tables in a lake: their URIs, and access to them for `pyiceberg`.

They are reached by the lake's own file systems, so no metadata needs a credential.
"""

import re
from io import BytesIO
from types import TracebackType

from pyarrow import fs
from pyiceberg.io import FileIO, InputFile, InputStream, OutputFile, OutputStream

from ticdc_assets.lake.iceberg.published import FOLDER, make_uri
from ticdc_assets.store.lake import Lake
from ticdc_assets.store.reader import create_folder, write_content

# Readers take what is behind these for another part of a URI.
_NOT_IN_A_URI = re.compile(r"[?#%]")


def find_fault(uri: str) -> str | None:
    """Say why Iceberg's readers find no file below a URI; None if they do."""
    found = _NOT_IN_A_URI.search(uri)
    if found is None:
        return None
    return f"the path of the lake has {found[0]!r} in it, which Iceberg's readers misunderstand"


class LakeFiles(FileIO):
    """Reads and writes the metadata of Iceberg tables in a lake."""

    def __init__(self, location: Lake) -> None:
        super().__init__()
        self._home = f"{make_uri(location.path(FOLDER))}/"
        self.folder = create_folder(location.path(FOLDER))

    def find(self, uri: str) -> str:
        """Return the path of a file in the folder."""
        if not uri.startswith(self._home):
            raise OSError(f"{uri} is not in {self._home}")
        return uri.removeprefix(self._home)

    def new_input(self, location: str) -> InputFile:
        return _Input(location, self.folder, self.find(location))

    def new_output(self, location: str) -> OutputFile:
        return _Output(location, self.folder, self.find(location))

    def delete(self, location: str | InputFile | OutputFile) -> None:
        uri = location if isinstance(location, str) else location.location
        self.folder.delete_file(self.find(uri))


class _Input(InputFile):
    def __init__(self, location: str, folder: fs.FileSystem, path: str) -> None:
        super().__init__(location)
        self._folder = folder
        self._path = path

    def __len__(self) -> int:
        return int(self._folder.get_file_info(self._path).size)

    def exists(self) -> bool:
        return self._folder.get_file_info(self._path).type is fs.FileType.File

    def open(self, seekable: bool = True) -> InputStream:
        return self._folder.open_input_file(self._path)  # type: ignore[no-any-return]


class _Output(OutputFile):
    def __init__(self, location: str, folder: fs.FileSystem, path: str) -> None:
        super().__init__(location)
        self._folder = folder
        self._path = path
        self._size = 0

    def __len__(self) -> int:
        return self._size

    def exists(self) -> bool:
        return self.to_input_file().exists()

    def to_input_file(self) -> InputFile:
        return _Input(self.location, self._folder, self._path)

    def create(self, overwrite: bool = False) -> OutputStream:
        return _Writing(self)

    def write(self, content: bytes) -> None:
        self._size = len(content)
        write_content(self._folder, self._path, content)


class _Writing(BytesIO):
    """The content of a file, which is written when all of it is there."""

    def __init__(self, file: _Output) -> None:
        super().__init__()
        self._file = file

    def __exit__(
        self,
        exctype: type[BaseException] | None,
        excinst: BaseException | None,
        exctb: TracebackType | None,
    ) -> None:
        if exctype is None:
            self.close()

    def close(self) -> None:
        if not self.closed:
            self._file.write(self.getvalue())
        super().close()
