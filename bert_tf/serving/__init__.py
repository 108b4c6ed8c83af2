"""An HTTP server for exports that speaks TensorFlow Serving's REST interface; see docs/serving.md.

values: JSON to tensors and back; served: a loaded export; batcher: requests of many clients in one batch; app: routes,
limits, metrics; connection: how long a client may take; page: what a browser is shown.
"""
