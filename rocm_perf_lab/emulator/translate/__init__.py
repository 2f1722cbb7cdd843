"""Translation of machine code to LLVM IR, one basic block at a time."""
