"""Reading a Makefile: variables, rules, what they link, and which variables name compilers. Nothing is executed."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from buran.plugins.project.sources import Language, language_of_command, language_of_variable

_PARTS = (".am", ".in", ".inc", ".include", ".ext", ".common", ".defs", ".rules", ".bak", ".orig", ".md", ".txt")
NAMES = ("GNUmakefile", "makefile", "Makefile")
_DEEPEST = 8
_MOST_NESTED = 2
_SUITE = re.compile(r"\s*(?:else\s+)?ifeq\s*\(\s*\$[({](\w+)[)}]\s*,\s*(gnu|gcc)\s*\)", re.IGNORECASE)
_ASSIGNMENT = re.compile(r"\s*(?:(?:export|override)\s+)*([A-Za-z_][\w.-]*)\s*(::?:?=|\?=|\+=|!=|=)\s*(.*)")
_RULE = re.compile(r"([^\s:=#][^:=#]*?)\s*::?(?!=)([^;]*)(?:;(.*))?$")
_INCLUDE = re.compile(r"-?s?include\s+(.+)")
_REFERENCE = re.compile(r"\$(?:\(([\w.-]+)(?::([^=()]*)=([^()]*))?\)|\{([\w.-]+)(?::([^={}]*)=([^{}]*))?\})")
_VARIABLE = re.compile(r"\$[({]([\w.-]+)[)}]")
_NO_PROGRAMS = {
    *("all", "clean", "install", "test", "check", "distclean", "veryclean", "realclean", "help", "depend", "tar"),
    *("dist", "default", "run", "uninstall", "docs", "tags", "format", "lint"),
}
_PROGRAM = re.compile(r"(?!\.)(?!.*\.(?:o|a|so|d|h|hpp|c|cc|cpp|f90|F90|mod)$)[\w./+-]+")
_DEFAULTS = {"CC": "cc", "CXX": "g++", "FC": "f77", "F77": "f77"}


@dataclass
class MakeRule:
    """Targets, what they need, and how they are made."""

    targets: list[str]
    needs: list[str]
    recipe: list[str] = field(default_factory=list)


@dataclass
class Makefile:
    """A Makefile and what it includes; both branches of conditionals are read.

    Attributes
    ----------
    suites
        Values of variables that conditionals compare with, and that choose GNU's compilers and their flags.
    """

    path: Path
    variables: dict[str, str] = field(default_factory=dict)
    rules: list[MakeRule] = field(default_factory=list)
    suites: dict[str, str] = field(default_factory=dict)

    # -- reading ------------------------------------------------------------------------------------------

    def read(self, path: Path, depth: int = 0) -> None:
        """Add a file's variables and rules."""
        text = path.read_text(encoding="utf-8", errors="replace")
        rule: MakeRule | None = None
        for line in re.sub(r"\\\n", " ", text).splitlines():
            if line.startswith("\t"):
                if rule is not None:
                    rule.recipe.append(line.strip())
                continue
            line = re.sub(r"(?<!\\)#.*", "", line).rstrip()
            if not line.strip():
                continue
            if suite := _SUITE.match(line):
                self.suites[suite[1]] = suite[2]
            elif assigned := _ASSIGNMENT.match(line):
                self._assign(*assigned.groups())
            elif (included := _INCLUDE.match(line.strip())) and depth < _DEEPEST:
                for name in self.expand(included[1]).split():
                    if "$" not in name and (path.parent / name).is_file():
                        self.read(path.parent / name, depth + 1)
            elif head := _RULE.match(line):
                rule = MakeRule(self.expand(head[1]).split(), self.expand(head[2].replace("|", " ")).split())
                if head[3]:
                    rule.recipe.append(head[3].strip())
                self.rules.append(rule)

    def _assign(self, name: str, operator: str, value: str) -> None:
        if operator == "+=":
            self.variables[name] = f"{self.variables.get(name, '')} {value}".strip()
        elif operator == "!=":
            self.variables[name] = f"$(shell {value})"
        elif operator != "?=" or name not in self.variables:
            self.variables[name] = self.expand(value) if ":" in operator else value

    def expand(self, text: str, depth: int = 0) -> str:
        """Put in the values of variables; what a shell or a function would make stays as it is."""

        def value(match: re.Match[str]) -> str:
            name, old, new = match[1] or match[4], match[2] or match[5], match[3] or match[6]
            raw = self.variables.get(name, _DEFAULTS.get(name, ""))
            if depth >= _DEEPEST:
                return match[0]
            words = self.expand(raw, depth + 1)
            if old is None:
                return words
            if "%" in old:
                return match[0]
            return " ".join(
                word.removesuffix(old) + (new or "") if word.endswith(old) else word for word in words.split()
            )

        for _ in range(_MOST_NESTED):  # a name may have another variable in it, as $(FLAGS_$(COMPILER))
            text = _REFERENCE.sub(value, text)
        return text

    # -- what it tells ------------------------------------------------------------------------------------

    def commands(self) -> Iterator[tuple[MakeRule, str]]:
        """Return every command of every recipe."""
        for rule in self.rules:
            for line in rule.recipe:
                for command in re.split(r"&&|;|\|\|", line):
                    yield rule, command.strip().lstrip("@-+").strip()

    def programs(self) -> list[str]:
        """Return targets that are linked, those that the default target needs first."""
        programs: list[str] = []
        phony = {name for rule in self.rules if ".PHONY" in rule.targets for name in rule.needs}
        for rule in self.rules:
            for target in rule.targets:
                if _PROGRAM.fullmatch(target) and target not in _NO_PROGRAMS | phony and self._links(rule, target):
                    programs.append(target)
        default = self._default_needs()
        return sorted(dict.fromkeys(programs), key=lambda name: name not in default)

    def _links(self, rule: MakeRule, target: str) -> bool:
        for line in rule.recipe:
            words = self.expand(line).replace("$@", target).split()
            if "-c" not in words and f"-o {target}" in " ".join(words):
                return True
        objects = any(need.endswith(".o") or Path(need).stem == target for need in rule.needs)
        return not rule.recipe and objects

    def _default_needs(self) -> set[str]:
        # make skips a rule whose targets are variables without a value
        named = (rule for rule in self.rules if rule.targets)
        first = next((r for r in named if not r.targets[0].startswith(".") and "%" not in r.targets[0]), None)
        needed: set[str] = set()
        waiting = [] if first is None else [*first.targets, *first.needs]
        while waiting:
            name = waiting.pop()
            if name not in needed:
                needed.add(name)
                waiting += [need for rule in self.rules if name in rule.targets for need in rule.needs]
        return needed

    def compilers(self, written_in: set[Language]) -> dict[str, Language]:
        """Return the variables that name compilers, and of which language.

        Parameters
        ----------
        written_in
            Languages of the sources, for rules that make itself knows.
        """
        compilers: dict[str, Language] = {}
        for _, command in self.commands():
            for name in _VARIABLE.findall(command):
                language = self._language(name)
                if language is not None:
                    compilers[name] = language
        if self.uses_implicit_rules():
            named = {Language.C: "CC", Language.CXX: "CXX", Language.FORTRAN: "FC"}
            compilers.update({named[language]: language for language in written_in})
            compilers.setdefault("CC", Language.CXX if Language.CXX in written_in else Language.C)  # make links with it
            if Language.CXX in written_in:
                compilers["CC"] = Language.CXX if Language.C not in written_in else compilers["CC"]
        # A variable that only stands for another one follows it.
        return {name: language for name, language in compilers.items() if not self._follows(name, compilers)}

    def _language(self, name: str) -> Language | None:
        value = self.expand(self.variables.get(name, "")).split()
        if name not in self.variables and name not in _DEFAULTS:
            return language_of_variable(name) if re.fullmatch(r"(MPI)?_?(CC|CXX|FC|F77|F90|CPP|FORT)", name) else None
        return language_of_command(value[0]) if value else language_of_variable(name) if name in _DEFAULTS else None

    def _follows(self, name: str, others: dict[str, Language]) -> bool:
        first = _VARIABLE.match(self.variables.get(name, ""))
        return first is not None and first[1] != name and first[1] in others

    def uses_implicit_rules(self) -> bool:
        """Whether objects are made by rules that make itself knows: none here says how."""
        made = any(re.search(r"%\.o|\.(c|cc|cpp|cxx|f90|F90)\.o", " ".join(rule.targets)) for rule in self.rules)
        compiled = any(re.search(r"(^|\s)-c(\s|$)", self.expand(command)) for _, command in self.commands())
        linked_from_sources = any(
            re.search(r"\.(c|cc|cpp|cxx|f90|F90)\b|\$[<^]", self.expand(command)) for _, command in self.commands()
        )
        return bool(self.programs()) and not (made or compiled or linked_from_sources)

    def by_name(self) -> dict[str, Language]:
        """Return the compilers that recipes call by their own names: no variable changes them."""
        compilers: dict[str, Language] = {}
        for _, command in self.commands():
            first = command.split()[:1]
            language = language_of_command(first[0]) if first else None
            if language is not None:
                compilers[first[0]] = language
        return compilers

    def extra_words(self, name: str) -> str:
        """Return what stands behind the compiler in a variable's value, such as ``-DUSE_MPI=1``."""
        return " ".join(self.expand(self.variables.get(name, "")).split()[1:])

    def without_offload(self) -> list[str]:
        """Return settings of variables that have flags for GPUs, without these."""
        settings = []
        for name in ("CPPFLAGS", "CFLAGS", "CXXFLAGS", "FFLAGS", "FCFLAGS", "LDFLAGS", "LDLIBS", "LIBS"):
            text = self.expand(self.variables.get(name, ""))
            kept = re.sub(r"-x\s+(?:hip|cuda)|\S*(?:hip|cuda|offload|gpu|gfx)\S*", "", text, flags=re.IGNORECASE)
            if kept != text and "$" not in kept and "'" not in kept:
                settings.append(f"{name}='{' '.join(kept.split())}'")
        return settings

    def unset_flags(self, languages: set[Language]) -> list[str]:
        """Return the variables of compiler flags that recipes use and nothing sets."""
        used = {name for _, command in self.commands() for name in _VARIABLE.findall(command)}
        implicit = self.uses_implicit_rules()
        return [name for name in flag_variables(languages) if name not in self.variables and (implicit or name in used)]

    def optimises(self, languages: set[Language]) -> bool:
        """Whether a level of optimisation is among the flags of these languages, or in a recipe."""
        texts = [*(f"$({name})" for name in flag_variables(languages)), *(command for _, command in self.commands())]
        return any(re.search(r"(^|\s)-O(?!0)", self.expand(text)) for text in texts)

    def calls_in_folders(self) -> list[str]:
        """Return folders that recipes run make in."""
        folders = []
        for _, command in self.commands():
            folders += re.findall(r"(?:\$[({]MAKE[)}]|\bmake)\s+.*?-C\s*([\w./-]+)", self.expand(command))
            folders += re.findall(r"\bcd\s+([\w./-]+)", self.expand(command))
        return list(dict.fromkeys(folders))


def flag_variables(languages: set[Language]) -> list[str]:
    """Return the usual names of the variables that hold compiler flags."""
    named = {Language.C: ("CFLAGS",), Language.CXX: ("CXXFLAGS",), Language.FORTRAN: ("FFLAGS", "FCFLAGS")}
    return [name for language in sorted(languages) for name in named[language]]


def read_makefile(path: Path) -> Makefile:
    """Read a Makefile.

    Raises
    ------
    OSError
        It cannot be read.
    """
    makefile = Makefile(path)
    makefile.read(path)
    return makefile


def makefile_in(folder: Path) -> Path | None:
    """Return the file that make would take, else the likeliest of those that it takes with ``-f``."""
    default = next((folder / name for name in NAMES if (folder / name).is_file()), None)
    return default or next(iter(variants_in(folder)), None)


def variants_in(folder: Path) -> list[Path]:
    """Return files such as ``Makefile.gnu``, those for MPI and GNU's compilers first."""
    paths = [path for path in sorted(folder.glob("[Mm]akefile.*")) if path.is_file() and path.suffix not in _PARTS]
    words = ("mpi", "gnu", "gcc", "linux")
    return sorted(paths, key=lambda path: next((i for i, word in enumerate(words) if word in path.suffix.lower()), 9))
