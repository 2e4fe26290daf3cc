#!/bin/sh
# Says in one sentence what this machine lacks, before anything is installed.
#
# usage: check_machine.sh PYTHON
python=$1
lacks=""
need() { lacks="${lacks:+$lacks, }$1"; }

if [ -z "$python" ] || ! command -v "$python" >/dev/null 2>&1; then
    need "Python 3.11"
elif ! "$python" -c 'import sys; sys.exit(sys.version_info[:2] != (3, 11))' 2>/dev/null; then
    need "Python 3.11 ($python is $("$python" -V 2>&1 | head -n 1))"
else
    "$python" -c 'import ensurepip, venv' 2>/dev/null || need "Python's venv module"
    "$python" -c '
import pathlib, sys, sysconfig
sys.exit(not pathlib.Path(sysconfig.get_paths()["include"], "Python.h").is_file())' ||
        need "Python's header files (python3-dev)"
fi
for tool in g++ git; do
    command -v "$tool" >/dev/null 2>&1 || need "$tool"
done
if [ -n "$lacks" ]; then
    echo "xpu_graph needs what this machine lacks: $lacks." >&2
    exit 1
fi
echo "This machine has what xpu_graph needs."
