"""Compares answer extraction by token offsets with the original's alignment heuristic.

    python benchmarks/squad_parity.py --vocab_file=vocab.txt --file=dev-v1.1.json [--file=MORE] [--cased]

Takes the tokens that overlap the first reference answer of each question, as a perfect model would, and extracts them
from the context: by their offsets, as run_squad.py does, and by google-research/bert's `get_final_text`, as with
--word_alignment. Prints for each file the number of different answers, exact match and F1 of both by SQuAD 1.1's
scores, and three answers that differ.
"""

import argparse
import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--file", action="append", required=True)
    parser.add_argument("--vocab_file", required=True)
    parser.add_argument("--cased", action="store_true")
    options = parser.parse_args()
    from bert_tf.runtime.tensorflow_startup import start_tensorflow

    start_tensorflow()
    from bert_tf.tasks.question_answering import questions, squad_scores
    from bert_tf.text import vocabulary
    from bert_tf.text.tokenizer import Tokenizer

    tokenizer = Tokenizer(vocabulary.read(options.vocab_file), lower_case=not options.cased)
    print("| file | questions | differ | exact match, ours / original | F1, ours / original |\n|---|--:|--:|--:|--:|")
    examples = []
    for path in options.file:
        answered = [question for question in questions.read(path) if question.answers]
        ours, theirs = answers_of(answered, tokenizer)
        different = [question for question in answered if ours[question.id] != theirs[question.id]]
        scores = [squad_scores.evaluate(answered, answers) for answers in (ours, theirs)]
        exact, f1 = (" / ".join(f"{score[name]:.2f}" for score in scores) for name in ("exact_match", "f1"))
        print(f"| {pathlib.Path(path).name} | {len(answered):,} | {len(different):,} | {exact} | {f1} |", flush=True)
        for question in different[:: -(-len(different) // 3) or 1]:
            examples.append((question.answers[0][0], ours[question.id], theirs[question.id]))
    for label, our_text, their_text in examples:
        print(f"  {label!r}: ours {our_text!r}, the original's {their_text!r}")


def answers_of(answered, tokenizer):
    """({id: ours}, {id: the original's}) for the labelled tokens of each question's first answer."""
    from bert_tf.tasks.question_answering import original_alignment
    from bert_tf.tasks.question_answering.question_splits import QuestionSplit
    from bert_tf.tasks.question_answering.question_windows import QuestionWindows

    split, ours, theirs = QuestionSplit(answered, tokenizer, QuestionWindows()), {}, {}
    ids, starts, ends = (split.tokens[name].values.numpy() for name in ("contexts", "starts", "ends"))
    begins = split.tokens["contexts"].row_starts().numpy()[split.context_numbers]
    for question, begin, first, last in zip(answered, begins, split.first_tokens, split.last_tokens, strict=True):
        ours[question.id] = theirs[question.id] = ""
        if first <= last:
            span = int(starts[begin + first]), int(ends[begin + last])
            ours[question.id] = question.context[slice(*span)]
            words = tokenizer.detokenize([ids[begin + first : begin + last + 1].tolist()])[0].split()
            theirs[question.id] = original_alignment.original_answer(
                question.context, *span, words, lower_case=tokenizer.lower_case
            )
    return ours, theirs


if __name__ == "__main__":
    main()
