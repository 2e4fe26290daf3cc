"""A second process compiles nothing: no passes, no vendor, no C++ compiler."""

import json
import os
import pathlib
import subprocess
import sys

import pytest

from xpu_graph.backends.inductor import why_not_cpp

PROGRAMS = pathlib.Path(__file__).with_name("warm_programs.py")
COMPILERS = ("g++", "gcc", "cc", "c++", "clang++", "clang", "ld")

needs_cpp = pytest.mark.skipif(why_not_cpp() is not None, reason=str(why_not_cpp()))


@pytest.fixture(scope="module")
def machine(tmp_path_factory):
    return Machine(tmp_path_factory.mktemp("machine"))


class Machine:
    """Processes that share one cache of ours."""

    def __init__(self, root):
        self.root = root
        self.calls = root / "compilers_called"
        self.fakes = root / "bin"
        self.fakes.mkdir()
        for name in COMPILERS:
            script = self.fakes / name
            script.write_text(f'#!/bin/sh\necho "$0 $@" >> "{self.calls}"\nexit 1\n')
            script.chmod(0o755)
        self._starts = 0

    def environment(self, compiler, **more):
        self._starts += 1
        environment = {
            **os.environ,  # with Inductor's cache of this test run, for those that may compile
            "XPUGRAPH_CACHE_DIR": str(self.root / "cache"),
            "PYTHONHASHSEED": str(self._starts),
            **more,
        }
        if not compiler:
            environment["TORCHINDUCTOR_CACHE_DIR"] = str(self.root / f"empty{self._starts}")
            environment["PATH"] = f"{self.fakes}:{environment['PATH']}"
        return environment

    def start(self, *programs, compiler=True, **more):
        return subprocess.Popen(
            [sys.executable, str(PROGRAMS), *programs],
            env=self.environment(compiler, **more),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def finish(self, process):
        output, errors = process.communicate(timeout=300)
        assert process.returncode == 0, errors
        return json.loads(output.splitlines()[-1])

    def run(self, *programs, **how):
        return self.finish(self.start(*programs, **how))


def check_warm(told):
    for name, facts in told.items():
        assert set(facts["cache"]) == {"hit"}, name
        assert facts["rounds"] == 0, name
        assert facts["steps"] == ["key", "load"], name


def test_without_a_vendor(machine):
    names = ["none", "none dynamic", "none frozen"]
    cold = machine.run(*names)
    assert all(facts["cache"] == ["miss"] for facts in cold.values())
    warm = machine.run(*names, compiler=False)
    check_warm(warm)
    assert [cold[name]["keys"] for name in names] == [warm[name]["keys"] for name in names]
    others = machine.run("none other constant", "none other weight")
    assert all(facts["cache"] == ["miss"] for facts in others.values())


def test_training_without_a_vendor(machine):
    """Forward and backward graphs, at fixed sizes and at sizes that change."""
    names = ["training", "training dynamic"]
    cold = machine.run(*names)
    assert all(facts["cache"] == ["miss", "miss"] for facts in cold.values())
    warm = machine.run(*names, compiler=False)
    check_warm(warm)
    assert [cold[name]["keys"] for name in names] == [warm[name]["keys"] for name in names]


@needs_cpp
def test_training_with_inductor(machine):
    names = ["training cpu", "training cpu dynamic"]
    cold = machine.run(*names)
    assert all(set(facts["cache"]) == {"miss"} for facts in cold.values())
    check_warm(machine.run(*names, compiler=False))
    assert not machine.calls.exists(), machine.calls.read_text()


@needs_cpp
def test_with_inductor(machine):
    """Inductor adds ``rows <= 4096`` while it compiles; what is for other sizes is kept beside."""
    names = ["cpu", "cpu beyond", "cpu frozen"]
    cold = machine.run(*names)
    assert [facts["cache"] for facts in cold.values()] == [["miss"], ["miss", "miss"], ["miss"]]
    warm = machine.run(*names, "cpu above", compiler=False)
    check_warm(warm)
    assert [len(facts["cache"]) for facts in warm.values()] == [1, 2, 1, 2]
    assert not machine.calls.exists(), machine.calls.read_text()


@needs_cpp
def test_two_processes_compile_one_graph_once(tmp_path):
    machine = Machine(tmp_path)
    pair = [machine.start("cpu") for _ in range(2)]
    told = [machine.finish(process)["cpu"] for process in pair]
    assert sorted(facts["cache"][0] for facts in told) == ["hit", "miss"]
    assert sum("vendor" in facts["steps"] for facts in told) == 1
