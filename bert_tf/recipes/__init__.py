"""What `bert-tf pretrain`, `finetune` and `squad` do, from flags to report."""
