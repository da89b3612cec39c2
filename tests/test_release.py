"""A release: one version everywhere, a workflow that may do no more than it must, a site in one file."""

import importlib.util
import re
import shutil
import subprocess
import sys
import tomllib
import zipfile

import pytest
import yaml
from conftest import ROOT

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
CITATION = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
CHANGES = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
TYPO = "t" + "eh"  # in two, so that this file is spelt well
SPEC = importlib.util.spec_from_file_location("archive", ROOT / "book" / "archive.py")
archive = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(archive)


def workflow(name):
    return yaml.safe_load((ROOT / ".github" / "workflows" / f"{name}.yml").read_text(encoding="utf-8"))


def test_the_version_is_the_same_wherever_it_is_written():
    newest = re.search(r"^## (\d\S*), \d{4}-\d\d-\d\d$", CHANGES, re.MULTILINE)[1]
    assert PROJECT["project"]["version"] == CITATION["version"] == newest


def test_the_package_and_the_citation_name_the_same_authors_and_keywords():
    assert PROJECT["project"]["keywords"] == CITATION["keywords"]
    assert PROJECT["project"]["authors"] == CITATION["authors"]


def test_licences_are_the_same_wherever_they_are_written():
    assert CITATION["license"] == [PROJECT["project"]["license"], "CC-BY-4.0"]
    assert "BSD 3-Clause" in (ROOT / "LICENSE").read_text(encoding="utf-8")
    assert "Creative Commons Attribution 4.0" in (ROOT / "LICENSE-TEXT").read_text(encoding="utf-8")


def test_a_release_is_made_from_a_tag_with_the_rights_it_needs_and_no_other():
    release = workflow("release")
    assert release[True] == {"push": {"tags": ["v*"]}} and release["permissions"] == {"contents": "read"}  # True: on
    (job,) = release["jobs"].values()
    assert job["permissions"] == {"contents": "write"}
    commands = [step["run"] for step in job["steps"] if "run" in step]
    assert commands.index("make site") == len(commands) - 2 and "_build/site.zip" in commands[-1]


def test_workflows_use_the_same_releases_of_github_s_own_actions():
    steps = [step for name in ("test", "extras", "release") for job in workflow(name)["jobs"].values()
             for step in job["steps"]]
    used = {step["uses"] for step in steps if "uses" in step}
    assert all(re.fullmatch(r"actions/[\w-]+@v\d+", each) for each in used)
    assert len({each.split("@")[0] for each in used}) == len(used)


def test_the_packed_site_opens_from_disk_with_its_decks(site, page, tmp_path):
    folder = archive.pack(site, tmp_path / "site.zip")
    with zipfile.ZipFile(tmp_path / "site.zip") as file:
        file.extractall(tmp_path)
    for name, opened in {"index.html": "notebooks/00_workshop.html", "slides/index.html": "slides/index.html"}.items():
        page.goto((tmp_path / folder / name).as_uri())
        page.wait_for_url(f"**/{folder}/{opened}")
        page.wait_for_load_state("networkidle")
        assert page.title() and page.faults == [], name
    assert (tmp_path / folder / "LICENSE").is_file()


def test_half_a_site_is_not_packed(tmp_path):
    (tmp_path / "index.html").touch()
    with pytest.raises(SystemExit, match="lacks slides/index.html"):
        archive.pack(tmp_path, tmp_path / "site.zip")
    assert not (tmp_path / "site.zip").exists()


@pytest.mark.parametrize("text, code", [(f"About {TYPO} roofline.", 65), ("About the roofline.", 0)])
def test_the_spelling_is_checked_in_every_file_of_ours(tmp_path, text, code):
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    (tmp_path / "page.md").write_text(text)
    (tmp_path / "_build").mkdir()
    (tmp_path / "_build" / "page.md").write_text(TYPO)
    run = subprocess.run([sys.executable, "-m", "codespell_lib"], cwd=tmp_path, capture_output=True, text=True)
    assert run.returncode == code and (f"page.md:1: {TYPO} ==> the" in run.stdout) == bool(code)
