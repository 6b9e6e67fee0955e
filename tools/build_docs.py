"""Build the site into _docs/ from the notebooks.

    python tools/build_docs.py [--out FOLDER]

nbdev prepares the notebooks in `_proc/`; this script then numbers and links their labels, resolves citations, and adds
the pages that are not notebooks. Quarto renders the result where it is installed, smalldocs (pure Python) otherwise.
The site needs no network: search, styles and KaTeX lie beside the pages.
"""
import argparse
import base64
import json
import os
import re
import shutil
import struct
import subprocess
import sys
from pathlib import Path

import yaml

from nbproc import process_notebooks
from nbtext import (EQUATION, IMAGE, LABEL, TABLE_CAPTION, Bibliography, Labels, TextError, anchor, options, read_cells, resolve, shielded,
                    table_bars, text)

NETWORK_KATEX = re.compile(r"https://cdn\.jsdelivr\.net/npm/katex@[\d.]+/dist")


# ---------------------------------------------------------------- names and order of the pages


def rename_pages(cache):
    "Give notebooks the names of their pages (`00_kernels` becomes `kernels`); the map from old stem to new."
    names = {}
    for path in sorted(cache.glob("*.ipynb")):
        nb = json.loads(path.read_text(encoding="utf-8"))
        front = text(nb["cells"][0]["source"])
        found = re.search(r"^output-file:\s*(\S+)\.html\n", front, re.M)
        names[path.stem] = found[1] if found else path.stem
        if found:
            nb["cells"][0]["source"] = front.replace(found[0], "")
            path.write_text(json.dumps(nb), encoding="utf-8")
        if (target := path.with_stem(names[path.stem])) != path:
            if target.exists():
                raise TextError(f"{path.name}: its page {names[path.stem]}.html is also that of {target.name}")
            path.rename(target)
    return names


def resolve_config(cache, names, extra):
    "Rewrite `_proc/_quarto.yml` for the renamed pages that exist; their stems in reading order."
    config = yaml.safe_load((cache / "_quarto.yml").read_text(encoding="utf-8"))
    config.pop("bibliography", None)  # citations are resolved here
    if not shutil.which("quarto"):  # smalldocs has one way to show formulas, and reads the language elsewhere
        config["format"]["html"].pop("html-math-method", None)
        config["format"]["html"]["lang"] = config.pop("lang", "en")
    order, absent = [], []

    def keep(entries):
        kept = []
        for e in entries:
            if isinstance(e, dict) and "contents" in e:
                e["contents"] = keep(e["contents"])
                if e["contents"]:
                    kept.append(e)
                continue
            href = Path(e["href"] if isinstance(e, dict) else e)
            page = href.with_stem(names.get(href.stem, href.stem))
            if page.name in extra or (cache / page).exists():
                order.append(page.stem)
                kept.append({**e, "href": str(page)} if isinstance(e, dict) else str(page))
            else:
                absent.append(href.stem)
        return kept

    sidebar = config["website"]["sidebar"]
    sidebar["contents"] = keep(sidebar["contents"])
    (cache / "_quarto.yml").write_text(yaml.safe_dump(config, sort_keys=False), encoding="utf-8")
    if absent:
        print(f"docs: in the sidebar but not there yet: {', '.join(absent)}")
    for stem in sorted(set(names.values()) - set(order)):
        print(f"docs: {stem} is not in the sidebar of _quarto.yml")
        order.append(stem)
    return [s for s in order if f"{s}.ipynb" not in extra and s in names.values()]


# ---------------------------------------------------------------- the text of a page


