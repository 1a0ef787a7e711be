"""Generated prompts and responses."""
