"""What data sets share beside their kind: where they are downloaded, how they are generated, batches made ahead."""
