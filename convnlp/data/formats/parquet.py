"""Parquet, as pandas, Spark and the Hugging Face hub write it."""

from convnlp.data.formats import tables


class Parquet(tables.Table):
    """Rows of a Parquet file; only the requested columns are read."""

    def records(self, file, fields):
        # With one thread, the order and the memory of a run do not depend on the machine.
        with tables.reading(file.path) as arrow, file.opened() as stored:
            table = arrow.parquet.ParquetFile(stored, pre_buffer=False)
            names = tables.columns(file.path, table.schema_arrow, fields)
            batches = table.iter_batches(tables.BATCH_ROWS, columns=names, use_threads=False)
            total = max(table.metadata.num_rows, 1)
            for record in tables.rows(file.path, batches, names):
                file.progress = record.line / total
                yield record
