"""The process and the machine: atomic files, locks, progress, devices, TensorFlow startup. Not specific to BERT."""
