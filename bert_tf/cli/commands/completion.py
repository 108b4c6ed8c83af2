"""Prints what makes a shell complete commands, flags, their choices, files and folders at the Tab key.

eval "$(bert-tf completion bash)"                                          in ~/.bashrc
bert-tf completion zsh > ~/.zfunc/_bert-tf                                 with ~/.zfunc in fpath
bert-tf completion fish > ~/.config/fish/completions/bert-tf.fish
"""

import argparse
import re

SHELLS = ("bash", "fish", "zsh")
FOLDERS = frozenset("model source target folder runs export exports init_checkpoint feature_cache ensemble".split())
FILES = frozenset(("file", "output", "extend"))
# bash hands over --flag=value as three words; what shtab writes for it understands --flag value alone
BASH_EQUALS = """
_bert_tf() {
  local index words=() place=$COMP_CWORD
  for index in "${!COMP_WORDS[@]}"; do
    if [[ ${COMP_WORDS[index]} != "=" ]]; then
      words+=("${COMP_WORDS[index]}")
    elif (( index == COMP_CWORD )); then
      words+=("")
    elif (( index < COMP_CWORD )); then
      place=$((place - 1))
    fi
  done
  local COMP_WORDS=("${words[@]}") COMP_CWORD=$place
  _shtab_bert_tf "$@"
}
complete -o bashdefault -F _bert_tf bert-tf
"""
ZSH_FLAG = re.compile(r'^(\s*"\*?--\w+)(\[.*\]:)', re.MULTILINE)  # of a flag with a value
ZSH_SEVERAL = re.compile(r'^(\s*")\(\*\):', re.MULTILINE)  # for one or more: zsh takes it for one


def add_arguments(parser):
    parser.add_argument("shell", choices=SHELLS, metavar="SHELL", help=", ".join(SHELLS))


def run(arguments):
    import shtab

    from bert_tf.cli import main

    whole = main.parser()
    (subparsers,) = [action for action in whole._actions if isinstance(action, argparse._SubParsersAction)]
    for command in subparsers.choices.values():
        command.description = command.description.splitlines()[0]  # a shell shows it beside the name
        for action in command._actions:
            if action.dest in FOLDERS or action.dest.endswith("_dir"):
                action.complete = shtab.DIRECTORY
            elif action.dest in FILES or action.dest.endswith("_file"):
                action.complete = shtab.FILE
    script = shtab.complete(whole, shell=arguments.shell)
    if arguments.shell == "bash":
        script += BASH_EQUALS
    elif arguments.shell == "zsh":
        script = ZSH_SEVERAL.sub(r"\1*:", ZSH_FLAG.sub(r"\1=\2", script))
    print(script)
