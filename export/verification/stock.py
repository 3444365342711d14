"""The operations that TensorFlow Serving's stock server has: TensorFlow's own and those of tensorflow_text.

model_servers/BUILD of TensorFlow Serving links `@org_tensorflow_text//tensorflow_text:ops_lib` (2.20.0). The
operations that TensorFlow itself registers come from its C library, which contains no Python
(`convnlp.export.verification.c_api`).
"""

_TEXT = """
CaseFoldUTF8 ConstrainedSequence FastBertNormalize FastWordpieceTokenizeWithOffsets FindSourceOffsets
MaxSpanningTree NormalizeUTF8 NormalizeUTF8WithOffsetsMap PhraseTokenize RegexSplitWithOffsets RougeL
SentenceFragments SentenceFragmentsV2 SentencepieceDetokenizeOp SentencepieceIdToStringOp SentencepieceOp
SentencepieceStringToIdOp SentencepieceTokenizeOp SentencepieceTokenizeWithOffsetsOp SentencepieceVocabSizeOp
SplitMergeTokenizeWithOffsets TFText>BoiseTagsToOffsets TFText>ByteSplitByOffsets TFText>ByteSplitWithOffsets
TFText>FastSentencepieceDetokenize TFText>FastSentencepieceTokenize TFText>FastWordpieceDetokenize
TFText>NgramsStringJoin TFText>OffsetsToBoiseTags TFText>PhraseDetokenize TFText>RoundRobinGenerateMasks
TFText>RoundRobinTrim TFText>Utf8Binarize TFText>WhitespaceTokenizeWithOffsetsV2 TokenizerFromLogits
UnicodeScriptTokenizeWithOffsets WhitespaceTokenizeWithOffsets WordpieceTokenizeWithOffsets
"""
TEXT_OPS = frozenset(_TEXT.split())
# Registered everywhere, but they call Python, or a compiler that the server is built without.
UNSERVABLE_OPS = frozenset(["EagerPyFunc", "PyFunc", "PyFuncStateless", "XlaLaunch", "XlaLaunchV2"])


def uses_text_ops(graph):
    """Whether a `Graph` needs tensorflow_text."""
    return bool(graph.op_names() & TEXT_OPS)


def violations(graph, core_ops):
    """Returns what the stock server cannot run in a `Graph`, one line per reason.

    Args:
        graph: `convnlp.export.verification.graph.Graph`.
        core_ops: set of str. The operations of TensorFlow itself.
    """
    found = []
    if unservable := sorted(graph.op_names() & UNSERVABLE_OPS):
        found.append(f"operations that need Python or a compiler: {', '.join(unservable)}")
    if unknown := sorted(graph.op_names() - core_ops - TEXT_OPS):
        found.append(f"operations that the stock server does not have: {', '.join(unknown)}")
    if graph.must_be_compiled():
        found.append("functions that XLA must compile (jit_compile=True), which the stock server cannot do")
    return found
