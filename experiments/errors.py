"""Faults in what a user asks of a command."""

from pathlib import Path
from typing import Any


class OptionError(ValueError):
    """A key or value on the command line that no room accepts."""

    def __init__(self, option: str, reason: str) -> None:
        self.option, self.reason = option, reason
        super().__init__(f"{option}: {reason}")


class OccupiedFolderError(ValueError):
    """The run folder holds another run."""

    def __init__(self, folder: Path, key: str, there: Any, here: Any) -> None:
        self.folder, self.key, self.there, self.here = folder, key, there, here
        super().__init__(f"'{folder}' holds a run with {key}={there}, not {here}; choose another folder")


class DamagedFolderError(ValueError):
    """A run folder has a file of an earlier attempt that is not what run.py writes."""

    def __init__(self, path: Path, error: Exception) -> None:
        self.path, self.error = path, error
        super().__init__(f"'{path}' is damaged ({error}); delete the folder, or choose another")


class ResumeError(ValueError):
    """A folder that ``resume`` names cannot be resumed."""

    def __init__(self, folder: str, reason: str) -> None:
        self.folder, self.reason = folder, reason
        super().__init__(f"resume: '{folder}' {reason}")
