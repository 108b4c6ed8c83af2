"""`bert-tf push` against a server on this machine that answers as the hub does."""

import base64
import http.server
import json
import re
import threading

import pytest
from tiny_checkpoints import tiny_checkpoint

from bert_tf.checkpoints import formats
from bert_tf.cli import main
