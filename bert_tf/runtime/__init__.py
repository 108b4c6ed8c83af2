"""The process and the machine: files written whole, locks, progress, how TensorFlow starts. Knows nothing of BERT."""
