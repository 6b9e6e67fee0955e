"""Each notebook is one test, under nbdev's own skip rules and with a time limit; and the library is what the notebooks export.

`KMS_NB_TIMEOUT` sets the limit in seconds for one notebook.
"""
import filecmp
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
NOTEBOOKS = sorted((ROOT / "nbs").glob("[!_.]*.ipynb"))
TIMEOUT = float(os.environ.get("KMS_NB_TIMEOUT", 300))
RUN = """
import sys
from pathlib import Path
from nbdev.config import get_config
from nbdev.test import test_nb
passed, _ = test_nb(Path(sys.argv[1]), skip_flags=get_config().tst_flags.split(), basepath=sys.argv[2])
sys.exit(not passed)
"""


def nbdev(command, folder):
    "Run one of nbdev's commands in a folder."
    env = {k: v for k, v in os.environ.items() if k != "IN_TEST"}  # with IN_TEST set, nbdev_export does nothing
    env["PYTHONPATH"] = str(folder)
    subprocess.run([Path(sys.executable).with_name(command)], cwd=folder, env=env, check=True, capture_output=True, timeout=TIMEOUT)


@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda p: p.stem)
def test_notebook(notebook):
    process = subprocess.Popen([sys.executable, "-c", RUN, str(notebook), str(ROOT)], cwd=ROOT, text=True,
                               stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True)
    try:
        output, _ = process.communicate(timeout=TIMEOUT)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)  # the notebook and the workers it started
        process.wait()
        pytest.fail(f"{notebook.name} ran longer than {TIMEOUT:.0f} s")
    assert process.returncode == 0, output


@pytest.fixture(scope="module")
def exported(tmp_path_factory):
    "A copy of the project whose library is exported afresh."
    copy = tmp_path_factory.mktemp("exported")
    shutil.copy(ROOT / "settings.ini", copy)
    shutil.copytree(ROOT / "nbs", copy / "nbs", ignore=shutil.ignore_patterns("_quarto.yml", "nbdev.yml", ".ipynb_checkpoints"))
    (copy / "kms_nb").mkdir()
    shutil.copy(ROOT / "kms_nb/__init__.py", copy / "kms_nb")
    nbdev("nbdev_export", copy)
    nbdev("nbdev_clean", copy)
    return copy


def test_library_is_what_the_notebooks_export(exported):
    def modules(folder):
        return {p.relative_to(folder) for p in (folder / "kms_nb").rglob("*.py")}

    assert modules(ROOT) == modules(exported), "a module has no notebook, or a notebook was not exported"
    stale = [str(p) for p in sorted(modules(ROOT)) if not filecmp.cmp(ROOT / p, exported / p, shallow=False)]
    assert not stale, f"run nbdev_export: {stale} differ from the notebooks"


def test_notebooks_are_clean(exported):
    untidy = [p.name for p in NOTEBOOKS if not filecmp.cmp(p, exported / "nbs" / p.name, shallow=False)]
    assert not untidy, f"run nbdev_clean: {untidy} hold metadata that changes from run to run"
