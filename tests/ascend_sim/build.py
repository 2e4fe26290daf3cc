"""Builds the simulated CANN with g++, on demand, and keeps it by what it was built from.

One library holds all code; every other name that the vendor's wheels ask for is an empty library
that needs it. A name that is asked for and not simulated gets a weak default: it returns success
where that says nothing, and fails with its name where it would have produced data.
"""

from __future__ import annotations

import concurrent.futures
import fcntl
import hashlib
import importlib.metadata
import importlib.util
import os
import pathlib
import re
import shutil
import subprocess
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
MAIN = "libascendcl.so"
DEFAULTS = "defaults.cpp"
EMPTY = (
    "libhccl.so",
    "libacl_op_compiler.so",
    "libge_runner.so",
    "libgraph.so",
    "libacl_tdt_channel.so",
    "libfmk_parser.so",
    "libascend_protobuf.so",
    "libnnopbase.so",
    "libopapi.so",
    "libascend_dump.so",
)
"""Libraries that only pass on the names of the main one."""

SAYS_NOTHING = re.compile(
    r"Msprof|aclprof|aclProfiling|aclrtPeekAtLastError|aclrtGetLastError|aclrtSetStreamFailureMode|"
    r"aclSetCompileopt|aclrtSetOp\w*Time|aclrtSetDeviceSatMode|HcclSetConfig|aclmdl\w*Dump|aclAppLog|"
    r"aclopSt\w+DumpArgs|aclrtSetStreamAttribute|aclrtSetStreamOverflowSwitch|"
    r"aclrtDeviceEnablePeerAccess|aclrtSubscribeReport|aclrtUnSubscribeReport|aclrtProcessReport|"
    r"acl_\w+|rtFunctionRegister|rtDevBinaryRegister"
)
"""Functions that give no data and whose success promises nothing."""


