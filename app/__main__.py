"""``python -m app`` is the same as ``hornbook``."""

import sys

from app.cli import main

sys.exit(main())
