"""The site: it builds, its links hold, it loads nothing from outside, and its pages render in a browser.

The pages are opened in headless Chromium where there is one; the other checks read the files.
"""
import functools
import http.server
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import threading
from html import unescape
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote

import pytest
from build_docs import find_katex
from nbtext import Bibliography, Labels, TextError, parse_bib, resolve, table_bars

ROOT = Path(__file__).resolve().parents[1]
COPIED = ("settings.ini", "setup.py", "_quarto.yml", "CHANGELOG.md", "nbs", "kms_nb", "tools")
CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
FLAGS = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
         "--disable-component-update", "--disable-sync", "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1"]
OUTSIDE = re.compile(r"^(?:https?:)?//")

needs_katex = pytest.mark.skipif(find_katex(ROOT) is None, reason="no KaTeX on this machine (npm, or Debian's libjs-katex)")
needs_chromium = pytest.mark.skipif(CHROMIUM is None, reason="no Chromium on this machine")


# ---------------------------------------------------------------- the files


class Document(HTMLParser):
    "What a page defines (ids), points to (links) and loads (resources)."

    LOADS = {"script": "src", "img": "src", "iframe": "src", "source": "src", "video": "src", "audio": "src", "link": "href"}

    def __init__(self, path):
        super().__init__()
        self.ids, self.links, self.loads, self.styles, self.in_style = [], [], [], [], False
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag, attrs):
        attrs = dict(attrs)
        self.in_style = tag == "style"
        if "id" in attrs:
            self.ids.append(attrs["id"])
        if tag == "a" and attrs.get("href"):
            self.links.append(attrs["href"])
        if attrs.get(self.LOADS.get(tag)):
            self.loads.append(attrs[self.LOADS[tag]])

    def handle_data(self, data):
        if self.in_style:
            self.styles.append(data)
            self.in_style = False


@pytest.fixture(scope="module")
def build(tmp_path_factory):
    "A build of the site from a copy of the project: the finished process and the folder."
    copy = tmp_path_factory.mktemp("project")
    for name in COPIED:
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, copy / name, symlinks=True, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(ROOT / name, copy)
    if (ROOT / "node_modules").exists():
        (copy / "node_modules").symlink_to(ROOT / "node_modules")
    env = {k: v for k, v in os.environ.items() if k != "IN_TEST"} | {"PYTHONPATH": str(copy)}
    done = subprocess.run([sys.executable, "tools/build_docs.py", "--out", str(copy / "site")], cwd=copy, env=env,
                          text=True, capture_output=True, timeout=300)
    return done, copy / "site"


@pytest.fixture(scope="module")
def site(build):
    done, folder = build
    if done.returncode:
        pytest.skip("the site does not build")
    return folder


@pytest.fixture(scope="module")
def pages(site):
    return {str(p.relative_to(site)): Document(p) for p in sorted(site.rglob("*.html"))}


def test_site_builds(build):
    done, _ = build
    assert done.returncode == 0, done.stdout + done.stderr


def test_each_notebook_has_its_page(pages):
    stems = [re.sub(r"^\d+[a-z]?_", "", p.stem) for p in (ROOT / "nbs").glob("[!_.]*.ipynb")]
    assert {f"{s}.html" for s in stems} | {"references.html", "changelog.html"} <= set(pages)


def test_sidebar_has_each_notebook():
    listed = re.findall(r"[\w-]+\.ipynb", (ROOT / "_quarto.yml").read_text(encoding="utf-8"))
    assert sorted(listed) == sorted(p.name for p in (ROOT / "nbs").glob("[!_.]*.ipynb"))


def test_links_and_anchors_hold(site, pages):
    broken = []
    for name, page in pages.items():
        for href in page.links + page.loads:
            if re.match(r"[a-z]+:|//", href):
                continue
            path, _, fragment = unquote(href).partition("#")
            target = (site / name).parent / path.split("?")[0] if path else site / name
            if target.is_dir():
                target /= "index.html"
            key = os.path.relpath(target, site)
            if not target.exists() or (fragment and key in pages and fragment not in pages[key].ids):
                broken.append(f"{name}: {href}")
    assert not broken, "\n".join(broken)


@needs_katex
def test_nothing_is_loaded_from_outside(site, pages):
    outside = [f"{name}: {url}" for name, page in pages.items() for url in page.loads if OUTSIDE.match(url)]
    styles = {str(p.relative_to(site)): p.read_text(encoding="utf-8") for p in site.rglob("*.css")}
    styles |= {name: "\n".join(page.styles) for name, page in pages.items()}
    for name, css in styles.items():
        urls = re.findall(r"""url\(\s*["']?([^"')]+)|@import\s+["']([^"']+)""", css)
        outside += [f"{name}: {url}" for pair in urls for url in pair if OUTSIDE.match(url)]
    assert not outside, "\n".join(outside)


