"""Types of the options of `bert_tf.fine_tune` and `bert_tf.pretrain`, for editors and type checkers.

Each option is a flag of `bert-tf finetune` or `bert-tf pretrain`, whose help is the comment. This file is written from
the flags by tests/helpers/option_types.py.
"""

# ruff: noqa: E501
# fmt: off

import os
from typing import Literal, TypedDict

StrPath = str | os.PathLike[str]


class Options(TypedDict, total=False):
    """The flags that both commands have."""

    all_reduce_precision: Literal["float32", "bfloat16"]  # Precision for summing the gradients of replicas, once per step, after accumulation; bfloat16 halves the traffic and rounds each gradient to 8 bits.
    bert_config_file: StrPath  # bert_config.json. Default: the one next to init_checkpoint.
    continuous_schedule: bool  # Start the decay at the end of warm-up; false: at step 0, as in google-research/bert, so that the rate drops there.
    decay_power: float  # Power of the decay of the learning rate; 1: linear; 0.5: like NVIDIA's LAMB.
    deterministic: bool  # Use only deterministic operations, bit-identical in every run: slower; always the case on CPUs.
    device: Literal["auto", "cpu", "gpu"]  # Device to train on; auto: GPUs if there are any.
    distillation: str  # With teacher: distilbert, tinybert or minilm, or factors of losses such as soft_targets=1,task=0.5.
    distillation_temperature: float  # With teacher: divisor of the logits for soft targets.
    distribution_strategy: Literal["auto", "one_device", "mirrored", "multi_worker", "tpu"]  # tf.distribute strategy.
    do_train: bool  # Train the model.
    eval_batch_size: int  # Rows per batch in evaluation and prediction.
    export_attention: bool  # Add signatures to the export that return attention weights and attributions; see docs/serving.md.
    export_engines: str  # Engines to export models for too, comma-separated: openvino, onnx; none; auto: the first installed one of these that can run the model; see docs/serving.md.
    gpu_memory_growth: bool  # Allocate GPU memory on demand; false: nearly all of it at the start.
    gpu_memory_limit: int  # MiB of each part of a GPU, with num_logical_devices.
    gradient_checkpointing: bool  # Recompute layers in the backward pass instead of storing their activations; less memory, same result.
    init_checkpoint: StrPath  # Checkpoint to start from, in any format, or a run folder. Default: from scratch.
    iterations_per_loop: int | Literal["auto"]  # Training steps per call of the device; auto: 1 on CPUs, 8 on GPUs and TPUs. Same result.
    jit_compile: Literal["auto", "true", "false"]  # Compile forward and backward pass with XLA; auto: on GPUs.
    layer_map: str  # With num_hidden_layers or teacher: its layer for each layer of the model, such as 2,4,6; default: every n-th.
    learning_rate: float  # Peak learning rate.
    max_seq_length: int  # Tokens per row, including [CLS] and [SEP].
    num_accumulation_steps: int | Literal["auto"]  # Micro-batches per step (gradient accumulation); less memory, same result. auto: twice as many whenever memory runs out.
    num_hidden_layers: int  # Layers to take from init_checkpoint, fewer than it has: every n-th, or those of layer_map. 0: all.
    num_logical_devices: int  # Split the CPU, or each GPU, into N logical devices, to test data parallelism.
    packed_rows: int  # Under XLA: rows of max_seq_length per micro-batch, with several texts packed into a row; a micro-batch that does not fit is padded. 0: one text per row. Without XLA the number of rows is dynamic.
    parity: Literal["", "google", "fixed"]  # Set every flag of docs/parity.md that you omit: to the quirks of google-research/bert, or to their fixes.
    precision: Literal["auto", "float32", "tf32", "bfloat16", "float16"]  # Compute precision; auto: bfloat16 if the hardware supports it; tf32: float32 with TF32 products on GPUs.
    random_seed: int  # Random seed.
    segments: Literal["", "one", "two"]  # Segments of the texts of a pair: one for both, or two. Default: as in init_checkpoint.
    special_tokens_in_strings: str  # Special tokens recognized in texts: all ([MASK], [SEP], ... and those that init_checkpoint adds), none, or the five and these: [E1],[/E1]. Default: as in init_checkpoint, else none, as in google-research/bert.
    teacher: StrPath  # Trained model to imitate: a run folder or any checkpoint; see docs/distillation.md.
    tpu_name: str  # Name or address of the TPU.
    train_batch_size: int  # Rows per training step, over all replicas and micro-batches.
    trust_code: bool  # Import modules from outside this package named in files, such as the encoder of a bert_config.json.
    use_one_hot_embeddings: Literal["auto", "true", "false"]  # Look up token embeddings by a matrix product; auto: on TPUs.
    vocab_size: int  # Size of a vocabulary learned from the training texts.
    warmup_proportion: float  # Fraction of the training steps used for warm-up.
    weight_decay: float  # Weight decay; not applied to LayerNorm and biases.
    xla_cache: StrPath  # Folder where XLA stores compiled GPU code to speed up later starts; auto: bert_tf/xla in the user's cache folder; none: nothing is stored.


