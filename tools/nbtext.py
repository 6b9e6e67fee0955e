"""Text shared by the README and the site: notebook cells, cross-references and citations.

Quarto's notation is read here, so that pages come out the same whichever program renders them:
`$$ .. $$ {#eq-x}`, `#| label: fig-x`, `{#sec-x}` and `{#tbl-x}` define labels, `@eq-x` refers to one,
and `[@key, p. 3; @other]`, `@key` and `[-@key]` cite an entry of the bibliography.
"""
import json
import re
from pathlib import Path
from urllib.parse import quote

import yaml

KINDS = {"fig": "Figure", "tbl": "Table", "eq": "Equation", "sec": "Section"}
# Quarto numbers ids that start with its own prefixes; ours must pass through it untouched.
ANCHORS = {"fig": "figure", "tbl": "table", "eq": "equation", "sec": "sec"}
LABEL = r"(?:fig|tbl|eq|sec)-[\w-]+"
KEY = r"[A-Za-z](?:[\w:-]*\w)?"

CODE_SPAN = r"^ *(?P<fence>`{3,}|~{3,}).*?^ *(?P=fence)[ \t]*$|(?P<tick>`+)(?!`).+?(?<!`)(?P=tick)(?!`)"
MATH_SPAN = r"\$\$.+?\$\$|(?<![\\$])\$(?=\S)(?:[^$\\\n]|\\.|\n(?!\s*\n))+?(?<=\S)\$(?!\d)"
PROTECTED = {
    False: re.compile(CODE_SPAN, re.S | re.M),
    True: re.compile(f"{CODE_SPAN}|{MATH_SPAN}", re.S | re.M),
}

EQUATION = re.compile(r"^(?P<indent>[ \t]*)(?P<before>[^\n]*?)\$\$(?P<tex>(?:(?!\$\$).)+?)\$\$[ \t]*\{#(?P<label>eq-[\w-]+)\}", re.S | re.M)
SECTION = re.compile(r"^#{2,6}[ \t]+(?P<title>.+?)[ \t]*\{#(?P<label>sec-[\w-]+)[^}\n]*\}[ \t]*$", re.M)
TABLE_CAPTION = re.compile(r"^(?P<mark>(?:Table)?:[ \t]+)(?P<text>[^\n]*?)[ \t]*\{#(?P<label>tbl-[\w-]+)\}", re.M)
IMAGE = re.compile(r"!\[(?P<text>(?:[^\[\]]|\[[^\[\]]*\])*)\]\((?P<src>[^()\s]+)\)\{#(?P<label>fig-[\w-]+)(?P<rest>[^}\n]*)\}")
GROUP = re.compile(rf"\[(?P<items>[^\[\]]*?(?<![\w/])@{KEY}[^\[\]]*)\](?![(\[{{])")
SINGLE = re.compile(rf"(?<![\w/@\\])@(?P<key>{KEY})(?:[ \t]+\[(?P<suffix>[^\[\]@]+)\](?!\())?")


class TextError(Exception):
    "Something in a notebook's text that cannot be resolved; the message names the page."


# ---------------------------------------------------------------- notebooks


def text(value):
    "A cell's source or an output's text, which notebooks store as a string or as a list of lines."
    return "".join(value) if isinstance(value, list) else value


def read_cells(path):
    "The cells of a notebook, each with its source as one string."
    cells = json.loads(Path(path).read_text(encoding="utf-8"))["cells"]
    for cell in cells:
        cell["source"] = text(cell["source"])
    return cells


def options(cell):
    "The `#| key: value` lines of a code cell as a dict (a bare `#| hide` gives `{'hide': True}`), and the code below them."
    lines, found = cell["source"].split("\n"), {}
    while lines and re.match(r"#\s*\|", lines[0]):
        body = re.sub(r"^#\s*\|\s*", "", lines.pop(0)).strip()
        key, colon, value = body.partition(":")
        if colon and " " not in key:
            found[key] = yaml.safe_load(value)
        elif body:
            found[body.split()[0]] = True
    return found, "\n".join(lines)


def shielded(source, change, math=True):
    "Apply `change` to Markdown with its code spans (and, with `math`, its formulas) put aside."
    kept = []

    def stash(m):
        kept.append(m.group(0))
        return f"\ue000{len(kept) - 1}\ue001"

    out = change(PROTECTED[math].sub(stash, source))
    return re.sub("\ue000(\\d+)\ue001", lambda m: kept[int(m[1])], out)


def table_bars(source):
    r"Write `|` and `\|` inside the formulas of a pipe table as `\vert` and `\Vert`, which do not end a table cell."
    def bars(m):
        return re.sub(r"\\\||(?<!\\)\|", lambda b: ("\\Vert" if len(b[0]) > 1 else "\\vert") + spacer(m[0], b.end()), m[0])

    def spacer(tex, end):
        return " " if tex[end].isalpha() else ""  # a command's name ends before a letter

    lines = source.split("\n")
    math = re.compile(r"(?<![\\$`])\$(?=\S)(?:[^$\\\n`]|\\.)+?(?<=\S)\$(?!\d)")
    return "\n".join(math.sub(bars, ln) if ln.lstrip().startswith("|") else ln for ln in lines)


