"""The commands of `bert-tf`, one module each: a docstring, shown by --help, and either of two forms.

Most have `add_arguments(parser)` and `run(arguments)`, for argparse. A recipe has the dataclass `Flags` and `main()`.
A command from outside the package is called by the dotted name of its module: `bert-tf my_lab.my_command`.
"""
