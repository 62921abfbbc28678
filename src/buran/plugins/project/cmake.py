"""Reading CMake files: executables, options about MPI, languages. Nothing is executed."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from buran.plugins.project.sources import Language

NAME = "CMakeLists.txt"
_COMMAND = re.compile(r"([A-Za-z_]\w*)\s*\(((?:[^()\"]|\"(?:\\.|[^\"\\])*\"|\([^()]*\))*)\)")
_WORD = re.compile(r"\"((?:\\.|[^\"\\])*)\"|([^\s\"]+)")
_SWITCH = re.compile(r"(\w+_)?(USE|ENABLE|WITH)_(\w+_)?MPI")
_REFERENCE = re.compile(r"\$\{(\w+)\}")
_LANGUAGES = {"C": Language.C, "CXX": Language.CXX, "Fortran": Language.FORTRAN}
_DEEPEST = 8


@dataclass
class CMakeProject:
    """What the CMake files below a folder say.

    Attributes
    ----------
    programs
        Executables, relative to the build folder; one whose folder is not known has ``${`` in it.
    switches
        Options about MPI that are off by default, and conditions on it that nothing sets.
    """

    folder: Path
    variables: dict[str, str] = field(default_factory=dict)
    programs: list[str] = field(default_factory=list)
    languages: set[Language] = field(default_factory=set)
    switches: list[str] = field(default_factory=list)
    mentions_mpi: bool = False

    def read(self, folder: Path, depth: int = 0) -> None:
        """Add a folder's file and those of its subfolders."""
        text = (folder / NAME).read_text(encoding="utf-8", errors="replace")
        for command, words in commands_in(text):
            words = [self.expand(word, folder) for word in words]
            if command == "project":
                self._project(words)
            elif command == "enable_language":
                self.languages |= {_LANGUAGES[word] for word in words if word in _LANGUAGES}
            elif command == "set" and len(words) > 1:
                self.variables[words[0]] = words[1]
            elif command == "option" and words:
                self._option(words)
            elif command == "if" and len(words) == 1 and _SWITCH.fullmatch(words[0]):
                self._condition(words[0])
            elif command == "find_package" and words[:1] == ["MPI"]:
                self.mentions_mpi = True
            elif command == "add_executable" and words and not {"IMPORTED", "ALIAS"} & set(words):
                self._executable(words[0], folder)
            elif command == "blt_add_executable" and "NAME" in words[:-1]:
                self._executable(words[words.index("NAME") + 1], folder)
            elif command == "add_subdirectory" and words and depth < _DEEPEST and (folder / words[0] / NAME).is_file():
                inner = dict(self.variables)
                self.read(folder / words[0], depth + 1)
                self.variables = inner

    def expand(self, word: str, folder: Path) -> str:
        """Put in the values of variables that are known."""
        values = {
            "CMAKE_SOURCE_DIR": ".",
            "PROJECT_SOURCE_DIR": ".",
            "CMAKE_CURRENT_SOURCE_DIR": str(folder),
            "CMAKE_BINARY_DIR": "",
            "PROJECT_BINARY_DIR": "",
            "CMAKE_CURRENT_BINARY_DIR": str(folder.relative_to(self.folder)),
            **self.variables,
        }
        return _REFERENCE.sub(lambda match: values.get(match[1], match[0]), word)

    def _project(self, words: list[str]) -> None:
        if words:
            self.variables.setdefault("CMAKE_PROJECT_NAME", words[0])
            self.variables["PROJECT_NAME"] = words[0]
        named = {_LANGUAGES[word] for word in words[1:] if word in _LANGUAGES}
        self.languages |= named or ({Language.C, Language.CXX} if "NONE" not in words and not self.languages else set())

    def _option(self, words: list[str]) -> None:
        off = len(words) < 3 or words[2].upper() in ("OFF", "NO", "FALSE", "0", "N")
        if re.search(r"(^|_)MPI($|_)", words[0]):
            self.mentions_mpi = True
            if off:
                self.switches.append(words[0])
            else:
                self.variables.setdefault(words[0], "ON")

    def _condition(self, name: str) -> None:
        self.mentions_mpi = True
        if name not in self.variables and name not in self.switches:
            self.switches.append(name)

    def _executable(self, name: str, folder: Path) -> None:
        output = self.variables.get("CMAKE_RUNTIME_OUTPUT_DIRECTORY", self.variables.get("EXECUTABLE_OUTPUT_PATH"))
        below = str(folder.relative_to(self.folder)) if output is None else output
        self.programs.append(str(Path(below.lstrip("/")) / name))


def commands_in(text: str) -> Iterator[tuple[str, list[str]]]:
    """Return the commands of a CMake file, in lower case, and their words."""
    text = re.sub(r"#\[(=*)\[.*?\]\1\]", "", text, flags=re.DOTALL)
    text = re.sub(r"(?m)#[^\n\"]*(?:\"[^\n\"]*\"[^\n\"]*)*$", "", text)
    for match in _COMMAND.finditer(text):
        yield match[1].lower(), [quoted or plain for quoted, plain in _WORD.findall(match[2])]


def read_cmake(folder: Path) -> CMakeProject:
    """Read a project's CMake files.

    Raises
    ------
    OSError
        One cannot be read.
    """
    project = CMakeProject(folder)
    project.read(folder)
    return project
