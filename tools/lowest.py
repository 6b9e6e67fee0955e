"""Print the lowest versions that settings.ini's `requirements` allow, as a constraints file for pip, which by itself only finds the newest.

    python tools/lowest.py > lowest.txt; python -m pip install -c lowest.txt .      # `make test-lowest` does this, and runs the tests"""
import re
from configparser import ConfigParser
from pathlib import Path


def lowest(settings):
    "Lines `name==version` for the requirements in the file `settings`; ValueError where one has no bound `>=version`."
    config = ConfigParser(delimiters=["="])
    config.read(settings, encoding="utf-8")
    for requirement in filter(None, config["DEFAULT"]["requirements"].splitlines()):
        bound = re.search(r"^([\w.-]+)[^;#]*>=\s*([\w.]+)", requirement)
        if not bound: raise ValueError(f"`{requirement}` in settings.ini has no lower bound `>=`")
        yield "==".join(bound.groups())


if __name__ == "__main__":
    print(*lowest(Path(__file__).resolve().parents[1] / "settings.ini"), sep="\n")
