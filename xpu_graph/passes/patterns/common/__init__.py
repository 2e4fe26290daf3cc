"""Patterns that serve every target, each in a file of its own."""