class FineTuneOptions(Options, total=False):
    """The flags of `bert-tf finetune`."""

    bad_rows: Literal["skip", "stop"]  # Rows of a table without text or label, or with too many or too few fields.
    baseline: bool  # Before training, score baselines on the same data: the most frequent class, and linear models on TF-IDF and on the embeddings of the encoder before training.
    class_weights: str  # Class weights in the loss: none; balanced, by inverse frequency; numbers in the order of the labels, 1,3; or for some labels, yes=3.
    criterion: str  # Metric that selects the best weights and the best run, such as macro_f1, or a function of your own: my_lab.scores:kappa. Default: the task's first metric.
    data_dir: StrPath  # Folder with the task's files.
    do_eval: bool  # Evaluate on the development set.
    do_export: bool  # Export a SavedModel that takes strings.
    do_lower_case: bool  # Lower-case and strip accents. Default: as in init_checkpoint.
    do_predict: bool  # Write predictions.
    doc_stride: int  # Tokens from the start of a window to the start of the next; 0: half of max_seq_length.
    document_context: bool  # Tagging: fill rows with the sentences of the document around each sentence.
    dropout_prob: float  # Dropout of hidden states and attention weights when training from scratch.
    early_stop_patience: int  # Stop after N evaluations without improvement; 0: never.
    ema_decay: float  # Decay of the moving average of the weights, such as 0.999, which is evaluated, kept and exported in their place; 0: the weights themselves.
    encoder: Literal["", "albert", "bert", "bilstm_on_top", "camembert", "deberta_v2", "distilbert", "electra", "lstm", "modern_bert", "mpnet", "nomic_bert", "pre_ln_bert", "roberta", "static", "xlm_roberta", "xlnet"] | str  # Encoder; see bert_tf/families. Default: as in init_checkpoint, else bert.
    eval_file: StrPath  # Labeled evaluation data: a table or a tagged file. Default: dev.* in data_dir.
    eval_fraction: float  # Fraction of the training table held out for evaluation if there is no evaluation table.
    eval_steps: int  # Steps between evaluations; 0: at every checkpoint and at the end of every epoch.
    eval_text_columns: str  # With --task_name=simcse: the two columns of texts in eval_file, for label_column.
    feature_cache: StrPath  # With feature_layers: folder to cache the vectors in. Default: a folder in output_dir.
    feature_layers: Literal["", "embeddings", "second_to_last", "last", "weighted_sum_last_four", "concat_last_four", "weighted_sum_all"]  # Tagging: train a BiLSTM on these vectors of the frozen encoder.
    fgm_epsilon: float  # Adversarial training (FGM): also train on embeddings perturbed by this norm towards a larger loss, such as 1; twice the time. 0: off.
    focal_gamma: float  # Exponent of the focal loss, such as 2: correct examples count less; 0: cross entropy.
    fold: int  # With folds: train only the run evaluated on this part, from 1.
    folds: int  # Cross-validation: split the training table into N parts, train N runs, each evaluated on one part, report mean and standard deviation, and train the final model on all rows; for tables of up to a few hundred rows.
    freeze: Literal["none", "embeddings", "encoder"]  # Weights to freeze: the embeddings, or the encoder without its pooler.
    group_by_length: bool  # Batch training texts of similar length, so that there is less padding.
    head_learning_rate: float | Literal["auto", "same"]  # Peak learning rate of the head; same: learning_rate; auto: at least 1e-3 for tags and answers if the checkpoint has no such head and there are fewer than 10,000 examples, else learning_rate.
    id_column: str  # Table column with the ids for predictions. Default: row numbers.
    join_labels: bool  # Merge classes of a table that differ only in case or spaces into the most common one, if it has at least twice as many rows as the others.
    keep_best: bool  # Keep the weights with the best evaluation score instead of the last ones. Default: if there is a development set.
    label_separator: str  # Separator between labels in one cell (tables with --label_type=multi_label).
    label_smoothing: float  # Share of the target spread over all labels, such as 0.1; for classes and labels.
    label_threshold: str  # Probability above which a label is predicted (--label_type=multi_label); best: per label, the threshold with the best F1 on the development set.
    label_type: Literal["classes", "multi_label", "regression", "choice", "relevance", "relevance_score"] | str  # Type of a table's labels: one of several classes, any number of labels per text, a number, which choice is right, or for rerankers how well a text answers a query, from 0 to 1 or as any score.
    labels: str  # Comma-separated labels of a table or tags, in order. Default: those of the training data.
    largest_score: float  # With similarity_loss=cosine: the score of texts that mean the same, 5 in STS-B; scores are divided by it.
    layerwise_learning_rate_decay: float  # Learning rate of a layer relative to the layer above, such as 0.9; the head uses the full rate.
    learning_rate_grid: str  # Learning rates to try, such as 5e-5,4e-5,3e-5,2e-5; replaces learning_rate.
    list_size: int  # With ranking_loss: consecutive rows of the table with the same query, the best text first.
    long_texts: Literal["cut", "windows"]  # Texts longer than max_seq_length: truncate, or read whole in overlapping windows.
    lora_alpha: float  # With lora_rank: the output of adapters is multiplied by this and divided by the rank.
    lora_rank: int  # Train adapters of this rank instead of the encoder (LoRA), such as 8; exports contain them. 0: none.
    lora_targets: str  # With lora_rank: modules to adapt: query, key, value, project_out, expand, contract.
    lstm_size: int  # With feature_layers: output size of each BiLSTM layer, both directions together.
    matryoshka_dims: str  # Sentence vectors: dimensions, such as 384,128,64, that vectors can be truncated to afterwards; the loss is summed over them. Default: only the full size.
    max_windows: int  # Maximum number of windows per text; the rest is not read.
    model_size: Literal["tiny", "mini", "small", "medium", "base", "large"]  # Model size when training from scratch.
    normalize_labels: bool  # Lower-case the labels of a table and collapse their spaces.
    normalize_vectors: Literal["", "true", "false"]  # Sentence vectors of length 1. Default: as in init_checkpoint, else true.
    num_frozen_layers: int  # Freeze the embeddings and the first N layers; 0: none.
    num_seeds: int  # Number of runs, with random_seed and the seeds after it; reports mean and standard deviation.
    num_train_epochs: float  # Number of passes over the training data.
    num_train_epochs_grid: str  # Numbers of epochs to try, such as 2,3,4; replaces num_train_epochs.
    optimizer: Literal["auto", "adamw", "adamw_corrected", "lamb", "muon"] | str  # adamw: as in google-research/bert, without bias correction; adamw_corrected: with it; lamb: for large batches; muon: LAMB with orthogonal updates; auto: adamw_corrected below 10,000 training examples, else adamw.
    pooling: Literal["", "cls", "mean", "max", "mean_sqrt_len", "weighted_mean", "last"]  # How token embeddings are pooled into a text embedding; for labels cls, through the pooler, or mean. Default: as in init_checkpoint, else cls for labels and mean for sentence embeddings.
    pos_weight: str  # Weights of positive labels in the loss (--label_type=multi_label): balanced, negative texts per positive one of each label; a number; numbers in the order of the labels; or for some labels, urgent=3.
    position_digits: bool  # Tagging: strip the digit that ends every word, as in Weibo NER.
    predict_file: StrPath  # Data to predict, with or without labels. Default: test.* in data_dir.
    ranking_loss: Literal["", "listwise", "margin_mse"]  # Loss of rerankers (--label_type=relevance and relevance_score) that compares the texts of a query: listwise, or margin_mse. Default: each pair independently.
    refit: bool  # Then train again on all rows, including those held out, for the best number of epochs; the reported scores are from the first model. Default: true for a table of fewer than 1,000 rows without an evaluation table.
    save_checkpoints_steps: int  # Steps between checkpoints.
    similarity_loss: Literal["cosent", "cosine"]  # Loss of --task_name=sts.
    similarity_scale: float  # Sentence vectors: factor of cosines in losses that compare examples.
    start: Literal["encoder", "best", "frozen", "contrastive"]  # frozen: only fit a linear head to the embeddings of the unchanged encoder, which takes seconds; best: start from that, train both, and keep the start if training does not beat it on the development set; contrastive: for few labels, pull the embeddings of each class together, then fit such a head (SetFit); encoder: train encoder and head.
    stratify: bool  # Stratify the held-out rows by label.
    tag_column: int  # Tagging: column with the tag; -1: the last.
    tag_head: Literal["linear", "crf"]  # Tagging: label each word independently, or the words of a sentence as a chain (CRF).
    tag_scheme: Literal["auto", "iob1", "iob2", "bioes", "plain"]  # Tagging: scheme of the tags; plain: each tag stands for itself.
    task_name: str  # Task: MRPC or another GLUE task, swag, xnli/de, table, ner/conll2003, pairs, or my_package.module/name.
    temperature: str  # Divide logits by this temperature in predictions and export; best: fitted on the development set (classes, labels, choices and questions).
    tfds_dir: StrPath  # Folder of tensorflow-datasets. Default: ~/tensorflow_datasets.
    tfds_name: str  # Dataset of tensorflow-datasets as a table, such as ag_news_subset; its features are the columns.
    train_batch_size_grid: str  # Batch sizes to try, such as 16,32; replaces train_batch_size.
    truncation: Literal["longest_first", "only_first", "only_second"]  # Pairs longer than max_seq_length: which text is truncated.
    unfreeze_epochs: float  # Train only the head and the pooler at first, and one more layer from the top after every N epochs, which may be a fraction; 0: all layers from the start.
    use_tfds: bool  # Load GLUE from tensorflow-datasets instead of data_dir; downloads missing data.
    vocab_file: StrPath  # vocab.txt. Default: the one next to init_checkpoint.
    window_pooling: Literal["mean", "max"]  # How to combine the pooled windows of a text.
    word_column: int  # Tagging: column with the word; -1: the last.
    write_examples: StrPath  # Folder to write the rows of all splits into as TFRecords, which train_file may name later.


