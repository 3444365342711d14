"""What `convnlp.prepare_corpus` is made of: which documents stay in a corpus. Only `pipeline` needs Beam."""
