# bert-tf serve without TensorFlow, for exports that `bert-tf export --engine=onnx` wrote: `docker build -t bert-tf .`, then
# `docker run --rm -p 127.0.0.1:8501:8501 -v $PWD/runs/classifier:/model:ro bert-tf`. See docs/serving.md.
FROM python:3.13-slim AS build
RUN python -m venv /opt/bert_tf
WORKDIR /source
COPY pyproject.toml README.md LICENSE requirements-serve.txt ./
COPY bert_tf bert_tf
RUN /opt/bert_tf/bin/pip install --no-cache-dir -r requirements-serve.txt \
    && /opt/bert_tf/bin/pip install --no-cache-dir --no-deps .

FROM python:3.13-slim
RUN useradd --uid 10001 --no-create-home --shell /usr/sbin/nologin bert_tf
COPY --from=build /opt/bert_tf /opt/bert_tf
ENV PATH=/opt/bert_tf/bin:$PATH PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1
USER 10001
EXPOSE 8501
HEALTHCHECK --interval=10s --timeout=5s --start-period=60s --retries=3 \
    CMD ["python", "-c", "import urllib.request; urllib.request.urlopen('http://127.0.0.1:8501/readyz', timeout=4)"]
ENTRYPOINT ["bert-tf", "serve", "--host=0.0.0.0", "--port=8501"]
CMD ["model=/model", "--access_log", "--log_format=json"]
