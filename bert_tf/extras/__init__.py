"""Optional features around BERT that training, fine-tuning, inference and export do not need.

No module outside imports it: docs/architecture.md lists the registries and entry points that find it.
"""
