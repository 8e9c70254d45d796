"""Small LLM pretraining: Llama 3.1 8B on C4."""
