"""Identifies the language of a document by py3langid, whose package includes its model.

Source: Lui and Baldwin, 2012, "langid.py: An Off-the-shelf Language Identification Tool",
https://aclanthology.org/P12-3005: naive Bayes over byte n-grams. It names one of its languages for any text,
and is often wrong for texts of a few words.
"""

SAMPLE_CHARACTERS = 4000  # read from a document; more would not change the answer


def identifier():
    """Returns a function of a text, a string -> the code of its language, such as "en".

    Raises:
        ValueError: if py3langid is not installed.
    """
    py3langid = _library()
    return lambda text: str(py3langid.classify(text[:SAMPLE_CHARACTERS])[0])


def check(names):
    """Raises ValueError if py3langid is not installed, or does not know one of the languages."""
    known = {str(label) for label, _ in _library().rank("")}
    for name in names:
        if name not in known:
            raise ValueError(
                f"`languages` must be codes that py3langid knows, such as en or de. Received: {name!r}"
            )


def _library():
    try:
        import py3langid
    except ImportError as error:
        raise ValueError(
            "`languages` needs py3langid: pip install -r requirements-beam.txt, in a separate environment"
        ) from error
    return py3langid
