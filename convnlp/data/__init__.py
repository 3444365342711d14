from convnlp.data.errors import SourceError as SourceError
from convnlp.data.errors import source_error_message as source_error_message
from convnlp.data.labels import Label as Label
from convnlp.data.labels import MultiLabel as MultiLabel
from convnlp.data.labels import Number as Number
from convnlp.data.source import Shard as Shard
from convnlp.data.source import Source as Source
