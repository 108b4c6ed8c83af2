"""`python -m bert_tf` is `bert-tf`, where the console script is not on the path."""

import sys

from bert_tf.cli.main import main

sys.exit(main())
