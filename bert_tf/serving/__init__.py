"""An HTTP server for exports that speaks TensorFlow Serving's REST interface; see docs/serving.md.

values: JSON to tensors and back; served: a loaded export; versions: newer ones while the server runs; batcher: requests
of many clients in one batch; large_requests: the order of those that need several; text_size: how many tokens they
have; body: receiving a request; app: routes, limits, metrics; openapi: their description; run_results: what the run of
an export says of it; access: hosts, token, log; connection: how long a client may take and how large its header may be;
page: what a browser is shown.
"""
