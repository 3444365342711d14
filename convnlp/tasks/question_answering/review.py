"""What the report of a run shows about a model that answers questions."""

import collections

from convnlp.tasks.review import Mistakes, Review, Table

NUM_MISTAKES = 20
MIN_OF_WORD = 5  # questions with a word, for the word to get a row of its own
OTHERS = "(others)"
QUESTION_WORDS = ("what", "who", "whom", "whose", "which", "when", "where", "why", "how")


def review(questions, wanted, found, exact, f1):
    """Shows the scores by question word, and the surest mistakes.

    Args:
        questions: list of n str.
        wanted: list of n lists of str, the acceptable answers.
        found: list of n dicts, the model's answers: "answer" and "score".
        exact: list of n numbers, whether each answer is an acceptable one.
        f1: list of n floats.

    Returns:
        `Review`.
    """
    groups = collections.defaultdict(list)
    for number, question in enumerate(questions):
        groups[_word(question)].append(number)
    small = [word for word, numbers in groups.items() if len(numbers) < MIN_OF_WORD and word != OTHERS]
    for word in small:
        groups[OTHERS] += groups.pop(word)
    rows = [
        [word, len(numbers), *(sum(scores[i] for i in numbers) / len(numbers) for scores in (exact, f1))]
        for word, numbers in groups.items()
    ]
    rows.sort(key=lambda row: -row[1])
    columns = ("asks", "questions", "exact match", "F1")
    note = "By the first of its words that asks. Both scores are SQuAD's."
    wrong = sorted((i for i in range(len(questions)) if f1[i] == 0), key=lambda i: -found[i]["score"])
    mistakes = [
        {
            "text": questions[i],
            "wanted": " | ".join(dict.fromkeys(wanted[i])),
            "found": found[i]["answer"],
            "probability": found[i]["score"],
            "words": None,
        }
        for i in wrong[:NUM_MISTAKES]
    ]
    return Review(
        [
            Table("By the kind of question", columns, rows, note),
            Mistakes("The surest mistakes", mistakes, "Answers without a word in common with a right one."),
        ]
    )


def _word(question):
    words = "".join(c if c.isalnum() else " " for c in question.lower()).split()
    return next((word for word in words if word in QUESTION_WORDS), OTHERS)
