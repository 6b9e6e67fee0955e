"Packaging entry point: every value comes from settings.ini, so nothing is said twice."
from configparser import ConfigParser
from pathlib import Path

from setuptools import find_packages, setup

here = Path(__file__).parent
cfg = ConfigParser(delimiters=["="])
cfg.read(here / "settings.ini", encoding="utf-8")
s = cfg["DEFAULT"]


def lines(key):
    "The lines of settings.ini's `key`, blank ones dropped."
    return [r.strip() for r in s.get(key, "").splitlines() if r.strip()]


readme = here / "README.md"
setup(
    name=s["lib_name"],
    version=s["version"],
    description=s["description"],
    long_description=readme.read_text(encoding="utf-8") if readme.exists() else s["description"],
    long_description_content_type="text/markdown",
    author=s["author"],
    author_email=s["author_email"],
    license="Apache-2.0",
    url=s["git_url"],
    keywords=s["keywords"],
    classifiers=["Intended Audience :: Science/Research", "Programming Language :: Python :: 3"],
    python_requires=f">={s['min_python']}",
    packages=find_packages(include=[s["lib_name"], s["lib_name"] + ".*"]),
    install_requires=lines("requirements"),
    extras_require={"dev": lines("dev_requirements"), "study": lines("study_requirements")},
    entry_points={
        "console_scripts": lines("console_scripts"),
        "nbdev": [f"{s['lib_name']}={s['lib_name']}._modidx:d"],
    },
    zip_safe=False,
)
