from convnlp.data.errors import SourceError, source_error_message
from convnlp.data.schema import Label
