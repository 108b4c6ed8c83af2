"""An HTTP server for exports that speaks TensorFlow Serving's REST interface; see docs/serving.md.

values: JSON to tensors and back; served: a loaded export; versions: hot reload of newer versions; batcher: one batch
for many clients' requests; large_requests: the queue of requests larger than a batch; body:
reading a request; app: routes, limits, metrics; openapi: their description; run_results: scores and examples from the
export's run; access: hosts, token, log; connection: client timeouts and header size limits; page: the web page.
"""
