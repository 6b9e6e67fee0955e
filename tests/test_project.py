"The project's own files agree with each other, and the installed package behaves."
import configparser
import os
import re
import subprocess
import sys
from pathlib import Path

import yaml
from build_readme import Readme
from nbtext import parse_bib

ROOT = Path(__file__).resolve().parents[1]
SETTINGS = configparser.ConfigParser(delimiters=["="])
SETTINGS.read(ROOT / "settings.ini", encoding="utf-8")
SETTINGS = SETTINGS["DEFAULT"]


def read(name):
    return (ROOT / name).read_text(encoding="utf-8")


def python(code, **env):
    return subprocess.run([sys.executable, "-W", "error", "-c", code], cwd=ROOT, env=os.environ | env, text=True, capture_output=True, timeout=120)


def test_readme_is_in_step():
    assert not (stale := Readme(ROOT).stale()), f"{stale} out of date: run `make readme`"


def test_version_stands_everywhere():
    version = SETTINGS["version"]
    assert f'__version__ = "{version}"' in read("kms_nb/__init__.py")
    assert str(yaml.safe_load(read("CITATION.cff"))["version"]) == version
    assert re.search(rf"^## \[?{re.escape(version)}\b", read("CHANGELOG.md"), re.M)


def test_requirements_stand_once():
    names = [re.split(r"[<>=!~\[ ]", r)[0] for key in ("requirements", "dev_requirements") for r in SETTINGS[key].split("\n") if r.strip()]
    assert len(names) == len(set(names))
    for file in ("Makefile", ".ci/run", "setup.py", "pyproject.toml"):
        again = [n for n in names if re.search(rf"(?<![\w-]){re.escape(n)}\s*[<>=~]=", read(file))]
        assert not again, f"{file} repeats {again} of settings.ini"


def test_import_is_light_and_silent():
    heavy = "matplotlib sklearn pandas cvxpy torch nbdev fastcore IPython"
    done = python(f"import sys, kms_nb; print([m for m in '{heavy}'.split() if m in sys.modules])")
    assert (done.returncode, done.stdout.strip(), done.stderr) == (0, "[]", "")


def test_library_does_not_use_development_tools():
    uses = [p.name for p in (ROOT / "kms_nb").glob("[!_]*.py") if re.search(r"^\s*(from|import) (nbdev|fastcore|IPython)\b", p.read_text("utf-8"), re.M)]
    assert not uses


def test_modules_import_one_way():
    order = "kernels bounds hardness transport mirror oracles rank bundle local exact cells distance chunks panel testing projector groups baselines data cli".split()
    for position, name in enumerate(order):
        if not (path := ROOT / f"kms_nb/{name}.py").exists():
            continue
        top = re.findall(r"^(?:from|import) kms_nb\.(\w+)|^from \.(\w+)", path.read_text(encoding="utf-8"), re.M)
        later = {a or b for a, b in top} & set(order[position:])
        assert not later, f"{name} imports {later}, which stand after it"


def test_bibliography_is_readable():
    for key, entry in parse_bib(read("nbs/references.bib")).items():
        assert entry.get("author") and entry.get("title") and re.fullmatch(r"\d{4}", entry.get("year", "")), key


def test_citation_file():
    cff = yaml.safe_load(read("CITATION.cff"))
    assert cff["cff-version"] and cff["title"] == SETTINGS["lib_name"] and cff["authors"] and cff["references"]


def test_continuous_integration_runs_the_readme_command():
    assert os.access(ROOT / ".ci/run", os.X_OK)
    assert "make test" in read(".ci/run") and "make test" in read("README.md")


def test_make_help_names_each_target():
    shown = subprocess.run(["make", "--no-print-directory", "help"], cwd=ROOT, text=True, capture_output=True, check=True).stdout
    for target in ("demo", "test", "test-lowest", "docs", "bench", "power", "experiments", "fuzz", "notebooks", "readme", "clean"):
        assert f"make {target} " in shown


def test_benchmark_script_starts():
    done = subprocess.run([sys.executable, "bench/bench_solvers.py", "--help"], cwd=ROOT, text=True, capture_output=True, timeout=60)
    assert done.returncode == 0 and "--sizes" in done.stdout


def test_lowest_versions():
    "Constraints of `make test-lowest`: every requirement, at its lower bound."
    from lowest import lowest
    wanted = [line for line in SETTINGS["requirements"].splitlines() if line]
    assert list(lowest(ROOT / "settings.ini")) == [re.split(",", line)[0].replace(">=", "==") for line in wanted]
