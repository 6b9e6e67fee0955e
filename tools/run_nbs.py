"""Run notebooks and store their outputs, which `nbdev_test` never does.

    python tools/run_nbs.py [--slow] [NOTEBOOK ...]      (default: every notebook under nbs/)

Cells that nbdev's tests skip (`#| notest`, `#| slow`, `#| eval: false`) keep the outputs they have;
`--slow` runs the slow ones too.
"""
import argparse
import os
import sys
import time
from pathlib import Path

from execnb.nbio import write_nb
from execnb.shell import CaptureShell
from nbdev.clean import clean_nb
from nbdev.config import get_config
from nbdev.process import NBProcessor


def skipped(cell, flags):
    "Whether nbdev's own rules leave this code cell alone."
    directives = cell.directives_ or {}
    no_eval = directives.get("eval:", [""])[0].lower() == "false"
    return "nbdev_export(" in cell.source or no_eval or bool(flags & directives.keys())


def run(path, flags):
    "Run one notebook in a fresh shell and write it back, cleaned, with its outputs."
    nb = NBProcessor(path, rm_directives=False).nb  # parses the `#|` lines and leaves the source as it is
    keep = [c.cell_type != "code" or skipped(c, flags) for c in nb.cells]
    for cell, kept in zip(nb.cells, keep):
        if not kept:
            cell.outputs = []
    left_alone = {id(c) for c, kept in zip(nb.cells, keep) if kept}
    CaptureShell(path).run_all(nb, exc_stop=True, preproc=lambda c: id(c) in left_alone)
    clean_nb(nb)
    write_nb(nb, path)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("notebooks", nargs="*", type=Path)
    parser.add_argument("--slow", action="store_true", help="also run the cells marked `#| slow`")
    args = parser.parse_args()
    cfg = get_config()
    sys.path.insert(0, str(cfg.config_path))
    os.environ.setdefault("IN_TEST", "1")  # so that a notebook's own nbdev_export() does nothing here
    flags = set(cfg.tst_flags.split()) - ({"slow"} if args.slow else set())
    paths = [p.resolve() for p in args.notebooks] or sorted(cfg.nbs_path.glob("[!_.]*.ipynb"))
    for path in paths:
        os.chdir(path.parent)
        start = time.perf_counter()
        run(path, flags)
        print(f"ran {path.name} in {time.perf_counter() - start:.1f} s", flush=True)


if __name__ == "__main__":
    main()