def build() -> pathlib.Path:
    """Build what is missing.

    Returns:
        The directory of the libraries.

    Raises:
        RuntimeError: a tool or a package is missing, or g++ failed; says which.
    """
    reason = why_not()
    if reason is not None:
        raise RuntimeError(reason)
    root = pathlib.Path(os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache")
    root /= "xpu_graph_ascend_sim"
    identity = _identity()
    target = root / identity
    if (target / MAIN).exists():
        return target
    root.mkdir(parents=True, exist_ok=True)
    with (root / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        while not (target / MAIN).exists():
            with tempfile.TemporaryDirectory(dir=root) as directory:
                made = pathlib.Path(directory, "libraries")
                made.mkdir()
                _build(made, root / "objects")
                target = root / _identity()  # another one, if a source was edited meanwhile
                if target.name == identity:
                    made.rename(target)
                identity = target.name
    return target


def missing() -> list[str]:
    """The names that the vendor's libraries ask for at load and that only fail when called."""
    text = (build() / DEFAULTS).read_text()
    return re.findall(r'sim_unknown(?:_cpp)?\("(\w+)"\)', text)


def why_not() -> str | None:
    """What is missing to build, in one sentence."""
    if shutil.which("g++") is None:
        return "the simulated CANN is built with g++, which is not installed here"
    for package in ("torch", "torch_npu"):
        if importlib.util.find_spec(package) is None:
            return f"the simulated CANN is for {package}, which is not installed here"
    return None


def _packages() -> tuple[pathlib.Path, pathlib.Path]:
    places = []
    for name in ("torch", "torch_npu"):
        spec = importlib.util.find_spec(name)
        assert spec is not None
        assert spec.origin is not None
        places.append(pathlib.Path(spec.origin).parent)
    return places[0], places[1]


def _sources() -> list[pathlib.Path]:
    """The files to compile; ASCEND_SIM_ONLY narrows them while one is being written."""
    patterns = os.environ.get("ASCEND_SIM_ONLY", "*.cpp").split(",")
    return sorted({path for pattern in patterns for path in HERE.glob(pattern)})


def _identity() -> str:
    digest = hashlib.sha256()
    for path in [HERE / "build.py", *_sources(), *sorted(HERE.glob("*.h"))]:
        digest.update(path.name.encode() + path.read_bytes())
    versions = "-".join(importlib.metadata.version(name) for name in ("torch", "torch_npu"))
    return f"{versions}-{digest.hexdigest()[:16]}"


def _build(made: pathlib.Path, objects: pathlib.Path) -> None:
    objects.mkdir(exist_ok=True)
    with concurrent.futures.ThreadPoolExecutor(max_workers=2) as pool:
        parts = list(pool.map(lambda path: _compile(path, objects), _sources()))
    defaults = made / DEFAULTS
    defaults.write_text(_defaults(parts))
    parts.append(_compile(defaults, objects))
    torch_root, _ = _packages()
    library = torch_root / "lib"
    link = ["g++", "-shared", "-o"]
    places = [f"-L{library}", f"-Wl,-rpath,{library}", "-ltorch_cpu", "-lc10"]
    whole = ["-Wl,-z,defs", f"-Wl,-soname,{MAIN}", *map(str, parts), *places]
    _run([*link, str(made / MAIN), *whole])
    nothing = made / "nothing.cpp"
    nothing.write_text("")
    passing_on = ["-Wl,--no-as-needed", f"-L{made}", "-lascendcl", "-Wl,-rpath,$ORIGIN"]
    for name in EMPTY:
        _run([*link, str(made / name), f"-Wl,-soname,{name}", str(nothing), *passing_on])


def _compile(path: pathlib.Path, objects: pathlib.Path) -> pathlib.Path:
    """Compile one file; the object is kept by the content of the file and of its headers."""
    torch_root, _ = _packages()
    abi = 0 if path.stem.endswith("_oldabi") else 1
    flags = ["-std=c++20", "-O1", "-fPIC", f"-D_GLIBCXX_USE_CXX11_ABI={abi}"]
    digest = hashlib.sha256(repr([flags, importlib.metadata.version("torch")]).encode())
    for source in [path, *_headers(path, set())]:
        digest.update(source.read_bytes())
    target = objects / f"{path.stem}-{digest.hexdigest()[:16]}.o"
    if not target.exists():
        fresh = target.with_suffix(f".{os.getpid()}")
        include = torch_root / "include"
        places = [f"-I{HERE}", f"-I{include}", f"-I{include}/torch/csrc/api/include"]
        _run(["g++", *flags, *places, "-c", str(path), "-o", str(fresh)])
        fresh.rename(target)
    return target


def _headers(path: pathlib.Path, known: set[pathlib.Path]) -> list[pathlib.Path]:
    """The headers of this directory that a file includes, and those that they include."""
    for name in re.findall(r'^#include "([^"]+)"', path.read_text(), re.MULTILINE):
        header = HERE / name
        if header.exists() and header not in known:
            known.add(header)
            _headers(header, known)
    return sorted(known)


def _run(command: list[str]) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(command)} failed:\n{done.stderr[-6000:]}")


# --- weak defaults ----------------------------------------------------------------------------


def _defaults(parts: list[pathlib.Path]) -> str:
    """C++ text that defines, weakly, every name that is asked for and not simulated."""
    torch_root, npu_root = _packages()
    binaries = [*npu_root.glob("lib/*.so"), *npu_root.glob("_C*.so")]
    binaries += npu_root.glob("dynamo/torchair/core/*.so")
    wanted = {name for path in binaries for name in _symbols(path, "--undefined-only")}
    wanted |= _looked_up(npu_root / "lib" / "libtorch_npu.so")
    providers = [*torch_root.glob("lib/*.so*"), *binaries]
    known = {name for path in providers for name in _symbols(path, "--defined-only")}
    for part in parts:
        known |= _symbols(part, "--defined-only", dynamic=False)
    lines = [
        'extern "C" int sim_unknown(const char* name);',
        'extern "C" void sim_unknown_cpp(const char* name);',
    ]
    for name in sorted(wanted - known):
        if re.match(r"(acl|Hccl|Msprof|rt[A-Z])", name) and not name.startswith("aclnn"):
            body = "return 0;" if SAYS_NOTHING.match(name) else f'return sim_unknown("{name}");'
            lines.append(f'extern "C" __attribute__((weak)) int {name}() {{ {body} }}')
        elif re.match(r"_ZNK?2ge|_ZN4gert|_ZNK?4gert", name):
            lines.append(
                f'extern "C" __attribute__((weak)) void sim_{name}() __asm__("{name}");\n'
                f'extern "C" void sim_{name}() {{ sim_unknown_cpp("{name}"); }}'
            )
    return "\n".join(lines) + "\n"


def _symbols(path: pathlib.Path, which: str, dynamic: bool = True) -> set[str]:
    command = ["nm", *(["-D"] if dynamic else []), which, str(path)]
    output = subprocess.run(command, capture_output=True, text=True, check=False).stdout
    return {line.split()[-1].partition("@")[0] for line in output.splitlines() if line.split()}


def _looked_up(path: pathlib.Path) -> set[str]:
    """Names that a library asks the loader for while it runs; they are among its strings."""
    name = rb"\0((?:acl|Hccl|Msprof|rt[A-Z])[A-Za-z0-9_]{3,60})(?=\0)"
    found = re.findall(name, path.read_bytes())
    return {name.decode() for name in found}
