"""AMD's instruction pseudo-code: parser and compiler to LLVM IR."""
