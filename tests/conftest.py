"Settings shared by the tests."
import os
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
os.environ.setdefault("MPLBACKEND", "Agg")
for library in ("OPENBLAS", "OMP", "MKL"):  # the matrices are small, and threads that wait for each other on a busy machine take many times as long
    os.environ.setdefault(f"{library}_NUM_THREADS", "1")
os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))
sys.path[:0] = [str(ROOT), str(ROOT / "tools"), str(ROOT / "bench")]


@pytest.fixture(scope="session")
def root():
    "The top folder of the project."
    return ROOT
