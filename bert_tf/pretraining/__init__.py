"""What pre-training alone needs: documents as pairs in record shards, their statistics, the export that fills masks."""