# ---------------------------------------------------------------- bibliography


def parse_bib(source):
    "Read the subset of BibTeX used here: `@type{key, field = {value} or \"value\" or word, ...}`, accents as plain UTF-8."
    entries = {}
    for m in re.finditer(r"^@(\w+)\s*\{\s*([^,\s]+)\s*,", source, re.M):
        kind, key, pos, fields = m[1].lower(), m[2], m.end(), {}
        while f := re.compile(r"\s*([\w-]+)\s*=\s*").match(source, pos):
            value, pos = bib_value(source, f.end())
            fields[f[1].lower()] = bib_plain(value, key)
            pos = re.compile(r"\s*,?").match(source, pos).end()
        if not re.compile(r"\s*\}").match(source, pos):
            raise TextError(f"bibliography: entry {key} is not closed after its last field")
        if key in entries:
            raise TextError(f"bibliography: key {key} is defined twice")
        entries[key] = {"type": kind, **fields}
    return entries


def bib_value(source, start):
    "One field's value at `start`, and the position after it."
    if source[start] not in "{\"":
        m = re.compile(r"[\w.-]+").match(source, start)
        return m[0], m.end()
    closing, depth = {"{": "}", '"': '"'}[source[start]], 0
    for i in range(start + 1, len(source)):
        c = source[i]
        if c == closing and depth == 0:
            return source[start + 1 : i], i + 1
        depth += (c == "{") - (c == "}")
    raise TextError("bibliography: a value is not closed")


def bib_plain(value, key):
    "A field's value without TeX: braces dropped, dashes and spaces mended."
    value = value.replace(r"\&", "&").replace("---", "—").replace("--", "–").replace("~", " ")
    value = re.sub(r"\s+", " ", re.sub(r"[{}]", "", value)).strip()
    if "\\" in value:
        raise TextError(f"bibliography: entry {key} has a TeX command; write the letter itself: {value}")
    return value


def authors(entry):
    "The authors (or editors) as (family, given) pairs."
    pairs = []
    for name in (entry.get("author") or entry.get("editor", "")).split(" and "):
        family, comma, given = name.partition(",")
        if not comma:
            *rest, family = name.split()
            given = " ".join(rest)
        pairs.append((family.strip(), given.strip()))
    return pairs


def initials(given):
    "`Karsten M.` as `K. M.` and `Yu-Ting` as `Y.-T.`"
    return " ".join("-".join(w[0] + "." for w in word.split("-") if w) for word in given.split())


class Bibliography:
    "The entries of a .bib file: author-year labels, the citations made so far, and the printed list."

    def __init__(self, path, url):
        self.entries = parse_bib(Path(path).read_text(encoding="utf-8"))
        self.url = url  # key -> link of a citation
        self.cited = {}  # key -> pages, in the order met
        self.years = self.year_labels()

    def year_labels(self):
        "Each entry's year, with a letter where two entries would read the same."
        groups = {}
        for key, e in self.entries.items():
            groups.setdefault((self.names(key), e.get("year", "n.d.")), []).append(key)
        return {k: year + (chr(97 + i) if len(keys) > 1 else "")
                for (_, year), keys in groups.items() for i, k in enumerate(sorted(keys))}

    def names(self, key):
        "`Sion`, `Paty and Cuturi` or `Wang et al.`"
        family = [f for f, _ in authors(self.entries[key])]
        return family[0] + (" et al." if len(family) > 2 else f" and {family[1]}" if len(family) == 2 else "")

    def cite(self, key, page, form, suffix=""):
        "The link for one citation; `form` is `group` (Sion, 1958), `text` Sion (1958) or `year` 1958."
        if key not in self.entries:
            raise TextError(f"{page}: @{key} is neither a label nor a key of the bibliography")
        if page not in self.cited.setdefault(key, []):
            self.cited[key].append(page)
        year = self.years[key] + (f", {suffix}" if suffix else "")
        label = {"group": f"{self.names(key)}, {year}", "text": f"{self.names(key)} ({year})", "year": year}[form]
        return f"[{label}]({self.url(key)})"

    def reference(self, key):
        "The entry as one line of Markdown."
        e = self.entries[key]
        people = [f"{f}, {initials(g)}" if g else f for f, g in authors(e)]
        people = [f for f in people if f != "others"][:6] + ["et al."] if len(people) > 8 else people
        names = " and ".join(filter(None, [", ".join(people[:-1]), people[-1]])) if people[-1] != "et al." else ", ".join(people)
        title = e["title"].rstrip(".")
        out = f"{names} ({self.years[key]}). " + (f"*{title}*." if e["type"] == "book" else f"{title}.")
        if where := e.get("journal") or e.get("booktitle"):
            numbers = f" {e.get('series', '')} {e.get('volume', '')}".rstrip() + (f"({e['number']})" if "number" in e else "")
            pages = f", pp. {e['pages']}" if "pages" in e else ""
            out += f" {'In ' if 'booktitle' in e else ''}*{where}*{',' if 'series' in e else ''}{re.sub(' +', ' ', numbers)}{pages}."
        if "publisher" in e:
            out += f" {e['publisher']}."
        link = self.source_url(key)
        return out + (f" [{link[1]}]({link[0]})" if link else "")

    def source_url(self, key):
        "Where the work is found, and how that is written: a DOI, an arXiv number or an address; None without one."
        e = self.entries[key]
        if "doi" in e:
            return f"https://doi.org/{quote(e['doi'], safe='/')}", f"doi:{e['doi']}"
        if "eprint" in e:
            return f"https://arxiv.org/abs/{e['eprint']}", f"arXiv:{e['eprint']}"
        return (e["url"], re.sub(r"^https?://", "", e["url"])) if "url" in e else None

    def order(self):
        "The cited keys, by author and year."
        return sorted(self.cited, key=lambda k: ([f for f, _ in authors(self.entries[k])], self.years[k]))


