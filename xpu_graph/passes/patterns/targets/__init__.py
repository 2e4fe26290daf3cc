"""What the package brings for each target: a module or package with ``IMPLEMENTATIONS`` each."""
