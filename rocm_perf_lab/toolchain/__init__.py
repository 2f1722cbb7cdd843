"""Compilers, code objects, disassembly, line tables, syntax trees and sandbox."""
