"""Completion at the Tab key: each shell is run and asked; a shell that is not installed is passed over."""

import shutil
import subprocess

import pytest

from bert_tf.cli import main

BASH = """
source completion.bash
words=(bert-tf {words} "{typed}")
COMP_WORDS=("${{words[@]}}") COMP_CWORD=$((${{#words[@]}} - 1)) COMP_LINE="${{words[*]}}" COMP_POINT=${{#COMP_LINE}}
$(complete -p bert-tf | sed 's/.*-F \\([^ ]*\\).*/\\1/') bert-tf "{typed}"
echo "${{COMPREPLY[*]}}"
"""
FISH = """
source bert-tf.fish
for line in $argv
    complete -C $line | string split -f 1 \\t | string join ' '
end
"""
# A zsh with a terminal, which writes down what it would offer when a line and Tab are typed into it.
ZSH = r"""
zmodload zsh/zpty
zpty shell zsh -f -i
zpty -w shell 'fpath=($PWD $fpath); autoload -Uz compinit; compinit -u -D; bindkey "^I" complete-word
compadd() {
  if [[ ${@[(I)-[OAD]*]} -gt 0 ]] { builtin compadd "$@"; return }
  local -a found; builtin compadd -A found "$@"; offered+=($found); builtin compadd "$@"
}
ended() { print -r -- ${(u)offered} >> answers; offered=(); comppostfuncs=(ended) }; comppostfuncs=(ended); : > answers'
while [[ ! -e answers ]] sleep .05
for line in "$@"; do
  known=$(wc -l < answers)
  zpty -w -n shell $'\x15'"$line"$'\t'
  repeat 400 { (( $(wc -l < answers) > known )) && break; sleep .05 }
done
cat answers
zpty -d shell
"""
LINES = {
    "bert-tf e": "evaluate export extract",
    "bert-tf convert --fo": "--format",
    "bert-tf convert a b --format ": "google_tf huggingface keras_hub native litert onnx openvino",
    "bert-tf convert a b --format=o": "onnx openvino",
    "bert-tf report runs ru": "runs",
    "bert-tf squad --precision=b": "bfloat16",
    "bert-tf predict runs --file ru": "rules.txt runs",
}


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "runs").mkdir()
    (tmp_path / "rules.txt").touch()
    return tmp_path


def asked(folder, capsys, shell, file, command):
    """What a shell prints that runs a command in the folder, in which its completion lies in a file."""
    if not shutil.which(shell):
        pytest.skip(f"{shell} is not installed")
    assert main.main(["completion", shell]) == 0
    (folder / file).write_text(capsys.readouterr().out)
    done = subprocess.run([shell, *command], capture_output=True, text=True, cwd=folder, check=False, timeout=60)
    assert done.stderr == ""
    return done.stdout


@pytest.mark.parametrize(
    ("words", "typed", "expected"),
    [
        ("", "e", "evaluate export extract"),
        ("convert a b", "--form", "--format"),
        ("convert a b --format", "", "google_tf huggingface keras_hub native litert onnx openvino"),
        ("convert a b --format", "=", "google_tf huggingface keras_hub native litert onnx openvino"),  # as it parts it
        ("convert a b --quantize = int8 --format =", "o", "onnx openvino"),
        ("export", "ru", "runs"),
        ("pretrain", "--masking", "--masking_mix"),
        ("squad --keep_best =", "", "true false"),
        ("finetune --init_checkpoint =", "ru", "runs"),
    ],
)
def test_bash_completes_commands_flags_choices_and_folders(words, typed, expected, folder, capsys):
    output = asked(folder, capsys, "bash", "completion.bash", ["-c", BASH.format(words=words, typed=typed)])
    assert output.split() == expected.split()


def test_fish_completes_commands_flags_choices_and_paths(folder, capsys):
    output = asked(folder, capsys, "fish", "bert-tf.fish", ["--no-config", "-c", FISH, *LINES]).splitlines()
    plain = [line.replace("--format=", "").replace("runs/", "runs") for line in output]
    assert dict(zip(LINES, plain, strict=True)) == LINES


def test_zsh_completes_commands_flags_choices_and_paths(folder, capsys):
    output = asked(folder, capsys, "zsh", "_bert-tf", ["-f", "-c", ZSH, "zsh", *LINES]).splitlines()
    assert dict(zip(LINES, output, strict=True)) == LINES