class Page:
    "One notebook of `_proc/`, rewritten cell by cell."

    def __init__(self, path, labels, bib, names, cfg):
        self.path, self.name, self.labels, self.bib, self.names = path, path.name, labels, bib, names
        self.hosted = f"{cfg.doc_host}{cfg.doc_baseurl}/"  # how nbdev addresses pages and sources
        self.repo = f"{cfg.git_url}/blob/{cfg.branch}/{cfg.lib_name}/"
        self.figures, self.problems = 0, []

    def write(self):
        "Rewrite the notebook."
        nb = json.loads(self.path.read_text(encoding="utf-8"))
        cells = []
        for cell in nb["cells"]:
            cell["source"] = text(cell["source"])
            try:
                cells += self.cell(cell)
            except TextError as e:
                self.problems.append(str(e))
        nb["cells"] = cells
        self.path.write_text(json.dumps(nb), encoding="utf-8")

    def cell(self, cell):
        "The cells that stand for one cell."
        if cell["cell_type"] == "markdown":
            return [{**cell, "source": self.markdown(cell["source"])}]
        return self.code(cell) if cell["cell_type"] == "code" else [cell]

    def markdown(self, source):
        "Number equations, captions and images, then resolve references and links."
        def number(s):
            s = EQUATION.sub(self.equation, s)
            s = TABLE_CAPTION.sub(lambda m: f"{m['mark']}{self.title(m['label'])}: {m['text']} {{#{anchor(m['label'])}}}", s)
            return IMAGE.sub(lambda m: f"![{self.title(m['label'])}: {m['text']}]({m['src']}){{#{anchor(m['label'])}{m['rest']}}}", s)

        return self.links(table_bars(shielded(source, number, math=False)))

    def links(self, source, strict=True):
        "Resolve citations, cross-references and links to notebooks."
        source = resolve(source, self.name, self.bib, lambda label, short: self.labels.link(label, self.name, short), strict)
        source = source.replace(f"]({self.hosted}", "](")
        source = re.sub(rf"\]\({re.escape(self.repo)}(\w+)\.py(?:#L(\d+))?\)", lambda m: f"](source/{m[1]}.qmd" + (f"#L-{m[2]}" if m[2] else "") + ")", source)
        return re.sub(r"\]\((?:\./)?([\w-]+)\.ipynb", lambda m: f"]({self.names.get(m[1], m[1])}.ipynb", source)

    def title(self, label):
        return self.labels.known[label][1]

    def equation(self, m):
        "A labelled equation: an anchor, then the formula with its number."
        indent, lines = m["indent"], m["tex"].strip("\n").rstrip().split("\n")
        tag = rf"{lines.pop()} \tag{{{self.labels.known[m['label']][2]}}}"
        block = ["", f"[]{{#{anchor(m['label'])} .equation-anchor}}", "", "$$", *(ln.strip() for ln in [*lines, tag]), "$$"]
        return f"{indent}{m['before']}" + "\n".join(indent + ln if ln else "" for ln in block)

    def code(self, cell):
        "A code cell; outputs with a label become a numbered figure or table after it."
        opts, _ = options(cell)
        label = str(opts.get("label", ""))
        for out in cell.get("outputs", []):
            if "text/markdown" in out.get("data", {}):
                shown = text(out["data"]["text/markdown"])
                shown = re.sub(r"```python\n+(.*?)\n+```", r"```python\n\1\n```", shown, flags=re.S)
                out["data"]["text/markdown"] = self.links(shown, strict=False)
        is_image = [any(k.startswith("image/") for k in o.get("data", {})) for o in cell.get("outputs", [])]
        numbered = re.fullmatch(LABEL, label)
        if not numbered and not any(is_image):
            return [cell]
        caption = self.caption(label, opts) if numbered else ""
        bare = re.sub(r"^#\s*\|\s*(label|fig-cap|tbl-cap):.*\n", "", cell["source"], flags=re.M)
        before = {**cell, "source": bare, "outputs": [o for o, image in zip(cell["outputs"], is_image) if not image]}
        if label.startswith("tbl-"):
            shown = {**cell, "source": "#| echo: false\n" + bare}
            return [{**before, "outputs": []}, self.block(f"::: {{#{anchor(label)} .table-caption}}\n{caption}\n:::"), shown]
        if not any(is_image):
            raise TextError(f"{self.name}: the cell of {label} has no stored picture: run tools/run_nbs.py")
        pictures = [self.picture(o["data"], label) for o, image in zip(cell["outputs"], is_image) if image]
        alt = str(opts.get("fig-alt", "" if caption else "Figure")).replace('"', "'")
        spoken = f' fig-alt="{alt}"' if alt else ""
        lines = [f"![]({src}){{width={width}px{spoken}}}" for src, width in pictures]
        if caption:
            src, width = pictures[-1]
            lines[-1] = f"![{caption}]({src}){{#{anchor(label)} width={width}px{spoken}}}"
        return [before, self.block("\n\n".join(lines))]

    def caption(self, label, opts):
        "The caption of a numbered figure or table."
        own = self.links(str(opts.get(f"{label[:3]}-cap", "")))
        return f"{self.title(label)}: {own}" if own else self.title(label)

    @staticmethod
    def block(source):
        return {"cell_type": "markdown", "metadata": {}, "source": source}

    def picture(self, data, label):
        "Write a picture beside the page; its path and the width in CSS pixels at which it has its printed size."
        self.figures += 1
        mime = next(k for k in ("image/svg+xml", "image/png", "image/jpeg") if k in data)
        raw = text(data[mime]).encode() if mime == "image/svg+xml" else base64.b64decode(text(data[mime]))
        name = f"figures/{self.path.stem}-{label[4:] or 'output'}-{self.figures}.{mime[6:9]}"
        target = self.path.parent / name
        target.parent.mkdir(exist_ok=True)
        target.write_bytes(raw)
        return name, png_width(raw) if mime == "image/png" else 640


