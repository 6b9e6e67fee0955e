"""Write README.md from nbs/index.ipynb, with the outputs stored there.

    python tools/build_readme.py [--check]

`--check` writes nothing and fails if README.md (or a picture of it) is out of date. Pictures that a cell of the index
shows go to images/; pictures it links to stay in nbs/images/.
"""
import argparse
import base64
import re
import sys
from pathlib import Path

from nbtext import (EQUATION, IMAGE, LABEL, SECTION, TABLE_CAPTION, Bibliography, Labels, TextError, options, read_cells, resolve, shielded,
                    table_bars, text)

ROOT = Path(__file__).resolve().parents[1]
INDEX = "index.ipynb"
NOTE = "<!-- Made from nbs/index.ipynb by tools/build_readme.py: change the notebook, then run `make readme`. -->"


class Readme:
    "README.md as text, and the pictures it needs as a map from path to bytes."

    def __init__(self, root):
        self.root, self.nbs, self.pictures = root, root / "nbs", {}
        self.bib = Bibliography(self.nbs / "references.bib", self.cited_at)
        self.labels = Labels()
        cells = read_cells(self.nbs / INDEX)
        self.labels.collect(cells, INDEX)
        self.elsewhere = {}  # label -> the notebook that defines it
        for path in sorted(self.nbs.glob("[!_.]*.ipynb")):
            if path.name != INDEX:
                other = Labels()
                other.collect(read_cells(path), path.name)
                self.elsewhere |= dict.fromkeys(other.known, path)
        blocks = [b for cell in cells for b in self.cell(cell)]
        self.source = f"{NOTE}\n\n" + "\n\n".join(b.strip("\n") for b in blocks if b.strip()) + "\n"

    def cited_at(self, key):
        url = self.bib.source_url(key)
        return url[0] if url else "nbs/references.bib"

    def reference(self, label, short):
        "A label of the index keeps its number; one of a chapter names the chapter, whose numbers may change."
        if label in self.labels.known:
            return str(self.labels.known[label][2 if short else 1])
        if label not in self.elsewhere:
            raise TextError(f"{INDEX}: @{label} refers to nothing")
        path = self.elsewhere[label]
        title = re.search(r"^# (.+)$", "\n".join(c["source"] for c in read_cells(path)), re.M)
        return f"[{title[1] if title else path.stem}](nbs/{path.name})"

    def cell(self, cell):
        "The Markdown blocks of one cell."
        if cell["cell_type"] == "markdown":
            return [self.markdown(cell["source"])]
        return self.code(cell) if cell["cell_type"] == "code" else []

    def markdown(self, source):
        "Quarto's notation as plain Markdown, with links that hold at the top of the repository."
        def plain(s):
            s = EQUATION.sub(lambda m: f"{m['indent']}{m['before']}$${m['tex']}$$", s)
            s = SECTION.sub(lambda m: re.sub(r"\s*\{#[^}]*\}", "", m[0]), s)
            s = TABLE_CAPTION.sub(lambda m: f"{self.labels.known[m['label']][1]}: {m['text']}", s)
            s = IMAGE.sub(lambda m: f"![{m['text']}]({m['src']})\n\n{self.labels.known[m['label']][1]}: {m['text']}", s)
            s = re.sub(r"(\]\([^()\s]+\))\{[^{}]*\}", r"\1", s)  # attributes of images and links
            return re.sub(r"^:{3,}.*\n?", "", s, flags=re.M)  # fences of Quarto's divs

        source = table_bars(shielded(source, plain, math=False))
        source = resolve(source, INDEX, self.bib, self.reference)
        return re.sub(r"\]\((?:\./)?((?:[\w-]+\.ipynb|images/)[^()\s]*)\)", lambda m: f"](nbs/{m[1].split('#')[0]})", source)

    def code(self, cell):
        "Input and stored text output of a code cell, and its pictures."
        opts, code = options(cell)
        if opts.keys() & {"hide", "default_exp", "exporti"} or opts.get("include") is False or "nbdev_export(" in code:
            return []
        blocks = [] if opts.get("echo") is False or "hide_input" in opts or not code.strip() else [f"```python\n{code.strip()}\n```"]
        if opts.get("output") is False or "hide_output" in opts:
            return blocks
        for out in cell.get("outputs", []):
            data = out.get("data", {})
            if out["output_type"] == "stream" and out.get("name") == "stdout":
                blocks.append(fenced(text(out["text"])))
            elif image := data.get("image/png"):
                blocks.append(self.picture(text(image), opts))
            elif "text/markdown" in data:
                blocks.append(self.markdown(text(data["text/markdown"])))
            elif "text/plain" in data:
                blocks.append(fenced(text(data["text/plain"])))
        return blocks

    def picture(self, encoded, opts):
        "A picture of the index: its file, and the Markdown that shows it with its caption."
        label = str(opts.get("label", ""))
        name = f"images/{label if label else f'readme-{len(self.pictures) + 1}'}.png"
        self.pictures[name] = base64.b64decode(encoded)
        caption = self.markdown(str(opts.get("fig-cap", "")))
        shown = f"![{opts.get('fig-alt') or caption or 'Figure'}]({name})"
        if re.fullmatch(LABEL, label):
            caption = f"{self.labels.known[label][1]}: {caption}"
        return f"{shown}\n\n{caption}" if caption else shown

    def stale(self):
        "The files that differ from what the notebook gives."
        wanted = {"README.md": self.source.encode(), **self.pictures}
        return [name for name, data in wanted.items() if not (self.root / name).exists() or (self.root / name).read_bytes() != data]

    def write(self):
        for name, data in {"README.md": self.source.encode(), **self.pictures}.items():
            (self.root / name).parent.mkdir(exist_ok=True)
            (self.root / name).write_bytes(data)


def fenced(output):
    body = output.rstrip("\n")
    return f"```text\n{body}\n```" if body.strip() else ""


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true", help="fail if README.md is out of date, and write nothing")
    args = parser.parse_args()
    try:
        readme = Readme(ROOT)
    except TextError as e:
        sys.exit(f"readme: {e}")
    if not args.check:
        readme.write()
        print("readme: wrote README.md", *sorted(readme.pictures))
    elif stale := readme.stale():
        sys.exit(f"readme: {', '.join(stale)} out of date with nbs/{INDEX}: run `make readme`")


if __name__ == "__main__":
    main()
