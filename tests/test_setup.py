"""From a clone to a working environment: pins agree, and what is missing is said in one sentence."""

import json
import os
import re
import subprocess
import sys
import tomllib
import urllib.request

import pytest
import yaml
from conftest import ROOT
from packaging.requirements import Requirement
from packaging.version import Version
from test_imports import FORMULAS

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
LOCK = (ROOT / "requirements.lock").read_text()
PINS = [Requirement(line) for line in LOCK.splitlines() if re.match(r"\w", line)]
WORKFLOW = yaml.safe_load((ROOT / ".github" / "workflows" / "test.yml").read_text(encoding="utf-8"))
EXTRAS = PROJECT["optional-dependencies"]
WANTED = [Requirement(line) for line in PROJECT["dependencies"] + EXTRAS["book"] + EXTRAS["test"]]


@pytest.mark.parametrize("wanted", WANTED, ids=lambda wanted: wanted.name)
def test_every_dependency_is_pinned_to_a_version_it_allows(wanted):
    pins = [pin for pin in PINS if pin.name == wanted.name]
    assert pins
    for pin in pins:
        (specifier,) = pin.specifier
        assert specifier.operator == "==" and wanted.specifier.contains(Version(specifier.version))


@pytest.mark.parametrize("python", ["3.11", "3.12", "3.13", "3.14"])
def test_one_pin_of_a_package_holds_on_each_python(python):
    environment = {"python_version": python, "python_full_version": f"{python}.9"}
    names = [pin.name for pin in PINS if pin.marker is None or pin.marker.evaluate(environment)]
    assert sorted(names) == sorted(set(names))
    assert {wanted.name for wanted in WANTED} <= set(names)


def test_the_lock_names_no_host_and_no_torch():
    assert not re.search(r"://|^-|@ |--(extra-)?index|find-links", LOCK, flags=re.MULTILINE)
    assert not {"torch", "triton"} & {pin.name for pin in PINS}


def test_conda_installs_the_same_python_and_the_same_pins():
    *conda, pip = yaml.safe_load((ROOT / "environment.yml").read_text())["dependencies"]
    python = next(Requirement(line) for line in conda if line.startswith("python"))
    assert str(python.specifier) == PROJECT["requires-python"]
    assert pip == {"pip": ["-r requirements.lock", "-e ."]} and "pip" in conda


def test_the_workflow_tests_a_change_once_on_every_python_of_the_project():
    assert WORKFLOW[True] == {"push": {"branches": ["main"]}, "pull_request": None} and WORKFLOW["concurrency"]
    job = WORKFLOW["jobs"]["test"]
    versions = job["strategy"]["matrix"]["python"]
    assert versions == ["3.11", "3.12", "3.13", "3.14"] and f">={versions[0]}" == PROJECT["requires-python"]
    assert any(step.get("run") == "bash .ci/run" for step in job["steps"])
    assert (ROOT / ".ci" / "run").read_text().rstrip().endswith("make test")


def test_the_workflow_sets_up_without_make_as_the_readme_says_and_tests_every_formula_module():
    job, readme = WORKFLOW["jobs"]["without-make"], (ROOT / "README.md").read_text(encoding="utf-8").splitlines()
    for system in job["strategy"]["matrix"]["include"]:
        commands = [step["run"] for step in job["steps"] if "run" in step]
        for name, value in system.items():
            commands = [command.replace(f"${{{{ matrix.{name} }}}}", value) for command in commands]
        assert [command for command in commands[:3] if command not in readme] == []
    tests = {f"tests/test_{name.lstrip('_')}.py" for name in FORMULAS}
    assert {path for path in commands[3].split() if path.startswith("tests/")} == {
        path for path in tests if (ROOT / path).is_file()}  # fmt: skip


@pytest.fixture
def setup(make, tmp_path):
    """Run `make setup` in a virtual environment of its own, with a Python that is or does what the script says."""

    def run(script, **env):
        python = tmp_path / "python3"
        python.write_text(f"#!/bin/sh\n{script}\n")
        python.chmod(0o755)
        command = [make, "-C", ROOT, "setup", f"PYTHON={python}", f"VENV={tmp_path / 'venv'}"]
        return subprocess.run(command, env=os.environ | env, capture_output=True, text=True)

    return run


@pytest.mark.parametrize(
    "script, sentence",
    [
        ("exit 127", "Python 3.11 or newer is needed and .* does not run"),
        ('[ "$1" = -V ] && echo Python 3.9.2 || [ -z "$2" ]', "Python 3.11 or newer is needed and .* is Python 3.9.2"),
        (f'case "$2" in *ensurepip*) exit 1;; *) exec {sys.executable} "$@";; esac', "lacks the venv module"),
    ],
)
def test_a_python_that_will_not_do_is_named_in_one_sentence(setup, script, sentence):
    run = setup(script)
    assert run.returncode != 0
    assert re.search(sentence, run.stderr.splitlines()[0])


def test_without_a_network_the_setup_says_so(setup):
    run = setup(f'exec {sys.executable} "$@"', PIP_NO_INDEX="1", PIP_FIND_LINKS="")
    assert run.returncode != 0
    assert "needs a network connection" in run.stderr


@pytest.mark.parametrize(
    "changed, again", [("requirements.lock", 1), ("pyproject.toml", 1), ("Makefile", 0), ("moe_lib/__init__.py", 0)]
)
def test_packages_are_installed_again_only_when_lock_or_project_changed(make, tmp_path, changed, again):
    (tmp_path / "pyvenv.cfg").touch()
    (tmp_path / "installed").touch()
    question = [make, "-q", "-C", ROOT, f"VENV={tmp_path}"]
    assert subprocess.run([*question, tmp_path / "installed"]).returncode == 0
    assert subprocess.run([*question, "-W", changed, tmp_path / "installed"]).returncode == again


def test_make_lab_opens_the_workshop_without_the_news_window(lab_url):
    assert "/lab/tree/notebooks/00_workshop.ipynb" in lab_url
    with urllib.request.urlopen(lab_url) as answer:
        html = answer.read().decode()
    settings = json.loads(re.search(r'id="jupyter-config-data" type="application/json">(.*?)</script>', html, re.S)[1])
    assert "@jupyterlab/apputils-extension:announcements" in str(settings["disabledExtensions"])