def png_width(raw):
    "The width of a PNG in CSS pixels, from its pixels and its resolution."
    pixels = struct.unpack(">I", raw[16:20])[0]
    at = raw.find(b"pHYs")
    per_metre = struct.unpack(">I", raw[at + 4 : at + 8])[0] if at > 0 else 0
    return round(pixels / per_metre / 0.0254 * 96) if per_metre else pixels


# ---------------------------------------------------------------- pages that are not notebooks


def front_matter(title, **more):
    return "---\n" + yaml.safe_dump({"title": title, **more}, sort_keys=False, allow_unicode=True) + "---\n\n"


def write_references(cache, bib, titles):
    "The page of works cited, each with the pages that cite it."
    lines = [front_matter("References", toc=False), "Works cited in these pages, and where.\n"]
    for key in bib.order():
        pages = ", ".join(f"[{titles[p]}]({p})" for p in bib.cited[key])
        lines.append(f"::: {{#{key} .reference}}\n{bib.reference(key)} [Cited in {pages}.]{{.cited-in}}\n:::\n")
    (cache / "references.qmd").write_text("\n".join(lines), encoding="utf-8")


def write_changelog(cache, root):
    source = (root / "CHANGELOG.md").read_text(encoding="utf-8")
    (cache / "changelog.md").write_text(front_matter("Changelog") + re.sub(r"\A# .*\n", "", source), encoding="utf-8")


def write_sources(cache, cfg):
    "A page per module, so that the `source` links beside each function work without a code host."
    (cache / "source").mkdir(exist_ok=True)
    for path in sorted(cfg.lib_path.glob("[!_]*.py")):
        page = front_matter(f"Source of {cfg.lib_name}.{path.stem}", toc=False, search=False, **{"page-navigation": False})
        code = path.read_text(encoding="utf-8")
        page += f"````{{.python #L code-line-numbers=true}}\n{code.rstrip()}\n````\n"
        (cache / "source" / f"{path.stem}.qmd").write_text(page, encoding="utf-8")


# ---------------------------------------------------------------- rendering


def find_katex(root):
    "The folder of a local KaTeX, or None."
    given = [os.environ["KATEX"]] if os.environ.get("KATEX") else []
    for folder in map(Path, [*given, root / "node_modules/katex/dist", "/usr/share/javascript/katex"]):
        if (folder / "katex.min.js").exists() and (folder / "katex.min.css").exists():
            return folder
    return None


def copy_katex(folder, lib):
    "Copy what a page needs of KaTeX: script, styles and the WOFF2 fonts."
    (lib / "fonts").mkdir(parents=True, exist_ok=True)
    (lib / "contrib").mkdir(exist_ok=True)
    shutil.copy(folder / "katex.min.js", lib)
    minified = folder / "contrib/auto-render.min.js"
    shutil.copy(minified if minified.exists() else folder / "contrib/auto-render.js", lib / "contrib/auto-render.min.js")
    for font in (folder / "fonts").glob("*.woff2"):
        shutil.copy(font, lib / "fonts")
    css = (folder / "katex.min.css").read_text(encoding="utf-8")
    (lib / "katex.min.css").write_text(re.sub(r",\s*url\([^)]*\.(?:woff|ttf)\)\s*format\([^)]*\)", "", css), encoding="utf-8")


