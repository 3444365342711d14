"""`python -m serving.client`."""

import sys

from convnlp.serving.client.command_line import main

sys.exit(main())
