"""`python -m serving.client`."""

import sys

from serving.client.command_line import main

sys.exit(main())
