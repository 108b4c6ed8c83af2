"""The process and the machine: atomic files, locks, progress, devices, how TensorFlow starts. Knows nothing of BERT."""