def test_search_index_leads_to_pages(site, pages):
    entries = json.loads((site / "search.js").read_text(encoding="utf-8").removeprefix("window.searchIndex = ").rstrip(";\n"))
    assert {"index.html", "references.html"} <= {e["href"].split("#")[0] for e in entries} <= set(pages)


# ---------------------------------------------------------------- the pages in a browser

# One page of the test's own opens each page of the site in a frame as wide as a phone and reports what it finds there.
PROBE = """<!doctype html><title>probe</title><body><script>
const sleep = (ms) => new Promise((ok) => setTimeout(ok, ms));
const rawText = (doc) => {
  const walker = doc.createTreeWalker(doc.body, NodeFilter.SHOW_TEXT), found = [];
  while (walker.nextNode()) {
    const node = walker.currentNode;
    if (!node.parentElement.closest("pre, code, script, style, annotation")) found.push(node.data);
  }
  return found.join("\\n");
};
// elements that reach past the right edge and are in no box that scrolls
const cutOff = (view) => {
  const scrolls = (e) => ["auto", "scroll"].includes(view.getComputedStyle(e).overflowX);
  const reachable = (e) => e && e.tagName !== "MAIN" && (scrolls(e) || reachable(e.parentElement));
  const all = [...view.document.querySelectorAll("main *:not(svg, svg *, .katex-mathml, .katex-mathml *)")];
  const cut = all.filter((e) => e.getBoundingClientRect().right > 401 && !reachable(e.parentElement));
  return cut.map((e) => `${e.tagName} ${e.className}: ${e.textContent.slice(0, 60)}`);
};
(async () => {
  const report = {};
  for (const name of PAGES) {
    const frame = document.createElement("iframe");
    frame.style = "width: 400px; height: 800px";
    await new Promise((ok) => { frame.onload = ok; frame.src = "/" + name; document.body.append(frame); });
    await sleep(300);
    const doc = frame.contentDocument, text = rawText(doc);
    report[name] = {
      formulas: doc.querySelectorAll(".math").length,
      unrendered: [...doc.querySelectorAll(".math")].filter((m) => !m.querySelector(".katex")).map((m) => m.textContent),
      errors: [...doc.querySelectorAll(".katex-error, .katex mstyle[mathcolor='#cc0000']")].map((e) => e.title || e.textContent),
      raw: (text.match(/.*(\\$\\$|\\\\\\(|\\\\\\[|@(fig|tbl|eq|sec)-).*/g) || []).slice(0, 5),
      cut: cutOff(frame.contentWindow).slice(0, 5),
      broken: [...doc.images].filter((i) => !i.naturalWidth).map((i) => i.src.slice(0, 80)),
      loaded: frame.contentWindow.performance.getEntriesByType("resource").map((e) => e.name),
    };
    frame.style.width = "1200px";
    await sleep(50);
    report[name].clipped = [...doc.querySelectorAll(".katex-display")].filter((e) => e.scrollWidth > e.clientWidth + 1).map((e) => `${e.scrollWidth - e.clientWidth}: ${e.querySelector("annotation").textContent.trim().slice(0, 160)}`);
    frame.remove();
  }
  const out = document.createElement("pre");
  out.id = "report";
  out.textContent = JSON.stringify(report);
  document.body.append(out);
})();
</script>"""


def dump_dom(url, virtual_ms):
    "The page as Chromium has it after its scripts ran."
    with tempfile.TemporaryDirectory() as profile:
        return subprocess.run([CHROMIUM, *FLAGS, f"--user-data-dir={profile}", f"--virtual-time-budget={virtual_ms}", "--dump-dom", url],
                              capture_output=True, text=True, timeout=180).stdout


class Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *args):
        pass


@pytest.fixture(scope="module")
def report(site, pages):
    "What Chromium found on each page, served from this machine."
    (site / "probe.htm").write_text(PROBE.replace("PAGES", json.dumps(sorted(pages))), encoding="utf-8")
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Quiet, directory=str(site)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        dom = dump_dom(f"http://127.0.0.1:{server.server_port}/probe.htm", 20_000 + 5_000 * len(pages))
    finally:
        server.shutdown()
        server.server_close()
        (site / "probe.htm").unlink()
    found = re.search(r'<pre id="report">(.*?)</pre>', dom, re.S)
    assert found, f"Chromium did not finish the pages: {dom[-2000:]}"
    return json.loads(unescape(found[1]))


