"""Extension points: what is found by name, in the core, in a plug-in of this package or in another distribution.

Plug-ins, the folders of `buran.plugins`, and other distributions bring objects by entry points; an object has the
members of the extension point's protocol. Nothing is imported before it is requested.
"""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from importlib import import_module
from importlib.metadata import EntryPoint, PackageNotFoundError, entry_points, version
from pathlib import Path
from typing import Any, Generic, Protocol, TypeVar

from buran.errors import PluginError, ToolError, UsageError

T = TypeVar("T")
_MISSING = object()


PLUGINS = Path(__file__).with_name("plugins")
"""The folders of this package's own plug-ins; each may be missing."""


@lru_cache(maxsize=32)
def _installed(group: str, path: tuple[str, ...]) -> tuple[EntryPoint, ...]:
    """Return what the distributions on a path offer in a group, those of this package's plug-ins first."""
    return tuple(sorted(entry_points(group=group), key=lambda entry: _plugin_of(entry) is None))


def _plugin_of(entry: EntryPoint) -> str | None:
    """Return the name of the plug-in of this package that an entry point leads to; None if it leads elsewhere."""
    found = re.match(r"buran\.plugins\.(\w+)", entry.value)
    return found[1] if found else None


@lru_cache(maxsize=64)
def _is_missing(plugin: str | None) -> bool:
    """Return whether a plug-in of this package is not there, although its distribution names it."""
    return plugin is not None and not (PLUGINS / plugin / "__init__.py").is_file()


def version_of(distribution: str) -> str | None:
    """Return the version of an installed distribution; None if it is not installed."""
    try:
        return version(distribution)
    except PackageNotFoundError:
        return None


def from_extra(module: str, extra: str, what: str) -> Any:
    """Return a module of a package that comes with an extra; raise `ToolError` if it is not installed."""
    try:
        return import_module(module)
    except ImportError as error:
        why = f"{module} is not installed"
        raise ToolError(f"{what} need {module}", why=why, hint=f"pip install 'buran[{extra}]'") from error


@dataclass(frozen=True)
class ExtensionPoint(Generic[T]):
    """A protocol, and what there is that has it.

    Attributes
    ----------
    noun
        What it is about, as `scheduler`, for messages.
    group
        Name of the entry points, as `buran.schedulers`.
    protocol
        Class of the protocol. If it has a `name`, that of each object is its entry point's.
    builtin
        Objects of this package by name, each as `module:attribute`.
    elsewhere
        Names that well-known distributions bring, with these distributions: who asks for one is told what to install.
    """

    noun: str
    group: str
    protocol: type
    builtin: Mapping[str, str]
    elsewhere: Mapping[str, str] = field(default_factory=dict)

    @property
    def names(self) -> tuple[str, ...]:
        """Names of all that can be loaded, the built-in ones first.

        Raises
        ------
        PluginError
            Two have the same name.
        """
        return tuple(self._entries())

    @property
    def possible_names(self) -> tuple[str, ...]:
        """Names of all that can be loaded here or once a well-known distribution is installed."""
        return tuple(dict.fromkeys((*self.builtin, *self.elsewhere, *self.missing, *self.names)))

    def load(self, name: str) -> T:
        """Return the object of a name.

        Raises
        ------
        UsageError
            There is none, or its distribution is not installed.
        PluginError
            It cannot be imported, does not fulfil the protocol, or has the name of another.
        """
        entries = self._entries()
        if name not in entries and name in self.elsewhere:
            brings = self.elsewhere[name]
            raise UsageError(
                f"the {self.noun} {name!r} is not installed",
                why=f"the package {brings} brings it",
                hint=f"pip install {brings}",
            )
        if name in self.missing:
            raise self.refusal(name)
        if name not in entries:
            raise UsageError(
                f"unknown {self.noun} {name!r}",
                why=f"known here: {', '.join(entries)}",
                hint=f"correct the name, or install the package that brings it (entry point group {self.group})",
            )
        loaded: T = _load(self, entries[name])
        return loaded

    def __iter__(self) -> Iterator[T]:
        """Load one after the other; raises as `load` does."""
        return (self.load(name) for name in self.names)

    def _entries(self) -> dict[str, EntryPoint]:
        entries = {name: EntryPoint(name, value, self.group) for name, value in self.builtin.items()}
        for entry in _installed(self.group, tuple(sys.path)):
            if _is_missing(_plugin_of(entry)):
                continue
            other = entries.setdefault(entry.name, entry)
            if other is not entry:
                raise _error(
                    self,
                    entry,
                    f"{_origin(other)} has that name too",
                    "uninstall one of them, or give one another name",
                )
        return entries

    def refusal(self, name: str) -> UsageError:
        """Return the error that says to which plug-in of this package, which is not there, a name belongs."""
        plugin = self.missing[name]
        return UsageError(
            f"the {self.noun} {name!r} is not installed",
            why=f"it belongs to the plug-in {plugin!r}, and this installation has no folder buran/plugins/{plugin}",
            hint="install Buran with all its plug-ins: pip install --force-reinstall --no-deps buran",
        )

    @property
    def missing(self) -> dict[str, str]:
        """Names that belong to plug-ins of this package that are not there, with these plug-ins."""
        plugins = {entry.name: _plugin_of(entry) for entry in _installed(self.group, tuple(sys.path))}
        return {name: plugin for name, plugin in plugins.items() if plugin is not None and _is_missing(plugin)}

    @cached_property
    def members(self) -> frozenset[str]:
        """Names of the public members of the protocol."""
        bases = [base for base in self.protocol.__mro__ if base not in (object, Protocol, Generic)]
        names = {name for base in bases for name in (*inspect.get_annotations(base), *vars(base))}
        return frozenset(name for name in names if not name.startswith("_"))

    def __hash__(self) -> int:
        return hash(self.group)


@lru_cache(maxsize=256)
def _load(extension_point: ExtensionPoint[Any], entry: EntryPoint) -> Any:
    try:
        loaded = entry.load()
    except Exception as error:  # whatever its import does
        why = f"{type(error).__name__}: {error}"
        raise _error(extension_point, entry, f"importing {entry.value} fails with {why}") from error
    if isinstance(loaded, type):
        raise _error(extension_point, entry, f"{entry.value} is a class, and an object is needed")
    problems = [f"it has no {name}" for name in sorted(extension_point.members) if not _has(loaded, name)]
    if not problems and "name" in extension_point.members and loaded.name != entry.name:
        problems = [f"it calls itself {loaded.name!r}"]
    if problems:
        raise _error(extension_point, entry, f"{entry.value}: {'; '.join(problems)}")
    return loaded


def _has(loaded: object, name: str) -> bool:
    """Tell whether an object has a member, without computing it."""
    return inspect.getattr_static(loaded, name, _MISSING) is not _MISSING


def _origin(entry: EntryPoint) -> str:
    brought_by = f"distribution {entry.dist.name} {entry.dist.version}" if entry.dist else "buran itself"
    return f"{brought_by}, {entry.name} = {entry.value}"


def _error(extension_point: ExtensionPoint[Any], entry: EntryPoint, why: str, hint: str = "") -> PluginError:
    mend = f"correct it, or uninstall it: pip uninstall {entry.dist.name}" if entry.dist else ""
    return PluginError(
        f"the {extension_point.noun} {entry.name!r} cannot be used",
        where=f"{_origin(entry)} (entry point group {extension_point.group})",
        why=why,
        hint=hint or mend,
    )
