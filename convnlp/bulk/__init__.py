"""What `convnlp.batch_predict` is made of. Only `pipeline` needs Apache Beam."""
