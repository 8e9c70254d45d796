"""NCF (NeuMF) on MovieLens: the recommendation benchmark of MLPerf Training v0.5."""
