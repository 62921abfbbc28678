"""What is said of an error that nobody foresaw: the boundary behind which no traceback passes."""

from __future__ import annotations

import os
import platform
import shlex
import signal
import sys
import tempfile
import traceback
from pathlib import Path

from buran import __version__
from buran.errors import BuranError, CrashError, UsageError
from buran.files import storage_error

_LONGEST_WHY = 300  # characters
_POSIX = ("fcntl", "grp", "pwd", "resource", "termios")


def shown_error(error: Exception) -> BuranError:
    """Return any error as one that is shown to the user."""
    if isinstance(error, BuranError):
        return error
    if sys.platform != "linux" and _is_of_posix(error):
        return needs_linux()
    if isinstance(error, FileNotFoundError) and _folder() == "gone":
        return UsageError("the folder that you are in was removed", hint="cd to one that is there")
    return (storage_error(error) if isinstance(error, OSError) else None) or _crash_of(error)


def _is_of_posix(error: Exception) -> bool:
    """Tell whether something is missing that the standard library has on other systems alone."""
    if isinstance(error, AttributeError):
        return error.obj in (os, signal)
    return isinstance(error, ModuleNotFoundError) and error.name in _POSIX


def needs_linux() -> UsageError:
    """Return what is said where something is asked for that other systems cannot do."""
    return UsageError(
        "campaigns are measured on Linux",
        why=f"this system is {sys.platform}",
        hint="do it there; buran model, predict, suggest, report, status and filter work here with its results",
    )


def _crash_of(error: Exception) -> CrashError:
    """Write down what led to an error, with its traceback, and return the words for the user.

    The file lies with temporary files: the working folder may be a source, whose identity it would change.
    """
    kind = type(error).__name__
    shown = f"{kind}: {error}" if str(error) else kind
    why = " ".join(shown[:_LONGEST_WHY].split())
    try:
        handle, name = tempfile.mkstemp(prefix="buran-crash-", suffix=".txt")
        with os.fdopen(handle, "w", encoding="utf-8", errors="backslashreplace") as file:
            print(f"buran {__version__}, Python {platform.python_version()}, {platform.platform()}", file=file)
            print(f"command: {shlex.join(sys.argv)}\nfolder:  {_folder()}\n", file=file)
            file.writelines(traceback.format_exception(error))
    except OSError as failure:
        where, hint = None, f"make room for temporary files ({failure.strerror}), and run it again for a crash report"
    else:
        where, hint = Path(name), "run it again with other input, or send this file to the maintainers"
    return CrashError("a bug in Buran stopped it", where=where, why=why, hint=f"{hint}; what is measured stays")


def _folder() -> str:
    try:
        return os.getcwd()  # noqa: PTH109 (Path.cwd says no more)
    except OSError:
        return "gone"
