"""What compilers see of a source file: its words, without comments and blanks."""

from __future__ import annotations

from pathlib import Path

from buran.measurement.languages import FIXED_FORM, is_c_like, is_fortran, suffix


def words(path: Path) -> str | None:
    """Return a source file without its comments, blanks as one each; None for a language that is not known here.

    What a compiler reads in comments stays: directives of Fortran, such as those of OpenMP. Where line numbers or dates
    get into a program (``assert``), two files with the same words may make programs that differ in these alone.
    """
    from pygments.lexers.c_cpp import CppLexer
    from pygments.lexers.fortran import FortranFixedLexer, FortranLexer
    from pygments.token import Comment

    if not is_fortran(path) and not is_c_like(path):
        return None
    lexer = CppLexer if is_c_like(path) else FortranFixedLexer if suffix(path) in FIXED_FORM else FortranLexer
    out, blank = [""], ""
    for kind, text in lexer(stripnl=False).get_tokens(path.read_text(errors="surrogateescape", encoding="utf-8")):
        word, end = text, ""
        if kind in Comment:  # directives and the preprocessor's lines are of this kind too, with their line ends
            word = text.rstrip()
            end = text[len(word) :]
            is_directive = is_fortran(path) and text[1:5].lower().startswith(("$", "dir$", "dec$", "gcc$"))
            if kind not in (Comment.Preproc, Comment.PreprocFile) and not is_directive:
                word, end = "", end or " "
        elif text.isspace():
            word, end = "", text
        if word:
            out += [blank if out[-1] else "", word]
            blank = ""
        if end:
            blank = "\n" if "\n" in end + blank else " "
    return "".join(out)