# ---------------------------------------------------------------- labels


class Labels:
    "Quarto's labels, numbered over all pages in the order of the book."

    def __init__(self):
        self.known = {}  # label -> (page, name, number)
        self.count = dict.fromkeys(KINDS, 0)

    def add(self, label, page, title=None):
        "Number one label."
        kind = label.split("-")[0]
        if label in self.known:
            raise TextError(f"{page}: label {label} is already defined in {self.known[label][0]}")
        self.count[kind] += 1
        name = f"Section “{title}”" if kind == "sec" else f"{KINDS[kind]} {self.count[kind]}"
        self.known[label] = (page, name, self.count[kind])

    def collect(self, cells, page):
        "Number the labels that a notebook's cells define, in reading order."
        for cell in cells:
            if cell["cell_type"] == "markdown":
                shielded(cell["source"], lambda s: self.collect_markdown(s, page), math=False)
            elif cell["cell_type"] == "code" and re.fullmatch(LABEL, label := str(options(cell)[0].get("label", ""))):
                self.add(label, page)

    def collect_markdown(self, source, page):
        found = [m for pattern in (EQUATION, SECTION, TABLE_CAPTION, IMAGE) for m in pattern.finditer(source)]
        for m in sorted(found, key=lambda m: m.start("label")):
            self.add(m["label"], page, m.groupdict().get("title"))
        return source

    def link(self, label, page, short=False):
        "The link to a label; `short` gives its number alone."
        if label not in self.known:
            raise TextError(f"{page}: @{label} refers to nothing")
        where, name, number = self.known[label]
        return f"[{number if short else name}]({'' if where == page else where}#{anchor(label)})"


def anchor(label):
    "The id that a label's element gets."
    kind, _, rest = label.partition("-")
    return f"{ANCHORS[kind]}-{rest}"


# ---------------------------------------------------------------- Markdown


def resolve(source, page, bib, ref, strict=True):
    """Write cross-references and citations as links.

    `ref(label, short)` gives the link of a label. Unless `strict`, a key that the bibliography lacks is left as it
    stands: docstrings may hold an `@` of their own.
    """
    def is_label(key):
        return re.fullmatch(LABEL, key)

    def group(m):
        items = [re.fullmatch(rf"(?P<pre>[^@]*?)(?P<minus>-?)@(?P<key>{KEY})(?P<post>.*)", i.strip(), re.S) for i in m["items"].split(";")]
        if any(i is None for i in items):
            raise TextError(f"{page}: cannot read the citation {m[0]}")
        if not strict and not all(is_label(i["key"]) or i["key"] in bib.entries for i in items):
            return m[0]
        out = []
        for i in items:
            if is_label(i["key"]):
                out.append(i["pre"] + ref(i["key"], bool(i["minus"])) + i["post"])
            else:
                form = "year" if i["minus"] else "group"
                out.append(i["pre"] + bib.cite(i["key"], page, form, i["post"].strip(" ,")))
        if all(is_label(i["key"]) for i in items):
            return ", ".join(out)
        return f"({'; '.join(out)})"

    def single(m):
        key, suffix = m["key"], m["suffix"]
        if is_label(key):
            return ref(key, False) + (f" [{suffix}]" if suffix else "")
        if not strict and key not in bib.entries:
            return m[0]
        return bib.cite(key, page, "text", suffix or "")

    def both(s):
        # what a group wrote holds no `@`, so the second pass leaves it alone
        return SINGLE.sub(single, GROUP.sub(group, s))

    return shielded(source, both)
