"""Law 3: which texts of held out cases are secret."""

from burnish.core.cases import Case, Dataset, LeakWatch

SENTENCE = "The transfer will arrive within three working days."
LABEL = "balance_not_updated_after_transfer"


def asked(number: int, answer: str) -> Case:
    return Case.single(f"Letter {number} of a customer", answer, name=f"c{number}")


def test_a_sentence_is_secret_even_where_two_held_out_cases_expect_it() -> None:
    held = (asked(1, SENTENCE), asked(2, SENTENCE))
    watch = LeakWatch(Dataset(train=(asked(0, "x"),), holdout=held))
    assert watch.leaked(f"Say: {SENTENCE}") == "c2"


def test_a_label_is_no_secret_but_the_question_that_has_it_is() -> None:
    held = (asked(1, LABEL), asked(2, LABEL))
    watch = LeakWatch(Dataset(train=(asked(0, "x"),), test=held))
    assert watch.leaked(f"One of: {LABEL}") is None
    assert watch.leaked("Letter 2 of a customer") is None  # shorter than 24 characters
    long = Case.single("Letter 3 of a customer of the bank", LABEL, name="c3")
    watch = LeakWatch(Dataset(train=(asked(0, "x"),), test=(*held, long)))
    assert watch.leaked(f"{long.input}: {LABEL}") == "c3"


def test_one_word_of_a_single_case_is_secret() -> None:
    watch = LeakWatch(Dataset(train=(asked(0, "x"),), holdout=(asked(1, LABEL),)))
    assert watch.leaked(f"One of: {LABEL}") == "c1"
