"""Sources of rewrites: transforms, language models and recorded answers."""