def render(cache):
    "Render `_proc/` with Quarto or smalldocs; the folder of the site."
    site = cache / "_docs"
    if shutil.which("quarto"):
        subprocess.run(["quarto", "render", "--no-cache"], check=True, cwd=cache)
        return site
    from smalldocs.config import load
    from smalldocs.site import Site

    build = Site(load(cache), quiet=True)
    build.build()
    for warning in build.warnings:
        if "broken link" not in warning:
            print("docs:", warning)
    if build.broken:
        raise TextError("broken links:\n" + "\n".join(f"  {page}: {href}" for page, href in build.broken))
    search_without_server(site)
    return site


def search_without_server(site):
    "Let pages read the search index from a script, since a browser does not fetch a file for a page opened from disk."
    script = site / "site_libs/smalldocs.js"
    old = re.compile(r'const r = await fetch\(offset \+ "search\.json"\);\s*index = await r\.json\(\);')
    new = ('await new Promise((ok, no) => { const s = document.createElement("script"); s.src = offset + "search.js"; '
           "s.onload = ok; s.onerror = no; document.head.append(s); });\n      index = window.searchIndex;")
    patched, n = old.subn(new, script.read_text(encoding="utf-8"))
    if n != 1:
        raise TextError("smalldocs.js no longer reads its search index as expected")
    script.write_text(patched, encoding="utf-8")
    (site / "search.js").write_text(f"window.searchIndex = {(site / 'search.json').read_text(encoding='utf-8')};\n", encoding="utf-8")


def finish(site, katex):
    "Take out every address outside the site that a page would load, and describe pictures that carry no text."
    if katex:
        copy_katex(katex, site / "site_libs/katex")
    for path in site.rglob("*.html"):
        page = path.read_text(encoding="utf-8")
        if katex:
            page = NETWORK_KATEX.sub("../" * len(path.relative_to(site).parts[:-1]) + "site_libs/katex", page)
        page = re.sub(r"<img (?![^>]*\balt=)", '<img alt="Figure" ', page)
        path.write_text(page, encoding="utf-8")
    for path in site.rglob("*.css"):
        css = path.read_text(encoding="utf-8")
        path.write_text(re.sub(r"""@import\s+url\(["']?https?:[^)]*\)[^;]*;""", "", css), encoding="utf-8")


def build(cfg, out):
    "Build the whole site into `out`."
    cache, root = process_notebooks(cfg), cfg.config_path
    names = rename_pages(cache)
    order = resolve_config(cache, names, {"references.qmd", "changelog.md"})
    labels = Labels()
    bib = Bibliography(cfg.nbs_path / "references.bib", lambda key: f"references.qmd#{key}")
    for stem in order:
        labels.collect(read_cells(cache / f"{stem}.ipynb"), f"{stem}.ipynb")
    titles, problems = {}, []
    for stem in order:
        path = cache / f"{stem}.ipynb"
        page = Page(path, labels, bib, names, cfg)
        page.write()
        problems += page.problems
        found = re.search(r"^title:\s*(.+)$", read_cells(path)[0]["source"], re.M)
        titles[path.name] = yaml.safe_load(found[1]) if found else stem
    if problems:
        raise TextError("\n  ".join(["these need mending:", *problems]))
    write_changelog(cache, root)
    write_sources(cache, cfg)
    write_references(cache, bib, titles)
    site = render(cache)
    katex = find_katex(root)
    finish(site, katex)
    if out.exists():
        shutil.rmtree(out)
    shutil.move(str(site), str(out))
    formulas = "KaTeX beside the pages" if katex else "no KaTeX found here, so formulas load it from the network"
    print(f"docs: {len(list(out.rglob('*.html')))} pages in {out} ({formulas})")


def main():
    from nbdev.config import get_config

    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    cfg = get_config()
    parser.add_argument("--out", type=Path, default=cfg.doc_path, help="folder of the site (emptied first)")
    args = parser.parse_args()
    os.chdir(cfg.config_path)
    sys.path.insert(0, str(cfg.config_path))  # notebooks show this tree's package, installed or not
    try:
        build(cfg, args.out.resolve())
    except TextError as e:
        sys.exit(f"docs: {e}")


if __name__ == "__main__":
    main()
