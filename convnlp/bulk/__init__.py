"""What `convnlp.batch_predict` is made of. Only `engine` and `pipeline` need Apache Beam."""
