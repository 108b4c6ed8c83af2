"""Prints a shell completion script for commands, flags, their values, files and folders.

bash: eval "$(bert-tf completion bash)" in ~/.bashrc
zsh:  bert-tf completion zsh > ~/.zfunc/_bert-tf, with ~/.zfunc in fpath
fish: bert-tf completion fish > ~/.config/fish/completions/bert-tf.fish
"""

import argparse
import re

from bert_tf.cli import main
from bert_tf.runtime.lazy import module

shtab = module("shtab")
SHELLS = ("bash", "fish", "zsh")
# Destinations of arguments that take a folder or a file, in addition to those that end in _dir or _file.
FOLDERS = {"model", "source", "target", "folder", "runs", "export", "exports", "init_checkpoint", "feature_cache"}
FILES = {"file", "output", "extend"}
# bash passes --flag=value as three words; shtab's script handles only --flag value.
BASH_EQUALS = """
_bert_tf() {
  local index words=() cword=$COMP_CWORD
  for index in "${!COMP_WORDS[@]}"; do
    if [[ ${COMP_WORDS[index]} != "=" ]]; then
      words+=("${COMP_WORDS[index]}")
    elif (( index == COMP_CWORD )); then
      words+=("")
    elif (( index < COMP_CWORD )); then
      cword=$((cword - 1))
    fi
  done
  local COMP_WORDS=("${words[@]}") COMP_CWORD=$cword
  _shtab_bert_tf "$@"
}
complete -o bashdefault -F _bert_tf bert-tf
"""
ZSH_FLAG = re.compile(r'^(\s*"\*?--\w+)(\[.*\]:)', re.MULTILINE)  # a flag that takes a value
ZSH_REPEATED = re.compile(r'^(\s*")\(\*\):', re.MULTILINE)  # nargs="+", written by shtab as a single argument


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("shell", choices=SHELLS, metavar="SHELL", help=", ".join(SHELLS))


def run(arguments: argparse.Namespace) -> None:
    parser = main.parser()
    (subparsers,) = [action for action in parser._actions if isinstance(action, argparse._SubParsersAction)]
    for command in subparsers.choices.values():
        command.description = command.description.partition("\n")[0]  # shells show it next to the name
        for action in command._actions:
            if action.dest in FOLDERS or action.dest.endswith("_dir"):
                action.complete = shtab.DIRECTORY
            elif action.dest in FILES or action.dest.endswith("_file"):
                action.complete = shtab.FILE
    script = shtab.complete(parser, shell=arguments.shell)
    if arguments.shell == "bash":
        script += BASH_EQUALS
    elif arguments.shell == "zsh":
        script = ZSH_REPEATED.sub(r"\1*:", ZSH_FLAG.sub(r"\1=\2", script))
    print(script)
