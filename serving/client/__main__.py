"""`convnlp ask`."""

import sys

from convnlp.serving.client.command_line import main

sys.exit(main())
