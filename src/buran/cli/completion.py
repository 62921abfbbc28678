"""``buran completion``: what makes a shell complete verbs, options and campaign files."""

from __future__ import annotations

import argparse
import importlib.util

from buran.errors import Exit, ToolError

HELP = "print a script that completes verbs, options and campaign files in a shell"
SHELLS = ("bash", "zsh", "fish", "tcsh")

_EPILOG = """\
bash:  buran completion bash > ~/.local/share/bash-completion/completions/buran
zsh:   buran completion zsh > DIR/_buran  (DIR is in $fpath before compinit)
fish:  buran completion fish > ~/.config/fish/completions/buran.fish
tcsh:  buran completion tcsh > ~/.buran.tcsh, and in ~/.tcshrc: source ~/.buran.tcsh
"""
# Functions that `buran.cli.arguments` names.
_PREAMBLE = {
    "bash": """\
_buran_campaign_files() {
  compgen -d -- "$1"
  compgen -f -X '!*.yaml' -- "$1"
  compgen -f -X '!*.yml' -- "$1"
}
_buran_profile_dirs() {
  compgen -W "$PROFILES" -- "$1"
  compgen -d -- "$1"
}
""",
    "zsh": """\
_buran_profile_dirs() {
  compadd $PROFILES
  _files -/
}
""",
    "fish": """\
function _buran_campaign_files
  __fish_complete_path (commandline -ct) | string match -r '.*(?:/|\\.ya?ml)(?:\\t.*)?$'
end
function _buran_profile_dirs
  printf '%s\\n' $PROFILES
  __fish_complete_directories (commandline -ct)
end
""",
    "tcsh": "",
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.epilog = _EPILOG
    parser.add_argument("shell", choices=SHELLS, help="shell to write it for")


def run(arguments: argparse.Namespace) -> int:
    """Print the script.

    Raises
    ------
    ToolError
        shtab, which writes it, is not installed.
    """
    from buran.assets import folder
    from buran.cli import command_parser

    if importlib.util.find_spec("shtab") is None:
        raise ToolError(
            "completions cannot be written", why="shtab is not installed", hint="pip install 'buran[completion]'"
        )
    import shtab

    profiles = " ".join(sorted(path.parent.name for path in folder("profiles").glob("*/config.yaml")))
    preamble = _PREAMBLE[arguments.shell].replace("$PROFILES", profiles)
    print(shtab.complete(command_parser(), shell=arguments.shell, preamble=preamble))
    return int(Exit.DONE)
