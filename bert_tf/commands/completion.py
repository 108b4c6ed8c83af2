"""Prints what makes a shell complete commands, flags, their choices, files and folders at the Tab key.

eval "$(bert-tf completion bash)"                                          in ~/.bashrc
bert-tf completion zsh > ~/.zfunc/_bert-tf                                 with ~/.zfunc in fpath
bert-tf completion fish > ~/.config/fish/completions/bert-tf.fish
"""

import argparse

SHELLS = ("bash", "fish", "zsh")
FOLDERS = frozenset("model source target folder runs export exports output_dir".split())  # names of what takes them
FILES = frozenset("file output vocab_file input_file extend".split())


def add_arguments(parser):
    parser.add_argument("shell", choices=SHELLS, metavar="SHELL", help=", ".join(SHELLS))


def run(arguments):
    import shtab

    from bert_tf import commands

    whole = commands.parser()
    (subparsers,) = [action for action in whole._actions if isinstance(action, argparse._SubParsersAction)]
    for command in subparsers.choices.values():
        command.description = command.description.splitlines()[0]  # a shell shows it beside the name
        for action in command._actions:
            if action.dest in FOLDERS:
                action.complete = shtab.DIRECTORY
            elif action.dest in FILES:
                action.complete = shtab.FILE
    print(shtab.complete(whole, shell=arguments.shell))
