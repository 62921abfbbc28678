"""What compilers see of a source file: its words, without comments and blanks."""

from __future__ import annotations

from pathlib import Path

FIXED_FORM = (".f", ".for", ".ftn", ".f77")
FREE_FORM = (".f90", ".f95", ".f03", ".f08")
C_LIKE = (".c", ".cc", ".cpp", ".cxx", ".h", ".hh", ".hpp", ".hxx", ".inl", ".ipp", ".tcc")


def words(path: Path) -> str | None:
    """Return a source file without its comments, blanks as one each; None for a language that is not known here.

    What a compiler reads in comments stays: directives of Fortran, such as those of OpenMP. Where line numbers or dates
    get into a program (``assert``), two files with the same words may make programs that differ in these alone.
    """
    from pygments.lexers.c_cpp import CppLexer
    from pygments.lexers.fortran import FortranFixedLexer, FortranLexer
    from pygments.token import Comment

    suffix = path.suffix.lower()
    is_fortran = suffix in FIXED_FORM + FREE_FORM
    if not is_fortran and suffix not in C_LIKE:
        return None
    lexer = CppLexer if not is_fortran else FortranFixedLexer if suffix in FIXED_FORM else FortranLexer
    out, blank = [""], ""
    for kind, text in lexer(stripnl=False).get_tokens(path.read_text(errors="surrogateescape")):
        word, end = text, ""
        if kind in Comment:  # directives and the preprocessor's lines are of this kind too, with their line ends
            word = text.rstrip()
            end = text[len(word) :]
            is_directive = is_fortran and text[1:5].lower().startswith(("$", "dir$", "dec$", "gcc$"))
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
