import numpy as np
import pytest
from keras import ops

from convnlp.layers.token_pooling import TextPooling
from convnlp.models import Seq2SeqBackbone

torch = pytest.importorskip("torch", reason="the PyTorch peers need requirements-bench.txt")

from benchmarks.peers import pytorch_models as peers  # noqa: E402
from tests.benchmarks.copied_weights import copy_backbone  # noqa: E402

SIZES = {
    "vocabulary_size": 50,
    "num_layers": 2,
    "num_decoder_layers": 1,
    "num_heads": 2,
    "hidden_dim": 16,
    "intermediate_dim": 24,
}
ENCODER_IDS = np.random.default_rng(0).integers(3, 50, [2, 11])
DECODER_IDS = np.random.default_rng(1).integers(3, 50, [2, 7])
PADDING_MASK = np.arange(11) < np.array([[11], [6]])
MIXERS = {"conv": "lightweight_conv", "attention": "self_attention"}
# float32 sums in another order; outputs are of size one.
TOLERANCE = {"rtol": 1e-4, "atol": 1e-5}


@pytest.fixture(params=MIXERS)
def pair(request):
    """Our backbone and the PyTorch model with the same weights."""
    ours = Seq2SeqBackbone(**SIZES, mixer=MIXERS[request.param], kernel_size=5, dropout=0.0)
    theirs = peers.EncoderDecoder(request.param, SIZES, kernel_size=5, max_length=16)
    for variable in ours.variables:  # no gain of 1, no offset of 0
        variable.assign(variable + 0.1 * np.random.normal(size=variable.shape))
    copy_backbone(ours, theirs)
    return ours, theirs.eval()


def test_the_encoder_decoder_equals_ours(pair):
    ours, theirs = pair
    expected = ours.logits(ours.decode(DECODER_IDS, ours.encode(ENCODER_IDS)))
    with torch.inference_mode():
        actual = theirs(torch.tensor(ENCODER_IDS), torch.tensor(DECODER_IDS))
    np.testing.assert_allclose(actual, expected, **TOLERANCE)


def test_the_encoder_leaves_out_pads_as_ours_does(pair):
    ours, theirs = pair
    expected = ours.encode(ENCODER_IDS, padding_mask=PADDING_MASK)
    with torch.inference_mode():
        actual = theirs.encoder(torch.tensor(ENCODER_IDS), torch.tensor(PADDING_MASK)).numpy()
    np.testing.assert_allclose(actual[PADDING_MASK], expected.numpy()[PADDING_MASK], **TOLERANCE)
    unmasked = ours.encode(ENCODER_IDS).numpy()
    assert np.abs(actual - unmasked)[PADDING_MASK].max() > 1e-2


def test_the_parameters_are_as_many_as_ours(pair):
    ours, theirs = pair
    positions = [
        stack.positions.weight.numel() for stack in (theirs.encoder, theirs.decoder) if stack.positions
    ]
    biases = [variable.shape[0] * variable.shape[1] for variable in ours.variables if "bias" in variable.path]
    counted = sum(parameter.numel() for parameter in theirs.parameters())
    assert counted - sum(positions) == ours.count_params() - sum(biases)


def test_nn_transformer_encoder_has_our_parameters_but_for_biases():
    model = peers.TransformerEncoder(SIZES, max_length=16)
    encoder = Seq2SeqBackbone(**{**SIZES, "num_decoder_layers": 0}, mixer="self_attention")
    width, layers = SIZES["hidden_dim"], SIZES["num_layers"]
    biases = layers * (3 * width + width + SIZES["intermediate_dim"] + width)
    tables = layers * 32 * SIZES["num_heads"]
    counted = sum(parameter.numel() for parameter in model.parameters())
    final_norm = 2 * width
    assert counted - 16 * width - biases == encoder.count_params() - tables - final_norm


@pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors")
@pytest.mark.parametrize("kind", ["conv", "TransformerEncoder"])
def test_pads_change_no_class(kind):
    encoder = peers.Encoder("conv", SIZES) if kind == "conv" else peers.TransformerEncoder(SIZES)
    model = peers.TextClassifier(encoder, SIZES["hidden_dim"], num_classes=3).eval()
    ids, mask = torch.tensor(ENCODER_IDS), torch.tensor(PADDING_MASK)
    with torch.inference_mode():
        whole = model(ids, mask)
        short = model(ids[1:, :6])
    np.testing.assert_allclose(whole[1:], short, **TOLERANCE)
    with torch.inference_mode():
        np.testing.assert_allclose(whole[:1], model(ids[:1]), **TOLERANCE)


def test_the_pooling_is_ours():
    encoder = peers.Encoder("conv", SIZES).eval()
    model = peers.TextClassifier(encoder, SIZES["hidden_dim"], num_classes=2)
    with torch.inference_mode():
        x = encoder(torch.tensor(ENCODER_IDS), torch.tensor(PADDING_MASK))
        actual = model(torch.tensor(ENCODER_IDS), torch.tensor(PADDING_MASK))
        pooled = TextPooling()(x.numpy(), PADDING_MASK)
        expected = model.head(torch.tensor(ops.convert_to_numpy(ops.concatenate(pooled, 1))))
    np.testing.assert_allclose(actual, expected, **TOLERANCE)


def test_training_lowers_the_loss():
    torch.manual_seed(0)
    step = peers.training_step(peers.EncoderDecoder("conv", SIZES), learning_rate=1e-2)
    batch = {
        "encoder_token_ids": torch.tensor(ENCODER_IDS),
        "decoder_token_ids": torch.tensor(DECODER_IDS),
        "target_token_ids": torch.tensor(DECODER_IDS),
    }
    losses = [step(batch) for _ in range(10)]
    assert losses[-1] < losses[0] / 2
