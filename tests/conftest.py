"Settings shared by the tests."
import os
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
os.environ.setdefault("MPLBACKEND", "Agg")
os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))
sys.path[:0] = [str(ROOT), str(ROOT / "tools"), str(ROOT / "bench")]


@pytest.fixture(scope="session")
def root():
    "The top folder of the project."
    return ROOT
