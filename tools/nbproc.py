"""nbdev's part of the site: notebooks with hidden cells dropped and the documentation of exported symbols put in.

nbdev is asked to do it four ways better than it does: without running test cells, without links to packages that happen to
be installed, without losing text, and with the signatures that functions have.
"""
import ast
import inspect
import re
from pathlib import Path

from nbtext import TextError


def process_notebooks(cfg):
    "Let nbdev write `_proc/`; its path."
    from nbdev.serve import proc_nbs

    for mend in (run_whole_import_cells, title_cell_only, faithful_signatures):
        mend()
    own_links(cfg)
    try:
        return proc_nbs(cfg.nbs_path, n_workers=0, force=True)
    except TextError:
        raise
    except Exception as e:  # nbdev raises a bare Exception that names the notebook's title and shows the cell
        raise TextError(f"{e}\n{type(e.__cause__).__name__}: {e.__cause__}") from e


def run_whole_import_cells():
    "nbdev runs exported cells and imports to document symbols; a test cell with an import in it is neither."
    from nbdev import processors

    would_run = processors._do_eval

    def runs(cell):
        if cell.cell_type == "code" and not (cell.directives_ or {}).keys() & {"export", "exports", "exporti", "exec_doc"}:
            imports = [isinstance(node, ast.Import | ast.ImportFrom) for node in cell.parsed_() or []]
            if any(imports) and not all(imports):
                return False
        return would_run(cell)

    processors._do_eval = runs


def own_links(cfg):
    "Link names in backticks to this package's own pages, installed or not, and to no other package's."
    from nbdev import doclinks

    class Package:
        name = cfg.lib_name

        @staticmethod
        def load():
            scope = {}
            exec((cfg.lib_path / "_modidx.py").read_text(encoding="utf-8"), scope)
            return scope["d"]

    doclinks.entry_points = lambda group: [Package]


def title_cell_only():
    "Read title and subtitle from the title's cell alone: nbdev drops every cell in which some line starts like a heading, code too."
    from nbdev.frontmatter import FrontmatterProc

    read = FrontmatterProc.cell

    def cell(self, cell):
        if cell.cell_type == "markdown":
            source = (cell.source or "").strip()
            if "title" in self.fm or not re.match(r"#\s", source):
                return
            if rest := [ln for ln in source.split("\n")[1:] if ln.strip() and not re.match(r">\s|-\s+\S+:", ln)]:
                raise TextError(f"{Path(self.nb.path_).name}: more than title and subtitle in the first cell, which no page shows: {rest[0]}")
        read(self, cell)

    FrontmatterProc.cell = cell


def faithful_signatures():
    "Document signatures as they are: nbdev says `def` for a class, guesses a type from a default and drops the bare `*`."
    from fastcore.docments import DocmentText

    as_text, stars = DocmentText.__str__, {inspect.Parameter.VAR_POSITIONAL: "*", inspect.Parameter.VAR_KEYWORD: "**"}

    def params(self):
        shown, starred = [], False
        for name, p in inspect.signature(self.obj).parameters.items():
            if name == "self":
                continue
            if p.kind is inspect.Parameter.KEYWORD_ONLY and not starred:
                shown.append(("*", ""))
            starred |= p.kind in (inspect.Parameter.KEYWORD_ONLY, inspect.Parameter.VAR_POSITIONAL)
            written = self._fmt_param(stars.get(p.kind, "") + name, {"anno": p.annotation, "default": p.default})
            shown.append((written, (self.dm.get(name) or {}).get("docment") or ""))
        return shown

    def string(self):
        self.maxline = min(self.maxline, 84)  # what a page shows without scrolling
        shown = re.sub(r"\A([^\n]+)\(\n *([^\n#]*)\n\)", r"\1(\2)", as_text(self))  # one line of arguments needs no lines of its own
        return re.sub(r"\)->None:", "):", re.sub(r"^def ", "class ", shown)) if inspect.isclass(self.obj) else shown

    DocmentText.params, DocmentText.__str__ = property(params), string
