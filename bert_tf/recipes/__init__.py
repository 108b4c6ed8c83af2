"""Implementation of `bert-tf pretrain`, `finetune` and `squad`, from flags to report."""
