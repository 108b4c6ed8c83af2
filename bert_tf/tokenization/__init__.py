"""What turns characters into pieces exactly as the original does; `bert_tf.text.Tokenizer` is what others use."""