class PretrainOptions(Options, total=False):
    """The flags of `bert-tf pretrain`."""

    budget_minutes: float  # Minutes of training instead of num_train_steps; warm-up and decay are shares of the time; 0: num_train_steps.
    chinese_word_segmentation: bool  # With do_whole_word_mask: mask the characters of a Chinese word together, with words found by jieba.
    compress_records: bool  # Write records as .tfrecord.gz: half the disk space, slower.
    do_eval: bool  # Evaluate on held-out data.
    do_export: bool  # Export a SavedModel that fills masks in strings.
    do_lower_case: bool  # Lower-case and strip accents (uncased model).
    do_whole_word_mask: bool  # Mask all tokens of a word together.
    dropout_prob: float  # Dropout of hidden states and attention weights; ignored if a configuration file is given.
    dupe_factor: int  # Passes over the text, each with different sentence pairs; 1 by default for rows without pairs.
    encoder: Literal["", "albert", "bert", "bilstm_on_top", "camembert", "deberta_v2", "distilbert", "electra", "lstm", "modern_bert", "mpnet", "nomic_bert", "pre_ln_bert", "roberta", "static", "xlm_roberta", "xlnet"] | str  # bert or another supported encoder, or lstm: two language models as in ELMo; default: as in init_checkpoint, else bert.
    eval_file: StrPath  # Held-out text for evaluation, in the form of input_file. Default: 5% of the documents of input_file.
    input_streams: int | Literal["auto"]  # Streams that batches are made of, each with its own shards: this many hosts can read without reading all; auto: one for 16 shards, up to 64. Runs with a different number have different batches.
    keep_checkpoint_max: int  # Number of newest checkpoints to keep; 0: all.
    keep_pairs: bool  # Keep rows of two segments when next_sentence_weight is 0.
    language: str  # Language for sentence splitting, such as en, de, zh.
    left_to_right: bool  # Predict each token from the preceding ones (causal LM, as in GPT) instead of masked tokens.
    masked_lm_epsilon: float  # Added to the number of predicted tokens that the masked-LM loss is divided by; the original's.
    masked_lm_prob: float  # Fraction of tokens to mask.
    masking_mix: str  # Percentages of masked tokens shown as [MASK], left unchanged, replaced by a random token.
    max_eval_steps: int  # Maximum number of batches per evaluation.
    max_predictions_per_seq: int  # Maximum number of masked tokens per row.
    max_span_words: int  # Above 1: mask spans of whole words, up to this many (SpanBERT: 10).
    model_size: Literal["auto", "tiny", "mini", "small", "medium", "base", "large"]  # Model size when training from scratch; auto: tiny to base, by the amount of text.
    next_sentence_weight: float  # Weight of the next-sentence loss; 0: masked LM only, on rows of one segment.
    num_train_steps: int | Literal["auto"]  # Number of training steps; auto: about 40 passes over the text, like BERT, at most 100,000.
    num_warmup_steps: int  # Number of warm-up steps. Default: warmup_proportion of the steps.
    num_workers: int  # Number of processes that write records; the records do not depend on it. 0: one for each core, or none but this one if there is little text.
    optimizer: Literal["adamw", "adamw_corrected", "lamb", "muon"] | str  # adamw: as in google-research/bert, without bias correction; adamw_corrected: with it; lamb: for large batches; muon: LAMB with orthogonal updates of hidden matrices, for few steps.
    prepare_only: bool  # Write vocabulary and records, then stop.
    recipe: Literal["", "lamb_large_batch", "google", "budget"]  # Defaults of several flags; flags on the command line override them; lamb_large_batch: LAMB with batches of 64k and 32k rows in two phases; budget: for an hour on a few cores.
    recipe_scale: float  # Factor of the batches of the recipe; its learning rates change with the square root.
    records_dir: StrPath  # Folder for the records, which several runs may share, or of records that google-research/bert or NVIDIA's scripts masked. Default: a folder in output_dir.
    replaced_tokens: bool  # Train a generator to fill masks, and the model to find the tokens that it replaced, as electra always and DeBERTa-v3 (encoder=deberta_v2).
    save_checkpoints_steps: int  # Steps between checkpoints; each is followed by an evaluation.
    short_seq_per_document: bool  # Draw the shorter target length once per document, as in google-research/bert, not for each row.
    short_seq_prob: float  # Fraction of rows with a shorter target length.
    static_masking: bool  # Use the same mask for a row in every epoch, as in google-research/bert.
    text_field: str  # Field of .jsonl files, or column of .parquet files, with the text.
    text_layout: Literal["auto", "sentences", "paragraphs", "lines", "wrapped", "files", "wikipedia"]  # Layout of .txt files: one sentence per line, one paragraph per line, one document per line, hard-wrapped lines, one document per file, or wikiextractor's articles.
    token_dropping: float  # Share of the tokens of each row that the middle layers do not see in training, such as 0.5, for up to a quarter less work; masked tokens are kept. It needs three layers or more.
    train_biases: bool  # false: the encoder's dense layers have no biases (they stay 0, or as in init_checkpoint).
    vocab_file: StrPath  # vocab.txt; if neither it nor init_checkpoint is given, a vocabulary is learned from the text.
