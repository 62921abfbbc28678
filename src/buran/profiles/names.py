"""Names of functions as people write them, whichever measurement system and compiler spelled them.

Score-P's GCC plugin shows ``double ns::f(int)`` where the linker symbol demangles to ``ns::f(int)``; templates have a
return type under both. A pattern of a user may be any spelling: the signature, the qualified or the bare name, with or
without the arguments of templates, or the linker symbol.
"""

from __future__ import annotations

import re
from functools import lru_cache

_ANONYMOUS = "(anonymous namespace)"
_OPERATOR = re.compile(r"(?<![\w$])operator(?![\w$])")
_OPERATOR_SYMBOL = re.compile(r"operator\s*(\(\)|\[\]|->\*?|<=>|<<=?|>>=?|<=?|>=?)")
_BINDINGS = re.compile(r" \[with .*\]$")  # GCC's values of template parameters
_AFTER_ARGUMENTS = re.compile(r"\)(?: const| volatile| &&?| noexcept)*$")
_MODULES = re.compile(r"__(\w+?)(?:_SMOD_|_MOD_)(\w+)|(\w+?)_mp_(\w+?)_?|_QM(\w+?)P(\w+)")
"""Linker symbols of a Fortran module's procedures: GCC's, Intel's, and those of LLVM's flang."""
_EXTERNAL = re.compile(r"(?!_Z)(\w+)_")


@lru_cache(maxsize=65536)
def shown_name(name: str, mangled: str) -> str:
    """Return the one name of a function in tables and reports: without its return type; of C, the symbol alone.

    Parameters
    ----------
    name, mangled
        As a measurement system recorded them; the symbol may be empty.
    """
    if "(" not in name:
        return name
    if mangled and not mangled.startswith("_Z"):
        bare = without_arguments(without_return_type(name))
        return mangled if bare == mangled else name
    return without_return_type(name.replace("{anonymous}", _ANONYMOUS))


def without_return_type(name: str) -> str:
    """Return a C++ signature from its qualified name on: the last blank outside of brackets ends the return type."""
    start = depth = at = 0
    while at < len(name):
        if name.startswith(_ANONYMOUS, at):
            at += len(_ANONYMOUS)
            continue
        char = name[at]
        if depth == 0 and char == "o" and _OPERATOR.match(name, at):
            break
        if depth == 0 and char == "(" and not name.endswith(("decltype", "decltype "), 0, at):
            break
        depth += (char in "<([{") - (char in ">)]}")
        if char == " " and depth == 0:
            start = at + 1
        at += 1
    return name[start:].lstrip("*& ") if at < len(name) else name


def without_arguments(name: str) -> str:
    """Return the name of a C++ function without the types of its arguments."""
    end = _AFTER_ARGUMENTS.search(name)
    if end is None:
        return name
    depth = 0
    for at in range(end.start(), -1, -1):
        depth += (name[at] == ")") - (name[at] == "(")
        if depth == 0:
            return name[:at] or name
    return name


def without_templates(name: str) -> str:
    """Return a name without the arguments of templates; operators such as ``<`` stay."""
    kept, depth, at = [], 0, 0
    while at < len(name):
        operator = _OPERATOR_SYMBOL.match(name, at) if depth == 0 else None
        if operator:
            kept.append(operator[0])
            at = operator.end()
            continue
        char = name[at]
        depth += char == "<"
        if depth == 0:
            kept.append(char)
        depth -= char == ">" and depth > 0
        at += 1
    return "".join(kept) if depth == 0 and kept else name


def plain_name(name: str) -> str:
    """Return a function's name as people say it: qualified, without return type, arguments, and those of templates."""
    return without_templates(without_arguments(without_return_type(_BINDINGS.sub("", name))))


def _unqualified(name: str) -> str:
    """Return the last part of a qualified name."""
    depth, start = 0, 0
    operator = _OPERATOR.search(name)
    for at in range(operator.start() if operator else len(name)):
        depth += (name[at] in "<({") - (name[at] in ">)}")
        if depth == 0 and name.startswith("::", at):
            start = at + 2
    return name[start:]


@lru_cache(maxsize=65536)
def spellings(name: str, mangled: str = "") -> tuple[str, ...]:
    """Return what a user may call a function: from its full signature down to its bare name, and its linker symbol."""
    signature = without_return_type(_BINDINGS.sub("", name).replace("{anonymous}", _ANONYMOUS))
    qualified = without_arguments(signature)
    plain = without_templates(qualified)
    found = [name, signature, qualified, plain, _unqualified(plain)]
    if of_module := _MODULES.fullmatch(mangled):
        module, inside = filter(None, of_module.groups())
        found += [f"{module}::{inside}", inside]
    elif external := _EXTERNAL.fullmatch(mangled):
        found.append(external[1])
    return tuple(dict.fromkeys(unspaced(each) for each in (*found, mangled or name) if each))


def unspaced(text: str) -> str:
    """Return a name without the blanks that are a matter of taste: around commas, brackets, and before ``*``, ``&``."""
    return re.sub(r"\s*([,<>()*&])\s*", r"\1", text)
