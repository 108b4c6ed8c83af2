"""`python -m bert_tf.commands` is `bert-tf`, where the console script is not on the path."""

import sys

from bert_tf.commands import main

sys.exit(main())