@needs_chromium
@needs_katex
def test_formulas_are_rendered(report):
    assert any(r["formulas"] for r in report.values())
    for key in ("unrendered", "errors", "raw"):
        assert not {name: r[key] for name, r in report.items() if r[key]}, key


@needs_chromium
@needs_katex
def test_browser_loads_only_the_site(report):
    loaded = {name: [u for u in r["loaded"] if not re.match(r"http://127\.0\.0\.1:|data:", u)] for name, r in report.items()}
    assert not {name: urls for name, urls in loaded.items() if urls}


@needs_chromium
def test_pictures_load(report):
    assert not {name: r["broken"] for name, r in report.items() if r["broken"]}


@needs_chromium
def test_pages_fit_a_phone(report):
    assert not {name: r["cut"] for name, r in report.items() if r["cut"]}


@needs_chromium
@needs_katex
def test_formulas_and_their_numbers_fit_a_window(report):
    "On a phone they scroll."
    assert not {name: r["clipped"] for name, r in report.items() if r["clipped"]}


@needs_chromium
def test_search_works_from_disk(site):
    probe = """<script>addEventListener("load", () => { const box = document.querySelector(".smalldocs-search input");
      box.value = "kernel"; box.dispatchEvent(new Event("input")); });</script>"""
    page = site / "probe-search.htm"
    page.write_text((site / "index.html").read_text(encoding="utf-8") + probe, encoding="utf-8")
    try:
        assert 'class="search-result"' in dump_dom(page.as_uri(), 5_000)
    finally:
        page.unlink()


# ---------------------------------------------------------------- the text tools


@pytest.fixture
def bib(tmp_path):
    (tmp_path / "x.bib").write_text("""
@article{sion1958, author = {Sion, Maurice}, title = "On {general} minimax theorems", journal = {Pacific J. Math.}, year = 1958}
@book{two, author = {Ada Lovelace and Babbage, Charles}, title = {Engines}, publisher = {Press}, year = {1843}, doi = {10.1/a(b)}}
""", encoding="utf-8")
    return Bibliography(tmp_path / "x.bib", lambda key: f"#{key}")


def no_label(label, short):
    raise TextError(f"@{label} refers to nothing")


@pytest.mark.parametrize("source, expected", [
    ("by @sion1958.", "by [Sion (1958)](#sion1958)."),
    ("by @sion1958 [Theorem 3.4]", "by [Sion (1958, Theorem 3.4)](#sion1958)"),
    ("known [@sion1958, p. 3; see @two]", "known ([Sion, 1958, p. 3](#sion1958); see [Lovelace and Babbage, 1843](#two))"),
    ("Sion [-@sion1958]", "Sion ([1958](#sion1958))"),
    ("`@nobody`, $a @b$ and me@example.org", "`@nobody`, $a @b$ and me@example.org"),
])
def test_citations(bib, source, expected):
    assert resolve(source, "page", bib, no_label) == expected


@pytest.mark.parametrize("source", ["@nobody", "[@nobody]", "[@sion1958; @nobody]", "@fig-none", "[@eq-none]"])
def test_unknown_references_are_errors(bib, source):
    with pytest.raises(TextError):
        resolve(source, "page", bib, no_label)


def test_labels_are_numbered_in_order():
    labels = Labels()
    cells = [{"cell_type": "markdown", "source": "## Duality {#sec-dual}\n\n$$\na\n$$ {#eq-a}\n\n`$$ x $$ {#eq-not}`\n\n$$ b $$ {#eq-b}"},
             {"cell_type": "code", "source": "#| label: fig-gap\n#| fig-cap: The gap\nplot()"}]
    labels.collect(cells, "one.ipynb")
    assert labels.link("eq-b", "two.ipynb") == "[Equation 2](one.ipynb#equation-b)"
    assert labels.link("sec-dual", "one.ipynb") == "[Section “Duality”](#sec-dual)"
    assert labels.link("fig-gap", "two.ipynb", short=True) == "[1](one.ipynb#figure-gap)"
    with pytest.raises(TextError, match="already defined"):
        labels.collect(cells, "two.ipynb")


def test_bars_in_table_formulas():
    assert table_bars(r"| $\|x\|_2$ | $|a|$ |") == r"| $\Vert x\Vert_2$ | $\vert a\vert$ |"


def test_bibliography_reads_and_prints(bib):
    assert bib.reference("two") == "Lovelace, A. and Babbage, C. (1843). *Engines*. Press. [doi:10.1/a(b)](https://doi.org/10.1/a%28b%29)"
    with pytest.raises(TextError, match="twice"):
        parse_bib("@misc{a, title={x}}\n@misc{a, title={y}}")
    with pytest.raises(TextError, match="TeX"):
        parse_bib(r"@misc{a, title={Schr\"odinger}}")
