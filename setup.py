"""Metadata of the package; the settings of the tools are in pyproject.toml."""

from setuptools import find_packages, setup

TEST = ["pytest>=8", "pytest-xdist>=3", "numpy", "expecttest", "safetensors", "transformers>=5"]

setup(
    name="xpu_graph",
    version="0.1.0",
    description="A pluggable graph compiler for PyTorch",
    long_description=open("README.md", encoding="utf-8").read(),
    long_description_content_type="text/markdown",
    license="Apache-2.0",
    python_requires=">=3.11,<3.12",
    packages=find_packages(include=["xpu_graph", "xpu_graph.*"]),
    package_data={"xpu_graph": ["py.typed", "passes/README.md"]},
    install_requires=["torch>=2.13,<2.14"],
    extras_require={
        "npu": ["torch_npu>=2.13,<2.14", "protobuf>=3.20,<4"],
        "examples": ["numpy", "transformers>=5"],
        "test": TEST,
        "dev": [*TEST, "ruff", "mypy"],
    },
    entry_points={
        "torch_dynamo_backends": ["xpu_graph = xpu_graph.backend:xpu_graph_backend"],
    },
)
