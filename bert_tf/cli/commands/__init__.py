"""The sub-commands of `bert-tf`, one file each, with `add_arguments(parser)` and `run(arguments)`."""
