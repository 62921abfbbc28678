"""Commands with ``{placeholders}``, and with ``{=expressions}`` where these are allowed."""

from __future__ import annotations

import re
import shlex
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from buran.campaign.mistakes import TextError, did_you_mean, listed

_BRACES = re.compile(r"\{\{|\}\}|\{([^{}]*)\}|[{}]")
_OPERATOR = re.compile(r"[0-9]*[<>]|[|;&]")
_ASSIGNMENT = re.compile(r"[A-Za-z_][A-Za-z0-9_]*=")


class TemplateError(TextError):
    """A command that is not well formed, or uses a placeholder that does not exist."""


@dataclass(frozen=True)
class Template:
    """A parsed text with placeholders.

    Attributes
    ----------
    text
        As written.
    literals
        What stands around the placeholders; one more than `names`.
    names
        The placeholders, in order; an expression with its ``=``.
    """

    text: str
    literals: tuple[str, ...]
    names: tuple[str, ...]

    def fill(self, values: Mapping[str, str]) -> str:
        """Put values into the placeholders, as they are."""
        out = [self.literals[0]]
        for name, literal in zip(self.names, self.literals[1:], strict=True):
            out += [values[name], literal]
        return "".join(out)

    def fill_shell(self, values: Mapping[str, str]) -> str:
        """Put values into a shell command, quoted for the place where each one stands; the shell splits flags."""
        out, quote = [self.literals[0]], _quote_after(self.literals[0], "")
        for name, literal in zip(self.names, self.literals[1:], strict=True):
            value = values[name]
            if quote == "'":
                value = value.replace("'", "'\"'\"'")
            elif quote == '"':
                value = re.sub(r'([\\$`"])', r"\\\1", value)
            elif name != "flags":
                value = shlex.quote(value)
            out += [value, literal]
            quote = _quote_after(literal, quote)
        return "".join(out)


def _quote_after(literal: str, quote: str) -> str:
    """Return the quote character that is open after a piece of shell text, or an empty text."""
    escaped = False
    for character in literal:
        if escaped:
            escaped = False
        elif character == "\\" and quote != "'":
            escaped = True
        elif character == quote:
            quote = ""
        elif not quote and character in "'\"":
            quote = character
    return quote


def parse_template(text: str, allowed: Collection[str], *, expressions: bool = False) -> Template:
    """Split a text at its placeholders; ``{{`` and ``}}`` stand for braces.

    Parameters
    ----------
    expressions
        Whether an expression may stand in braces, behind ``=``; it is not looked at here.

    Raises
    ------
    TemplateError
        If a brace stands alone or a placeholder is unknown.
    """
    literals, names, begin = [""], [], 0
    for match in _BRACES.finditer(text):
        literals[-1] += text[begin : match.start()]
        begin = match.end()
        brace, name = match.group(), match.group(1)
        if brace in ("{{", "}}"):
            literals[-1] += brace[0]
        elif name is None:
            raise TemplateError(f"a single {brace!r} in {text!r}", f"write {brace * 2!r} for a brace")
        elif expressions and name.startswith("="):
            names.append(name)
            literals.append("")
        elif name.strip() not in allowed:
            what = f"unknown placeholder {{{name}}}; known are: {listed(f'{{{one}}}' for one in allowed)}"
            hint = did_you_mean(name.strip(), allowed) or f"for braces that are meant as such, write {{{{{name}}}}}"
            raise TemplateError(what, hint)
        else:
            names.append(name.strip())
            literals.append("")
    literals[-1] += text[begin:]
    return Template(text, tuple(literals), tuple(names))


def parse_words(text: str, allowed: Collection[str], *, expressions: bool = False) -> tuple[Template, ...]:
    """Split a command into words as a shell would, then each word at its placeholders.

    The command is not run by a shell: values that are put in stay inside their word.

    Raises
    ------
    TemplateError
        If a placeholder or a quote is wrong, or the command counts on a shell.
    """
    parse_template(text, allowed, expressions=expressions)  # before splitting, so that errors show the whole command
    numbered, fields = _without_fields(text)
    lexer = shlex.shlex(numbered, posix=False, punctuation_chars=False)
    lexer.whitespace_split, lexer.commenters = True, ""
    try:
        raw, words = list(lexer), shlex.split(numbered)
    except ValueError as error:
        raise TemplateError(f"{text!r} cannot be split into words: {error}") from None
    for word in raw:
        if _OPERATOR.match(word):
            hint = "the command is not run by a shell; if it needs one, write: bash -c '...'"
            raise TemplateError(
                f"{_with_fields(word, fields)!r} in {text!r} would reach the program as an argument", hint
            )
    if words and _ASSIGNMENT.match(words[0]):
        first = _with_fields(words[0], fields)
        hint = f"write `env {first} ...`, or set it under environments"
        raise TemplateError(f"{first!r} in {text!r} is not a program", hint)
    return tuple(parse_template(_with_fields(word, fields), allowed, expressions=expressions) for word in words)


def _without_fields(text: str) -> tuple[str, list[str]]:
    """Put numbers into the placeholders: spaces of an expression must not split words; return what was there too."""
    fields: list[str] = []

    def number(match: re.Match[str]) -> str:
        if match[1] is None:
            return match[0]
        fields.append(match[1])
        return f"{{{len(fields) - 1}}}"

    return _BRACES.sub(number, text), fields


def _with_fields(word: str, fields: Sequence[str]) -> str:
    return _BRACES.sub(lambda match: match[0] if match[1] is None else f"{{{fields[int(match[1])]}}}", word)
